//! The Secrets themselves: who finds them, what they carry, whose they are.

use std::collections::BTreeMap;

use k8s_openapi::{ByteString, api::core::v1::Secret};
use kube::core::ObjectMeta;
use serde_json::{Value, json};

use super::{
    super::{call::Kube, error::K8sError, leader::Fence},
    Home, layout,
};
use crate::api::names::{CLUSTER_NAME_LABEL, FENCE_ANNOTATION, IN_USE_FINALIZER, STATE_LABEL};

/// Metadata of all Secrets of a workspace. Others that carry the label are not ours, whoever put it there.
pub(super) async fn all(kube: &Kube, namespace: &str, workspace: &str) -> Result<Vec<ObjectMeta>, K8sError> {
    let mut found = kube.list_metadata::<Secret>(Some(namespace), &layout::selector(workspace)).await?;
    let commit = layout::commit_name(workspace);
    found.retain(|meta| meta.name.as_ref().is_some_and(|name| *name == commit || layout::is_page(name)));
    Ok(found)
}

/// A Secret with one key. `metadata` is what is known of it; what it must carry is added.
pub(super) fn secret(mut metadata: ObjectMeta, home: &Home, key: &str, value: Vec<u8>) -> Secret {
    metadata.managed_fields = None;
    dress(&mut metadata, home);
    Secret {
        metadata,
        type_: Some(layout::TYPE.to_owned()),
        data: Some(BTreeMap::from([(key.to_owned(), ByteString(value))])),
        ..Secret::default()
    }
}

/// Metadata of a Secret that is not there yet.
pub(super) fn named(home: &Home, name: String) -> ObjectMeta {
    ObjectMeta { name: Some(name), namespace: Some(home.namespace.clone()), ..ObjectMeta::default() }
}

/// Adds what keeps a Secret findable and alive.
fn dress(meta: &mut ObjectMeta, home: &Home) {
    meta.labels.get_or_insert_default().extend(labels(home));
    if let Some(owner) = &home.owner {
        let owners = meta.owner_references.get_or_insert_default();
        if !owners.iter().any(|one| one.uid == owner.uid) {
            owners.push(owner.clone());
        }
    }
    // The server takes no new finalizer on what is being deleted.
    let is_held = meta.finalizers.iter().flatten().any(|one| one == IN_USE_FINALIZER);
    if meta.deletion_timestamp.is_none() && !is_held {
        meta.finalizers.get_or_insert_default().push(IN_USE_FINALIZER.to_owned());
    }
}

fn labels(home: &Home) -> impl Iterator<Item = (String, String)> {
    let own = (STATE_LABEL.to_owned(), layout::label_value(&home.workspace));
    let cluster = home.cluster.iter().map(|name| (CLUSTER_NAME_LABEL.to_owned(), name.clone()));
    std::iter::once(own).chain(cluster)
}

/// The merge patch that puts back what a Secret lacks; none if it lacks nothing.
pub(super) fn missing(meta: &ObjectMeta, home: &Home) -> Option<Value> {
    let mut dressed = meta.clone();
    dress(&mut dressed, home);
    (dressed != *meta).then(|| {
        json!({
            "resourceVersion": meta.resource_version,
            "labels": dressed.labels,
            "ownerReferences": dressed.owner_references,
            "finalizers": dressed.finalizers,
        })
    })
}

/// Says who wrote a Secret. It counts for as long as the commit is the very Secret that it was: in another cluster, or
/// restored from a backup, other leaders count.
pub(super) fn set_fence(meta: &mut ObjectMeta, fence: Fence, commit: &ObjectMeta) {
    let uid = commit.uid.as_deref().unwrap_or_default();
    let said = format!("{fence}@{uid}");
    meta.annotations.get_or_insert_default().insert(FENCE_ANNOTATION.to_owned(), said);
}

/// Who wrote a Secret; the lowest of all if nobody says, or if that was elsewhere.
pub(super) fn fence_of(meta: &ObjectMeta, commit: &ObjectMeta) -> Fence {
    let said = meta.annotations.as_ref().and_then(|all| all.get(FENCE_ANNOTATION));
    let here =
        said.and_then(|said| said.split_once('@')).filter(|(_, uid)| commit.uid.as_deref() == Some(uid));
    Fence(here.and_then(|(number, _)| number.parse().ok()).unwrap_or_default())
}
