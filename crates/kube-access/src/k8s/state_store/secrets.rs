//! The Secrets of the state store: lookup, metadata, fencing annotations.

use std::collections::BTreeMap;

use capt_kinds::api::names::{CLUSTER_NAME_LABEL, FENCE_ANNOTATION, IN_USE_FINALIZER, STATE_LABEL};
use k8s_openapi::{ByteString, api::core::v1::Secret};
use kube::core::ObjectMeta;
use serde_json::{Value, json};

use super::{
    super::{error::K8sError, kube_client::KubeClient, leader::FencingToken},
    StateOwner, layout,
};

/// Metadata of all Secrets of a workspace. Secrets with the label but another name are ignored.
pub(super) async fn list_metadata(
    kube: &KubeClient,
    namespace: &str,
    workspace: &str,
) -> Result<Vec<ObjectMeta>, K8sError> {
    let mut found = kube.list_metadata::<Secret>(Some(namespace), &layout::selector(workspace)).await?;
    let heads = [layout::commit_name(workspace), layout::journal_name(workspace)];
    found.retain(|meta| meta.name.as_ref().is_some_and(|name| heads.contains(name) || layout::is_page(name)));
    Ok(found)
}

/// A Secret with one key; adds the protection to `metadata`.
pub(super) fn build_secret(mut metadata: ObjectMeta, home: &StateOwner, key: &str, value: Vec<u8>) -> Secret {
    metadata.managed_fields = None;
    add_protection(&mut metadata, home);
    Secret {
        metadata,
        type_: Some(layout::STATE_SECRET_TYPE.to_owned()),
        data: Some(BTreeMap::from([(key.to_owned(), ByteString(value))])),
        ..Secret::default()
    }
}

/// Metadata of a new Secret.
pub(super) fn new_metadata(home: &StateOwner, name: String) -> ObjectMeta {
    ObjectMeta { name: Some(name), namespace: Some(home.namespace.clone()), ..ObjectMeta::default() }
}

/// Adds labels, owner reference and finalizer.
fn add_protection(meta: &mut ObjectMeta, home: &StateOwner) {
    meta.labels.get_or_insert_default().extend(labels(home));
    if let Some(owner) = &home.owner {
        let owners = meta.owner_references.get_or_insert_default();
        if !owners.iter().any(|one| one.uid == owner.uid) {
            owners.push(owner.clone());
        }
    }
    // The API server rejects new finalizers on objects being deleted.
    let is_held = meta.finalizers.iter().flatten().any(|one| one == IN_USE_FINALIZER);
    if meta.deletion_timestamp.is_none() && !is_held {
        meta.finalizers.get_or_insert_default().push(IN_USE_FINALIZER.to_owned());
    }
}

fn labels(home: &StateOwner) -> impl Iterator<Item = (String, String)> {
    let own = (STATE_LABEL.to_owned(), layout::label_value(&home.workspace));
    let cluster = home.cluster.iter().map(|name| (CLUSTER_NAME_LABEL.to_owned(), name.clone()));
    std::iter::once(own).chain(cluster)
}

/// The merge patch that restores missing protection; `None` if nothing is missing.
pub(super) fn protection_patch(meta: &ObjectMeta, home: &StateOwner) -> Option<Value> {
    let mut dressed = meta.clone();
    add_protection(&mut dressed, home);
    (dressed != *meta).then(|| {
        json!({
            "resourceVersion": meta.resource_version,
            "labels": dressed.labels,
            "ownerReferences": dressed.owner_references,
            "finalizers": dressed.finalizers,
        })
    })
}

/// Records the fencing token of the writer together with the commit's UID: in another cluster, or after a restore from a
/// backup, tokens are not comparable.
pub(super) fn set_fence(meta: &mut ObjectMeta, fence: FencingToken, commit: &ObjectMeta) {
    let uid = commit.uid.as_deref().unwrap_or_default();
    let said = format!("{fence}@{uid}");
    meta.annotations.get_or_insert_default().insert(FENCE_ANNOTATION.to_owned(), said);
}

/// The fencing token of the last writer; zero if there is none or the commit's UID differs.
pub(super) fn fence(meta: &ObjectMeta, commit: &ObjectMeta) -> FencingToken {
    let said = meta.annotations.as_ref().and_then(|all| all.get(FENCE_ANNOTATION));
    let here =
        said.and_then(|said| said.split_once('@')).filter(|(_, uid)| commit.uid.as_deref() == Some(uid));
    FencingToken(here.and_then(|(number, _)| number.parse().ok()).unwrap_or_default())
}
