use std::sync::Mutex;

use super::*;

/// A store that another leader may write to.
#[derive(Default)]
struct SharedStore(Mutex<Option<WorkspaceBackup>>);

impl BackupStore for SharedStore {
    fn save(&self, backup: WorkspaceBackup) -> BoxFuture<'_, Result<(), BackupStoreError>> {
        let mut stored = self.0.lock().unwrap();
        let before = stored.clone().unwrap_or_default();
        if before.edits > backup.edits {
            return Box::pin(std::future::ready(Err("replaced by hand".into())));
        }
        *stored = Some(WorkspaceBackup {
            state: backup.state.or(before.state),
            bundle: backup.bundle.or(before.bundle),
            edits: backup.edits,
        });
        Box::pin(std::future::ready(Ok(())))
    }

    fn edits(&self) -> BoxFuture<'_, Result<u64, BackupStoreError>> {
        let edits = self.0.lock().unwrap().as_ref().map_or(0, |it| it.edits);
        Box::pin(std::future::ready(Ok(edits)))
    }

    fn load(&self) -> BoxFuture<'_, Result<Option<WorkspaceBackup>, BackupStoreError>> {
        Box::pin(std::future::ready(Ok(self.0.lock().unwrap().clone())))
    }
}

fn state(lineage: &str, serial: u64, name: &str) -> String {
    format!(
        r#"{{"version":4,"serial":{serial},"lineage":"{lineage}","resources":[{{"mode":"managed","type":"t","name":"{name}","instances":[{{"attributes":{{}}}}]}}]}}"#
    )
}

/// The directory of one leader.
struct Leader {
    _dir: tempfile::TempDir,
    workspace: WorkspaceDir,
}

impl Leader {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let workspace = WorkspaceDir::at(dir.path().join("ws"));
        workspace.sync_files([]).unwrap();
        Self { _dir: dir, workspace }
    }

    /// Applies a version with this configuration, and backs it up.
    async fn apply(&self, store: &SharedStore, state: &str, configuration: &str) {
        let file = terraform_driver::workspace::FileToWrite {
            path: "main.tf",
            bytes: configuration.as_bytes(),
            secret: false,
        };
        self.workspace.sync_files([file]).unwrap();
        self.workspace.seal().unwrap();
        let record = serde_json::json!({"owner": configuration, "role": "custom", "eks_cluster": null, "region": null, "after": [], "root": "", "configuration": "", "installation": ""});
        write_json(&self.workspace.meta_dir().join("workspace.json"), &record).unwrap();
        self.write(state);
        let bundle = destroy_bundle::pack(&self.workspace).unwrap();
        back_up(store, &self.workspace, &WorkspaceMemory::default(), Some(bundle)).await.unwrap();
    }

    fn write(&self, state: &str) {
        std::fs::write(self.workspace.root().join("terraform.tfstate"), state).unwrap();
    }

    async fn restore(&self, store: &SharedStore) -> Result<Option<PathBuf>, PipelineError> {
        restore_backup(store, &self.workspace).await
    }

    /// The state and the configuration that a run would start from.
    fn current(&self) -> (String, String) {
        terraform_driver::state::recover_state(&self.workspace).unwrap();
        let text = |path: &str| std::fs::read_to_string(self.workspace.dir().join(path)).unwrap_or_default();
        (text("terraform.tfstate"), text(".capt/sealed/main.tf"))
    }
}

#[tokio::test]
async fn a_leader_that_returns_works_with_what_the_others_applied() {
    let store = SharedStore::default();
    let (one, two) = (Leader::new(), Leader::new());
    one.apply(&store, &state("a", 5, "first"), "# one").await;
    two.restore(&store).await.unwrap();
    two.apply(&store, &state("a", 7, "second"), "# two").await;
    let aside = one.restore(&store).await.unwrap().expect("the old directory is set aside");
    assert_eq!(one.current(), (state("a", 7, "second"), "# two".to_owned()));
    assert_eq!(std::fs::read_to_string(aside.join("terraform.tfstate")).unwrap(), state("a", 5, "first"));
    assert_eq!(one.restore(&store).await.unwrap(), None, "once is enough");
}

#[tokio::test]
async fn a_leader_that_returns_follows_an_object_that_was_made_again() {
    let store = SharedStore::default();
    let (one, two) = (Leader::new(), Leader::new());
    one.apply(&store, &state("a", 5, "first"), "# one").await;
    *store.0.lock().unwrap() = None;
    two.apply(&store, &state("b", 1, "again"), "# two").await;
    one.restore(&store).await.unwrap().expect("the old directory is set aside");
    assert_eq!(one.current(), (state("b", 1, "again"), "# two".to_owned()));
}

#[tokio::test]
async fn a_leader_that_stays_keeps_the_versions_that_were_not_saved_yet() {
    let store = SharedStore::default();
    let one = Leader::new();
    one.apply(&store, &state("a", 5, "first"), "# one").await;
    one.write(&state("a", 6, "unsaved"));
    assert_eq!(one.restore(&store).await.unwrap(), None);
    assert_eq!(one.current().0, state("a", 6, "unsaved"));
}

#[tokio::test]
async fn two_histories_are_refused_with_both_versions() {
    let store = SharedStore::default();
    let (one, two) = (Leader::new(), Leader::new());
    one.apply(&store, &state("a", 5, "first"), "# one").await;
    two.restore(&store).await.unwrap();
    two.apply(&store, &state("a", 6, "theirs"), "# two").await;
    one.write(&state("a", 6, "ours"));
    let error = one.restore(&store).await.unwrap_err();
    let text = std::error::Error::source(&error).unwrap().to_string();
    assert!(text.contains("two histories") && text.matches("serial 6").count() == 2, "{text}");
}

#[tokio::test]
async fn a_serial_that_terraform_wrote_again_is_backed_up_again() {
    let (store, memory) = (SharedStore::default(), WorkspaceMemory::default());
    let one = Leader::new();
    let snapshots = one.workspace.snapshots();
    for name in ["first", "taken-back"] {
        snapshots.store_written(state("a", 5, name).as_bytes()).unwrap();
        one.write(&state("a", 5, name));
        back_up(&store, &one.workspace, &memory, None).await.unwrap();
    }
    let stored = store.0.lock().unwrap().clone().unwrap().state.unwrap();
    assert_eq!(String::from_utf8(stored).unwrap(), state("a", 5, "taken-back"));
}

/// What `capt state push` and `restore` do.
fn replace_by_hand(store: &SharedStore, state: &str) {
    let mut stored = store.0.lock().unwrap();
    let before = stored.take().unwrap_or_default();
    *stored = Some(WorkspaceBackup { state: Some(state.into()), edits: before.edits + 1, ..before });
}

#[tokio::test]
async fn a_state_that_was_pushed_replaces_the_one_of_the_directory_whatever_its_history() {
    for pushed in [state("a", 6, "pushed"), state("b", 2, "of another history"), state("a", 2, "older")] {
        let store = SharedStore::default();
        let one = Leader::new();
        one.apply(&store, &state("a", 5, "first"), "# one").await;
        assert!(!has_new_edits(&store, &one.workspace).await.unwrap());
        replace_by_hand(&store, &pushed);
        assert!(has_new_edits(&store, &one.workspace).await.unwrap());
        let aside = one.restore(&store).await.unwrap().expect("the old directory is set aside");
        assert_eq!(std::fs::read_to_string(aside.join("terraform.tfstate")).unwrap(), state("a", 5, "first"));
        assert_eq!(one.current(), (pushed, "# one".to_owned()));
        assert!(!has_new_edits(&store, &one.workspace).await.unwrap(), "once is enough");
        // The next run goes on from there.
        let next =
            one.current().0.replace("\"serial\":6", "\"serial\":7").replace("\"serial\":2", "\"serial\":3");
        one.apply(&store, &next, "# two").await;
        assert_eq!(store.0.lock().unwrap().clone().unwrap().state.unwrap(), next.into_bytes());
    }
}

#[tokio::test]
async fn what_a_run_did_while_a_state_was_pushed_is_neither_saved_over_it_nor_dropped() {
    let store = SharedStore::default();
    let one = Leader::new();
    one.apply(&store, &state("a", 5, "first"), "# one").await;
    replace_by_hand(&store, &state("a", 6, "pushed"));
    one.write(&state("a", 6, "made by the run"));
    back_up(&store, &one.workspace, &WorkspaceMemory::default(), None).await.unwrap_err();
    let error = one.restore(&store).await.unwrap_err();
    let text = std::error::Error::source(&error).unwrap().to_string();
    assert!(text.contains("capt state restore") && text.contains("capt state push"), "{text}");
    assert_eq!(one.current().0, state("a", 6, "made by the run"));
    one.restore(&store).await.expect_err("it stays undecided");
    replace_by_hand(&store, &state("a", 7, "chosen"));
    one.restore(&store).await.unwrap().expect("the person has decided");
    assert_eq!(one.current().0, state("a", 7, "chosen"));
}

#[tokio::test]
async fn a_push_decides_between_two_histories() {
    let store = SharedStore::default();
    let (one, two) = (Leader::new(), Leader::new());
    one.apply(&store, &state("a", 5, "first"), "# one").await;
    two.restore(&store).await.unwrap();
    two.apply(&store, &state("a", 6, "theirs"), "# two").await;
    one.write(&state("a", 6, "ours"));
    one.restore(&store).await.unwrap_err();
    replace_by_hand(&store, &state("a", 7, "theirs"));
    one.restore(&store).await.unwrap().expect("the directory is set aside");
    assert_eq!(one.current(), (state("a", 7, "theirs"), "# two".to_owned()));
}

#[tokio::test]
async fn a_leader_that_returns_has_the_configuration_that_another_one_began_to_apply() {
    let store = SharedStore::default();
    let (one, two) = (Leader::new(), Leader::new());
    let same = state("a", 5, "first");
    one.apply(&store, &same, "# one").await;
    // Killed before the first change: the state is the same.
    two.restore(&store).await.unwrap();
    two.apply(&store, &same, "# two").await;
    assert_eq!(one.restore(&store).await.unwrap(), None);
    assert_eq!(one.current(), (same.clone(), "# two".to_owned()));
    // What was not stored yet is newer.
    let sealed = one.workspace.meta_dir().join("sealed/main.tf");
    std::fs::write(sealed, "# three").unwrap();
    one.restore(&store).await.unwrap();
    assert_eq!(one.current().1, "# three");
}
