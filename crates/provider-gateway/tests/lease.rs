//! The deadline of the leader election Lease.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "what goes wrong here fails a test"
)]

use std::time::Duration;

use crate::support::{Bench, Said, Workspace, finish, gate::Gate};
use lease_deadline::{LeaseFile, LeaseRecord, RunLease, clock};
use provider_gateway::{
    gateway::RegisteredRun,
    journal::{ChangeStage, read_entries},
};

const VPC_AND_SUBNET: &str = "resource \"aws_vpc\" \"this\" {\n  cidr_block = \"10.0.0.0/16\"\n}\n\
    resource \"aws_subnet\" \"this\" {\n  vpc_id = aws_vpc.this.id\n  cidr_block = \"10.0.1.0/24\"\n}\n";

/// A bench whose AWS responds to `CreateVpc` when the gate opens.
struct LeaseBench {
    bench: Bench,
    gate: Gate,
    workspace: Workspace,
}

impl LeaseBench {
    async fn new() -> Self {
        let mut bench = Bench::new().await;
        let gate = Gate::before(&bench.endpoint, "Action=CreateVpc&").await;
        bench.endpoint.clone_from(&gate.endpoint);
        let workspace = bench.workspace("one", VPC_AND_SUBNET);
        bench.run(&workspace, &["init", "-no-color"]).await.ok();
        Self { bench, gate, workspace }
    }

    /// Writes down that this leadership may begin changes for so long.
    fn record(&self, fence: u64, left: Duration) {
        let deadline_ms = u64::try_from((clock::since_boot() + left).as_millis()).unwrap();
        let record =
            LeaseRecord { holder: "a".to_owned(), fence, boot_id: clock::boot_id().unwrap(), deadline_ms };
        self.file().write(&record).unwrap();
    }

    fn file(&self) -> LeaseFile {
        LeaseFile::in_data_directory(self.bench.dir.path())
    }

    async fn register(&self, fence: u64) -> RegisteredRun {
        let mut wanted = Bench::registration(&self.workspace);
        wanted.lease = Some(RunLease { file: self.file(), fence });
        self.bench.gateway.register(wanted).await.unwrap()
    }

    async fn apply(&self, fence: u64) -> Said {
        let registered = self.register(fence).await;
        self.workspace.run(&["apply", "-auto-approve", "-no-color"], Some(&registered.reattach)).await
    }

    /// Types and stages of all changes in the journal.
    fn journalled(&self) -> Vec<(String, ChangeStage)> {
        let entries = read_entries(&self.bench.dir.path().join("g/journal.jsonl")).unwrap();
        entries.into_iter().map(|entry| (entry.kind, entry.stage)).collect()
    }
}

/// Terraform draws a frame around its errors and breaks their lines.
fn words(said: &Said) -> String {
    let words: Vec<&str> = said.err.split_whitespace().filter(|word| *word != "│").collect();
    words.join(" ")
}

const FOR_LONG: Duration = Duration::from_hours(1);

#[tokio::test(flavor = "multi_thread")]
async fn h7_after_the_deadline_no_change_begins_and_the_one_in_flight_completes_and_is_journalled() {
    let bench = LeaseBench::new().await;
    bench.record(1, FOR_LONG);
    let registered = bench.register(1).await;
    let apply = ["apply", "-auto-approve", "-no-color"];
    let child = bench.workspace.start(&apply, Some(&registered.reattach));
    bench.gate.holds(1).await;
    bench.record(1, Duration::ZERO);
    bench.gate.open();
    let said = finish(child).await;
    assert_eq!(said.code, 1, "{}", said.out);
    assert!(words(&said).contains("nothing was changed, because the operator"), "{}", said.err);
    assert!(words(&said).contains("has not renewed its leader election Lease in time"), "{}", said.err);
    let vpc = |stage| ("aws_vpc".to_owned(), stage);
    assert_eq!(bench.journalled(), [vpc(ChangeStage::Begun), vpc(ChangeStage::Done)]);
    let state = bench.workspace.state();
    let kinds: Vec<_> = state["resources"].as_array().unwrap().iter().map(|it| it["type"].clone()).collect();
    assert_eq!(kinds, ["aws_vpc"]);
    // Reads and plans go on.
    let registered = bench.register(1).await;
    let plan = ["plan", "-no-color"];
    let planned = bench.workspace.run(&plan, Some(&registered.reattach)).await.ok();
    assert!(planned.contains("1 to add"), "{planned}");
    // So does everything after a renewal.
    bench.record(1, FOR_LONG);
    bench.apply(1).await.ok();
}

#[tokio::test(flavor = "multi_thread")]
async fn h7_a_run_of_an_earlier_leadership_changes_nothing_under_its_successor() {
    let bench = LeaseBench::new().await;
    bench.gate.open();
    bench.record(2, FOR_LONG);
    let said = bench.apply(1).await;
    assert_eq!(said.code, 1, "{}", said.out);
    assert!(words(&said).contains("another operator has led since the run began"), "{}", said.err);
    assert_eq!(bench.journalled(), []);
    bench.apply(2).await.ok();
    // Who gives the Lease up removes the record.
    bench.file().remove().unwrap();
    let registered = bench.register(2).await;
    let destroy = ["destroy", "-auto-approve", "-no-color"];
    let said = bench.workspace.run(&destroy, Some(&registered.reattach)).await;
    assert!(words(&said).contains("does not hold the leader election Lease"), "{}", said.err);
}
