//! Replicates the journal entries of a workspace into one Secret beside its state.
//!
//! It is replaced with a resourceVersion precondition. A leader claims it before it reads it: it writes its fencing token, so that a
//! former leader can neither overwrite it nor add to it afterwards.

use k8s_openapi::api::core::v1::Secret;
use kube::core::ObjectMeta;
use tokio::sync::Mutex;

use super::{
    super::{error::K8sError, kube_client::KubeClient, leader::FencingToken},
    StateOwner, StateStoreError,
    compress::{MAX_PAGE_BYTES, gunzip, gzip},
    layout, secrets,
};

/// Key of the compressed entries.
const ENTRIES_KEY: &str = "entries";
/// Upper bound of decompressed entries.
const MAX_ENTRIES_BYTES: u64 = 64 * 1024 * 1024;
/// Attempts after conflicts.
const ATTEMPTS: usize = 4;

/// What this process knows of the Secret.
#[derive(Debug, Clone)]
enum Known {
    /// Nothing.
    Unread,
    /// There is none.
    Absent,
    /// Claimed with this metadata.
    Claimed(Box<ObjectMeta>),
}

/// The replicated journal of one workspace, written by one leader. Its saves are serialised.
#[derive(Debug)]
pub struct KubeJournal {
    kube: KubeClient,
    owner: StateOwner,
    fence: FencingToken,
    known: Mutex<Known>,
}

impl KubeJournal {
    /// The journal of a workspace.
    pub fn new(kube: KubeClient, owner: StateOwner, fence: FencingToken) -> Self {
        Self { kube, owner, fence, known: Mutex::new(Known::Unread) }
    }

    /// Claims the journal for this leader and reads it; `None` if there is none.
    pub async fn claim(&self) -> Result<Option<Vec<u8>>, StateStoreError> {
        let mut known = self.known.lock().await;
        let mut left = ATTEMPTS;
        loop {
            left -= 1;
            let name = layout::journal_name(&self.owner.workspace);
            let Some(found) = self.kube.get::<Secret>(Some(&self.owner.namespace), &name).await? else {
                *known = Known::Absent;
                return Ok(None);
            };
            let compressed = found.data.and_then(|mut data| data.remove(ENTRIES_KEY)).unwrap_or_default().0;
            match self.write_claim(found.metadata, &compressed).await {
                Err(error) if error.is_conflict() && left > 0 => {}
                claimed => {
                    *known = Known::Claimed(Box::new(claimed?));
                    return self.decompress(&compressed).map(Some);
                }
            }
        }
    }

    async fn write_claim(&self, meta: ObjectMeta, compressed: &[u8]) -> Result<ObjectMeta, StateStoreError> {
        if secrets::fence(&meta, &meta) == self.fence {
            return Ok(meta);
        }
        self.replace(meta, compressed.to_vec()).await
    }

    /// Replaces the entries; returns once they are durable. Fails with [`StateStoreError::JournalChanged`] if somebody else has
    /// written the Secret since it was claimed: it has to be claimed again.
    pub async fn save(&self, entries: &[u8]) -> Result<(), StateStoreError> {
        let compressed = gzip(entries);
        if compressed.len() > MAX_PAGE_BYTES {
            let workspace = self.owner.display_name();
            return Err(StateStoreError::JournalTooLarge { workspace, bytes: compressed.len() });
        }
        let mut known = self.known.lock().await;
        let written = match known.clone() {
            Known::Unread => return Err(self.changed()),
            Known::Absent => self.create(compressed).await,
            Known::Claimed(meta) => self.replace(*meta, compressed).await,
        };
        match written {
            Ok(meta) => {
                *known = Known::Claimed(Box::new(meta));
                Ok(())
            }
            Err(error) => {
                // Whether it was written is unknown after a timeout, too: the next version would be refused.
                *known = Known::Unread;
                Err(if error.is_conflict() { self.changed() } else { error })
            }
        }
    }

    /// Creates the Secret, and writes it a second time with the fencing token, which needs its uid.
    async fn create(&self, compressed: Vec<u8>) -> Result<ObjectMeta, StateStoreError> {
        let meta = secrets::new_metadata(&self.owner, layout::journal_name(&self.owner.workspace));
        let made = secrets::build_secret(meta, &self.owner, ENTRIES_KEY, Vec::new());
        let made: Result<Secret, K8sError> = self.kube.create(&made).await;
        self.replace(made?.metadata, compressed).await
    }

    async fn replace(
        &self,
        mut meta: ObjectMeta,
        compressed: Vec<u8>,
    ) -> Result<ObjectMeta, StateStoreError> {
        let theirs = secrets::fence(&meta, &meta);
        if theirs > self.fence {
            let workspace = self.owner.display_name();
            return Err(StateStoreError::Fenced { workspace, ours: self.fence, theirs });
        }
        let uid = ObjectMeta { uid: meta.uid.clone(), ..ObjectMeta::default() };
        secrets::set_fence(&mut meta, self.fence, &uid);
        let secret = secrets::build_secret(meta, &self.owner, ENTRIES_KEY, compressed);
        Ok(self.kube.replace(&secret).await?.metadata)
    }

    fn changed(&self) -> StateStoreError {
        StateStoreError::JournalChanged { workspace: self.owner.display_name() }
    }

    fn decompress(&self, compressed: &[u8]) -> Result<Vec<u8>, StateStoreError> {
        if compressed.is_empty() {
            return Ok(Vec::new());
        }
        gunzip(compressed, MAX_ENTRIES_BYTES).ok_or_else(|| StateStoreError::Damaged {
            workspace: self.owner.display_name(),
            part: "journal",
            label: layout::selector(&self.owner.workspace),
        })
    }
}
