//! Killed, cut off, or not alone: at every write.

use std::time::Duration;

use embedded_kube::{
    auth,
    faults::{Call, Effect, Fault},
};

use super::{
    super::super::{Kube, tests::AGENT},
    *,
};

/// Saves with a fault at the nth write, for every n: what is loaded afterwards is the old copy or the new one, and the next
/// save makes it the new one.
async fn survive(effect: impl Fn() -> Effect) {
    let mut tried = 0;
    for nth in 1.. {
        let scene = Scene::start().await.with_small_pages();
        let old = Deposit { state: Some(state("abc", 1, &noise(15_000, 1))), bundle: Some(b"old".to_vec()) };
        let new = Deposit { state: Some(state("abc", 2, &noise(30_000, 2))), bundle: Some(b"new".to_vec()) };
        scene.save(&old, ONE).await.unwrap();
        let fault = Fault::new(|call| call.is_on("secrets") && call.is_write(), effect()).nth(nth);
        let id = scene.world.server.faults().add(fault);
        let saved = scene.save(&new, Fence(2)).await;
        let acted = scene.world.server.faults().remove(id);
        let loaded = scene.load().await.unwrap();
        assert!(loaded.deposit == old || loaded.deposit == new, "write {nth}: neither the old nor the new");
        assert!(!loaded.is_fallback);
        if saved.is_ok() {
            assert!(loaded.deposit == new, "write {nth}: saved, but not there");
        }
        let again = scene.save(&new, Fence(2)).await.unwrap();
        assert!(matches!(again, Saved::Written | Saved::Unchanged));
        assert!(scene.load().await.unwrap().deposit == new, "write {nth}: the next save did not help");
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
    survive(|| Effect::Fail(embedded_kube::failure::Failure::new(500, "InternalError", "injected", None)))
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
        let deposit = Deposit { state: Some(state("abc", 1, "vpc-1")), bundle: Some(b"b".to_vec()) };
        let fault = Fault::new(|call| call.is_on("secrets") && call.is_write(), Effect::DropAfter).nth(nth);
        let id = scene.world.server.faults().add(fault);
        let first = scene.save(&deposit, ONE).await;
        let acted = scene.world.server.faults().remove(id);
        let loaded = scene.load().await;
        assert!(loaded.is_none() || loaded.unwrap().deposit == deposit, "write {nth}");
        scene.save(&deposit, ONE).await.unwrap();
        assert!(scene.load().await.unwrap().deposit == deposit, "write {nth}");
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
    scene.save(&only_state(state("abc", 2, "vpc-2")), Fence(3)).await.unwrap();
    scene.world.writes();
    let error = scene.save(&only_state(state("abc", 3, "vpc-3")), Fence(2)).await.unwrap_err();
    assert!(matches!(error, VaultError::Fenced { ours: Fence(2), theirs: Fence(3), .. }), "{error}");
    assert_eq!((error.class(), scene.world.writes()), (Class::Terminal, 0));
    assert_eq!(scene.load().await.unwrap().version.unwrap().serial, 2);
}

/// Two leaders save at once. The old one is held up at its nth write until the new one has begun, and the new one is held up
/// at its own nth write until the old one has gone on.
async fn duel(old_waits_at: u64, new_waits_at: u64) {
    let round = format!("old waits at write {old_waits_at}, new at {new_waits_at}");
    let scene = Scene::start().await.with_small_pages();
    scene.save(&only_state(state("abc", 1, &noise(15_000, 1))), ONE).await.unwrap();
    let faults = scene.world.server.faults();
    let hold = |agent: &'static str, nth, millis| {
        let picks = move |call: &Call| call.agent == agent && call.is_write();
        faults.add(Fault::new(picks, Effect::Delay(Duration::from_millis(millis))).nth(nth))
    };
    let first = hold("late", old_waits_at, 300);
    hold(AGENT, new_waits_at, 700);

    let late = small_pages(Kube::new(scene.world.server.client_of(auth::admin(), "late")));
    let theirs = only_state(state("abc", 3, &noise(15_000, 3)));
    let ours = only_state(state("abc", 2, &noise(15_000, 2)));
    let new = async {
        scene.world.until(async || (faults.acted(first) > 0).then_some(())).await;
        scene.save(&ours, Fence(2)).await
    };
    let (old, new) = tokio::join!(late.save(&scene.home, &theirs, ONE), new);
    let loaded = scene.load().await.unwrap();
    assert!(!loaded.is_fallback, "{round}: the true copy is damaged");
    match old {
        // It was done before the new one claimed the state, and is the newer one.
        Ok(_) => {
            assert!(loaded.deposit == theirs && matches!(new, Ok(Saved::Older { .. })), "{round}: {new:?}");
        }
        Err(error) => {
            assert_eq!(error.category(), "Fenced", "{round}: {error}");
            assert!(loaded.deposit == ours, "{round}");
        }
    }
}

#[tokio::test]
async fn two_leaders_at_once_never_mix_their_pages() {
    // The old one writes two pages and the commit; the new one claims it first.
    for old_waits_at in 1..=3 {
        for new_waits_at in 1..=4 {
            duel(old_waits_at, new_waits_at).await;
        }
    }
}
