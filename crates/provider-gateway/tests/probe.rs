//! Drift probes with the real provider: every change made outside of Terraform is detected.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "what goes wrong here fails a test"
)]

use std::{fs, time::Duration};

use crate::support::{Bench, Workspace, aws_call, provider};
use provider_gateway::{
    probe::{Fingerprint, FingerprintInputs, PlanReason, ProbeRequest, parse_objects},
    serve::RunActivity,
};

const AWS: &str = "registry.terraform.io/hashicorp/aws";

const WORLD: &str = r#"
data "aws_availability_zones" "all" {}

resource "aws_vpc" "this" {
  cidr_block = "10.0.0.0/16"
  tags       = { Name = "one" }
}

resource "aws_subnet" "this" {
  vpc_id            = aws_vpc.this.id
  cidr_block        = "10.0.1.0/24"
  availability_zone = data.aws_availability_zones.all.names[0]
  tags              = { Name = "two" }
}

resource "aws_iam_role" "this" {
  name               = "probed"
  tags               = { Name = "three" }
  assume_role_policy = jsonencode({
    Version   = "2012-10-17"
    Statement = [{ Effect = "Allow", Action = "sts:AssumeRole", Principal = { Service = "eks.amazonaws.com" } }]
  })
}

resource "aws_sqs_queue" "this" {
  name                       = "probed"
  visibility_timeout_seconds = 30
  tags                       = { Name = "four" }
}
"#;

fn inputs(workspace: &Workspace) -> FingerprintInputs {
    let state = parse_objects(&fs::read(workspace.root.join("terraform.tfstate")).unwrap(), AWS)
        .unwrap()
        .state_version;
    let text = str::to_owned;
    FingerprintInputs { configuration: text("c"), state, provider: text("p"), surroundings: text("s") }
}

fn probe_request(workspace: &Workspace, seat: &str, seen: &RunActivity, fresh: bool) -> ProbeRequest {
    let found = parse_objects(&fs::read(workspace.root.join("terraform.tfstate")).unwrap(), AWS).unwrap();
    ProbeRequest { seat: seat.to_owned(), objects: found.objects, data: seen.data.clone(), fresh }
}

/// A plan that finds nothing, and the fingerprint that follows it.
async fn take_fingerprint(bench: &Bench, workspace: &Workspace) -> (Fingerprint, RunActivity) {
    let registered = bench.register(workspace).await;
    let said = workspace.run(&["plan", "-no-color", "-detailed-exitcode"], Some(&registered.reattach)).await;
    said.ok();
    let seen = bench.gateway.release(&registered.run).unwrap();
    assert_eq!((seen.seats.len(), seen.data.len(), seen.too_much), (1, 1, false));
    let seat = seen.seats.first().unwrap().clone();
    let ask = probe_request(workspace, &seat, &seen, true);
    let probed = bench.gateway.probe(&Bench::registration(workspace), &ask).await.unwrap().unwrap();
    (Fingerprint::from_probe(inputs(workspace), seen.clone(), &probed).unwrap(), seen)
}

async fn probe_and_compare(
    bench: &Bench,
    workspace: &Workspace,
    taken: &(Fingerprint, RunActivity),
) -> Result<(), PlanReason> {
    taken.0.check_inputs(&inputs(workspace))?;
    // Reads are shared for a second; wait for a new one without setting `fresh`.
    tokio::time::sleep(Duration::from_millis(1100)).await;
    let ask = probe_request(workspace, &taken.0.seat, &taken.1, false);
    let probed = bench.gateway.probe(&Bench::registration(workspace), &ask).await.unwrap();
    taken.0.compare(&probed.ok_or(PlanReason::UnknownConfiguration)?)
}

/// The same objects in another workspace: what is applied there is done behind the first one's back.
async fn change_behind_terraform(
    bench: &Bench,
    name: &str,
    victim: &Workspace,
    change: impl Fn(&str) -> String,
) {
    let text = format!("{}\n{WORLD}", provider(&bench.endpoint, "us-east-1", "test", ""));
    let meddler = bench.like(victim, name, &change(&text));
    fs::copy(victim.root.join("terraform.tfstate"), meddler.root.join("terraform.tfstate")).unwrap();
    bench.run(&meddler, &["apply", "-auto-approve", "-no-color"]).await.ok();
}

/// What is called to give something another value, and to give it back.
struct Change {
    address: &'static str,
    service: &'static str,
    call: String,
    values: [&'static str; 2],
}

fn changes(workspace: &Workspace) -> [Change; 5] {
    let state = workspace.state();
    let id = |kind: &str| {
        let mut all = state["resources"].as_array().unwrap().iter();
        let one = all.find(|it| it["mode"] == "managed" && it["type"] == kind).unwrap();
        one["instances"][0]["attributes"]["id"].as_str().unwrap().to_owned()
    };
    let tags = |kind| {
        format!("Action=CreateTags&Version=2016-11-15&ResourceId.1={}&Tag.1.Key=Name&Tag.1.Value=", id(kind))
    };
    let queue = |action| format!("Action={action}&Version=2012-11-05&QueueUrl={}&", id("aws_sqs_queue"));
    let role =
        "Action=TagRole&Version=2010-05-08&RoleName=probed&Tags.member.1.Key=Name&Tags.member.1.Value=";
    let change = |address, service, call, values| Change { address, service, call, values };
    [
        change("aws_vpc.this", "ec2", tags("aws_vpc"), ["other", "one"]),
        change("aws_subnet.this", "ec2", tags("aws_subnet"), ["other", "two"]),
        change("aws_iam_role.this", "iam", role.to_owned(), ["other", "three"]),
        change(
            "aws_sqs_queue.this",
            "sqs",
            queue("TagQueue") + "Tag.1.Key=Name&Tag.1.Value=",
            ["other", "four"],
        ),
        change(
            "aws_sqs_queue.this",
            "sqs",
            queue("SetQueueAttributes") + "Attribute.1.Name=VisibilityTimeout&Attribute.1.Value=",
            ["31", "30"],
        ),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn every_change_behind_the_back_is_noticed() {
    let bench = Bench::new().await;
    let workspace = bench.workspace("victim", WORLD);
    bench.run(&workspace, &["init", "-no-color"]).await.ok();
    bench.run(&workspace, &["apply", "-auto-approve", "-no-color"]).await.ok();
    let taken = take_fingerprint(&bench, &workspace).await;
    assert_eq!(probe_and_compare(&bench, &workspace, &taken).await, Ok(()));
    for Change { address, service, call, values: [other, own] } in changes(&workspace) {
        aws_call(&bench.endpoint, service, &format!("{call}{other}")).await;
        let why = probe_and_compare(&bench, &workspace, &taken).await;
        assert_eq!(why, Err(PlanReason::Differs { address: address.to_owned() }), "{call}{other}");
        aws_call(&bench.endpoint, service, &format!("{call}{own}")).await;
        assert_eq!(probe_and_compare(&bench, &workspace, &taken).await, Ok(()), "{call}{own}");
    }
    change_behind_terraform(&bench, "meddler", &workspace, |text| text.replacen("\"one\"", "\"other\"", 1))
        .await;
    let why = probe_and_compare(&bench, &workspace, &taken).await;
    assert_eq!(why, Err(PlanReason::Differs { address: "aws_vpc.this".to_owned() }));
    // A plan through the gateway decides, and repairs.
    bench.run(&workspace, &["apply", "-auto-approve", "-no-color"]).await.ok();
    let taken = take_fingerprint(&bench, &workspace).await;
    assert_eq!(probe_and_compare(&bench, &workspace, &taken).await, Ok(()));
    let without = |text: &str| text.split("resource \"aws_sqs_queue\"").next().unwrap().to_owned();
    change_behind_terraform(&bench, "deleter", &workspace, without).await;
    let why = probe_and_compare(&bench, &workspace, &taken).await;
    assert_eq!(why, Err(PlanReason::Missing { address: "aws_sqs_queue.this".to_owned() }));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gateway_that_knows_nothing_asks_for_a_plan() {
    let bench = Bench::new().await;
    let workspace = bench.workspace("any", WORLD);
    let ask = ProbeRequest { seat: "00".repeat(32), objects: Vec::new(), data: Vec::new(), fresh: false };
    let probed = bench.gateway.probe(&Bench::registration(&workspace), &ask).await.unwrap();
    assert_eq!(probed, None);
}
