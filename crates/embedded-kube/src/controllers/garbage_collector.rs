//! Garbage collector: deletes objects whose owners are gone, finishes foreground deletion once the dependents are gone,
//! and orphans dependents.
//!
//! [`graph`] and [`decide`] make the decisions; this module calls the API. Nothing is deleted based on the graph alone:
//! the object and each of its owners are looked up first, and every delete has a uid precondition.

mod decide;
mod dependency_graph;
mod ownership;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use futures::future::{join_all, try_join_all};
use parking_lot::Mutex;
use serde_json::{Value, json};

pub use self::ownership::OwnerRef;
use self::{
    decide::{GcDecision, OwnerState, decide},
    dependency_graph::{DependencyGraph, GcTask, GraphEffects, InvalidReference, NodeSnapshot},
    ownership::{FOREGROUND_FINALIZER, ORPHAN_FINALIZER, ObjectIdentity, ObjectOwnership},
};
use super::{
    api_client::{ApiClient, ControllerError, PatchKind, Propagation, resource_object_path},
    control_loop::{Controller, ObjectChange, ReconcileResult},
    event_recorder::{EventRecorder, EventType},
};
use crate::{
    object::get_path,
    registry::{Registry, Resource},
    store::Entry,
};

const MAX_CONFLICT_RETRIES: usize = 5;

/// The garbage collector.
pub struct GarbageCollector {
    api: ApiClient,
    registry: Arc<Registry>,
    recorder: EventRecorder,
    graph: Mutex<DependencyGraph>,
    invalid_references: Mutex<Vec<InvalidReference>>,
}

impl GarbageCollector {
    /// Starts with an empty graph; the first snapshot fills it.
    pub fn new(api: ApiClient, registry: Arc<Registry>, recorder: EventRecorder) -> Self {
        Self {
            api,
            registry,
            recorder,
            graph: Mutex::new(DependencyGraph::default()),
            invalid_references: Mutex::new(Vec::new()),
        }
    }

    fn take_tasks(&self, effects: GraphEffects) -> Vec<GcTask> {
        self.invalid_references.lock().extend(effects.invalid_references);
        effects.tasks.into_iter().collect()
    }

    fn resource(&self, api_version: &str, kind: &str) -> Result<Arc<Resource>, ControllerError> {
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        self.registry.find_kind(group, version, kind).ok_or_else(|| ControllerError::UnknownKind {
            api_version: api_version.to_owned(),
            kind: kind.to_owned(),
        })
    }

    /// Observed objects have their storage version, which may not be served.
    fn resource_any_version(&self, place: &ObjectIdentity) -> Result<Arc<Resource>, ControllerError> {
        self.resource(&place.api_version, &place.kind).or_else(|trouble| {
            let group = place.api_version.split_once('/').map_or("", |(group, _)| group);
            let all = self.registry.catalogue();
            let other = all.values().find(|one| one.id.group == group && one.kind == place.kind);
            other.cloned().ok_or(trouble)
        })
    }

    /// Reads the object with this identity, whatever its uid; `None` if there is none.
    async fn look_up(
        &self,
        place: &ObjectIdentity,
    ) -> Result<Option<(Arc<Resource>, ObjectOwnership)>, ControllerError> {
        let resource = self.resource_any_version(place)?;
        match self.api.get(&resource_object_path(&resource, &place.namespace, &place.name)).await {
            Ok(value) => Ok(ObjectOwnership::from_value(&value).map(|facts| (resource, facts))),
            Err(trouble) if trouble.is_not_found() => Ok(None),
            Err(trouble) => Err(trouble),
        }
    }

    async fn attempt_delete(&self, uid: &str) -> Result<ReconcileResult<GcTask>, ControllerError> {
        let Some(item) = self.graph.lock().snapshot(uid) else { return Ok(ReconcileResult::default()) };
        if item.is_terminating && !item.is_foreground {
            return Ok(ReconcileResult::default());
        }
        if item.is_virtual && self.is_claimed_without_namespace(&item)? {
            return Ok(ReconcileResult::default());
        }
        let found = self.look_up(&item.identity).await?;
        let Some((resource, latest)) = found.filter(|(_, facts)| facts.identity.uid == uid) else {
            return self.mark_absent(&item.identity);
        };
        if item.is_foreground {
            return self.attempt_foreground(&resource, &item).await;
        }
        let Some(owners) = self.owner_states(&item.identity.namespace, &latest.owners).await? else {
            return Ok(ReconcileResult::default());
        };
        match decide(&latest, &item, &owners) {
            GcDecision::Keep => {}
            GcDecision::RemoveOwners(gone) => self.remove_dangling_owners(&resource, &latest, &gone).await?,
            GcDecision::Delete { propagation, unblock } => {
                if unblock {
                    self.clear_block_owner_deletion(&resource, &latest).await?;
                }
                if !self.delete(&resource, &latest, propagation).await? {
                    return self.mark_absent(&item.identity);
                }
            }
        }
        // A virtual owner may exist now and be deleted before it is observed.
        if item.is_virtual {
            Err(ControllerError::Aggregate(format!("{} is not seen yet", item.identity)))
        } else {
            Ok(ReconcileResult::default())
        }
    }

    /// Whether a cluster-scoped object references a virtual owner of a namespaced kind: retrying cannot resolve that.
    fn is_claimed_without_namespace(&self, item: &NodeSnapshot) -> Result<bool, ControllerError> {
        let resource = self.resource(&item.identity.api_version, &item.identity.kind)?;
        Ok(resource.namespaced && item.identity.namespace.is_empty())
    }

    fn mark_absent(&self, place: &ObjectIdentity) -> Result<ReconcileResult<GcTask>, ControllerError> {
        let effects = self.graph.lock().mark_absent(place);
        let is_open = effects.needs_retry;
        let also = self.take_tasks(effects);
        if is_open && also.is_empty() {
            return Err(ControllerError::Aggregate(format!("{place} may be elsewhere")));
        }
        let again = is_open.then_some(std::time::Duration::from_millis(50));
        Ok(ReconcileResult { requeue_after: again, enqueue: also })
    }

    async fn attempt_foreground(
        &self,
        resource: &Resource,
        item: &NodeSnapshot,
    ) -> Result<ReconcileResult<GcTask>, ControllerError> {
        let blocking: Vec<_> = item.dependents.iter().filter(|dependent| dependent.is_blocking).collect();
        if blocking.is_empty() {
            self.remove_finalizer(resource, &item.identity, FOREGROUND_FINALIZER).await?;
            return Ok(ReconcileResult::default());
        }
        let idle = blocking.into_iter().filter(|dependent| !dependent.is_foreground);
        let also = idle.map(|dependent| GcTask::Delete(dependent.identity.uid.clone())).collect();
        Ok(ReconcileResult { requeue_after: None, enqueue: also })
    }

    async fn orphan_dependents(&self, uid: &str) -> Result<ReconcileResult<GcTask>, ControllerError> {
        let Some(item) = self.graph.lock().snapshot(uid) else { return Ok(ReconcileResult::default()) };
        let owner = [uid.to_owned()];
        let released =
            item.dependents.iter().map(|dependent| self.remove_owners(&dependent.identity, &owner));
        if let Some(trouble) = join_all(released).await.into_iter().find_map(Result::err) {
            return Err(trouble);
        }
        let resource = self.resource_any_version(&item.identity)?;
        self.remove_finalizer(&resource, &item.identity, ORPHAN_FINALIZER).await?;
        Ok(ReconcileResult::default())
    }

    async fn remove_owners(
        &self,
        dependent: &ObjectIdentity,
        owners: &[String],
    ) -> Result<(), ControllerError> {
        let Some((resource, latest)) = self.look_up(dependent).await? else { return Ok(()) };
        let is_held = latest.owners.iter().any(|owner| owners.contains(&owner.uid));
        if latest.identity.uid != dependent.uid || !is_held {
            return Ok(());
        }
        match self.remove_dangling_owners(&resource, &latest, owners).await {
            Err(trouble) if trouble.is_not_found() => Ok(()),
            other => other,
        }
    }

    /// `None` if a reference can never be valid, so that no action may follow from it.
    async fn owner_states(
        &self,
        namespace: &str,
        owners: &[OwnerRef],
    ) -> Result<Option<Vec<(OwnerRef, OwnerState)>>, ControllerError> {
        for owner in owners {
            let resource = self.resource(&owner.api_version, &owner.kind)?;
            if namespace.is_empty() && resource.namespaced {
                return Ok(None);
            }
        }
        let standings = owners.iter().map(async |owner| {
            let found = self.look_up(&owner.identity_in(namespace)).await?;
            let standing = match found.filter(|(_, facts)| facts.identity.uid == owner.uid) {
                None => OwnerState::Dangling,
                Some((_, facts)) if facts.is_terminating && facts.has_foreground_finalizer => {
                    OwnerState::WaitingForDependents
                }
                Some(_) => OwnerState::Solid,
            };
            Ok((owner.clone(), standing))
        });
        try_join_all(standings).await.map(Some)
    }

    async fn remove_dangling_owners(
        &self,
        resource: &Resource,
        latest: &ObjectOwnership,
        gone: &[String],
    ) -> Result<(), ControllerError> {
        if !resource.is_custom {
            let gone: Vec<Value> = gone.iter().map(|uid| json!({"$patch": "delete", "uid": uid})).collect();
            let change = json!({"metadata": {"uid": latest.identity.uid, "ownerReferences": gone}});
            return self.patch(resource, latest, PatchKind::Strategic, &change).await;
        }
        self.rewrite_owners(resource, latest, |owners| {
            owners.retain(|owner| {
                owner.get("uid").and_then(Value::as_str).is_none_or(|uid| !gone.iter().any(|one| one == uid))
            });
        })
        .await
    }

    async fn clear_block_owner_deletion(
        &self,
        resource: &Resource,
        latest: &ObjectOwnership,
    ) -> Result<(), ControllerError> {
        self.rewrite_owners(resource, latest, |owners| {
            for owner in owners {
                if owner.get("blockOwnerDeletion") == Some(&Value::Bool(true)) {
                    owner["blockOwnerDeletion"] = Value::Bool(false);
                }
            }
        })
        .await
    }

    /// A merge patch replaces the whole list, so it includes the resourceVersion that the list was read at.
    async fn rewrite_owners(
        &self,
        resource: &Resource,
        latest: &ObjectOwnership,
        change: impl FnOnce(&mut Vec<Value>) + Send,
    ) -> Result<(), ControllerError> {
        let path = resource_object_path(resource, &latest.identity.namespace, &latest.identity.name);
        let object = self.api.get(&path).await?;
        let owners = get_path(&object, &["metadata", "ownerReferences"]).and_then(Value::as_array);
        let mut owners = owners.cloned().unwrap_or_default();
        change(&mut owners);
        let owners = if owners.is_empty() { Value::Null } else { Value::Array(owners) };
        let version = get_path(&object, &["metadata", "resourceVersion"]).cloned();
        let rewritten = json!({"metadata": {
            "uid": latest.identity.uid, "resourceVersion": version, "ownerReferences": owners,
        }});
        self.patch(resource, latest, PatchKind::Merge, &rewritten).await
    }

    async fn patch(
        &self,
        resource: &Resource,
        latest: &ObjectOwnership,
        kind: PatchKind,
        change: &Value,
    ) -> Result<(), ControllerError> {
        let path = resource_object_path(resource, &latest.identity.namespace, &latest.identity.name);
        self.api.patch(&path, kind, change).await.map(drop)
    }

    /// Returns whether the object existed. A conflict that does not affect the owners does not prevent the delete.
    async fn delete(
        &self,
        resource: &Resource,
        latest: &ObjectOwnership,
        propagation: Propagation,
    ) -> Result<bool, ControllerError> {
        let ObjectIdentity { namespace, name, uid, .. } = &latest.identity;
        let path = resource_object_path(resource, namespace, name);
        let mut conditions = json!({"uid": uid, "resourceVersion": latest.resource_version});
        for _ in 0..2 {
            let options = json!({
                "kind": "DeleteOptions", "apiVersion": "v1", "preconditions": conditions,
                "propagationPolicy": propagation.name(),
            });
            let conflict = match self.api.delete(&path, &options).await {
                Ok(()) => return Ok(true),
                Err(trouble) if trouble.is_not_found() => return Ok(false),
                Err(trouble) if trouble.is_conflict() => trouble,
                Err(trouble) => return Err(trouble),
            };
            match self.look_up(&latest.identity).await? {
                None => return Ok(false),
                Some((_, now)) if now.identity.uid == *uid && now.owners == latest.owners => {
                    conditions = json!({"uid": uid});
                }
                Some(_) => return Err(conflict),
            }
        }
        Err(ControllerError::Aggregate(format!("{} could not be deleted", latest.identity)))
    }

    async fn remove_finalizer(
        &self,
        resource: &Resource,
        place: &ObjectIdentity,
        finalizer: &str,
    ) -> Result<(), ControllerError> {
        let path = resource_object_path(resource, &place.namespace, &place.name);
        for _ in 0..MAX_CONFLICT_RETRIES {
            let object = match self.api.get(&path).await {
                Err(trouble) if trouble.is_not_found() => return Ok(()),
                other => other?,
            };
            let finalizers = get_path(&object, &["metadata", "finalizers"]).and_then(Value::as_array);
            let finalizers = finalizers.map(Vec::as_slice).unwrap_or_default();
            let left: Vec<&Value> = finalizers.iter().filter(|one| one.as_str() != Some(finalizer)).collect();
            if left.len() == finalizers.len() {
                return Ok(());
            }
            let version = get_path(&object, &["metadata", "resourceVersion"]);
            let change = json!({"metadata": {"resourceVersion": version, "finalizers": left}});
            match self.api.patch(&path, PatchKind::Merge, &change).await {
                Err(trouble) if trouble.is_not_found() => return Ok(()),
                Err(trouble) if trouble.is_conflict() => {}
                other => return other.map(drop),
            }
        }
        Err(ControllerError::Aggregate(format!("{place} keeps changing")))
    }

    async fn report_invalid_references(&self) {
        let strays = std::mem::take(&mut *self.invalid_references.lock());
        for InvalidReference { dependent, owner } in strays {
            let claim = owner.identity_in(&dependent.namespace);
            let text = format!("ownerRef {claim} does not exist in namespace \"{}\"", dependent.namespace);
            let about = json!({
                "kind": dependent.kind, "apiVersion": dependent.api_version,
                "metadata": {"namespace": dependent.namespace, "name": dependent.name, "uid": dependent.uid},
            });
            self.recorder.record(&about, EventType::Warning, "OwnerRefInvalidNamespace", &text).await;
        }
    }
}

impl Controller for GarbageCollector {
    type Key = GcTask;
    const NAME: &'static str = "garbage-collector-controller";
    const PREFIXES: &'static [&'static str] = &[""];

    fn keys_for_change(&self, change: &ObjectChange<'_>) -> Vec<GcTask> {
        if is_ignored(change.key) {
            return Vec::new();
        }
        let facts = change
            .current
            .or(change.previous)
            .and_then(|entry| ObjectOwnership::from_document(&entry.document));
        let Some(facts) = facts else { return Vec::new() };
        let mut graph = self.graph.lock();
        let effects = match change.current {
            Some(_) => graph.observe(&facts),
            None => graph.remove(&facts.identity.uid),
        };
        drop(graph);
        self.take_tasks(effects)
    }

    fn keys_for_snapshot(&self, snapshot: &[(Arc<str>, Entry)]) -> Vec<GcTask> {
        let mut gone: std::collections::HashSet<String> =
            self.graph.lock().observed_uids().map(str::to_owned).collect();
        let mut keys = Vec::new();
        for (key, entry) in snapshot.iter().filter(|(key, _)| !is_ignored(key)) {
            if let Some(facts) = ObjectOwnership::from_document(&entry.document) {
                gone.remove(&facts.identity.uid);
            }
            keys.extend(self.keys_for_change(&ObjectChange { key, current: Some(entry), previous: None }));
        }
        for uid in gone {
            let effects = self.graph.lock().remove(&uid);
            keys.extend(self.take_tasks(effects));
        }
        keys
    }

    async fn reconcile(&self, key: &GcTask) -> Result<ReconcileResult<GcTask>, ControllerError> {
        self.report_invalid_references().await;
        match key {
            GcTask::Delete(uid) => self.attempt_delete(uid).await,
            GcTask::Orphan(uid) => self.orphan_dependents(uid).await,
        }
    }
}

/// Events neither own objects nor are owned, and there are many of them.
fn is_ignored(key: &str) -> bool {
    key.starts_with("/events/") || key.starts_with("events.k8s.io/events/")
}
