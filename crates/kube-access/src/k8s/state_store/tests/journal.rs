//! The replicated journal: who may write it, and what becomes of it.

use super::*;

impl Scene {
    fn journal(&self, fence: u64) -> super::super::KubeJournal {
        self.vault.journal(&self.home, FencingToken(fence))
    }

    async fn journal_secret(&self) -> Secret {
        self.world.kube.get(Some("shop"), "capt-journal-shop-vpc").await.unwrap().unwrap()
    }
}

#[tokio::test]
async fn entries_come_back_and_each_save_is_one_write() {
    let scene = Scene::start().await;
    let journal = scene.journal(1);
    assert_eq!(journal.save(b"unread").await.unwrap_err().category(), "JournalChanged");
    assert_eq!(journal.claim().await.unwrap(), None);
    journal.save(b"one").await.unwrap();
    scene.world.writes();
    for text in ["two", "three"] {
        journal.save(text.as_bytes()).await.unwrap();
    }
    assert_eq!(scene.world.writes(), 2);
    assert_eq!(scene.journal(2).claim().await.unwrap().as_deref(), Some(&b"three"[..]));
    let secret = scene.journal_secret().await;
    assert_eq!(secret.finalizers(), [IN_USE_FINALIZER]);
    assert_eq!(secret.owner_references(), [scene.home.owner.clone().unwrap()]);
    assert_eq!(secret.labels()[CLUSTER_NAME_LABEL], "shop");
}

/// H7: whoever lost the lease.
#[tokio::test]
async fn h7_a_former_leader_neither_overwrites_nor_claims_the_journal_of_a_newer_one() {
    let scene = Scene::start().await;
    let (former, newer) = (scene.journal(1), scene.journal(2));
    former.claim().await.unwrap();
    former.save(b"former").await.unwrap();
    assert_eq!(newer.claim().await.unwrap().as_deref(), Some(&b"former"[..]));
    assert_eq!(former.save(b"late").await.unwrap_err().category(), "JournalChanged");
    assert_eq!(former.claim().await.unwrap_err().category(), "Fenced");
    assert_eq!(former.save(b"late").await.unwrap_err().category(), "JournalChanged");
    newer.save(b"newer").await.unwrap();
    assert_eq!(scene.journal(3).claim().await.unwrap().as_deref(), Some(&b"newer"[..]));
}

#[tokio::test]
async fn two_leaders_that_both_create_the_journal_end_with_the_newer_one() {
    let scene = Scene::start().await;
    let (former, newer) = (scene.journal(1), scene.journal(2));
    former.claim().await.unwrap();
    newer.claim().await.unwrap();
    newer.save(b"newer").await.unwrap();
    assert_eq!(former.save(b"former").await.unwrap_err().category(), "JournalChanged");
    assert_eq!(former.claim().await.unwrap_err().category(), "Fenced");
    // The other way round the newer one reads what the former one has written before it writes.
    let scene = Scene::start().await;
    let (former, newer) = (scene.journal(1), scene.journal(2));
    newer.claim().await.unwrap();
    former.claim().await.unwrap();
    former.save(b"former").await.unwrap();
    assert_eq!(newer.save(b"newer").await.unwrap_err().category(), "JournalChanged");
    assert_eq!(newer.claim().await.unwrap().as_deref(), Some(&b"former"[..]));
    newer.save(b"newer").await.unwrap();
}

#[tokio::test]
async fn a_save_whose_answer_is_lost_is_read_before_the_next_one() {
    let scene = Scene::start().await;
    let journal = scene.journal(1);
    journal.claim().await.unwrap();
    journal.save(b"one").await.unwrap();
    let fault = Fault::fail(|call| call.targets("secrets") && call.is_write(), 500).nth(1);
    let id = scene.world.server.faults().add(fault);
    journal.save(b"two").await.unwrap_err();
    scene.world.server.faults().remove(id);
    assert_eq!(journal.save(b"three").await.unwrap_err().category(), "JournalChanged");
    journal.claim().await.unwrap();
    journal.save(b"three").await.unwrap();
    assert_eq!(journal.claim().await.unwrap().as_deref(), Some(&b"three"[..]));
}

#[tokio::test]
async fn a_journal_that_does_not_fit_is_refused_and_the_last_one_stays() {
    let scene = Scene::start().await;
    let journal = scene.journal(1);
    journal.claim().await.unwrap();
    journal.save(b"small").await.unwrap();
    let error = journal.save(noise(1_300_000, 1).as_bytes()).await.unwrap_err();
    assert_eq!(error.category(), "JournalTooLarge");
    assert_eq!(journal.claim().await.unwrap().as_deref(), Some(&b"small"[..]));
}

#[tokio::test]
async fn the_journal_is_released_with_the_state_and_alone_it_is_no_state() {
    let scene = Scene::start().await;
    let journal = scene.journal(1);
    journal.claim().await.unwrap();
    journal.save(b"entries").await.unwrap();
    assert_eq!(scene.load().await, None);
    scene.save(&only_state(state("abc", 1, "vpc-1")), ONE).await.unwrap();
    assert_eq!(scene.vault.release("shop", "shop-vpc").await.unwrap(), 6);
    assert!(scene.secrets().await.is_empty());
}
