//! Isolation of concurrent runs on one gateway.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "what goes wrong here fails a test"
)]

use crate::support::{Bench, Said, Workspace, calls, finish, gate::Gate, outer, provider, until};
use futures::future::join_all;
use rustix::process::{Pid, Signal, kill_process};

const NETWORK: &str = r#"
data "aws_region" "here" {}

resource "aws_vpc" "this" {
  cidr_block = "10.0.0.0/16"
}

output "region" {
  value = data.aws_region.here.name
}
"#;

/// How many runs are interleaved; a thousand for `RUNS=1000`.
fn runs() -> usize {
    outer().get("RUNS").map_or(24, |runs| runs.parse().unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn two_tenants_never_meet() {
    let bench = Bench::new().await;
    let tenants = [("eu-west-1", "tenantone"), ("ap-south-1", "tenanttwo")];
    let mut workspaces = Vec::new();
    for (region, key) in tenants {
        let text = format!("{}{NETWORK}", provider(&bench.endpoint, region, key, ""));
        let workspace = bench.bare_workspace(key, &text);
        bench.run(&workspace, &["init", "-no-color"]).await.ok();
        bench.run(&workspace, &["apply", "-auto-approve", "-no-color"]).await.ok();
        workspaces.push((workspace, region));
    }
    let before = bench.gateway.counters().counts();
    for _ in 0..runs() / 4 {
        // Two of each at once: one run may not write where another reads.
        let four = [0, 1, 0, 1].map(|at: usize| {
            let (workspace, region) = &workspaces[at];
            let bench = &bench;
            async move {
                let args = ["plan", "-no-color", "-detailed-exitcode", "-lock=false"];
                let said = bench.run(workspace, &args).await;
                assert_eq!(said.code, 0, "{region}: {}{}", said.out, said.err);
            }
        });
        join_all(four).await;
    }
    let counts = bench.gateway.counters().counts();
    assert_eq!((counts.started, counts.lost), (2, 0), "one process each");
    assert_eq!(counts.started, before.started, "and none for a plan");
    for call in calls(&bench.endpoint).await {
        let (region, key) = (call["region"].as_str().unwrap(), call["access_key"].as_str().unwrap());
        for (own_region, own_key) in tenants {
            assert_eq!(region == own_region, key == own_key, "a call of {key} in {region}: {call}");
        }
    }
}

const NEEDED: &str = r#"
resource "aws_vpc" "this" {
  cidr_block = "10.0.0.0/16"
}

resource "aws_subnet" "this" {
  vpc_id     = aws_vpc.this.id
  cidr_block = "10.0.1.0/24"
}
"#;

#[tokio::test(flavor = "multi_thread")]
async fn an_interrupted_apply_disturbs_nobody_and_taints_nothing() {
    let mut bench = Bench::new().await;
    let gate = Gate::before(&bench.endpoint, "Action=CreateVpc&").await;
    bench.endpoint.clone_from(&gate.endpoint);
    let text = format!("{}\n{NEEDED}", provider(&bench.endpoint, "us-east-1", "test", ""));
    let template = bench.bare_workspace("template", &text);
    bench.run(&template, &["init", "-no-color"]).await.ok();
    let workspaces: Vec<Workspace> =
        (0..8).map(|at| bench.like(&template, &format!("w{at}"), &text)).collect();
    let mut children = Vec::new();
    for workspace in &workspaces {
        let registered = bench.register(workspace).await;
        children.push(workspace.start(&["apply", "-auto-approve", "-no-color"], Some(&registered.reattach)));
    }
    // All of them have begun to make something, and none gets an answer.
    gate.holds(8).await;
    let first = i32::try_from(children[0].id().unwrap()).unwrap();
    kill_process(Pid::from_raw(first).unwrap(), Signal::INT).unwrap();
    // Terraform begins nothing more before it tells the provider to stop.
    let stops = async || match bench.gateway.counters().counts() {
        counts if counts.stops > 0 => Ok(()),
        counts => Err(format!("{counts:?}")),
    };
    until("a stop that terraform sends to the provider", stops).await;
    gate.open();
    let said: Vec<Said> = join_all(children.into_iter().map(finish)).await;
    assert_eq!(said[0].code, 1, "{}", said[0].out);
    for said in &said[1..] {
        assert_eq!(said.code, 0, "{}{}", said.out, said.err);
    }
    let state = workspaces[0].state();
    let resources = state["resources"].as_array().unwrap();
    assert_eq!(resources.len(), 1, "the VPC was awaited, the subnet was not begun");
    assert!(resources[0]["instances"][0].get("status").is_none(), "nothing is tainted");
    assert_eq!(bench.gateway.counters().counts().started, 1);
}
