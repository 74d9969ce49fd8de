//! Loading: what the commit calls true, checked; else what was true before it.

use futures::future::try_join_all;
use k8s_openapi::api::core::v1::Secret;
use kube::core::ObjectMeta;

use super::{
    super::{call::Kube, error::K8sError},
    Deposit, Loaded, VaultError,
    layout::{self, COMMIT_KEY, Commit, Entry, PAGE_KEY, Part},
    pack::unpack,
    secrets,
};

/// How often a load begins again because somebody saved meanwhile.
const ATTEMPTS: usize = 4;

/// A part as it was found.
struct Found<'a> {
    bytes: Vec<u8>,
    entry: &'a Entry,
    is_fallback: bool,
}

pub(super) async fn load(
    kube: &Kube,
    namespace: &str,
    workspace: &str,
) -> Result<Option<Loaded>, VaultError> {
    let mut last = None;
    for _ in 0..ATTEMPTS {
        let Some((head, commit)) = commit(kube, namespace, workspace).await? else {
            return nothing(kube, namespace, workspace).await;
        };
        // The slot that is not true may be overwritten while we read it. If the commit is the same, nobody did.
        let is_settled = last.replace(head.resource_version.clone()) == Some(head.resource_version);
        match read(kube, namespace, workspace, &commit).await {
            Err(VaultError::Damaged { .. }) if !is_settled => {}
            Ok(Some(loaded)) if loaded.is_fallback && !is_settled => {}
            other => return other,
        }
    }
    Err(damaged(namespace, workspace, "state"))
}

/// Without a commit there is nothing, unless there are pages.
async fn nothing(kube: &Kube, namespace: &str, workspace: &str) -> Result<Option<Loaded>, VaultError> {
    if secrets::all(kube, namespace, workspace).await?.is_empty() {
        return Ok(None);
    }
    Err(VaultError::Headless {
        workspace: format!("{namespace}/{workspace}"),
        commit: layout::commit_name(workspace),
    })
}

/// The commit, and the metadata of its Secret.
pub(super) async fn commit(
    kube: &Kube,
    namespace: &str,
    workspace: &str,
) -> Result<Option<(ObjectMeta, Commit)>, VaultError> {
    let name = layout::commit_name(workspace);
    let Some(secret) = kube.get::<Secret>(Some(namespace), &name).await? else { return Ok(None) };
    let bytes = secret.data.and_then(|mut data| data.remove(COMMIT_KEY)).unwrap_or_default();
    let commit = serde_json::from_slice(&bytes.0).map_err(|_| damaged(namespace, workspace, "commit"))?;
    Ok(Some((secret.metadata, commit)))
}

async fn read(
    kube: &Kube,
    namespace: &str,
    workspace: &str,
    commit: &Commit,
) -> Result<Option<Loaded>, VaultError> {
    let mut found = [None, None];
    for (place, part) in found.iter_mut().zip(Part::ALL) {
        *place = read_part(kube, namespace, workspace, part, commit).await?;
    }
    let [state, bundle] = found;
    if state.is_none() && bundle.is_none() {
        return Ok(None);
    }
    let version = state.as_ref().and_then(|found| Some(found.entry.facts.as_ref()?.version()));
    let is_fallback = [&state, &bundle].into_iter().flatten().any(|found| found.is_fallback);
    let bytes = |found: Option<Found<'_>>| found.map(|found| found.bytes);
    Ok(Some(Loaded { deposit: Deposit { state: bytes(state), bundle: bytes(bundle) }, version, is_fallback }))
}

async fn read_part<'c>(
    kube: &Kube,
    namespace: &str,
    workspace: &str,
    part: Part,
    commit: &'c Commit,
) -> Result<Option<Found<'c>>, VaultError> {
    let track = commit.track(part);
    for entry in track.candidates() {
        let names = (0..entry.pages).map(|page| layout::page_name(workspace, part, entry.slot, page));
        let pages = try_join_all(names.map(|name| page(kube, namespace, name))).await?;
        if let Some(bytes) = unpack(&pages.concat(), &entry.sha256, entry.raw) {
            return Ok(Some(Found { bytes, entry, is_fallback: Some(entry) != track.current.as_ref() }));
        }
    }
    match track.current {
        Some(_) => Err(damaged(namespace, workspace, part.as_str())),
        None => Ok(None),
    }
}

/// A page that is not there is an empty one: the sum tells.
async fn page(kube: &Kube, namespace: &str, name: String) -> Result<Vec<u8>, K8sError> {
    let secret: Option<Secret> = kube.get(Some(namespace), &name).await?;
    let bytes = secret.and_then(|secret| secret.data?.remove(PAGE_KEY));
    Ok(bytes.map(|bytes| bytes.0).unwrap_or_default())
}

fn damaged(namespace: &str, workspace: &str, part: &'static str) -> VaultError {
    let label = layout::selector(workspace);
    VaultError::Damaged { workspace: format!("{namespace}/{workspace}"), part, label }
}
