use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use embedded_kube::faults::Fault;
use k8s_openapi::api::coordination::v1::Lease;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::World;
use crate::k8s::{Candidate, Ended, Fence, Kube, lead, leader::LEASE};

fn candidate(host: &str) -> Candidate {
    Candidate::new("shop", host).lasting(Duration::from_secs(2))
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
        tokio::spawn(candidacy(world.kube.clone(), host, stop.clone(), (told.clone(), Arc::clone(&leaders))))
    };
    let tasks = [start("a", &stops[0]), start("b", &stops[1])];
    let (first, fence) = heard.recv().await.unwrap();
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert!(heard.try_recv().is_err());

    let (winner, loser) = if first == "a" { (0, 1) } else { (1, 0) };
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
    let stop = CancellationToken::new();
    let began = Instant::now();
    let ended = lead(&world.kube, &candidate("a"), &stop, |_fence| async {
        world.server.faults().add(Fault::fail(|call| call.is_on("leases.coordination.k8s.io"), 500));
        std::future::pending::<()>().await;
    })
    .await;
    assert_eq!(ended, Ended::Lost);
    assert!(began.elapsed() < Duration::from_secs(2), "{:?}", began.elapsed());
}

#[tokio::test]
async fn whoever_is_told_to_stop_while_waiting_never_leads() {
    let world = World::start().await;
    let (stop, wish) = (CancellationToken::new(), CancellationToken::new());
    let (a, b) = (candidate("a"), candidate("b"));
    let held = lead(&world.kube, &a, &stop, async |_fence| {
        let later = async {
            tokio::time::sleep(Duration::from_millis(300)).await;
            wish.cancel();
        };
        let waits = lead(&world.kube, &b, &wish, async |_fence| unreachable!("two lead"));
        tokio::join!(waits, later).0
    });
    assert_eq!(held.await, Ended::Done(Ended::<()>::Stopped));
}
