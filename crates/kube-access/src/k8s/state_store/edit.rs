//! Looks at stored states, and puts another one in the place of the current one.
//!
//! An edit races with saves of an operator whose run the caller did not see. The commit counts edits first: from then on the
//! operator's saves are refused, and one that is under way writes to other slots and cannot commit.

use capt_kinds::api::names::{CLUSTER_NAME_LABEL, STATE_LABEL};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use jiff::Timestamp;
use k8s_openapi::{api::core::v1::Secret, apimachinery::pkg::apis::meta::v1::OwnerReference};
use kube::core::ObjectMeta;
use terraform_driver::state::StateVersion;

use super::{
    KubeStateStore, StateOwner, StateStoreError,
    layout::{self, CopyEntry, StateCommit, StatePart},
    load,
    save::{PartUpload, SaveAttempt},
    secrets,
};

/// Commits that are read at a time.
const CONCURRENT_READS: usize = 8;

/// Where a version is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StoredPlace {
    /// The current state.
    Current,
    /// The state before the last save. The next save overwrites it.
    Previous,
    /// A state that was replaced by hand.
    Replaced,
}

/// A version in the state store, without its contents.
#[derive(Debug, Clone)]
pub struct StoredVersion {
    /// Where it is stored.
    pub place: StoredPlace,
    /// Lineage and serial.
    pub version: StateVersion,
    /// Number of managed objects; `None` if it was stored by an older version of capt.
    pub resources: Option<usize>,
    /// Digest of the state file; of the compressed pages if it was stored by an older version of capt.
    pub digest: String,
    /// When it was stored.
    pub written: Option<Timestamp>,
    part: StatePart,
    entry: CopyEntry,
}

/// The state store of one workspace, without the contents.
#[derive(Debug, Clone)]
pub struct StoredWorkspace {
    /// The namespace.
    pub namespace: String,
    /// The name of the workspace.
    pub workspace: String,
    /// The versions, the current one first.
    pub versions: Vec<StoredVersion>,
    /// Metadata of the commit Secret.
    pub commit: ObjectMeta,
    contents: StateCommit,
}

impl StoredVersion {
    fn new(part: StatePart, place: StoredPlace, entry: &CopyEntry) -> Option<Self> {
        let facts = entry.facts.as_ref()?;
        Some(Self {
            place,
            version: facts.version(),
            resources: facts.resources.or_else(|| facts.is_empty.then_some(0)),
            digest: facts.digest.clone().unwrap_or_else(|| entry.sha256.clone()),
            written: entry.written,
            part,
            entry: entry.clone(),
        })
    }
}

impl StoredWorkspace {
    fn new(namespace: &str, workspace: &str, (commit, contents): (ObjectMeta, StateCommit)) -> Self {
        let (saved, replaced) = (contents.copies(StatePart::State), contents.copies(StatePart::Replaced));
        let current = saved.current.iter().map(|it| (StatePart::State, StoredPlace::Current, it));
        let previous = saved.previous.iter().map(|it| (StatePart::State, StoredPlace::Previous, it));
        let by_hand = replaced.candidates().map(|it| (StatePart::Replaced, StoredPlace::Replaced, it));
        let all = current.chain(previous).chain(by_hand);
        let versions =
            all.filter_map(|(part, place, entry)| StoredVersion::new(part, place, entry)).collect();
        Self { namespace: namespace.to_owned(), workspace: workspace.to_owned(), versions, commit, contents }
    }

    /// The current version.
    pub fn current(&self) -> Option<&StoredVersion> {
        self.versions.iter().find(|it| it.place == StoredPlace::Current)
    }

    /// The owner that new Secrets get: the one of the commit.
    fn home(&self) -> StateOwner {
        let labels = self.commit.labels.as_ref();
        let owners = self.commit.owner_references.as_ref();
        let owner: Option<OwnerReference> = owners.and_then(|all| all.first().cloned());
        StateOwner {
            namespace: self.namespace.clone(),
            workspace: self.workspace.clone(),
            owner,
            cluster: labels.and_then(|all| all.get(CLUSTER_NAME_LABEL).cloned()),
        }
    }
}

impl KubeStateStore {
    /// What is stored of a workspace; `None` if nothing is.
    pub async fn inspect(
        &self,
        namespace: &str,
        workspace: &str,
    ) -> Result<Option<StoredWorkspace>, StateStoreError> {
        let found = load::load_commit(&self.kube, namespace, workspace).await?;
        Ok(found.map(|found| StoredWorkspace::new(namespace, workspace, found)))
    }

    /// All stored workspaces of a namespace, or of all, sorted by name.
    pub async fn list(&self, namespace: Option<&str>) -> Result<Vec<StoredWorkspace>, StateStoreError> {
        let found = self.kube.list_metadata::<Secret>(namespace, STATE_LABEL).await?;
        let mut keys: Vec<(String, String)> = found
            .into_iter()
            .filter_map(|meta| Some((meta.namespace?, layout::workspace_of_commit(&meta.name?)?.to_owned())))
            .collect();
        keys.sort();
        let reads = keys.iter().map(|(namespace, workspace)| self.inspect(namespace, workspace));
        let all: Vec<Option<StoredWorkspace>> =
            stream::iter(reads).buffered(CONCURRENT_READS).try_collect().await?;
        Ok(all.into_iter().flatten().collect())
    }

    /// The contents of a stored version.
    pub async fn read(
        &self,
        stored: &StoredWorkspace,
        version: &StoredVersion,
    ) -> Result<Vec<u8>, StateStoreError> {
        let StoredWorkspace { namespace, workspace, .. } = stored;
        let bytes = load::read_copy(&self.kube, (namespace, workspace), version.part, &version.entry).await?;
        bytes.ok_or_else(|| load::damaged(namespace, workspace, version.part.as_str()))
    }

    /// Puts a state in the place of the current one, which is kept. Refused if anything was stored since `stored` was read.
    pub async fn replace(&self, stored: &StoredWorkspace, bytes: &[u8]) -> Result<(), StateStoreError> {
        let home = stored.home();
        let turn = self.save_lock(&home.display_name());
        let _held = turn.lock().await;
        let mut uploads = vec![PartUpload::of_state(&home, StatePart::State, (bytes, self.page_size))?];
        if let Some(current) = stored.current() {
            // A damaged copy cannot be kept; replacing it is the way out.
            match self.read(stored, current).await {
                Ok(old) => {
                    uploads.push(PartUpload::of_state(&home, StatePart::Replaced, (&old, self.page_size))?);
                }
                Err(StateStoreError::Damaged { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        let replaced = self.write_edit(&home, stored, &uploads).await;
        replaced.map_err(|error| match error {
            error if error.is_conflict() => StateStoreError::Changed { workspace: home.display_name() },
            other => other,
        })
    }

    async fn write_edit(
        &self,
        home: &StateOwner,
        stored: &StoredWorkspace,
        uploads: &[PartUpload],
    ) -> Result<(), StateStoreError> {
        let mut next = stored.contents.clone();
        next.edits += 1;
        let mut edit = SaveAttempt {
            kube: &self.kube,
            home,
            // The leader goes on writing with its token.
            fence: secrets::fence(&stored.commit, &stored.commit),
            commit_meta: stored.commit.clone(),
            commit: stored.contents.clone(),
            pages: std::collections::HashMap::new(),
        };
        edit.write_commit(&next).await?;
        edit.list_pages().await?;
        for upload in uploads {
            let slot = next.copies(upload.part).free_edit_slot();
            let needed = upload.compressed.pages().len();
            for page in 0..needed {
                let name = layout::page_name(&home.workspace, upload.part, slot, page);
                edit.create_page_if_missing(name, (upload.part, needed, page)).await?;
            }
            edit.write_pages(upload, slot).await?;
            next = next.with_current(upload.part, upload.entry(slot));
        }
        edit.write_commit(&next).await
    }
}
