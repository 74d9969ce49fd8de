use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use embedded_kube::{
    auth,
    faults::{Call, Fault, Logged},
};
use k8s_openapi::api::coordination::v1::Lease;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::{PATIENCE, World};
use crate::k8s::{Candidate, Ended, Fence, Kube, lead, leader::LEASE};

fn candidate(host: &str) -> Candidate {
    Candidate::new("shop", host).lasting(Duration::from_secs(10))
}

impl World {
    /// The way of one of several candidates, by which its requests are known.
    fn way_of(&self, host: &str) -> Kube {
        Kube::new(self.server.client_of(auth::admin(), host)).with_deadline(PATIENCE)
    }

    /// Waits until a candidate has asked for the Lease once more.
    async fn until_asked_by(&self, host: &str) {
        let asked = || {
            let is = |it: &Logged| it.agent == host && it.resource == "leases";
            self.server.requests().matching(is).len()
        };
        let before = asked();
        self.until(async || (asked() > before).then_some(())).await;
    }
}

/// Leads until told to stop, and tells that it does.
async fn candidacy(
    kube: Kube,
    host: &'static str,
    stop: CancellationToken,
    (told, leaders): (mpsc::UnboundedSender<(&'static str, Fence)>, Arc<AtomicUsize>),
) -> Ended<()> {
    lead(&kube, &candidate(host), &stop, |fence| {
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
        assert_eq!(task.await.unwrap(), Ended::Done(()));
    }
    let lease: Lease = world.kube.get(Some("shop"), LEASE).await.unwrap().unwrap();
    assert_eq!(lease.spec.unwrap().holder_identity.unwrap_or_default(), "", "it was not released");
}

#[tokio::test]
async fn a_leader_that_cannot_renew_ends_before_the_next_may_lead() {
    let world = World::start().await;
    let (stop, lost) = (CancellationToken::new(), CancellationToken::new());
    let lease = Duration::from_secs(3);
    let (a, b) = (candidate("a").lasting(lease), candidate("b").lasting(lease));
    let (way_of_a, way_of_b) = (world.way_of("a"), world.way_of("b"));
    let leads = CancellationToken::new();
    let first = async {
        let ended = lead(&way_of_a, &a, &stop, |_fence| async {
            let is_its = |call: &Call| call.agent == "a" && call.is_on("leases.coordination.k8s.io");
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
        lead(&way_of_b, &b, &stop, |_fence| async { lost.is_cancelled() }).await
    };
    assert_eq!(tokio::join!(first, next), (Ended::Lost, Ended::Done(true)), "two led at once");
}

#[tokio::test]
async fn whoever_is_told_to_stop_while_waiting_never_leads() {
    let world = World::start().await;
    let (stop, wish) = (CancellationToken::new(), CancellationToken::new());
    let (a, b) = (candidate("a"), candidate("b"));
    let held = lead(&world.kube, &a, &stop, async |_fence| {
        let later = async {
            world.until_asked_by("b").await;
            wish.cancel();
        };
        let way = world.way_of("b");
        let waits = lead(&way, &b, &wish, async |_fence| unreachable!("two lead"));
        tokio::join!(waits, later).0
    });
    assert_eq!(held.await, Ended::Done(Ended::<()>::Stopped));
}
