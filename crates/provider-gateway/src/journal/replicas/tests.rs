//! How changes wait for a follower, and when they do not.

use tokio::task::JoinHandle;

use super::*;
use crate::{
    journal::{ChangeCall, Journal, read_entries},
    wire::protobuf::put_bytes,
};

const WORKSPACE: &str = "default/x";

struct Scene {
    _dir: tempfile::TempDir,
    journal: Journal,
    counters: Arc<Counters>,
}

impl Scene {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let counters = Arc::<Counters>::default();
        let journal =
            Journal::open_counting(&dir.path().join("journal.jsonl"), Arc::clone(&counters)).unwrap();
        Self { _dir: dir, journal, counters }
    }

    /// A follower that has stored what was there before.
    async fn follow(&self) -> JournalFeed {
        let mut feed = self.journal.follow(WORKSPACE).await.unwrap();
        let all = feed.next().await.unwrap();
        assert!(all.is_complete);
        self.stored(&feed, all.order);
        feed
    }

    fn stored(&self, feed: &JournalFeed, order: u64) {
        self.journal.record_receipt(WORKSPACE, feed, JournalReceipt::Stored { order });
    }

    fn start(&self) -> JoinHandle<Result<u64, String>> {
        let journal = self.journal.clone();
        tokio::spawn(async move { journal.record_start(&change(&request())).await })
    }

    fn entries(&self) -> Vec<JournalEntry> {
        read_entries(self.journal.path()).unwrap()
    }

    async fn until_written(&self, count: usize) {
        while self.entries().len() < count {
            tokio::task::yield_now().await;
        }
    }

    /// Until a change waits for its follower.
    async fn until_waiting(&self) {
        let is_waiting =
            |replicas: &BTreeMap<String, Replica>| replicas[WORKSPACE].progress.receiver_count() > 0;
        while !is_waiting(&self.journal.replicas.by_workspace.lock()) {
            tokio::task::yield_now().await;
        }
    }
}

fn request() -> Vec<u8> {
    let mut request = Vec::new();
    put_bytes(&mut request, 1, b"aws_vpc");
    request
}

fn change(request: &[u8]) -> ChangeCall<'_> {
    ChangeCall {
        run: "r",
        workspace: WORKSPACE,
        method: "ApplyResourceChange",
        request,
        schema_version: Some(1),
    }
}

#[tokio::test]
async fn a_change_waits_until_it_is_stored_and_those_that_wait_are_stored_together() {
    let scene = Scene::new();
    let mut feed = scene.follow().await;
    let first = scene.start();
    assert_eq!(feed.next().await.unwrap().order, 1);
    let others = [scene.start(), scene.start()];
    scene.until_written(3).await;
    // While the first batch is being stored, nobody goes on.
    assert!(!first.is_finished() && !others.iter().any(JoinHandle::is_finished));
    scene.stored(&feed, 1);
    first.await.unwrap().unwrap();
    let batch = feed.next().await.unwrap();
    assert_eq!((batch.entries.len(), batch.order, batch.is_complete), (2, 3, false));
    assert!(!others.iter().any(JoinHandle::is_finished));
    scene.stored(&feed, 3);
    for other in others {
        other.await.unwrap().unwrap();
    }
    assert_eq!(scene.counters.counts().not_replicated, 0);
}

#[tokio::test]
async fn an_answer_waits_until_its_end_is_stored() {
    let scene = Scene::new();
    let mut feed = scene.follow().await;
    let start = scene.start();
    let order = feed.next().await.unwrap().order;
    scene.stored(&feed, order);
    let call = start.await.unwrap().unwrap();
    let journal = scene.journal.clone();
    let end = tokio::spawn(async move { journal.record_end(&change(&request()), call, Some(b"")).await });
    let batch = feed.next().await.unwrap();
    assert_eq!(batch.entries[0].stage, crate::journal::ChangeStage::Done);
    assert!(!end.is_finished());
    scene.stored(&feed, batch.order);
    end.await.unwrap().unwrap();
    scene.journal.drop_calls(BTreeSet::from([call])).await.unwrap();
    assert_eq!(feed.next().await.unwrap().dropped, BTreeSet::from([call]));
}

#[tokio::test(start_paused = true)]
async fn a_follower_that_does_not_answer_is_waited_for_once_until_it_answers_again() {
    let scene = Scene::new();
    let mut feed = scene.follow().await;
    let begun = tokio::time::Instant::now();
    scene.start().await.unwrap().unwrap();
    assert_eq!((begun.elapsed(), scene.counters.counts().not_replicated), (PATIENCE, 1));
    let begun = tokio::time::Instant::now();
    scene.start().await.unwrap().unwrap();
    assert_eq!((begun.elapsed(), scene.counters.counts().not_replicated), (Duration::ZERO, 2));
    // It catches up with both, and changes wait for it again.
    let late = feed.next().await.unwrap();
    assert_eq!(late.entries.len(), 2);
    scene.stored(&feed, late.order);
    let third = scene.start();
    let order = feed.next().await.unwrap().order;
    assert!(!third.is_finished());
    scene.stored(&feed, order);
    third.await.unwrap().unwrap();
    assert_eq!(scene.counters.counts().not_replicated, 2);
}

#[tokio::test]
async fn a_failure_and_the_end_of_a_follower_release_the_changes_that_wait() {
    let scene = Scene::new();
    let mut feed = scene.follow().await;
    let failed = scene.start();
    feed.next().await.unwrap();
    let reason = "too large".to_owned();
    scene.journal.record_receipt(WORKSPACE, &feed, JournalReceipt::Failed { reason });
    failed.await.unwrap().unwrap();
    let mut feed = scene.follow().await;
    let left = scene.start();
    feed.next().await.unwrap();
    scene.until_waiting().await;
    scene.journal.unfollow(WORKSPACE, &feed);
    left.await.unwrap().unwrap();
    // Nobody follows, and nobody was asked to.
    scene.start().await.unwrap().unwrap();
    assert_eq!(scene.counters.counts().not_replicated, 2);
}

#[tokio::test]
async fn a_follower_that_a_run_expects_is_waited_for() {
    let scene = Scene::new();
    scene.journal.expect_follower(WORKSPACE, true);
    let start = scene.start();
    scene.until_written(1).await;
    let mut feed = scene.journal.follow(WORKSPACE).await.unwrap();
    let all = feed.next().await.unwrap();
    assert_eq!((all.is_complete, all.entries.len()), (true, 1));
    assert!(!start.is_finished());
    scene.stored(&feed, all.order);
    start.await.unwrap().unwrap();
    scene.journal.unfollow(WORKSPACE, &feed);
    // The next run is one of the command line.
    scene.journal.expect_follower(WORKSPACE, false);
    scene.start().await.unwrap().unwrap();
    assert_eq!(scene.counters.counts().not_replicated, 0);
}

#[tokio::test]
async fn under_a_newer_leader_no_change_begins_and_those_that_began_are_finished() {
    let scene = Scene::new();
    let mut feed = scene.follow().await;
    let begun = scene.start();
    let order = feed.next().await.unwrap().order;
    scene.stored(&feed, order);
    let begun = begun.await.unwrap().unwrap();
    let refused = scene.start();
    feed.next().await.unwrap();
    let reason = "fencing token 9".to_owned();
    scene.journal.record_receipt(WORKSPACE, &feed, JournalReceipt::Superseded { reason });
    let error = refused.await.unwrap().unwrap_err();
    assert!(error.contains("default/x has a newer leader: fencing token 9"), "{error}");
    assert_eq!(scene.entries().iter().map(|entry| entry.call).collect::<Vec<_>>(), [begun]);
    scene.journal.record_end(&change(&request()), begun, Some(b"")).await.unwrap();
    assert_eq!(scene.entries().len(), 2);
    assert_eq!(scene.journal.in_flight(WORKSPACE), []);
}

#[tokio::test]
async fn imports_of_resources_are_not_replicated() {
    let scene = Scene::new();
    let _feed = scene.follow().await;
    let request = request();
    let import = ChangeCall { method: "ImportResourceState", ..change(&request) };
    scene.journal.record_start(&import).await.unwrap();
}
