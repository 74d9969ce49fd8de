//! States that a person puts in the place of the stored one.

use embedded_kube::fault_injection::{Effect, Fault};

use super::*;

impl Scene {
    async fn inspect(&self) -> StoredWorkspace {
        self.vault.inspect("shop", "shop-vpc").await.unwrap().unwrap()
    }

    async fn contents(&self, place: StoredPlace) -> Vec<Vec<u8>> {
        let stored = self.inspect().await;
        let mut found = Vec::new();
        for version in stored.versions.iter().filter(|it| it.place == place) {
            found.push(self.vault.read(&stored, version).await.unwrap());
        }
        found
    }
}

fn edited(bytes: &[u8], edits: u64) -> WorkspaceBackup {
    WorkspaceBackup { state: Some(bytes.to_vec()), bundle: None, edits }
}

#[tokio::test]
async fn a_state_of_any_history_can_be_put_in_place_and_the_replaced_one_stays_readable() {
    let scene = Scene::start().await;
    let (first, second) = (state("abc", 1, "vpc-1"), state("abc", 2, "vpc-2"));
    scene.save(&only_state(first.clone()), ONE).await.unwrap();
    scene.save(&only_state(second.clone()), ONE).await.unwrap();
    let chosen = state("xyz", 1, "vpc-x");
    scene.vault.replace(&scene.inspect().await, &chosen).await.unwrap();
    let loaded = scene.load().await.unwrap();
    assert_eq!((loaded.payload.state, loaded.payload.edits), (Some(chosen.clone()), 1));
    assert_eq!(scene.vault.edits("shop", "shop-vpc").await.unwrap(), 1);
    assert_eq!(scene.contents(StoredPlace::Replaced).await, std::slice::from_ref(&second));
    // Saves go on from there, and do not overwrite what was replaced.
    for serial in 2..=4 {
        let next = state("xyz", serial, &format!("vpc-{serial}"));
        assert_eq!(scene.save(&edited(&next, 1), ONE).await.unwrap(), SaveOutcome::Written);
    }
    assert_eq!(scene.contents(StoredPlace::Replaced).await, std::slice::from_ref(&second));
    let stored = scene.inspect().await;
    let current = stored.current().unwrap();
    assert_eq!((current.version.serial, current.resources), (4, Some(1)));
    assert!(current.written.is_some());
    // A second edit keeps both.
    scene.vault.replace(&stored, &first).await.unwrap();
    assert_eq!(scene.contents(StoredPlace::Replaced).await, [state("xyz", 4, "vpc-4"), second]);
    assert_eq!(scene.contents(StoredPlace::Current).await, [first]);
    assert!(scene.vault.release("shop", "shop-vpc").await.unwrap() > 5);
    assert!(scene.secrets().await.is_empty(), "a release takes the replaced ones too");
}

#[tokio::test]
async fn a_run_that_does_not_know_of_an_edit_cannot_save_over_it() {
    let scene = Scene::start().await;
    scene.save(&only_state(state("abc", 1, "vpc-1")), ONE).await.unwrap();
    scene.vault.replace(&scene.inspect().await, &state("abc", 2, "pushed")).await.unwrap();
    for fence in [ONE, FencingToken(2)] {
        let error = scene.save(&edited(&state("abc", 9, "run"), 0), fence).await.unwrap_err();
        assert_eq!((error.class(), error.category()), (ErrorClass::Terminal, "ReplacedByHand"), "{error}");
    }
    assert_eq!(scene.contents(StoredPlace::Current).await, [state("abc", 2, "pushed")]);
    let saved = scene.save(&edited(&state("abc", 3, "run"), 1), FencingToken(2)).await.unwrap();
    assert_eq!(saved, SaveOutcome::Written);
}

#[tokio::test]
async fn an_edit_of_what_changed_meanwhile_is_refused() {
    let scene = Scene::start().await;
    scene.save(&only_state(state("abc", 1, "vpc-1")), ONE).await.unwrap();
    let seen = scene.inspect().await;
    scene.save(&only_state(state("abc", 2, "vpc-2")), ONE).await.unwrap();
    let error = scene.vault.replace(&seen, &state("abc", 3, "pushed")).await.unwrap_err();
    assert_eq!(error.category(), "Changed", "{error}");
    assert_eq!(scene.contents(StoredPlace::Current).await, [state("abc", 2, "vpc-2")]);
    assert_eq!(scene.vault.edits("shop", "shop-vpc").await.unwrap(), 0);
}

#[tokio::test]
async fn an_edit_that_fails_at_any_write_leaves_the_old_state_or_the_new_and_can_be_repeated() {
    let (old, new) = (state("abc", 1, &noise(15_000, 1)), state("abc", 2, &noise(30_000, 2)));
    for nth in 1.. {
        let scene = Scene::start().await.with_small_pages();
        scene.save(&only_state(old.clone()), ONE).await.unwrap();
        let fault = Fault::new(|call| call.targets("secrets") && call.is_write(), Effect::DropAfter).nth(nth);
        let id = scene.world.server.faults().add(fault);
        let first = scene.vault.replace(&scene.inspect().await, &new).await;
        let acted = scene.world.server.faults().remove(id);
        let loaded = scene.load().await.unwrap();
        let found = loaded.payload.state.clone().unwrap();
        assert!(!loaded.is_fallback && (found == old || found == new), "write {nth}");
        if acted == 0 {
            first.unwrap();
            assert!(nth > 8, "two commits and the pages");
            break;
        }
        scene.vault.replace(&scene.inspect().await, &new).await.unwrap();
        assert_eq!(scene.contents(StoredPlace::Current).await, std::slice::from_ref(&new), "write {nth}");
        assert!(scene.contents(StoredPlace::Replaced).await.contains(&found), "write {nth}");
    }
}

#[tokio::test]
async fn the_states_of_all_namespaces_are_listed_without_reading_them() {
    let scene = Scene::start().await;
    assert!(scene.vault.list(None).await.unwrap().is_empty());
    scene.save(&only_state(state("abc", 4, "vpc-1")), ONE).await.unwrap();
    let other = StateOwner { workspace: "a.other".to_owned(), owner: None, ..scene.home.clone() };
    scene.vault.save(&other, &only_state(state("o", 1, "")), ONE).await.unwrap();
    let all = scene.vault.list(None).await.unwrap();
    let names: Vec<_> = all.iter().map(|it| (it.namespace.as_str(), it.workspace.as_str())).collect();
    assert_eq!(names, [("shop", "a.other"), ("shop", "shop-vpc")]);
    assert_eq!(all[0].current().unwrap().resources, Some(0));
    assert!(scene.vault.list(Some("elsewhere")).await.unwrap().is_empty());
}
