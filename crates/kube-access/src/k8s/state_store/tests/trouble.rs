//! Killed, cut off, or not alone: at every write.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use embedded_kube::{
    auth,
    fault_injection::{Effect, Fault},
};
use kube::client::Body;
use tokio_util::sync::CancellationToken;

use super::{
    super::super::{
        KubeClient,
        tests::{AGENT, PATIENCE},
    },
    *,
};

/// Saves with a fault at the nth write, for every n: what is loaded afterwards is the old copy or the new one, and the next
/// save makes it the new one.
async fn survive(effect: impl Fn() -> Effect) {
    let mut tried = 0;
    for nth in 1.. {
        let scene = Scene::start().await.with_small_pages();
        let old = WorkspaceBackup {
            state: Some(state("abc", 1, &noise(15_000, 1))),
            bundle: Some(b"old".to_vec()),
            edits: 0,
        };
        let new = WorkspaceBackup {
            state: Some(state("abc", 2, &noise(30_000, 2))),
            bundle: Some(b"new".to_vec()),
            edits: 0,
        };
        scene.save(&old, ONE).await.unwrap();
        let fault = Fault::new(|call| call.targets("secrets") && call.is_write(), effect()).nth(nth);
        let id = scene.world.server.faults().add(fault);
        let saved = scene.save(&new, FencingToken(2)).await;
        let acted = scene.world.server.faults().remove(id);
        let loaded = scene.load().await.unwrap();
        assert!(loaded.payload == old || loaded.payload == new, "write {nth}: neither the old nor the new");
        assert!(!loaded.is_fallback);
        if saved.is_ok() {
            assert!(loaded.payload == new, "write {nth}: saved, but not there");
        }
        let again = scene.save(&new, FencingToken(2)).await.unwrap();
        assert!(matches!(again, SaveOutcome::Written | SaveOutcome::Unchanged));
        assert!(scene.load().await.unwrap().payload == new, "write {nth}: the next save did not help");
        if acted == 0 {
            break;
        }
        tried = nth;
    }
    // The claim, a third page in two slots, four pages, the commit.
    assert_eq!(tried, 8);
}

#[tokio::test]
async fn a_save_that_fails_at_any_write_leaves_the_old_copy_or_the_new() {
    survive(|| {
        Effect::Fail(embedded_kube::status_error::StatusError::new(500, "InternalError", "injected", None))
    })
    .await;
}

#[tokio::test]
async fn a_save_whose_answer_is_lost_at_any_write_leaves_the_old_copy_or_the_new() {
    survive(|| Effect::DropAfter).await;
}

#[tokio::test]
async fn a_first_save_that_fails_at_any_write_can_be_repeated() {
    for nth in 1.. {
        let scene = Scene::start().await;
        let deposit =
            WorkspaceBackup { state: Some(state("abc", 1, "vpc-1")), bundle: Some(b"b".to_vec()), edits: 0 };
        let fault = Fault::new(|call| call.targets("secrets") && call.is_write(), Effect::DropAfter).nth(nth);
        let id = scene.world.server.faults().add(fault);
        let first = scene.save(&deposit, ONE).await;
        let acted = scene.world.server.faults().remove(id);
        let loaded = scene.load().await;
        assert!(loaded.is_none() || loaded.unwrap().payload == deposit, "write {nth}");
        scene.save(&deposit, ONE).await.unwrap();
        assert!(scene.load().await.unwrap().payload == deposit, "write {nth}");
        if acted == 0 {
            first.unwrap();
            assert!(nth > 8);
            break;
        }
    }
}

#[tokio::test]
async fn a_leader_of_the_past_writes_nothing() {
    let scene = Scene::start().await;
    scene.save(&only_state(state("abc", 1, "vpc-1")), ONE).await.unwrap();
    scene.save(&only_state(state("abc", 2, "vpc-2")), FencingToken(3)).await.unwrap();
    scene.world.writes();
    let error = scene.save(&only_state(state("abc", 3, "vpc-3")), FencingToken(2)).await.unwrap_err();
    assert!(
        matches!(error, StateStoreError::Fenced { ours: FencingToken(2), theirs: FencingToken(3), .. }),
        "{error}"
    );
    assert_eq!((error.class(), scene.world.writes()), (ErrorClass::Terminal, 0));
    assert_eq!(scene.load().await.unwrap().version.unwrap().serial, 2);
}

/// A way to the API server that tells when its nth write is due, and waits with it until it may go on.
fn held(inner: kube::Client, nth: u64, due: CancellationToken, go_on: CancellationToken) -> KubeClient {
    let writes = Arc::new(AtomicU64::new(0));
    let service = tower::service_fn(move |request: http::Request<Body>| {
        let is_write = request.method() != http::Method::GET;
        let is_it = is_write && writes.fetch_add(1, Ordering::SeqCst) + 1 == nth;
        let (inner, due, go_on) = (inner.clone(), due.clone(), go_on.clone());
        async move {
            if is_it {
                due.cancel();
                go_on.cancelled().await;
            }
            inner.send(request).await
        }
    });
    KubeClient::new(kube::Client::new(service, "default")).with_deadline(PATIENCE)
}

/// Two leaders save at once. The old one is held up at its nth write until the new one is at its own nth write, or done; that
/// one goes on when the old one is done.
async fn duel(old_waits_at: u64, new_waits_at: u64) {
    let round = format!("old waits at write {old_waits_at}, new at {new_waits_at}");
    let scene = Scene::start().await.with_small_pages();
    scene.save(&only_state(state("abc", 1, &noise(15_000, 1))), ONE).await.unwrap();
    let way = |agent: &str| scene.world.server.client_with_agent(auth::admin(), agent);
    let [old_waits, new_waits, old_done] = [(); 3].map(|()| CancellationToken::new());
    let late = small_pages(held(way("late"), old_waits_at, old_waits.clone(), new_waits.clone()));
    let next = small_pages(held(way(AGENT), new_waits_at, new_waits.clone(), old_done.clone()));
    let theirs = only_state(state("abc", 3, &noise(15_000, 3)));
    let ours = only_state(state("abc", 2, &noise(15_000, 2)));
    let old = async {
        let saved = late.save(&scene.home, &theirs, ONE).await;
        old_done.cancel();
        saved
    };
    let new = async {
        old_waits.cancelled().await;
        let saved = next.save(&scene.home, &ours, FencingToken(2)).await;
        new_waits.cancel();
        saved
    };
    let (old, new) = tokio::join!(old, new);
    let loaded = scene.load().await.unwrap();
    assert!(!loaded.is_fallback, "{round}: the true copy is damaged");
    match old {
        // It was done before the new one claimed the state, and is the newer one.
        Ok(_) => {
            assert!(
                loaded.payload == theirs && matches!(new, Ok(SaveOutcome::Older { .. })),
                "{round}: {new:?}"
            );
        }
        Err(error) => {
            assert_eq!(error.category(), "Fenced", "{round}: {error}");
            assert!(loaded.payload == ours, "{round}");
        }
    }
}

#[tokio::test]
async fn two_leaders_at_once_never_mix_their_pages() {
    // The old one writes two pages and the commit; the new one claims it first.
    for old_waits_at in 1..=3 {
        for new_waits_at in 1..=4 {
            Box::pin(duel(old_waits_at, new_waits_at)).await;
        }
    }
}
