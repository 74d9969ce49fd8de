use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use embedded_kube::{
    auth,
    fault_injection::{ApiCall, Fault, RequestRecord},
};
use k8s_openapi::api::coordination::v1::Lease;
use lease_deadline::{LeaseFile, LeaseRecord};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::{PATIENCE, World};
use crate::k8s::{
    DeletionPropagation, FencingToken, KubeClient, LeaderCandidate, LeadershipEnd, leader::LEASE_NAME,
    run_as_leader,
};

fn candidate(host: &str) -> LeaderCandidate {
    LeaderCandidate::new("shop", host).with_duration(Duration::from_secs(10))
}

impl World {
    /// The way of one of several candidates, by which its requests are known.
    fn way_of(&self, host: &str) -> KubeClient {
        KubeClient::new(self.server.client_with_agent(auth::admin(), host)).with_deadline(PATIENCE)
    }

    /// Waits until a candidate has asked for the Lease once more.
    async fn until_asked_by(&self, host: &str) {
        let asked = || {
            let is = |it: &RequestRecord| it.agent == host && it.resource == "leases";
            self.server.request_log().matching(is).len()
        };
        let before = asked();
        self.until(async || (asked() > before).then_some(())).await;
    }
}

/// Leads until told to stop, and tells that it does.
async fn candidacy(
    kube: KubeClient,
    host: &'static str,
    stop: CancellationToken,
    (told, leaders): (mpsc::UnboundedSender<(&'static str, FencingToken)>, Arc<AtomicUsize>),
) -> LeadershipEnd<()> {
    run_as_leader(&kube, &candidate(host), &stop, |fence| {
        let stop = stop.clone();
        async move {
            assert_eq!(leaders.fetch_add(1, Ordering::SeqCst), 0, "two lead");
            told.send((host, fence)).unwrap();
            stop.cancelled().await;
            leaders.fetch_sub(1, Ordering::SeqCst);
        }
    })
    .await
}

#[tokio::test]
async fn one_of_two_leads_and_the_other_follows_with_a_higher_number() {
    let world = World::start().await;
    let (told, mut heard) = mpsc::unbounded_channel();
    let leaders = Arc::new(AtomicUsize::new(0));
    let stops = [CancellationToken::new(), CancellationToken::new()];
    let start = |host, stop: &CancellationToken| {
        tokio::spawn(candidacy(world.way_of(host), host, stop.clone(), (told.clone(), Arc::clone(&leaders))))
    };
    let tasks = [start("a", &stops[0]), start("b", &stops[1])];
    let (first, fence) = heard.recv().await.unwrap();
    let (winner, loser) = if first == "a" { (0, 1) } else { (1, 0) };
    // What the other one was answered before is known to it when it asks again.
    world.until_asked_by(["a", "b"][loser]).await;
    world.until_asked_by(["a", "b"][loser]).await;
    assert!(heard.try_recv().is_err());
    stops[winner].cancel();
    let (second, higher) = heard.recv().await.unwrap();
    assert_ne!(first, second);
    assert!(higher > fence, "{higher} after {fence}");
    stops[loser].cancel();
    for task in tasks {
        assert_eq!(task.await.unwrap(), LeadershipEnd::Done(()));
    }
    let lease: Lease = world.kube.get(Some("shop"), LEASE_NAME).await.unwrap().unwrap();
    assert_eq!(lease.spec.unwrap().holder_identity.unwrap_or_default(), "", "it was not released");
}

#[tokio::test]
async fn a_leader_that_cannot_renew_ends_before_the_next_may_lead() {
    let world = World::start().await;
    let (stop, lost) = (CancellationToken::new(), CancellationToken::new());
    let lease = Duration::from_secs(3);
    let (a, b) = (candidate("a").with_duration(lease), candidate("b").with_duration(lease));
    let (way_of_a, way_of_b) = (world.way_of("a"), world.way_of("b"));
    let leads = CancellationToken::new();
    let first = async {
        let ended = run_as_leader(&way_of_a, &a, &stop, |_fence| async {
            let is_its = |call: &ApiCall| call.agent == "a" && call.targets("leases.coordination.k8s.io");
            world.server.faults().add(Fault::fail(is_its, 500));
            leads.cancel();
            std::future::pending::<()>().await;
        })
        .await;
        lost.cancel();
        ended
    };
    let next = async {
        leads.cancelled().await;
        run_as_leader(&way_of_b, &b, &stop, |_fence| async { lost.is_cancelled() }).await
    };
    assert_eq!(
        tokio::join!(first, next),
        (LeadershipEnd::Lost, LeadershipEnd::Done(true)),
        "two led at once"
    );
}

#[tokio::test]
async fn whoever_is_told_to_stop_while_waiting_never_leads() {
    let world = World::start().await;
    let (stop, wish) = (CancellationToken::new(), CancellationToken::new());
    let (a, b) = (candidate("a"), candidate("b"));
    let held = run_as_leader(&world.kube, &a, &stop, async |_fence| {
        let later = async {
            world.until_asked_by("b").await;
            wish.cancel();
        };
        let way = world.way_of("b");
        let waits = run_as_leader(&way, &b, &wish, async |_fence| unreachable!("two lead"));
        tokio::join!(waits, later).0
    });
    assert_eq!(held.await, LeadershipEnd::Done(LeadershipEnd::<()>::Stopped));
}

/// A data directory, and the record in it.
fn data_directory() -> (tempfile::TempDir, LeaseFile) {
    let dir = tempfile::tempdir().unwrap();
    let file = LeaseFile::in_data_directory(dir.path());
    (dir, file)
}

fn recorded(file: &LeaseFile) -> LeaseRecord {
    file.read().unwrap().expect("the deadline is recorded before the work begins, and until it ends")
}

#[tokio::test]
async fn h7_each_renewal_extends_the_deadline_and_a_lost_api_server_does_not() {
    let world = World::start().await;
    let (dir, file) = data_directory();
    let a = LeaderCandidate::new("shop", "a").with_data_directory(dir.path());
    let stop = CancellationToken::new();
    let way = world.way_of("a");
    let ended = run_as_leader(&way, &a, &stop, async |fence| {
        a.run_lease(fence).unwrap().check().unwrap();
        for _ in 0..2 {
            let before = recorded(&file);
            assert_eq!((before.fence, before.holder.as_str()), (fence.0, a.identity()));
            let extended = async || (recorded(&file).deadline_ms > before.deadline_ms).then_some(());
            world.until(extended).await;
        }
        let is_its = |call: &ApiCall| call.agent == "a" && call.targets("leases.coordination.k8s.io");
        world.server.faults().add(Fault::fail(is_its, 500));
        // A renewal may have been under way.
        world.until_asked_by("a").await;
        world.until_asked_by("a").await;
        let last = recorded(&file);
        world.until_asked_by("a").await;
        assert_eq!(recorded(&file), last);
    });
    assert_eq!(ended.await, LeadershipEnd::Done(()));
    assert_eq!(file.read().unwrap(), None, "whoever gives the Lease up begins nothing any more");
}

#[tokio::test]
async fn h7_a_leader_whose_lease_is_deleted_or_taken_begins_nothing_any_more() {
    let world = World::start().await;
    let (dir, file) = data_directory();
    let a = LeaderCandidate::new("shop", "a").with_data_directory(dir.path());
    let stop = CancellationToken::new();
    let ended = run_as_leader(&world.kube, &a, &stop, async |_fence| {
        let lease: Lease = world.kube.get(Some("shop"), LEASE_NAME).await.unwrap().unwrap();
        world.kube.delete(&lease, DeletionPropagation::Background).await.unwrap();
        std::future::pending::<()>().await;
    });
    assert_eq!(ended.await, LeadershipEnd::Lost);
    assert_eq!(file.read().unwrap(), None);
}

#[tokio::test]
async fn h7_the_next_process_on_a_data_directory_continues_the_leadership_of_a_killed_one() {
    let world = World::start().await;
    let (dir, file) = data_directory();
    let stop = CancellationToken::new();
    let (told, mut heard) = mpsc::unbounded_channel();
    let killed = tokio::spawn({
        let (kube, a) =
            (world.way_of("a"), LeaderCandidate::new("shop", "a").with_data_directory(dir.path()));
        async move {
            run_as_leader(&kube, &a, &CancellationToken::new(), |fence| {
                told.send(fence).unwrap();
                std::future::pending::<()>()
            })
            .await
        }
    });
    let fence = heard.recv().await.unwrap();
    killed.abort();
    assert!(killed.await.unwrap_err().is_cancelled());
    // A run that the first one started, as the gateway and its shim see it.
    let run = LeaderCandidate::new("shop", "a").with_data_directory(dir.path()).run_lease(fence).unwrap();
    let again = LeaderCandidate::new("shop", "a").with_data_directory(dir.path());
    let ended = run_as_leader(&world.kube, &again, &stop, async |continued| {
        assert_eq!(recorded(&file).holder, again.identity());
        run.check().unwrap();
        continued
    });
    assert_eq!(ended.await, LeadershipEnd::Done(fence), "it is the same leadership");
    // It was released, so the next one is another: a run of the first must not go on beside it.
    let next = LeaderCandidate::new("shop", "a").with_data_directory(dir.path());
    let ended = run_as_leader(&world.kube, &next, &stop, async |later| {
        assert!(run.check().unwrap_err().to_string().contains("another operator has led"));
        later > fence
    });
    assert_eq!(ended.await, LeadershipEnd::Done(true));
}
