//! A gateway without providers on a disk, and a store that several leaders share.

use std::{
    path::Path,
    sync::{
        Mutex,
        atomic::{AtomicBool, Ordering},
    },
};

use base64::{Engine as _, prelude::BASE64_STANDARD};
use futures::future::BoxFuture;
use provider_gateway::{
    admin::{AdminSecret, AdminServer},
    gateway::{Gateway, GatewaySettings},
    journal::{ChangeCall, ChangeStage, Journal},
};
use serde_json::{Value, json};
use terraform_driver::{
    exec::ProcessId,
    workspace::{WorkspaceBackup, files::write_json},
};
use tokio::task::JoinHandle;

use super::*;
use crate::gateway::daemon::GatewayProcess;

/// What the API server has: the entries, and the fencing token of their last writer.
#[derive(Default)]
struct Shared {
    stored: Mutex<(u64, Option<Vec<u8>>)>,
    is_down: AtomicBool,
}

/// What a leader knows to be stored.
#[derive(Default, PartialEq)]
enum SeenEntries {
    #[default]
    Unclaimed,
    Claimed(Option<Vec<u8>>),
}

/// The store of one leader.
struct LeaderStore {
    shared: Arc<Shared>,
    fence: u64,
    seen: Mutex<SeenEntries>,
}

impl LeaderStore {
    fn check(&self) -> Result<(), JournalStoreError> {
        if self.shared.is_down.load(Ordering::Relaxed) {
            return Err(JournalStoreError::Failed("no route to host".into()));
        }
        let newest = self.shared.stored.lock().unwrap().0;
        if newest > self.fence { Err(JournalStoreError::Superseded("fenced".into())) } else { Ok(()) }
    }
}

impl JournalStore for LeaderStore {
    fn claim(&self) -> BoxFuture<'_, Result<Option<Vec<u8>>, JournalStoreError>> {
        let claimed = self.check().map(|()| {
            let mut stored = self.shared.stored.lock().unwrap();
            stored.0 = self.fence;
            *self.seen.lock().unwrap() = SeenEntries::Claimed(stored.1.clone());
            stored.1.clone()
        });
        Box::pin(std::future::ready(claimed))
    }

    fn save(&self, entries: Vec<u8>) -> BoxFuture<'_, Result<(), JournalStoreError>> {
        let saved = self.check().and_then(|()| {
            let (mut stored, mut seen) = (self.shared.stored.lock().unwrap(), self.seen.lock().unwrap());
            if *seen != SeenEntries::Claimed(stored.1.clone()) {
                return Err(JournalStoreError::Changed("changed".into()));
            }
            stored.1 = Some(entries);
            *seen = SeenEntries::Claimed(stored.1.clone());
            Ok(())
        });
        Box::pin(std::future::ready(saved))
    }
}

impl BackupStore for LeaderStore {
    fn save(&self, _: WorkspaceBackup) -> BoxFuture<'_, Result<(), BackupStoreError>> {
        Box::pin(std::future::ready(Ok(())))
    }

    fn edits(&self) -> BoxFuture<'_, Result<u64, BackupStoreError>> {
        Box::pin(std::future::ready(Ok(0)))
    }

    fn load(&self) -> BoxFuture<'_, Result<Option<WorkspaceBackup>, BackupStoreError>> {
        Box::pin(std::future::ready(Ok(None)))
    }

    fn journal(&self) -> Option<&dyn JournalStore> {
        Some(self)
    }
}

/// A leader with its disk and its gateway.
struct Leader {
    dir: tempfile::TempDir,
    gateway: Arc<Gateway>,
    replication: JournalReplication,
    store: Arc<LeaderStore>,
    stop: CancellationToken,
}

impl Leader {
    fn new(shared: &Arc<Shared>, fence: u64) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let gateway_dir = dir.path().join("gateway");
        let gateway = Gateway::open(GatewaySettings::new(gateway_dir, dir.path().to_owned())).unwrap();
        let stop = CancellationToken::new();
        serve(dir.path(), &gateway, &stop);
        let workspace = WorkspaceDir::at(dir.path().join("workspaces/team/demo"));
        let store = Arc::new(LeaderStore { shared: Arc::clone(shared), fence, seen: Mutex::default() });
        let replication = JournalReplication {
            key: WorkspaceKey::new("team", "demo"),
            data: dir.path().to_owned(),
            workspace,
            store: store.clone(),
            memory: Arc::default(),
            metrics: Arc::new(crate::runs::NoRunMetrics),
        };
        Self { dir, gateway, replication, store, stop }
    }

    fn journal(&self) -> &Journal {
        self.gateway.journal()
    }

    /// Follows the gateway; what it has is stored.
    async fn replicate(&self) -> (CancellationToken, JoinHandle<()>) {
        let (over, (is_ready, mut ready)) = (CancellationToken::new(), watch::channel(false));
        let task = tokio::spawn(self.replication.clone().run(over.clone(), is_ready));
        ready.wait_for(|is_ready| *is_ready).await.unwrap();
        (over, task)
    }

    fn stored(&self) -> ReplicatedJournal {
        let bytes = self.store.shared.stored.lock().unwrap().1.clone().unwrap_or_default();
        ReplicatedJournal::parse(&bytes).unwrap()
    }

    fn stored_stages(&self) -> Vec<ChangeStage> {
        self.stored().entries.iter().map(|entry| entry.stage).collect()
    }

    async fn start(&self, name: &str) -> Result<u64, String> {
        self.journal().record_start(&change(&request(name))).await
    }

    async fn end(&self, call: u64, name: &str) {
        self.journal().record_end(&change(&request(name)), call, Some(&answer(name))).await.unwrap();
    }

    fn here(&self) -> usize {
        workspace_entries(self.dir.path(), "team/demo").unwrap().len()
    }
}

impl Drop for Leader {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

fn serve(data: &Path, gateway: &Arc<Gateway>, stop: &CancellationToken) {
    let socket = gateway.sockets().join("admin.sock");
    let (secret, secret_file) = AdminSecret::create_in(&data.join("gateway")).unwrap();
    let server = AdminServer::bind(&socket, secret).unwrap();
    let process = ProcessId::from_pid(std::process::id()).unwrap();
    let record =
        GatewayProcess { process, socket, version: "test".to_owned(), secret_file: Some(secret_file) };
    write_json(&data.join("gateway/server.json"), &record).unwrap();
    let (gateway, stop) = (Arc::clone(gateway), stop.clone());
    tokio::spawn(async move { server.serve(&gateway, None, &stop).await });
}

/// A protobuf field with bytes; all lengths here fit into one byte.
fn field(number: u8, bytes: &[u8]) -> Vec<u8> {
    [&[number << 3 | 2, u8::try_from(bytes.len()).unwrap()], bytes].concat()
}

fn dynamic(value: &Value) -> Vec<u8> {
    field(2, value.to_string().as_bytes())
}

/// A creation of a VPC.
fn request(name: &str) -> Vec<u8> {
    let planned = dynamic(&json!({ "name": name }));
    [field(1, b"aws_vpc"), field(2, &dynamic(&Value::Null)), field(3, &planned)].concat()
}

fn answer(name: &str) -> Vec<u8> {
    field(1, &dynamic(&json!({ "name": name, "id": name })))
}

fn change(request: &[u8]) -> ChangeCall<'_> {
    ChangeCall {
        run: "r",
        workspace: "team/demo",
        method: "ApplyResourceChange",
        request,
        schema_version: Some(1),
    }
}

fn state(serial: u64, ids: &[&str]) -> Vec<u8> {
    let instance = |id: &&str| json!({"schema_version": 1, "attributes": {"id": id}});
    let resource = json!({"mode": "managed", "type": "aws_vpc", "name": "this",
        "instances": ids.iter().map(instance).collect::<Vec<_>>()});
    let state = json!({"version": 4, "terraform_version": "1.11.4", "serial": serial, "lineage": "l", "outputs": {},
        "resources": [resource]});
    state.to_string().into_bytes()
}

#[tokio::test]
async fn a_start_is_stored_before_the_change_and_its_end_before_the_answer() {
    let leader = Leader::new(&Arc::default(), 1);
    let (over, task) = leader.replicate().await;
    let call = leader.start("a").await.unwrap();
    assert_eq!(leader.stored_stages(), [ChangeStage::Begun]);
    leader.end(call, "a").await;
    assert_eq!(leader.stored_stages(), [ChangeStage::Begun, ChangeStage::Done]);
    assert_eq!(
        BASE64_STANDARD.decode(&leader.stored().entries[1].new).unwrap(),
        dynamic(&json!({"name": "a", "id": "a"}))
    );
    leader.journal().drop_calls([call].into()).await.unwrap();
    over.cancel();
    task.await.unwrap();
    leader.replication.finish().await;
    assert_eq!(leader.stored().entries, []);
}

#[tokio::test]
async fn entries_are_removed_with_the_next_replicated_state_that_contains_them() {
    let leader = Leader::new(&Arc::default(), 1);
    let _running = leader.replicate().await;
    for name in ["a", "b"] {
        let call = leader.start(name).await.unwrap();
        leader.end(call, name).await;
    }
    let workspace = &leader.replication.workspace;
    workspace.sync_files([]).unwrap();
    workspace.snapshots().store_written(&state(1, &["a"])).unwrap();
    leader.start("c").await.unwrap();
    assert_eq!(leader.stored().entries.len(), 5, "the state is on this disk only");
    state_backup::back_up(leader.store.as_ref(), workspace, &leader.replication.memory, None).await.unwrap();
    leader.start("d").await.unwrap();
    let stored = leader.stored().entries;
    assert_eq!(stored.iter().map(|entry| entry.call).collect::<Vec<_>>(), [2, 2, 3, 4], "b, c and d");
    assert_eq!(leader.here(), 6, "the next run drops what is on the disk");
}

#[tokio::test]
async fn without_the_store_changes_go_on_with_the_disk_and_the_store_catches_up() {
    let leader = Leader::new(&Arc::default(), 1);
    let _running = leader.replicate().await;
    leader.store.shared.is_down.store(true, Ordering::Relaxed);
    let call = leader.start("a").await.unwrap();
    leader.end(call, "a").await;
    assert_eq!((leader.here(), leader.stored().entries.len()), (2, 0));
    assert!(leader.gateway.counters().counts().not_replicated > 0);
    leader.store.shared.is_down.store(false, Ordering::Relaxed);
    while leader.stored().entries.len() < 2 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test]
async fn h1_the_entries_of_a_lost_disk_come_back_on_another_one_and_only_there() {
    let shared = Arc::default();
    let lost = Leader::new(&shared, 1);
    let _running = lost.replicate().await;
    let call = lost.start("a").await.unwrap();
    lost.end(call, "a").await;
    lost.start("b").await.unwrap();
    assert!(!lost.replication.restore().await.unwrap(), "its disk has them");
    assert_eq!(lost.here(), 3);

    let next = Leader::new(&shared, 2);
    assert!(next.replication.restore().await.unwrap());
    let entries = workspace_entries(next.dir.path(), "team/demo").unwrap();
    let changes = provider_gateway::replay::recorded_changes(&entries, "team/demo");
    let labels: Vec<String> = changes.iter().map(provider_gateway::replay::RecordedChange::label).collect();
    assert_eq!(labels, ["aws_vpc a", "aws_vpc b"]);
    // What a person drops on the new disk does not come back.
    next.journal().drop_calls(entries.iter().map(|entry| entry.call).collect()).await.unwrap();
    assert!(!next.replication.restore().await.unwrap());
    assert_eq!(next.here(), 0);
}

#[tokio::test]
async fn h7_a_former_leader_begins_no_change_after_a_newer_one_has_claimed_the_journal() {
    let shared = Arc::default();
    let (former, newer) = (Leader::new(&shared, 1), Leader::new(&shared, 2));
    let _running = former.replicate().await;
    let call = former.start("a").await.unwrap();
    newer.replication.restore().await.unwrap();
    let error = former.start("b").await.unwrap_err();
    assert!(error.contains("newer leader"), "{error}");
    former.end(call, "a").await;
    assert_eq!(former.here(), 2, "what it had begun is recorded on its disk");
    assert_eq!((newer.here(), newer.stored().entries.len()), (1, 1));
}

#[tokio::test]
async fn what_another_disk_stored_after_the_restore_is_imported_and_not_overwritten() {
    let shared = Arc::default();
    let (former, newer) = (Leader::new(&shared, 1), Leader::new(&shared, 1));
    newer.replication.restore().await.unwrap();
    let _running = former.replicate().await;
    former.start("a").await.unwrap();
    let _running = newer.replicate().await;
    newer.start("b").await.unwrap();
    assert_eq!(newer.stored().entries.len(), 2);
}
