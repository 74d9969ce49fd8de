//! Plans, applies and destroys through the gateway, with a real terraform and the real AWS provider.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "what goes wrong here fails a test"
)]

use crate::support::Bench;

const VPC: &str = r#"
data "aws_availability_zones" "all" {}

resource "aws_vpc" "this" {
  cidr_block = "10.0.0.0/16"
  tags       = { Name = "one" }
}

resource "aws_subnet" "this" {
  count             = 3
  vpc_id            = aws_vpc.this.id
  cidr_block        = cidrsubnet(aws_vpc.this.cidr_block, 8, count.index)
  availability_zone = data.aws_availability_zones.all.names[count.index]
}
"#;

#[tokio::test(flavor = "multi_thread")]
async fn a_workspace_lives_and_dies_through_the_gateway() {
    let bench = Bench::new().await;
    let workspace = bench.workspace("one", VPC);
    bench.run(&workspace, &["init", "-no-color"]).await.ok();
    bench.run(&workspace, &["apply", "-auto-approve", "-no-color"]).await.ok();
    for _ in 0..3 {
        let said = bench.run(&workspace, &["plan", "-no-color", "-detailed-exitcode"]).await.ok();
        assert!(said.contains("No changes"), "{said}");
    }
    let counts = bench.gateway.counters().counts();
    assert_eq!((counts.started, counts.unwanted, counts.unknown, counts.lost), (1, 0, 0, 0), "{counts:?}");
    // Both times for four objects, and nothing for the plans.
    let journal = provider_gateway::journal::read_entries(&bench.dir.path().join("g/journal.jsonl")).unwrap();
    assert_eq!(journal.len(), 8);
    let destroyed = bench.run(&workspace, &["destroy", "-auto-approve", "-no-color"]).await.ok();
    assert!(destroyed.contains("4 destroyed"), "{destroyed}");
}
