//! Saves a payload: select newer parts, claim the commit, write pages, update the commit.

use std::collections::HashMap;

use k8s_openapi::api::core::v1::Secret;
use kube::core::ObjectMeta;
use terraform_driver::{clock, workspace::WorkspaceBackup};

use super::{
    super::{error::K8sError, kube_client::KubeClient, leader::FencingToken},
    KubeStateStore, SaveOutcome, StateOwner, StateStoreError,
    compress::CompressedPages,
    layout::{self, COMMIT_KEY, CopyEntry, PAGE_KEY, StateCommit, StateFacts, StatePart, StateSlot},
    load, secrets,
};

/// Attempts after conflicts.
const ATTEMPTS: usize = 4;

/// A compressed part of the payload.
pub(super) struct PartUpload {
    pub(super) part: StatePart,
    pub(super) compressed: CompressedPages,
    pub(super) facts: Option<StateFacts>,
}

/// One save attempt.
pub(super) struct SaveAttempt<'a> {
    pub(super) kube: &'a KubeClient,
    pub(super) home: &'a StateOwner,
    pub(super) fence: FencingToken,
    /// Current metadata of the commit Secret.
    pub(super) commit_meta: ObjectMeta,
    pub(super) commit: StateCommit,
    /// Metadata of the existing pages.
    pub(super) pages: HashMap<String, ObjectMeta>,
}

pub(super) async fn save(
    vault: &KubeStateStore,
    home: &StateOwner,
    deposit: &WorkspaceBackup,
    fence: FencingToken,
) -> Result<SaveOutcome, StateStoreError> {
    let offers = prepare_uploads(home, deposit, vault.page_size)?;
    if offers.is_empty() {
        return Ok(SaveOutcome::Unchanged);
    }
    let mut left = ATTEMPTS;
    loop {
        left -= 1;
        match try_save(&vault.kube, home, (&offers, deposit.edits), fence).await {
            Err(error) if error.is_conflict() && left > 0 => {}
            other => return other,
        }
    }
}

fn prepare_uploads(
    home: &StateOwner,
    deposit: &WorkspaceBackup,
    page: usize,
) -> Result<Vec<PartUpload>, StateStoreError> {
    let mut offers = Vec::new();
    if let Some(bytes) = &deposit.state {
        offers.push(PartUpload::of_state(home, StatePart::State, (bytes, page))?);
    }
    if let Some(bytes) = &deposit.bundle {
        offers.push(PartUpload {
            part: StatePart::Bundle,
            compressed: CompressedPages::from_bytes(bytes, page),
            facts: None,
        });
    }
    Ok(offers)
}

impl PartUpload {
    /// A state, compressed into pages of this size.
    pub(super) fn of_state(
        home: &StateOwner,
        part: StatePart,
        (bytes, page): (&[u8], usize),
    ) -> Result<Self, StateStoreError> {
        let facts = StateFacts::of(bytes)
            .map_err(|source| StateStoreError::NotAState { workspace: home.display_name(), source })?;
        Ok(Self { part, compressed: CompressedPages::from_bytes(bytes, page), facts: Some(facts) })
    }

    /// The entry of its copy in a slot.
    pub(super) fn entry(&self, slot: StateSlot) -> CopyEntry {
        CopyEntry::from_pages(&self.compressed, slot, (self.facts.clone(), clock::now()))
    }
}

async fn try_save(
    kube: &KubeClient,
    home: &StateOwner,
    (offers, edits): (&[PartUpload], u64),
    fence: FencingToken,
) -> Result<SaveOutcome, StateStoreError> {
    let (head, commit) = match load::load_commit(kube, &home.namespace, &home.workspace).await? {
        Some(found) => found,
        None => (create_commit(kube, home).await?, StateCommit::default()),
    };
    let mut save = SaveAttempt { kube, home, fence, commit_meta: head, commit, pages: HashMap::new() };
    save.check_fence(&save.commit_meta)?;
    save.check_edits(edits)?;
    let (wanted, saved) = save.select_newer(offers)?;
    if wanted.is_empty() {
        return Ok(saved);
    }
    save.claim_commit().await?;
    save.create_missing_pages(&wanted).await?;
    let mut next = save.commit.clone();
    next.edits = edits;
    for offer in wanted {
        let slot = save.commit.copies(offer.part).free_slot();
        save.write_pages(offer, slot).await?;
        next = next.with_current(offer.part, offer.entry(slot));
    }
    save.write_commit(&next).await?;
    Ok(saved)
}

async fn create_commit(kube: &KubeClient, home: &StateOwner) -> Result<ObjectMeta, StateStoreError> {
    let name = layout::commit_name(&home.workspace);
    let value = encode_commit(&StateCommit::default());
    let made =
        kube.create(&secrets::build_secret(secrets::new_metadata(home, name), home, COMMIT_KEY, value)).await;
    match made {
        Ok(made) => Ok(made.metadata),
        Err(error) if error.is_terminating() => Err(no_room_error(home, "commit", 1, 0, error)),
        Err(error) => Err(error.into()),
    }
}

impl SaveAttempt<'_> {
    /// The parts that are newer than the stored ones, and the result once they are written.
    fn select_newer<'o>(
        &self,
        offers: &'o [PartUpload],
    ) -> Result<(Vec<&'o PartUpload>, SaveOutcome), StateStoreError> {
        let mut wanted = Vec::new();
        let mut saved = SaveOutcome::Unchanged;
        for offer in offers {
            let Some(kept) = &self.commit.copies(offer.part).current else {
                wanted.push(offer);
                continue;
            };
            let (Some(new), Some(old)) = (&offer.facts, &kept.facts) else {
                if kept.sha256 != offer.compressed.sha256 {
                    wanted.push(offer);
                }
                continue;
            };
            if new.lineage != old.lineage && !old.is_empty {
                return Err(StateStoreError::OtherLineage {
                    workspace: self.home.display_name(),
                    kept: old.lineage.clone(),
                    offered: new.lineage.clone(),
                });
            }
            if new.lineage != old.lineage || new.serial > old.serial {
                wanted.push(offer);
            } else if new.serial < old.serial {
                saved = SaveOutcome::Older { kept: old.version() };
            } else if new.contradicts(old) {
                // Terraform writes a serial again when a change is taken back within one apply.
                if secrets::fence(&self.commit_meta, &self.commit_meta) != self.fence {
                    return Err(StateStoreError::Forked {
                        workspace: self.home.display_name(),
                        lineage: old.lineage.clone(),
                        serial: old.serial,
                    });
                }
                wanted.push(offer);
            }
        }
        if !wanted.is_empty() && saved == SaveOutcome::Unchanged {
            saved = SaveOutcome::Written;
        }
        Ok((wanted, saved))
    }

    fn check_fence(&self, meta: &ObjectMeta) -> Result<(), StateStoreError> {
        let theirs = secrets::fence(meta, &self.commit_meta);
        if theirs > self.fence {
            return Err(StateStoreError::Fenced {
                workspace: self.home.display_name(),
                ours: self.fence,
                theirs,
            });
        }
        Ok(())
    }

    /// Refuses a state that does not follow from the one that a person has put into the store.
    fn check_edits(&self, known: u64) -> Result<(), StateStoreError> {
        if self.commit.edits > known {
            return Err(StateStoreError::ReplacedByHand { workspace: self.home.display_name() });
        }
        Ok(())
    }

    /// Writes the fencing token to the commit before any page is touched, so that no former leader can update it any more.
    async fn claim_commit(&mut self) -> Result<(), StateStoreError> {
        if secrets::fence(&self.commit_meta, &self.commit_meta) < self.fence {
            let commit = self.commit.clone();
            self.write_commit(&commit).await?;
        }
        Ok(())
    }

    /// Creates missing pages in both slots, at least one per part, so that later saves need no new Secrets.
    async fn create_missing_pages(&mut self, wanted: &[&PartUpload]) -> Result<(), StateStoreError> {
        self.list_pages().await?;
        for part in StatePart::SAVED {
            let offer = wanted.iter().find(|offer| offer.part == part);
            let needed = offer.map_or(1, |offer| offer.compressed.pages().len());
            for (page, slot) in (0..needed).flat_map(|page| StateSlot::SAVED.map(|slot| (page, slot))) {
                let name = layout::page_name(&self.home.workspace, part, slot, page);
                self.create_page_if_missing(name, (part, needed, page)).await?;
            }
        }
        Ok(())
    }

    /// Reads which pages exist.
    pub(super) async fn list_pages(&mut self) -> Result<(), StateStoreError> {
        let found = secrets::list_metadata(self.kube, &self.home.namespace, &self.home.workspace).await?;
        self.pages = found.into_iter().filter_map(|meta| Some((meta.name.clone()?, meta))).collect();
        Ok(())
    }

    pub(super) async fn create_page_if_missing(
        &mut self,
        name: String,
        (part, needed, page): (StatePart, usize, usize),
    ) -> Result<(), StateStoreError> {
        if self.pages.contains_key(&name) {
            return Ok(());
        }
        let made = self.create_page(&name).await;
        let made = made.map_err(|error| match error {
            error if error.is_terminating() => no_room_error(self.home, part.as_str(), needed, page, error),
            other => other.into(),
        })?;
        self.pages.insert(name, made);
        Ok(())
    }

    async fn create_page(&self, name: &str) -> Result<ObjectMeta, K8sError> {
        let mut meta = secrets::new_metadata(self.home, name.to_owned());
        secrets::set_fence(&mut meta, self.fence, &self.commit_meta);
        let made = self.kube.create(&secrets::build_secret(meta, self.home, PAGE_KEY, Vec::new())).await?;
        Ok(made.metadata)
    }

    pub(super) async fn write_pages(
        &self,
        offer: &PartUpload,
        slot: StateSlot,
    ) -> Result<(), StateStoreError> {
        for (number, bytes) in offer.compressed.pages().enumerate() {
            let name = layout::page_name(&self.home.workspace, offer.part, slot, number);
            self.write_page(&name, bytes).await?;
        }
        Ok(())
    }

    /// Replaces a page with a resourceVersion precondition. A former leader can win this race once; after that it sees the
    /// newer token.
    async fn write_page(&self, name: &str, bytes: &[u8]) -> Result<(), StateStoreError> {
        let mut seen = self
            .pages
            .get(name)
            .cloned()
            .unwrap_or_else(|| secrets::new_metadata(self.home, name.to_owned()));
        let mut left = ATTEMPTS;
        loop {
            left -= 1;
            self.check_fence(&seen)?;
            secrets::set_fence(&mut seen, self.fence, &self.commit_meta);
            let page = secrets::build_secret(seen, self.home, PAGE_KEY, bytes.to_vec());
            match self.kube.replace(&page).await {
                Ok(_) => return Ok(()),
                Err(error) if !error.is_conflict() || left == 0 => return Err(error.into()),
                Err(_) => {}
            }
            seen = match self.kube.get_metadata::<Secret>(Some(&self.home.namespace), name).await? {
                Some(now) => now,
                None => page.metadata,
            };
        }
    }

    /// Writes the commit with a resourceVersion precondition.
    pub(super) async fn write_commit(&mut self, commit: &StateCommit) -> Result<(), StateStoreError> {
        let mut meta = self.commit_meta.clone();
        secrets::set_fence(&mut meta, self.fence, &self.commit_meta);
        let secret = secrets::build_secret(meta, self.home, COMMIT_KEY, encode_commit(commit));
        self.commit_meta = self.kube.replace(&secret).await?.metadata;
        Ok(())
    }
}

/// Serialising a commit cannot fail.
fn encode_commit(commit: &StateCommit) -> Vec<u8> {
    serde_json::to_vec(commit).unwrap_or_default()
}

fn no_room_error(
    home: &StateOwner,
    part: &'static str,
    needed: usize,
    there: usize,
    source: K8sError,
) -> StateStoreError {
    StateStoreError::NoRoom { workspace: home.display_name(), part, needed, there, source }
}
