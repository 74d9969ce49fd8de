//! Kills while objects are being created: nothing is lost, nothing is made twice, and the next command goes on.
//!
//! AWS makes the object and the provider waits for a later answer, which the test delays: what is killed then has created
//! something that no state knows.

use std::{
    fs,
    path::PathBuf,
    process::{Child, Command},
};

use serde_json::Value;

use super::harness::{CommandOutput, SystemHarness, wait_until};

/// A VPC with a NAT gateway, without a cluster.
const NETWORK: &str = "
apiVersion: infrastructure.cluster.x-k8s.io/v1beta1
kind: CAPTCluster
metadata: {name: demo}
spec:
  region: eu-central-1
  vpcConfig: {availabilityZoneCount: 2, natGateways: Single}
";

/// A cluster in it.
const CLUSTER: &str = "
---
apiVersion: controlplane.cluster.x-k8s.io/v1beta1
kind: CAPTControlPlane
metadata: {name: demo}
spec:
  version: \"1.33\"
  controlPlaneConfig: {systemFargateProfile: false, addons: []}
";

/// An apply whose answers of one operation are held back.
struct HeldApply {
    capt: SystemHarness,
    file: String,
    apply: Child,
}

#[expect(clippy::disallowed_methods, reason = "a test kills as the kernel would")]
fn kill(target: &str) {
    let _gone = Command::new("kill").args(["-9", "--", target]).output().unwrap();
}

impl HeldApply {
    /// Starts an apply and returns when `created` has happened and the provider asks for `held`.
    fn start(manifest: &str, created: &str, held: &str) -> Self {
        let capt = SystemHarness::new();
        let file = capt.write_file("demo.yaml", manifest).display().to_string();
        capt.run(&["aws", "start"]).expect_success();
        let silence = format!(r#"{{"operation": "{held}", "times": 0, "delay_ms": 10000}}"#);
        capt.admin_request("POST", "/_capt/faults", &silence);
        let mut apply = capt.start(&["apply", &file]);
        wait_until("the object to be made", || {
            assert!(apply.try_wait().unwrap().is_none(), "the apply ended before that");
            !capt.calls_of_operation(created).is_empty()
        });
        Self { capt, file, apply }
    }

    fn gateway_status(&self) -> Value {
        self.capt.run(&["gateway", "status", "-o", "json"]).expect_success().report()
    }

    /// Process ids in the files of the run that has not ended.
    fn run_processes(&self, name: &str) -> Vec<i64> {
        let runs = fs::read_dir(self.capt.data_dir().join("workspaces/default")).unwrap().flatten();
        let runs =
            runs.flat_map(|it| fs::read_dir(it.path().join(".capt/runs")).into_iter().flatten().flatten());
        let alive = runs.map(|run| run.path()).filter(|run: &PathBuf| !run.join("exit.json").exists());
        let read = |run: PathBuf| {
            let text = fs::read(run.join("process.json")).ok()?;
            serde_json::from_slice::<Value>(&text).ok()?[name]["pid"].as_i64()
        };
        alive.filter_map(read).collect()
    }

    fn kill_terraform(&self) {
        self.run_processes("engine").into_iter().for_each(|pid| kill(&format!("-{pid}")));
    }

    fn kill_gateway(&self) {
        kill(&self.gateway_status()["pid"].to_string());
    }

    fn kill_provider(&self) {
        let status = self.gateway_status();
        let busy = status["providers"].as_array().unwrap().iter().filter(|it| it["calls"] != 0);
        busy.for_each(|it| kill(&it["pid"].to_string()));
    }

    fn kill_everything(&mut self) {
        kill(&self.apply.id().to_string());
        self.run_processes("shim").into_iter().for_each(|pid| kill(&pid.to_string()));
        self.kill_terraform();
        self.kill_gateway();
    }

    /// Lets the answers through, waits for the apply, and applies again: everything exists once and is in a state.
    fn expect_nothing_lost(self, counts: &[(&str, usize)]) -> CommandOutput {
        let Self { capt, file, apply } = self;
        capt.admin_request("DELETE", "/_capt/faults", "");
        let first = SystemHarness::finish(apply);
        let second = capt.run(&["apply", &file]).expect_success();
        for (what, count) in counts {
            assert_eq!(capt.count_resources(what), *count, "{what}\n{}\n{}", first.stderr, second.stderr);
        }
        let inventory = capt.run(&["aws", "inventory", "-o", "json"]).expect_success().report();
        let workspaces = fs::read_dir(capt.data_dir().join("workspaces/default")).unwrap().flatten();
        let states: String = workspaces
            .filter_map(|it| fs::read_to_string(it.path().join("terraform.tfstate")).ok())
            .collect();
        // EKS makes the entry of the cluster's creator itself, and the inventory's id of a log group is not that of a state.
        let comparable = |item: &&Value| item["type"] != "access-entry" && item["type"] != "log-group";
        for item in inventory["items"].as_array().unwrap().iter().filter(comparable) {
            let id = item["id"].as_str().unwrap();
            let name = id.rsplit('/').next().unwrap();
            assert!(states.contains(name), "{item} is in no state\n{}", second.stderr);
        }
        let planned = capt.run(&["plan", &file, "-o", "json"]).expect_success();
        assert!(planned.results().iter().all(|(_, result)| result == "unchanged"), "{}", planned.stdout);
        // What the states have is not kept twice.
        let journal = fs::read_to_string(capt.data_dir().join("gateway/journal.jsonl")).unwrap();
        assert_eq!(journal, "");
        CommandOutput { stderr: format!("{}\n{}", first.stderr, second.stderr), ..second }
    }
}

#[test]
fn a_vpc_whose_terraform_is_killed_is_finished_by_the_gateway_and_waited_for() {
    let run = HeldApply::start(NETWORK, "CreateVpc", "DescribeVpcs");
    run.kill_terraform();
    run.expect_nothing_lost(&[("ec2 vpc", 1), ("ec2 nat-gateway", 1)]);
}

#[test]
fn a_role_whose_gateway_is_killed_is_found_by_its_name() {
    let run = HeldApply::start(&format!("{NETWORK}{CLUSTER}"), "CreateRole", "GetRole");
    run.kill_gateway();
    run.expect_nothing_lost(&[("eks cluster", 1)]);
}

#[test]
fn a_cluster_whose_provider_is_killed_is_imported() {
    let run = HeldApply::start(&format!("{NETWORK}{CLUSTER}"), "CreateCluster", "DescribeCluster");
    run.kill_provider();
    run.expect_nothing_lost(&[("eks cluster", 1)]);
}

#[test]
fn an_address_is_found_by_its_tags_after_everything_was_killed() {
    let mut run = HeldApply::start(NETWORK, "AllocateAddress", "DescribeAddresses");
    run.kill_everything();
    let said = run.expect_nothing_lost(&[("ec2 elastic-ip", 1), ("ec2 nat-gateway", 1)]);
    assert!(said.stderr.contains("imported it"), "{}", said.stderr);
}
