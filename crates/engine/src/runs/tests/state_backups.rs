//! When and what is backed up, and how a backup is restored.

use std::time::Duration;

use capt_kinds::api::{RunOperation, RunPhase};
use terraform_driver::{
    run::run_dir::RunDir,
    workspace::{FileLock, WorkspaceDir},
};
use tokio_util::sync::CancellationToken;

use super::*;
use crate::{
    pipeline::{PipelineError, SizeLimits, testing::state},
    runs::{
        PhaseGuard, RunMetrics, WorkspaceMemory, state_backup,
        state_replication::{FALLBACK_INTERVAL, StateReplication},
    },
};

struct Directory {
    site: FakeSite,
    workspace: WorkspaceDir,
    memory: Arc<WorkspaceMemory>,
}

impl Directory {
    fn new() -> Self {
        let site = FakeSite::new();
        let workspace = site.workspace();
        Self { site, workspace, memory: Arc::default() }
    }

    fn with_state(serial: u64) -> Self {
        let it = Self::new();
        it.site.put_state(&state(serial, &[("aws_vpc", "ok")]));
        it
    }

    async fn back_up(&self, store: &MemoryStore, bundle: Option<&[u8]>) {
        state_backup::back_up(store, &self.workspace, &self.memory, bundle.map(<[u8]>::to_vec))
            .await
            .unwrap();
    }
}

fn serial(backup: &WorkspaceBackup) -> Option<u64> {
    let state: serde_json::Value = serde_json::from_slice(backup.state.as_ref()?).unwrap();
    state["serial"].as_u64()
}

#[tokio::test]
async fn each_version_of_a_state_is_saved_once() {
    let (dir, store) = (Directory::new(), MemoryStore::default());
    dir.back_up(&store, None).await;
    assert_eq!(store.saves(), 0, "there is no state");
    for (version, saves) in [(1, 1), (1, 1), (2, 2), (2, 2)] {
        dir.site.put_state(&state(version, &[("aws_vpc", "ok")]));
        dir.back_up(&store, None).await;
        assert_eq!((serial(&store.stored()), store.saves()), (Some(version), saves));
    }
}

#[tokio::test]
async fn a_bundle_is_saved_with_and_without_a_state() {
    let (dir, store) = (Directory::new(), MemoryStore::default());
    dir.back_up(&store, Some(b"sealed")).await;
    assert_eq!(store.stored(), WorkspaceBackup { state: None, bundle: Some(b"sealed".to_vec()), edits: 0 });
    let (dir, store) = (Directory::with_state(1), MemoryStore::default());
    dir.back_up(&store, None).await;
    dir.back_up(&store, Some(b"sealed")).await;
    assert_eq!((serial(&store.stored()), store.saves()), (Some(1), 2));
    assert_eq!(store.stored().bundle.unwrap(), b"sealed");
}

#[tokio::test]
async fn a_state_that_is_being_written_is_not_backed_up() {
    let (dir, store) = (Directory::with_state(1), MemoryStore::default());
    dir.back_up(&store, None).await;
    dir.site.put_state("{\"version\": 4, \"ser");
    dir.back_up(&store, Some(b"sealed")).await;
    assert_eq!(serial(&store.stored()), Some(1), "the newest snapshot");
}

#[tokio::test(start_paused = true)]
async fn a_short_outage_of_the_store_is_survived_and_a_long_one_is_an_error() {
    for (failures, saves, succeeds) in [(0, 1, true), (4, 5, true), (5, 5, false)] {
        let (dir, store) = (Directory::with_state(1), MemoryStore::failing(failures));
        let outcome =
            state_backup::back_up_with_retries(store.as_ref(), &dir.workspace, &dir.memory, None).await;
        match outcome {
            Ok(()) => assert!(succeeds),
            Err(PipelineError::StateBackup { source, .. }) => {
                assert!(!succeeds && source.to_string() == "no route to host");
            }
            Err(other) => panic!("{other:?}"),
        }
        assert_eq!(store.saves(), saves, "after {failures} failures");
    }
}

/// Counts the versions whose lag was measured.
#[derive(Default)]
struct LagMetrics(AtomicUsize);

impl RunMetrics for LagMetrics {
    fn record_slot_wait(&self, _: RunPriority, _: Duration) {}
    fn record_cluster_lock_wait(&self, _: Duration) {}
    fn start_phase(&self, _: RunOperation, _: RunPhase) -> PhaseGuard {
        Box::new(())
    }
    fn record_state_lag(&self, _: Duration) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
    fn record_run(&self, _: RunOperation, _: &'static str, _: Duration) {}
}

fn replication(dir: &Directory, store: &Arc<MemoryStore>, fallback: Duration) -> StateReplication {
    StateReplication {
        key: key(),
        store: store.clone(),
        workspace: dir.workspace.clone(),
        memory: Arc::clone(&dir.memory),
        metrics: Arc::new(NoRunMetrics),
        fallback,
        limits: SizeLimits::default(),
    }
}

async fn until_stored(store: &MemoryStore, version: u64) {
    while serial(&store.stored()) != Some(version) {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn a_snapshot_is_saved_when_it_is_stored_and_its_lag_is_measured() {
    let (dir, store) = (Directory::with_state(1), Arc::<MemoryStore>::default());
    dir.back_up(&store, None).await;
    let (over, lag) = (CancellationToken::new(), Arc::<LagMetrics>::default());
    // Without an event, the next look would be tomorrow.
    let replication =
        StateReplication { metrics: lag.clone(), ..replication(&dir, &store, Duration::from_hours(24)) };
    let task = tokio::spawn(replication.run(over.clone()));
    // The replication has to begin before the first version is written.
    tokio::task::yield_now().await;
    for version in [2, 3] {
        let snapshots = dir.workspace.snapshots();
        snapshots.store_written(state(version, &[("aws_vpc", "ok")]).as_bytes()).unwrap();
        until_stored(&store, version).await;
    }
    over.cancel();
    task.await.unwrap();
    assert_eq!(lag.0.load(Ordering::Relaxed), 2, "the first version is older than the run");
}

#[tokio::test(start_paused = true)]
async fn versions_without_a_snapshot_are_saved_and_failures_are_retried() {
    let (dir, store) = (Directory::with_state(1), MemoryStore::failing(1));
    let over = CancellationToken::new();
    let task = tokio::spawn(replication(&dir, &store, FALLBACK_INTERVAL).run(over.clone()));
    for version in [1, 2] {
        dir.site.put_state(&state(version, &[("aws_vpc", "ok")]));
        until_stored(&store, version).await;
    }
    over.cancel();
    task.await.unwrap();
}

#[tokio::test]
async fn a_run_that_is_resumed_is_replicated_while_its_terraform_works() {
    let site = FakeSite::new();
    let earlier = RunDir::at(site.workspace().runs_dir().join("20261101T100000000Z-apply"));
    std::fs::create_dir_all(earlier.path()).unwrap();
    let _alive = FileLock::acquire(&earlier.lock_path(), "a running terraform").unwrap();
    let recovers = gate(&site, "recover");
    let mut runs = Runs::new(&site);
    assert!(runs.start(&job(), apply()));
    runs.until(&key(), |run| run.waiting_for.is_some()).await;
    let made = state(7, &[("aws_vpc", "ok")]);
    site.workspace().snapshots().store_written(made.as_bytes()).unwrap();
    until_stored(&runs.store, 7).await;
    recovers.add_permits(1);
    runs.finished(&key()).await;
}

#[tokio::test]
async fn a_backup_of_another_lineage_is_not_mixed_with_the_state() {
    let dir = Directory::with_state(1);
    dir.back_up(&MemoryStore::default(), None).await;
    dir.site.put_state(&state(2, &[("aws_vpc", "ok")]));
    let foreign = state(9, &[("aws_vpc", "ok")]).replace("\"line\"", "\"foreign\"");
    let backup = WorkspaceBackup { state: Some(foreign.into_bytes()), bundle: None, edits: 0 };
    let store = MemoryStore { backup: Mutex::new(Some(backup)), ..MemoryStore::default() };
    let outcome = state_backup::restore_backup(&store, &dir.workspace).await;
    match outcome {
        Err(PipelineError::StateBackup { source, .. }) => assert!(source.to_string().contains("lineage")),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_directory_that_another_leader_replaced_is_set_aside_whole() {
    let dir = Directory::with_state(5);
    dir.back_up(&MemoryStore::default(), None).await;
    let recreated = state(1, &[("aws_vpc", "ok")]).replace("\"line\"", "\"recreated\"");
    let backup = WorkspaceBackup { state: Some(recreated.into_bytes()), bundle: None, edits: 0 };
    let store = MemoryStore { backup: Mutex::new(Some(backup)), ..MemoryStore::default() };
    let set_aside = state_backup::restore_backup(&store, &dir.workspace).await.unwrap();
    assert!(set_aside.is_some_and(|it| it.join("terraform.tfstate").exists()));
    assert!(!dir.workspace.state_path().exists());
    assert_eq!(dir.workspace.snapshots().newest().unwrap().unwrap().0.lineage, "recreated");
}

#[tokio::test]
async fn an_older_backup_does_not_replace_a_newer_snapshot() {
    let dir = Directory::with_state(5);
    dir.back_up(&MemoryStore::default(), None).await;
    let older = WorkspaceBackup { state: Some(state(2, &[]).into_bytes()), bundle: None, edits: 0 };
    let store = MemoryStore { backup: Mutex::new(Some(older)), ..MemoryStore::default() };
    state_backup::restore_backup(&store, &dir.workspace).await.unwrap();
    assert_eq!(dir.workspace.snapshots().newest().unwrap().unwrap().0.serial, 5);
}

#[tokio::test]
async fn nothing_stored_is_nothing_to_restore() {
    let dir = Directory::new();
    state_backup::restore_backup(&MemoryStore::default(), &dir.workspace).await.unwrap();
    assert!(dir.workspace.snapshots().newest().unwrap().is_none());
}

#[tokio::test]
async fn a_process_restores_each_workspace_once() {
    let site = FakeSite::new();
    let mut runs = Runs::new(&site);
    for _ in 0..3 {
        runs.run(&job(), apply()).await;
    }
    assert_eq!(runs.store.loads.load(Ordering::Relaxed), 1);
}

#[tokio::test(start_paused = true)]
async fn without_a_backup_nothing_is_applied_and_the_run_is_retried() {
    let site = FakeSite::new();
    let mut runs = Runs::new(&site).with_store(&MemoryStore::failing(usize::MAX));
    let snapshot = runs.run(&job(), apply()).await;
    assert!(
        failure_message(&snapshot).contains("cannot back up the state: no route to host"),
        "{snapshot:?}"
    );
    assert!(!site.journal.has("apply"));
}
