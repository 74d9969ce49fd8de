//! Tags, changes and deletes every object of the quickstart outside of terraform, one at a time; the drift probe detects each.
//!
//! Changes that are impossible for a resource type are counted and listed with the reason.

use std::{collections::BTreeMap, fs, path::PathBuf};

use provider_gateway::{
    gateway::{Gateway, GatewaySettings, RunRegistration},
    probe::{
        Fingerprint, FingerprintInputs, ProbeRequest, ProbeResult, ReadResult, StateObject, parse_objects,
    },
    serve::{RunActivity, RunClients},
};
use serde_json::Value;
use tokio::process::Command;

use super::{
    console_changes::{
        ChangePlan, ConsoleClient, ReversibleChange, deletion_calls, deletion_rank, plan_change, plan_tag,
    },
    harness::{SystemHarness, example_path},
};

const AWS: &str = "registry.terraform.io/hashicorp/aws";
const WORKSPACES: [&str; 4] = ["demo-vpc", "demo-eks-controlplane", "demo-apps-fargate", "demo-jobs-fargate"];

/// A workspace with a plan without changes.
struct PlannedWorkspace {
    objects: Vec<StateObject>,
    seen: RunActivity,
}

struct DriftProber {
    gateway: std::sync::Arc<Gateway>,
    package: PathBuf,
    _dir: tempfile::TempDir,
}

impl DriftProber {
    fn new(capt: &SystemHarness) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let gateway =
            Gateway::open(GatewaySettings::new(dir.path().join("g"), dir.path().to_owned())).unwrap();
        let linked = capt.workspace_dir("demo-vpc").join(".terraform/providers").join(AWS);
        let version = fs::read_dir(linked).unwrap().next().unwrap().unwrap().path();
        let package = version.join(terraform_driver::providers::platform());
        Self { gateway, package, _dir: dir }
    }

    fn registration(&self) -> RunRegistration {
        RunRegistration {
            workspace: "watched".to_owned(),
            tenant: "watcher".to_owned(),
            address: AWS.to_owned(),
            package: self.package.clone(),
            package_roots: vec![self.package.clone()],
            locked: None,
            env: BTreeMap::new(),
            types: None,
            lease: None,
            is_replicated: false,
            clients: RunClients::Descendants { of: std::process::id().try_into().unwrap() },
        }
    }

    /// A plan that finds nothing, and the fingerprint that follows it.
    #[expect(clippy::disallowed_methods, reason = "a test starts terraform")]
    async fn plan_and_fingerprint(&self, dir: PathBuf) -> PlannedWorkspace {
        let registered = self.gateway.register(self.registration()).await.unwrap();
        let planned = Command::new("terraform")
            .args(["plan", "-no-color", "-detailed-exitcode", "-lock=false"])
            .current_dir(&dir)
            .env("TF_REATTACH_PROVIDERS", registered.reattach.to_string())
            .output();
        let planned = planned.await.unwrap();
        assert_eq!(planned.status.code(), Some(0), "{}", String::from_utf8_lossy(&planned.stdout));
        let seen = self.gateway.release(&registered.run).unwrap();
        let objects = parse_objects(&fs::read(dir.join("terraform.tfstate")).unwrap(), AWS).unwrap().objects;
        let probed = self.probe(&objects, &seen).await;
        let text = str::to_owned;
        let inputs = FingerprintInputs {
            configuration: text("c"),
            state: text("s"),
            provider: text("p"),
            surroundings: text("e"),
        };
        let fingerprint = Fingerprint::from_probe(inputs, seen.clone(), &probed).unwrap();
        assert_eq!(
            fingerprint.compare(&self.probe(&objects, &seen).await),
            Ok(()),
            "it answers the same twice"
        );
        PlannedWorkspace { objects, seen }
    }

    async fn probe(&self, objects: &[StateObject], seen: &RunActivity) -> ProbeResult {
        let seat = seen.seats.first().unwrap().clone();
        let ask = ProbeRequest { seat, objects: objects.to_vec(), data: seen.data.clone(), fresh: true };
        self.gateway.probe(&self.registration(), &ask).await.unwrap().unwrap()
    }

    /// What is answered about one object now.
    async fn probe_object(&self, object: &StateObject, seen: &RunActivity) -> ReadResult {
        self.probe(std::slice::from_ref(object), seen).await.objects[&object.address].clone()
    }
}

/// Changes an object, asserts that the probe detects it, and reverts the change.
async fn assert_change_detected(
    watcher: &DriftProber,
    aws: &ConsoleClient,
    (object, seen): (&StateObject, &RunActivity),
    deed: &ReversibleChange,
) {
    let before = watcher.probe_object(object, seen).await;
    assert!(matches!(before, ReadResult::There { .. }), "{}: {before:?}", object.address);
    aws.call_all(&deed.calls);
    let after = watcher.probe_object(object, seen).await;
    assert_ne!(before, after, "{:?} was not noticed", deed.calls);
    assert!(!matches!(after, ReadResult::Failed { .. }), "{}: {after:?}", object.address);
    aws.call_all(&deed.undo_calls);
    if !KEEPS_MODIFIED_TIME.contains(&object.kind.as_str()) {
        assert_eq!(watcher.probe_object(object, seen).await, before, "{:?} was taken back", deed.calls);
    }
}

/// Types with a modification time, which a reversal does not restore.
const KEEPS_MODIFIED_TIME: [&str; 1] = ["aws_eks_addon"];

#[tokio::test(flavor = "multi_thread")]
async fn whatever_is_done_behind_the_back_of_the_quickstart_is_noticed() {
    let capt = SystemHarness::new();
    capt.run(&["aws", "start"]).expect_success();
    let quick = r#"{"cluster_create_ms": 0, "cluster_update_ms": 0, "cluster_delete_ms": 0, "cluster_settle_ms": 0,
        "profile_create_ms": 0, "profile_delete_ms": 0, "addon_ms": 0}"#;
    capt.admin_request("POST", "/_capt/timing", quick);
    capt.run(&["apply", &example_path("quickstart.yaml")]).expect_success();
    let (aws, watcher) = (ConsoleClient { address: capt.aws_address() }, DriftProber::new(&capt));
    let other_key = aws.create_kms_key();
    let mut all = Vec::new();
    for name in WORKSPACES {
        all.push(watcher.plan_and_fingerprint(capt.workspace_dir(name)).await);
    }
    let (mut done, mut cannot) = (0, BTreeMap::<String, &str>::new());
    for watched in &all {
        for object in &watched.objects {
            let attributes: Value = serde_json::from_str(object.attributes.get()).unwrap();
            for (what, meddling) in [
                ("a tag", plan_tag(&object.kind, &attributes)),
                ("a change", plan_change(&object.kind, &attributes, &other_key)),
            ] {
                match meddling {
                    ChangePlan::Supported(deed) => {
                        assert_change_detected(&watcher, &aws, (object, &watched.seen), &deed).await;
                        done += 1;
                    }
                    ChangePlan::Unsupported(why) => {
                        cannot.insert(format!("{what} of {}", object.kind), why);
                    }
                }
            }
        }
    }
    let deleted = delete_one_by_one(&watcher, &aws, all).await;
    eprintln!("{done} tags and changes and {deleted} deletions were noticed; not possible: {cannot:#?}");
    assert_eq!(deleted, 33, "every object of the quickstart");
    assert_eq!(cannot.len(), UNSUPPORTED_CHANGES, "{cannot:#?}");
}

/// How many of those there are; the list is printed.
const UNSUPPORTED_CHANGES: usize = 9;

/// From the leaves to the root. Another object may answer differently then, too, so each is compared with what it was
/// just before.
async fn delete_one_by_one(watcher: &DriftProber, aws: &ConsoleClient, all: Vec<PlannedWorkspace>) -> usize {
    let mut left: Vec<(StateObject, RunActivity)> = all
        .into_iter()
        .flat_map(|it| it.objects.into_iter().map(move |object| (object, it.seen.clone())))
        .collect();
    left.sort_by_key(|(object, _)| deletion_rank(&object.kind));
    let count = left.len();
    for (object, seen) in left {
        let attributes: Value = serde_json::from_str(object.attributes.get()).unwrap();
        let before = watcher.probe_object(&object, &seen).await;
        assert!(
            matches!(before, ReadResult::There { .. }),
            "{} before it is deleted: {before:?}",
            object.address
        );
        aws.call_all(&deletion_calls(&object.kind, &attributes));
        let after = watcher.probe_object(&object, &seen).await;
        assert_ne!(before, after, "the deletion of {} was not noticed", object.address);
        assert!(!matches!(after, ReadResult::Failed { .. }), "{}: {after:?}", object.address);
    }
    count
}
