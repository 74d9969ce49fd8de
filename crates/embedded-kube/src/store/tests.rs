//! One test per guarantee of the store; each runs in memory and on disk where both make sense.

mod bench;
mod concurrent_writers;
mod disk;
mod history;
mod kill;
mod secondary_index;
mod watches;

use std::path::Path;

use rstest::rstest;
use serde_json::{Value, json};

use super::*;
use crate::object::Document;

impl Store {
    /// Runs a closure on the store's own connection.
    pub(crate) async fn probe<T: Send + 'static>(
        &self,
        look: impl FnOnce(&rusqlite::Connection) -> T + Send + 'static,
    ) -> T {
        let (answer, seen) = oneshot::channel();
        let message = WriterMessage::Probe(Box::new(move |connection| drop(answer.send(look(connection)))));
        self.send(message).unwrap();
        seen.await.unwrap()
    }
}

/// A temporary directory, or memory.
fn place(on_disk: bool) -> (Option<tempfile::TempDir>, StoreLocation) {
    let dir = on_disk.then(|| tempfile::tempdir().unwrap());
    let place = dir.as_ref().map_or(StoreLocation::Memory, |dir| StoreLocation::Dir(dir.path().to_owned()));
    (dir, place)
}

async fn memory() -> Store {
    Store::open(StoreLocation::Memory, HistoryLimits::default()).await.unwrap()
}

async fn at(dir: &Path) -> Store {
    Store::open(StoreLocation::Dir(dir.to_owned()), HistoryLimits::default()).await.unwrap()
}

#[expect(clippy::unnecessary_wraps, reason = "it is what a write takes")]
fn draft(data: impl Into<Value>) -> Option<Draft> {
    let object =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}, "data": data.into()});
    Some(Draft::from_value(&object).unwrap())
}

fn data(document: &Document) -> Value {
    document.value()["data"].take()
}

fn version(document: &Document) -> String {
    document.value()["metadata"]["resourceVersion"].as_str().unwrap().to_owned()
}

fn keys(snapshot: &Snapshot) -> Vec<&str> {
    snapshot.entries.iter().map(|(key, _)| &**key).collect()
}

async fn put(store: &Store, key: &str, value: impl Into<Value>) -> u64 {
    store.write(key, Precondition::Any, draft(value)).await.unwrap().revision
}

async fn remove(store: &Store, key: &str) -> u64 {
    store.write(key, Precondition::Any, None).await.unwrap().revision
}

#[rstest]
#[tokio::test]
async fn revisions_begin_at_one_and_every_write_takes_the_next(#[values(false, true)] on_disk: bool) {
    let (_dir, place) = place(on_disk);
    let store = Store::open(place, HistoryLimits::default()).await.unwrap();
    assert_eq!(store.revision(), 1);
    let written = store.write("/secrets/a/x", Precondition::Absent, draft(1)).await.unwrap();
    assert_eq!((written.revision, store.revision()), (2, 2));
    assert_eq!(version(&written.document), "2");
    assert_eq!(store.get("/secrets/a/x").unwrap(), Entry { revision: 2, document: written.document });
    assert_eq!(put(&store, "/secrets/a/y", 1).await, 3);
    assert_eq!(remove(&store, "/secrets/a/x").await, 4);
    assert_eq!(store.get("/secrets/a/x"), None);
}

#[rstest]
#[tokio::test]
async fn a_write_that_expects_something_else_changes_nothing(#[values(false, true)] on_disk: bool) {
    let (_dir, place) = place(on_disk);
    let store = Store::open(place, HistoryLimits::default()).await.unwrap();
    let conflict = |expect, draft| {
        let store = store.clone();
        async move {
            match store.write("/pods/a/x", expect, draft).await {
                Err(WriteError::Conflict(current)) => current.map(|entry| entry.revision),
                other => panic!("{other:?}"),
            }
        }
    };
    assert_eq!(conflict(Precondition::Revision(2), draft(1)).await, None);
    assert_eq!(conflict(Precondition::Any, None).await, None, "there is nothing to delete");
    assert_eq!(conflict(Precondition::Absent, None).await, None, "nothing cannot be deleted either");
    put(&store, "/pods/a/x", 1).await;
    assert_eq!(conflict(Precondition::Absent, draft(2)).await, Some(2));
    assert_eq!(conflict(Precondition::Revision(1), draft(2)).await, Some(2));
    assert_eq!(conflict(Precondition::Revision(1), None).await, Some(2));
    assert_eq!(store.revision(), 2);
    assert_eq!(data(&store.get("/pods/a/x").unwrap().document), 1);
    assert_eq!(store.write("/pods/a/x", Precondition::Revision(2), draft(2)).await.unwrap().revision, 3);
}

#[rstest]
#[tokio::test]
async fn a_write_is_refused_once_what_it_relies_on_has_changed(#[values(false, true)] on_disk: bool) {
    let (_dir, place) = place(on_disk);
    let store = Store::open(place, HistoryLimits::default()).await.unwrap();
    let guard = async |revision| {
        let guards = vec![RevisionGuard { key: "/namespaces//a".into(), revision }];
        store.write_guarded("/pods/a/x", Precondition::Any, draft(1), guards).await
    };
    let refused = guard(2).await;
    assert!(matches!(refused, Err(WriteError::GuardChanged)), "{refused:?}");
    let seen = put(&store, "/namespaces//a", 1).await;
    assert_eq!(guard(seen).await.unwrap().revision, 3);
    // All of them are queued at once and evaluated in order.
    let (changed, late, gone, last) = tokio::join!(
        put(&store, "/namespaces//a", 2),
        guard(seen),
        remove(&store, "/namespaces//a"),
        guard(4)
    );
    assert_eq!((changed, gone), (4, 5));
    assert!(matches!(late, Err(WriteError::GuardChanged)), "{late:?}");
    assert!(matches!(last, Err(WriteError::GuardChanged)), "{last:?}");
    assert_eq!(store.get("/pods/a/x").unwrap().revision, 3);
}

#[tokio::test]
async fn a_delete_answers_with_the_last_state_at_its_own_revision() {
    let store = memory().await;
    put(&store, "/pods/a/x", "last").await;
    let written = store.write("/pods/a/x", Precondition::Revision(2), None).await.unwrap();
    assert_eq!(version(&written.document), "3");
    assert_eq!(data(&written.document), "last");
}

#[tokio::test]
async fn a_list_is_in_the_order_of_keys_and_holds_its_prefix_alone() {
    let store = memory().await;
    for key in ["/pods/b/1", "/pods/a/2", "/pods/a/1", "/podsx/a/1", "/pods/a-b/1", "apps/pods/a/1"] {
        put(&store, key, 0).await;
    }
    let all = store.list("/pods/", &ListOptions::default()).unwrap();
    assert_eq!(keys(&all), ["/pods/a-b/1", "/pods/a/1", "/pods/a/2", "/pods/b/1"]);
    assert_eq!((all.revision, all.has_more, all.remaining), (7, false, 0));
    assert_eq!(keys(&store.list("/pods/a/", &ListOptions::default()).unwrap()), ["/pods/a/1", "/pods/a/2"]);
    assert_eq!(keys(&store.list("/secrets/", &ListOptions::default()).unwrap()), Vec::<&str>::new());
}

#[tokio::test]
async fn pages_say_what_is_left_and_fit_together() {
    let store = memory().await;
    for number in 0..10 {
        put(&store, &format!("/pods/a/{number}"), number).await;
    }
    let page = |after: Option<&str>, limit| ListOptions {
        after: after.map(str::to_owned),
        limit: Some(limit),
        revision: None,
    };
    let first = store.list("/pods/", &page(None, 4)).unwrap();
    assert_eq!((first.entries.len(), first.has_more, first.remaining), (4, true, 6));
    let second = store.list("/pods/", &page(Some(keys(&first)[3]), 6)).unwrap();
    assert_eq!((second.entries.len(), second.has_more, second.remaining), (6, false, 0));
    assert_eq!(keys(&second)[0], "/pods/a/4");
    let before_the_prefix = store.list("/pods/", &page(Some("/"), 20)).unwrap();
    assert_eq!(before_the_prefix.entries.len(), 10);
    let after_the_prefix = store.list("/pods/", &page(Some("/q"), 20)).unwrap();
    assert_eq!(after_the_prefix.entries.len(), 0);
}

#[rstest]
#[tokio::test]
async fn a_closed_store_takes_no_writes_and_ends_its_watches(#[values(false, true)] on_disk: bool) {
    use futures::StreamExt;
    let (_dir, place) = place(on_disk);
    let store = Store::open(place, HistoryLimits::default()).await.unwrap();
    let mut watch = store.watch("", 1).unwrap();
    put(&store, "/pods/a/x", 1).await;
    store.clone().close().await;
    let refused = store.write("/pods/a/x", Precondition::Any, draft(2)).await;
    assert!(matches!(refused, Err(WriteError::Io(StoreError::Closed))), "{refused:?}");
    assert_eq!(watch.next().await.unwrap().unwrap().revision, 2, "what was written before is still told");
    assert_eq!(watch.next().await, None);
    store.close().await;
}

#[tokio::test]
async fn a_watch_outlives_the_store_only_to_end() {
    use futures::StreamExt;
    let store = memory().await;
    let mut watch = store.watch("", 1).unwrap();
    drop(store);
    assert_eq!(watch.next().await, None);
}
