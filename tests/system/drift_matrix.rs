//! Every object of the quickstart is tagged, changed and deleted behind terraform's back, one at a time, and the drift
//! probe notices each.
//!
//! What cannot be done to an object of some type says why, and is counted: nothing is left out in silence.

use std::{collections::BTreeMap, fs, path::PathBuf};

use provider_gateway::{
    gateway::{Gateway, Registration, Settings},
    probe::{Ask, Fingerprint, Found, Inputs, Object, Probed, objects},
    serve::Seen,
};
use serde_json::Value;
use tokio::process::Command;

use super::{
    capt::{Capt, example},
    meddling::{Aws, Deed, Meddling, change, delete, last_of_all, tag},
};

const AWS: &str = "registry.terraform.io/hashicorp/aws";
const WORKSPACES: [&str; 4] = ["demo-vpc", "demo-eks-controlplane", "demo-apps-fargate", "demo-jobs-fargate"];

/// A workspace that a plan has found unchanged.
struct Watched {
    objects: Vec<Object>,
    seen: Seen,
}

struct Watcher {
    gateway: std::sync::Arc<Gateway>,
    package: PathBuf,
    _dir: tempfile::TempDir,
}

impl Watcher {
    fn new(capt: &Capt) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let gateway = Gateway::open(Settings::new(dir.path().join("g"), dir.path().to_owned())).unwrap();
        let linked = capt.workspace("demo-vpc").join(".terraform/providers").join(AWS);
        let version = fs::read_dir(linked).unwrap().next().unwrap().unwrap().path();
        let package = version.join(terraform_driver::providers::platform());
        Self { gateway, package, _dir: dir }
    }

    fn registration(&self) -> Registration {
        Registration {
            workspace: "watched".to_owned(),
            tenant: "watcher".to_owned(),
            address: AWS.to_owned(),
            package: self.package.clone(),
            locked: None,
            env: BTreeMap::new(),
            types: None,
        }
    }

    /// A plan that finds nothing, and the fingerprint that follows it.
    #[expect(clippy::disallowed_methods, reason = "a test starts terraform")]
    async fn watch(&self, dir: PathBuf) -> Watched {
        let registered = self.gateway.register(self.registration()).await.unwrap();
        let planned = Command::new("terraform")
            .args(["plan", "-no-color", "-detailed-exitcode", "-lock=false"])
            .current_dir(&dir)
            .env("TF_REATTACH_PROVIDERS", registered.reattach.to_string())
            .output();
        let planned = planned.await.unwrap();
        assert_eq!(planned.status.code(), Some(0), "{}", String::from_utf8_lossy(&planned.stdout));
        let seen = self.gateway.release(&registered.run).unwrap();
        let objects = objects(&fs::read(dir.join("terraform.tfstate")).unwrap(), AWS).unwrap().objects;
        let probed = self.probe(&objects, &seen).await;
        let text = str::to_owned;
        let inputs = Inputs {
            configuration: text("c"),
            state: text("s"),
            provider: text("p"),
            surroundings: text("e"),
        };
        let fingerprint = Fingerprint::of(inputs, seen.clone(), &probed).unwrap();
        assert_eq!(
            fingerprint.compare(&self.probe(&objects, &seen).await),
            Ok(()),
            "it answers the same twice"
        );
        Watched { objects, seen }
    }

    async fn probe(&self, objects: &[Object], seen: &Seen) -> Probed {
        let seat = seen.seats.first().unwrap().clone();
        let ask = Ask { seat, objects: objects.to_vec(), data: seen.data.clone(), fresh: true };
        self.gateway.probe(&self.registration(), &ask).await.unwrap().unwrap()
    }

    /// What is answered about one object now.
    async fn look(&self, object: &Object, seen: &Seen) -> Found {
        self.probe(std::slice::from_ref(object), seen).await.objects[&object.address].clone()
    }
}

/// Does something to an object, sees that it is noticed, and takes it back.
async fn there_and_back(watcher: &Watcher, aws: &Aws, (object, seen): (&Object, &Seen), deed: &Deed) {
    let before = watcher.look(object, seen).await;
    assert!(matches!(before, Found::There { .. }), "{}: {before:?}", object.address);
    aws.all(&deed.act);
    let after = watcher.look(object, seen).await;
    assert_ne!(before, after, "{:?} was not noticed", deed.act);
    assert!(!matches!(after, Found::Failed { .. }), "{}: {after:?}", object.address);
    aws.all(&deed.undo);
    if !TELLS_WHEN.contains(&object.kind.as_str()) {
        assert_eq!(watcher.look(object, seen).await, before, "{:?} was taken back", deed.act);
    }
}

/// These say when they were changed last, and do not forget that.
const TELLS_WHEN: [&str; 1] = ["aws_eks_addon"];

#[tokio::test(flavor = "multi_thread")]
async fn whatever_is_done_behind_the_back_of_the_quickstart_is_noticed() {
    let capt = Capt::new();
    capt.run(&["aws", "start"]).ok();
    let quick = r#"{"cluster_create_ms": 0, "cluster_update_ms": 0, "cluster_delete_ms": 0, "cluster_settle_ms": 0,
        "profile_create_ms": 0, "profile_delete_ms": 0, "addon_ms": 0}"#;
    capt.admin("POST", "/_capt/timing", quick);
    capt.run(&["apply", &example("quickstart.yaml")]).ok();
    let (aws, watcher) = (Aws { address: capt.aws() }, Watcher::new(&capt));
    let other_key = aws.make_key();
    let mut all = Vec::new();
    for name in WORKSPACES {
        all.push(watcher.watch(capt.workspace(name)).await);
    }
    let (mut done, mut cannot) = (0, BTreeMap::<String, &str>::new());
    for watched in &all {
        for object in &watched.objects {
            let attributes: Value = serde_json::from_str(object.attributes.get()).unwrap();
            for (what, meddling) in [
                ("a tag", tag(&object.kind, &attributes)),
                ("a change", change(&object.kind, &attributes, &other_key)),
            ] {
                match meddling {
                    Meddling::Can(deed) => {
                        there_and_back(&watcher, &aws, (object, &watched.seen), &deed).await;
                        done += 1;
                    }
                    Meddling::Cannot(why) => drop(cannot.insert(format!("{what} of {}", object.kind), why)),
                }
            }
        }
    }
    let deleted = delete_one_by_one(&watcher, &aws, all).await;
    eprintln!("{done} tags and changes and {deleted} deletions were noticed; not possible: {cannot:#?}");
    assert_eq!(deleted, 33, "every object of the quickstart");
    assert_eq!(cannot.len(), IMPOSSIBLE, "{cannot:#?}");
}

/// How many of those there are; the list is printed.
const IMPOSSIBLE: usize = 9;

/// From the leaves to the root. Another object may answer differently then, too, so each is compared with what it was
/// just before.
async fn delete_one_by_one(watcher: &Watcher, aws: &Aws, all: Vec<Watched>) -> usize {
    let mut left: Vec<(Object, Seen)> = all
        .into_iter()
        .flat_map(|it| it.objects.into_iter().map(move |object| (object, it.seen.clone())))
        .collect();
    left.sort_by_key(|(object, _)| last_of_all(&object.kind));
    let count = left.len();
    for (object, seen) in left {
        let attributes: Value = serde_json::from_str(object.attributes.get()).unwrap();
        let before = watcher.look(&object, &seen).await;
        assert!(matches!(before, Found::There { .. }), "{} before it is deleted: {before:?}", object.address);
        aws.all(&delete(&object.kind, &attributes));
        let after = watcher.look(&object, &seen).await;
        assert_ne!(before, after, "the deletion of {} was not noticed", object.address);
        assert!(!matches!(after, Found::Failed { .. }), "{}: {after:?}", object.address);
    }
    count
}
