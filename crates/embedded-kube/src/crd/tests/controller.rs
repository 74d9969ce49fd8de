//! Names, conditions, serving and deletion.

use std::{sync::Arc, time::Duration};

use futures::future::BoxFuture;
use pretty_assertions::assert_eq;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::{created, sample};
use crate::{
    crd::{CrdController, FINALIZER, ObjectDeleter, status::compute_status, strategy},
    object::{Draft, MetaAccessor},
    registry::{Registry, Resource},
    status_error::ApiResult,
    store::{HistoryLimits, Precondition, Store, StoreLocation},
};

/// Only bounds a hang.
const PATIENCE: Duration = Duration::from_mins(2);
const KEY: &str = "apiextensions.k8s.io/customresourcedefinitions//foos.example.com";

fn now() -> jiff::Timestamp {
    "2026-01-01T00:00:00Z".parse().unwrap()
}

fn condition(status: &Value, kind: &str) -> (String, String, String) {
    let list = status["conditions"].as_array().unwrap();
    let found = list.iter().find(|one| one["type"] == kind).unwrap();
    let text = |key: &str| found[key].as_str().unwrap_or_default().to_owned();
    (text("status"), text("reason"), text("message"))
}

#[test]
fn a_crd_whose_names_are_free_is_established() {
    let crd = created(sample());
    let status = compute_status(&crd, &[], now()).unwrap();
    let words = |a: &str, b: &str, c: &str| (a.to_owned(), b.to_owned(), c.to_owned());
    assert_eq!(condition(&status, "NamesAccepted"), words("True", "NoConflicts", "no conflicts found"));
    assert_eq!(
        condition(&status, "Established"),
        words("True", "InitialNamesAccepted", "the initial names have been accepted")
    );
    assert_eq!(
        status["acceptedNames"],
        json!({"plural": "foos", "singular": "foo", "shortNames": ["fo"], "kind": "Foo", "listKind": "FooList"})
    );
    let mut settled = crd;
    settled["status"] = status;
    assert_eq!(compute_status(&settled, &[], now()), None);
}

#[test]
fn a_name_that_is_taken_is_a_conflict_until_it_is_free() {
    let mut first = created(sample());
    first["status"] = compute_status(&first, &[], now()).unwrap();
    let mut second = created(sample());
    second["metadata"]["name"] = json!("bars.example.com");
    second["spec"]["names"] = json!({"plural": "bars", "singular": "bar", "kind": "Foo", "listKind": "BarList", "shortNames": ["fo"]});
    let status = compute_status(&second, std::slice::from_ref(&first), now()).unwrap();
    assert_eq!(
        condition(&status, "NamesAccepted"),
        ("False".into(), "KindConflict".into(), "\"Foo\" is already in use".into())
    );
    assert_eq!(
        condition(&status, "Established"),
        ("False".into(), "NotAccepted".into(), "not all names are accepted".into())
    );
    assert_eq!(
        status["acceptedNames"],
        json!({"plural": "bars", "singular": "bar", "kind": "", "listKind": "BarList"})
    );
    second["status"] = status;
    let status = compute_status(&second, &[], now()).unwrap();
    assert_eq!(condition(&status, "Established").0, "True");
}

#[test]
fn the_first_delete_leaves_a_finalizer_and_a_condition() {
    let crd = created(sample());
    let next = strategy().begin_deletion(&crd, now()).unwrap();
    assert_eq!(next.finalizers(), [FINALIZER]);
    assert!(next.is_terminating());
    assert_eq!(condition(&next["status"], "Terminating").1, "InstanceDeletionPending");
}

/// Deletes immediately, ignoring finalizers.
struct ImmediateDeleter(Store);

impl ObjectDeleter for ImmediateDeleter {
    fn delete(
        &self,
        resource: Arc<Resource>,
        namespace: String,
        name: String,
    ) -> BoxFuture<'_, ApiResult<()>> {
        let key = format!("{}/{namespace}/{name}", resource.storage_prefix);
        Box::pin(async move {
            self.0.write(&key, Precondition::Any, None).await.unwrap();
            Ok(())
        })
    }
}

struct TestEnv {
    store: Store,
    registry: Arc<Registry>,
    cancel: CancellationToken,
    task: tokio::task::JoinHandle<()>,
}

async fn test_env() -> TestEnv {
    test_env_with(Store::open(StoreLocation::Memory, HistoryLimits::default()).await.unwrap())
}

fn test_env_with(store: Store) -> TestEnv {
    let registry = Arc::new(Registry::default());
    let cancel = CancellationToken::new();
    let keeper =
        CrdController::new(store.clone(), Arc::clone(&registry), Arc::new(ImmediateDeleter(store.clone())));
    let task = tokio::spawn(keeper.run(cancel.clone()));
    TestEnv { store, registry, cancel, task }
}

async fn put(store: &Store, key: &str, object: &Value) {
    store.write(key, Precondition::Any, Some(Draft::from_value(object).unwrap())).await.unwrap();
}

async fn eventually(what: &str, holds: impl Fn() -> bool) {
    let start = std::time::Instant::now();
    while !holds() {
        assert!(start.elapsed() < PATIENCE, "waited for: {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Waits until the `Established` condition is readable.
async fn established(store: &Store) {
    let is = || {
        let crd = store.get(KEY).unwrap().document.value();
        crd["status"]["conditions"].is_array() && condition(&crd["status"], "Established").0 == "True"
    };
    eventually("established", is).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_reads_that_a_crd_is_established_is_served() {
    for _ in 0..200 {
        let world = test_env().await;
        put(&world.store, KEY, &created(sample())).await;
        let text = || serde_json::to_string(&world.store.get(KEY).unwrap().document.value()).unwrap();
        // Polls without a pause: the state is visible only briefly.
        while !text().contains("InitialNamesAccepted") {
            std::hint::spin_loop();
        }
        assert!(world.registry.find("example.com", "v1", "foos").is_some());
        world.cancel.cancel();
        world.task.await.unwrap();
    }
}

#[tokio::test]
async fn a_crd_is_served_after_its_create_and_gone_after_its_delete() {
    let world = test_env().await;
    let find = || world.registry.find("example.com", "v1", "foos");
    put(&world.store, KEY, &created(sample())).await;
    established(&world.store).await;
    assert!(find().is_some());
    put(&world.store, "example.com/foos/default/a", &json!({"kind": "Foo", "metadata": {"name": "a"}})).await;
    let crd = world.store.get(KEY).unwrap().document.value();
    put(&world.store, KEY, &strategy().begin_deletion(&crd, now()).unwrap()).await;
    eventually("gone", || world.store.get(KEY).is_none() && find().is_none()).await;
    assert!(world.store.get("example.com/foos/default/a").is_none());
    world.cancel.cancel();
    world.task.await.unwrap();
}

#[tokio::test]
async fn an_object_with_a_finalizer_keeps_its_crd() {
    let world = test_env().await;
    put(&world.store, KEY, &created(sample())).await;
    established(&world.store).await;
    let object = json!({"kind": "Foo", "metadata": {"name": "a", "deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["x/y"]}});
    put(&world.store, "example.com/foos/default/a", &object).await;
    let crd = world.store.get(KEY).unwrap().document.value();
    put(&world.store, KEY, &strategy().begin_deletion(&crd, now()).unwrap()).await;
    let creates_refused = || {
        world
            .registry
            .find("example.com", "v1", "foos")
            .is_some_and(|foo| foo.strategy.create_forbidden_reason().is_some())
    };
    eventually("terminating", creates_refused).await;
    // Two cleanup passes in sequence: the first must not remove the CRD.
    for name in ["example.com/foos/default/b", "example.com/foos/default/c"] {
        put(&world.store, name, &json!({"kind": "Foo", "metadata": {"name": "other"}})).await;
        eventually(name, || world.store.get(name).is_none()).await;
    }
    let crd = world.store.get(KEY).expect("still there").document.value();
    assert_eq!(condition(&crd["status"], "Terminating").1, "InstanceDeletionInProgress");
    world.store.write("example.com/foos/default/a", Precondition::Any, None).await.unwrap();
    eventually("gone", || world.store.get(KEY).is_none()).await;
    world.cancel.cancel();
    world.task.await.unwrap();
}

#[tokio::test]
async fn a_new_schema_is_served_and_older_objects_are_known() {
    let world = test_env().await;
    put(&world.store, KEY, &created(sample())).await;
    let find = || world.registry.find("example.com", "v1", "foos");
    established(&world.store).await;
    let before = find().unwrap().schema_revision;
    let mut crd = world.store.get(KEY).unwrap().document.value();
    crd["metadata"]["generation"] = json!(2);
    crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["extra"] =
        json!({"type": "string"});
    put(&world.store, KEY, &crd).await;
    eventually("new schema", || find().is_some_and(|foo| foo.shape.field("extra").is_some())).await;
    assert!(find().unwrap().schema_revision > before);
    world.cancel.cancel();
    world.task.await.unwrap();
}

#[tokio::test]
async fn a_status_that_could_not_be_written_is_tried_again() {
    let dir = tempfile::tempdir().unwrap();
    let store =
        Store::open(StoreLocation::Dir(dir.path().to_owned()), HistoryLimits::default()).await.unwrap();
    put(&store, KEY, &created(sample())).await;
    store.probe(|db| db.pragma_update(None, "query_only", true).unwrap()).await;
    let world = test_env_with(store);
    // A failed attempt is not observable; on a slow machine the first one may come after this.
    tokio::time::sleep(Duration::from_millis(200)).await;
    // During an attempt it is served briefly.
    eventually("not served", || world.registry.find("example.com", "v1", "foos").is_none()).await;
    let stored = world.store.get(KEY).unwrap().document.value().to_string();
    assert!(!stored.contains("InitialNamesAccepted"), "{stored}");
    world.store.probe(|db| db.pragma_update(None, "query_only", false).unwrap()).await;
    established(&world.store).await;
    assert!(world.registry.find("example.com", "v1", "foos").is_some());
    world.cancel.cancel();
    world.task.await.unwrap();
}

#[tokio::test]
async fn a_crd_that_goes_while_its_predecessor_is_cleaned_up_goes_too() {
    let store = Store::open(StoreLocation::Memory, HistoryLimits::default()).await.unwrap();
    let mut keeper =
        CrdController::new(store.clone(), Arc::default(), Arc::new(ImmediateDeleter(store.clone())));
    keeper.start_cleanup(KEY);
    // It runs, finds nothing and finishes, before the controller has processed the result.
    tokio::task::yield_now().await;
    put(&store, KEY, &strategy().begin_deletion(&created(sample()), now()).unwrap()).await;
    keeper.cleanup_finished(KEY);
    eventually("gone", || store.get(KEY).is_none()).await;
}

#[tokio::test]
async fn what_is_written_before_a_new_schema_is_served_counts_as_older() {
    let store = Store::open(StoreLocation::Memory, HistoryLimits::default()).await.unwrap();
    let registry = Arc::new(Registry::default());
    let mut keeper =
        CrdController::new(store.clone(), Arc::clone(&registry), Arc::new(ImmediateDeleter(store.clone())));
    let mut crd = created(sample());
    crd["status"] = compute_status(&crd, &[], now()).unwrap();
    put(&store, KEY, &crd).await;
    keeper.load();
    let since = || registry.find("example.com", "v1", "foos").unwrap().schema_revision;
    assert_eq!(since(), store.revision());
    crd["metadata"]["generation"] = json!(2);
    put(&store, KEY, &crd).await;
    put(&store, "example.com/foos/default/a", &json!({"kind": "Foo", "metadata": {"name": "a"}})).await;
    keeper.load();
    assert_eq!(since(), store.revision() + 1);
}
