//! Saving: decide, claim, write pages, flip the commit.

use std::collections::HashMap;

use k8s_openapi::api::core::v1::Secret;
use kube::core::ObjectMeta;
use terraform_driver::state::State;

use super::{
    super::{call::Kube, error::K8sError, leader::Fence},
    Deposit, Home, Saved, Vault, VaultError,
    layout::{self, COMMIT_KEY, Commit, Entry, Facts, PAGE_KEY, Part, Slot},
    load,
    pack::Packed,
    secrets,
};

/// How often a save begins again because somebody was faster.
const ATTEMPTS: usize = 4;

/// A part of a deposit, ready to be written.
struct Offer {
    part: Part,
    packed: Packed,
    facts: Option<Facts>,
}

/// One save under way.
struct Save<'a> {
    kube: &'a Kube,
    home: &'a Home,
    fence: Fence,
    /// The commit's metadata, as it is now.
    head: ObjectMeta,
    commit: Commit,
    /// Metadata of the pages that there are.
    pages: HashMap<String, ObjectMeta>,
}

pub(super) async fn save(
    vault: &Vault,
    home: &Home,
    deposit: &Deposit,
    fence: Fence,
) -> Result<Saved, VaultError> {
    let offers = offers(home, deposit, vault.page)?;
    if offers.is_empty() {
        return Ok(Saved::Unchanged);
    }
    let mut left = ATTEMPTS;
    loop {
        left -= 1;
        match attempt(&vault.kube, home, &offers, fence).await {
            Err(error) if error.is_conflict() && left > 0 => {}
            other => return other,
        }
    }
}

fn offers(home: &Home, deposit: &Deposit, page: usize) -> Result<Vec<Offer>, VaultError> {
    let mut offers = Vec::new();
    if let Some(bytes) = &deposit.state {
        let state = State::parse(bytes)
            .map_err(|source| VaultError::NotAState { workspace: home.shown(), source })?;
        let is_empty = state.is_empty();
        let facts = Facts { lineage: state.version.lineage, serial: state.version.serial, is_empty };
        offers.push(Offer { part: Part::State, packed: Packed::of(bytes, page), facts: Some(facts) });
    }
    if let Some(bytes) = &deposit.bundle {
        offers.push(Offer { part: Part::Bundle, packed: Packed::of(bytes, page), facts: None });
    }
    Ok(offers)
}

async fn attempt(kube: &Kube, home: &Home, offers: &[Offer], fence: Fence) -> Result<Saved, VaultError> {
    let (head, commit) = match load::commit(kube, &home.namespace, &home.workspace).await? {
        Some(found) => found,
        None => (create_commit(kube, home).await?, Commit::default()),
    };
    let mut save = Save { kube, home, fence, head, commit, pages: HashMap::new() };
    save.check_fence(&save.head)?;
    let (wanted, saved) = save.choose(offers)?;
    if wanted.is_empty() {
        return Ok(saved);
    }
    save.claim().await?;
    save.make_room(&wanted).await?;
    let mut next = save.commit.clone();
    for offer in wanted {
        let slot = save.commit.track(offer.part).free();
        save.write_pages(offer, slot).await?;
        next = next.with(offer.part, Entry::of(&offer.packed, slot, offer.facts.clone()));
    }
    save.flip(&next).await?;
    Ok(saved)
}

async fn create_commit(kube: &Kube, home: &Home) -> Result<ObjectMeta, VaultError> {
    let name = layout::commit_name(&home.workspace);
    let value = encode(&Commit::default());
    let made = kube.create(&secrets::secret(secrets::named(home, name), home, COMMIT_KEY, value)).await;
    match made {
        Ok(made) => Ok(made.metadata),
        Err(error) if error.is_terminating() => Err(no_room(home, "commit", 1, 0, error)),
        Err(error) => Err(error.into()),
    }
}

impl Save<'_> {
    /// What of the deposit is news, and what to tell the caller once it is written.
    fn choose<'o>(&self, offers: &'o [Offer]) -> Result<(Vec<&'o Offer>, Saved), VaultError> {
        let mut wanted = Vec::new();
        let mut saved = Saved::Unchanged;
        for offer in offers {
            let Some(kept) = &self.commit.track(offer.part).current else {
                wanted.push(offer);
                continue;
            };
            let (Some(new), Some(old)) = (&offer.facts, &kept.facts) else {
                if kept.sha256 != offer.packed.sha256 {
                    wanted.push(offer);
                }
                continue;
            };
            if new.lineage != old.lineage && !old.is_empty {
                return Err(VaultError::OtherLineage {
                    workspace: self.home.shown(),
                    kept: old.lineage.clone(),
                    offered: new.lineage.clone(),
                });
            }
            if new.lineage != old.lineage || new.serial > old.serial {
                wanted.push(offer);
            } else if new.serial < old.serial {
                saved = Saved::Older { kept: old.version() };
            }
        }
        if !wanted.is_empty() && saved == Saved::Unchanged {
            saved = Saved::Written;
        }
        Ok((wanted, saved))
    }

    fn check_fence(&self, meta: &ObjectMeta) -> Result<(), VaultError> {
        let theirs = secrets::fence_of(meta, &self.head);
        if theirs > self.fence {
            return Err(VaultError::Fenced { workspace: self.home.shown(), ours: self.fence, theirs });
        }
        Ok(())
    }

    /// Puts our number on the commit before any page is touched: from here on no leader of the past can flip it.
    async fn claim(&mut self) -> Result<(), VaultError> {
        if secrets::fence_of(&self.head, &self.head) < self.fence {
            let commit = self.commit.clone();
            self.flip(&commit).await?;
        }
        Ok(())
    }

    /// Makes the pages that are missing, in both slots: one at least of every part, so that whatever comes later needs
    /// no new Secret.
    async fn make_room(&mut self, wanted: &[&Offer]) -> Result<(), VaultError> {
        let found = secrets::all(self.kube, &self.home.namespace, &self.home.workspace).await?;
        self.pages = found.into_iter().filter_map(|meta| Some((meta.name.clone()?, meta))).collect();
        for part in Part::ALL {
            let offer = wanted.iter().find(|offer| offer.part == part);
            let needed = offer.map_or(1, |offer| offer.packed.pages().len());
            for (page, slot) in (0..needed).flat_map(|page| Slot::BOTH.map(|slot| (page, slot))) {
                let name = layout::page_name(&self.home.workspace, part, slot, page);
                if !self.pages.contains_key(&name) {
                    let made = self.make_page(&name).await;
                    let made = made.map_err(|error| match error {
                        error if error.is_terminating() => {
                            no_room(self.home, part.as_str(), needed, page, error)
                        }
                        other => other.into(),
                    })?;
                    self.pages.insert(name, made);
                }
            }
        }
        Ok(())
    }

    async fn make_page(&self, name: &str) -> Result<ObjectMeta, K8sError> {
        let mut meta = secrets::named(self.home, name.to_owned());
        secrets::set_fence(&mut meta, self.fence, &self.head);
        let made = self.kube.create(&secrets::secret(meta, self.home, PAGE_KEY, Vec::new())).await?;
        Ok(made.metadata)
    }

    async fn write_pages(&self, offer: &Offer, slot: Slot) -> Result<(), VaultError> {
        for (number, bytes) in offer.packed.pages().enumerate() {
            let name = layout::page_name(&self.home.workspace, offer.part, slot, number);
            self.write_page(&name, bytes).await?;
        }
        Ok(())
    }

    /// Replaces a page in the version that we saw. A leader of the past may have been faster, once: it cannot see this
    /// page again without seeing our number.
    async fn write_page(&self, name: &str, bytes: &[u8]) -> Result<(), VaultError> {
        let mut seen =
            self.pages.get(name).cloned().unwrap_or_else(|| secrets::named(self.home, name.to_owned()));
        let mut left = ATTEMPTS;
        loop {
            left -= 1;
            self.check_fence(&seen)?;
            secrets::set_fence(&mut seen, self.fence, &self.head);
            let page = secrets::secret(seen, self.home, PAGE_KEY, bytes.to_vec());
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

    /// Makes `commit` true, in the version of the Secret that we saw.
    async fn flip(&mut self, commit: &Commit) -> Result<(), VaultError> {
        let mut meta = self.head.clone();
        secrets::set_fence(&mut meta, self.fence, &self.head);
        let secret = secrets::secret(meta, self.home, COMMIT_KEY, encode(commit));
        self.head = self.kube.replace(&secret).await?.metadata;
        Ok(())
    }
}

/// A commit is plain data, and cannot fail to be written down.
fn encode(commit: &Commit) -> Vec<u8> {
    serde_json::to_vec(commit).unwrap_or_default()
}

fn no_room(home: &Home, part: &'static str, needed: usize, there: usize, source: K8sError) -> VaultError {
    VaultError::NoRoom { workspace: home.shown(), part, needed, there, source }
}
