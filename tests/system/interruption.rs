//! The quickstart from nothing to everything and back, with an interruption at the worst moment.

use std::{fs, path::Path};

use rustix::process::{Pid, Signal, kill_process};

use super::harness::{SystemHarness, example_path, wait_until};

/// Whether terraform has begun to make the EKS cluster.
fn is_cluster_being_created(workspace: &Path) -> bool {
    let Ok(runs) = fs::read_dir(workspace.join(".capt/runs")) else { return false };
    runs.filter_map(Result::ok).any(|run| {
        let log = fs::read_to_string(run.path().join("events.ndjson")).unwrap_or_default();
        log.lines().any(|line| line.contains("apply_start") && line.contains("aws_eks_cluster.this"))
    })
}

#[test]
fn the_quickstart_survives_an_interruption_and_leaves_nothing() {
    let capt = SystemHarness::new();
    let quickstart = example_path("quickstart.yaml");
    capt.run(&["aws", "start"]).expect_success();
    // Terraform waits for the cluster until the test lets it hear of it again.
    let silence = r#"{"operation": "DescribeCluster", "times": 0, "delay_ms": 3600000}"#;
    capt.admin_request("POST", "/_capt/faults", silence);

    // Ctrl-C in the middle of the creation of the cluster. Behind the gateway nobody would hear of it: nothing is tainted
    // there, and this is about what follows when something is.
    let apply = capt.start(&["apply", &quickstart, "--no-gateway"]);
    let eks = capt.workspace_dir("demo-eks-controlplane");
    wait_until("the EKS cluster to begin", || {
        is_cluster_being_created(&eks) && capt.count_resources("eks cluster") == 1
    });
    kill_process(Pid::from_raw(i32::try_from(apply.id()).unwrap()).unwrap(), Signal::INT).unwrap();
    let interrupted = SystemHarness::finish(apply);
    assert_eq!(interrupted.code, Some(3), "{interrupted:?}");
    assert!(interrupted.stderr.contains("stopping: terraform finishes"), "{}", interrupted.stderr);
    let state = fs::read_to_string(eks.join("terraform.tfstate")).unwrap();
    assert!(state.contains("\"tainted\""), "the interruption taints, otherwise this test proves nothing");

    // The same command continues: nothing twice, nothing replaced.
    capt.admin_request("DELETE", "/_capt/faults", "");
    let applied = capt.run(&["apply", &quickstart, "-o", "json"]).expect_success();
    for workspace in applied.report()["workspaces"].as_array().unwrap() {
        let counts = &workspace["counts"];
        assert!(
            counts["replace"].as_u64().unwrap_or(0) == 0 && counts["destroy"].as_u64().unwrap_or(0) == 0,
            "{workspace}"
        );
    }
    let made: Vec<_> =
        capt.calls_of_operation("CreateCluster").iter().map(|call| call["status"].clone()).collect();
    assert_eq!(made.len(), 1, "the cluster was made once: {made:?}");
    let inventory = capt.count_resources_by_type();
    for (what, count) in [
        ("ec2 vpc", 1),
        ("ec2 subnet", 4),
        ("ec2 nat-gateway", 1),
        ("ec2 elastic-ip", 1),
        ("ec2 internet-gateway", 1),
        ("ec2 route-table", 3),
        ("ec2 security-group", 1),
        ("eks cluster", 1),
        ("eks fargate-profile", 3),
        ("eks addon", 3),
        ("eks access-entry", 2),
        ("iam role", 2),
        ("iam oidc-provider", 1),
        ("kms key", 1),
        ("logs log-group", 1),
    ] {
        assert!(inventory.contains(&(what.to_owned(), count)), "{count} {what} in {inventory:?}");
    }

    // capt and terraform both report no changes.
    let planned = capt.run(&["plan", &quickstart, "-o", "json"]).expect_success();
    let results = planned.results();
    assert_eq!(results.len(), 4);
    assert!(results.iter().all(|(_, result)| result == "unchanged"), "{results:?}");
    let by_hand = capt.terraform("demo-eks-controlplane", &["plan", "-no-color"]).expect_success();
    assert!(by_hand.stdout.contains("No changes."), "{}", by_hand.stdout);

    let destroyed = capt.run(&["destroy", &quickstart, "-o", "json"]).expect_success();
    assert!(destroyed.results().iter().all(|(_, result)| result == "destroyed"), "{destroyed:?}");
    assert!(
        destroyed.stderr.contains("no resources are left; stopped the local AWS"),
        "{}",
        destroyed.stderr
    );
    assert_eq!(capt.count_resources_by_type(), []);
}
