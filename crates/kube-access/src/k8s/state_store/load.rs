//! Loads the current copy and verifies its checksum; falls back to the previous copy.

use futures::future::try_join_all;
use k8s_openapi::api::core::v1::Secret;
use kube::core::ObjectMeta;
use terraform_driver::workspace::WorkspaceBackup;

use super::{
    super::{error::K8sError, kube_client::KubeClient},
    LoadedState, StateStoreError,
    compress::decompress,
    layout::{self, COMMIT_KEY, CopyEntry, PAGE_KEY, StateCommit, StatePart},
    secrets,
};

/// Attempts when a concurrent save interferes.
const ATTEMPTS: usize = 4;

/// A loaded part.
struct LoadedPart<'a> {
    bytes: Vec<u8>,
    entry: &'a CopyEntry,
    is_fallback: bool,
}

pub(super) async fn load(
    kube: &KubeClient,
    namespace: &str,
    workspace: &str,
) -> Result<Option<LoadedState>, StateStoreError> {
    let mut last = None;
    for _ in 0..ATTEMPTS {
        let Some((head, commit)) = load_commit(kube, namespace, workspace).await? else {
            return check_no_pages(kube, namespace, workspace).await;
        };
        // A concurrent save may overwrite the other slot during the read. An unchanged commit rules that out.
        let is_settled = last.replace(head.resource_version.clone()) == Some(head.resource_version);
        match read_parts(kube, namespace, workspace, &commit).await {
            Err(StateStoreError::Damaged { .. }) if !is_settled => {}
            Ok(Some(loaded)) if loaded.is_fallback && !is_settled => {}
            other => return other,
        }
    }
    Err(damaged(namespace, workspace, "state"))
}

/// Without a commit nothing is stored; leftover pages are an error.
async fn check_no_pages(
    kube: &KubeClient,
    namespace: &str,
    workspace: &str,
) -> Result<Option<LoadedState>, StateStoreError> {
    let found = secrets::list_metadata(kube, namespace, workspace).await?;
    if !found.iter().any(|meta| meta.name.as_deref().is_some_and(layout::is_page)) {
        return Ok(None);
    }
    Err(StateStoreError::Headless {
        workspace: format!("{namespace}/{workspace}"),
        commit: layout::commit_name(workspace),
    })
}

/// The commit, and the metadata of its Secret.
pub(super) async fn load_commit(
    kube: &KubeClient,
    namespace: &str,
    workspace: &str,
) -> Result<Option<(ObjectMeta, StateCommit)>, StateStoreError> {
    let name = layout::commit_name(workspace);
    let Some(secret) = kube.get::<Secret>(Some(namespace), &name).await? else { return Ok(None) };
    let bytes = secret.data.and_then(|mut data| data.remove(COMMIT_KEY)).unwrap_or_default();
    let commit = serde_json::from_slice(&bytes.0).map_err(|_| damaged(namespace, workspace, "commit"))?;
    Ok(Some((secret.metadata, commit)))
}

async fn read_parts(
    kube: &KubeClient,
    namespace: &str,
    workspace: &str,
    commit: &StateCommit,
) -> Result<Option<LoadedState>, StateStoreError> {
    let mut found = [None, None];
    for (place, part) in found.iter_mut().zip(StatePart::SAVED) {
        *place = read_part(kube, namespace, workspace, part, commit).await?;
    }
    let [state, bundle] = found;
    if state.is_none() && bundle.is_none() {
        return Ok(None);
    }
    let version = state.as_ref().and_then(|found| Some(found.entry.facts.as_ref()?.version()));
    let is_fallback = [&state, &bundle].into_iter().flatten().any(|found| found.is_fallback);
    let bytes = |found: Option<LoadedPart<'_>>| found.map(|found| found.bytes);
    Ok(Some(LoadedState {
        payload: WorkspaceBackup { state: bytes(state), bundle: bytes(bundle), edits: commit.edits },
        version,
        is_fallback,
    }))
}

async fn read_part<'c>(
    kube: &KubeClient,
    namespace: &str,
    workspace: &str,
    part: StatePart,
    commit: &'c StateCommit,
) -> Result<Option<LoadedPart<'c>>, StateStoreError> {
    let track = commit.copies(part);
    for entry in track.candidates() {
        if let Some(bytes) = read_copy(kube, (namespace, workspace), part, entry).await? {
            return Ok(Some(LoadedPart { bytes, entry, is_fallback: Some(entry) != track.current.as_ref() }));
        }
    }
    match track.current {
        Some(_) => Err(damaged(namespace, workspace, part.as_str())),
        None => Ok(None),
    }
}

/// The contents of one copy; `None` if it is damaged.
pub(super) async fn read_copy(
    kube: &KubeClient,
    (namespace, workspace): (&str, &str),
    part: StatePart,
    entry: &CopyEntry,
) -> Result<Option<Vec<u8>>, K8sError> {
    let names = (0..entry.pages).map(|page| layout::page_name(workspace, part, entry.slot, page));
    let pages = try_join_all(names.map(|name| read_page(kube, namespace, name))).await?;
    Ok(decompress(&pages.concat(), &entry.sha256, entry.raw))
}

/// A missing page reads as empty; the checksum detects it.
async fn read_page(kube: &KubeClient, namespace: &str, name: String) -> Result<Vec<u8>, K8sError> {
    let secret: Option<Secret> = kube.get(Some(namespace), &name).await?;
    let bytes = secret.and_then(|secret| secret.data?.remove(PAGE_KEY));
    Ok(bytes.map(|bytes| bytes.0).unwrap_or_default())
}

pub(super) fn damaged(namespace: &str, workspace: &str, part: &'static str) -> StateStoreError {
    let label = layout::selector(workspace);
    StateStoreError::Damaged { workspace: format!("{namespace}/{workspace}"), part, label }
}
