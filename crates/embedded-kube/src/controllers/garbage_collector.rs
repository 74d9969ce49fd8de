//! The garbage collector: objects go when all their owners are gone, owners that wait for their dependents go after
//! them, and dependents of an owner that lets them go are let go.
//!
//! What is decided comes from [`graph`] and [`decide`]; here the API is asked and told. Nothing is deleted on the
//! word of the graph alone: the object and each of its owners are looked up first, and every delete names the uid.

mod decide;
mod facts;
mod graph;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use futures::future::{join_all, try_join_all};
use parking_lot::Mutex;
use serde_json::{Value, json};

pub use self::facts::OwnerRef;
use self::{
    decide::{Decision, Standing, decide},
    facts::{FOREGROUND, Facts, Identity, ORPHAN},
    graph::{Effects, Graph, Item, Stray, Work},
};
use super::{
    api::{Api, PatchKind, Propagation, Trouble, object_of},
    recorder::{Kind, Recorder},
    run::{Change, Controller, Next},
};
use crate::{
    object::at,
    registry::{Registry, Resource},
    store::Entry,
};

const CONFLICTS_IN_A_ROW: usize = 5;

/// See the module.
pub struct Collector {
    api: Api,
    registry: Arc<Registry>,
    recorder: Recorder,
    graph: Mutex<Graph>,
    strays: Mutex<Vec<Stray>>,
}

impl Collector {
    /// With an empty graph; the first snapshot fills it.
    pub fn new(api: Api, registry: Arc<Registry>, recorder: Recorder) -> Self {
        Self { api, registry, recorder, graph: Mutex::new(Graph::default()), strays: Mutex::new(Vec::new()) }
    }

    fn keys(&self, effects: Effects) -> Vec<Work> {
        self.strays.lock().extend(effects.strays);
        effects.work.into_iter().collect()
    }

    fn resource(&self, api_version: &str, kind: &str) -> Result<Arc<Resource>, Trouble> {
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        self.registry.find_kind(group, version, kind).ok_or_else(|| Trouble::UnknownKind {
            api_version: api_version.to_owned(),
            kind: kind.to_owned(),
        })
    }

    /// What has been seen is told by the version it is stored at, which need not be served.
    fn any_version(&self, place: &Identity) -> Result<Arc<Resource>, Trouble> {
        self.resource(&place.api_version, &place.kind).or_else(|trouble| {
            let group = place.api_version.split_once('/').map_or("", |(group, _)| group);
            let all = self.registry.all();
            let other = all.values().find(|one| one.id.group == group && one.kind == place.kind);
            other.cloned().ok_or(trouble)
        })
    }

    /// The object at this place, whoever it is; `None` if there is none.
    async fn look_up(&self, place: &Identity) -> Result<Option<(Arc<Resource>, Facts)>, Trouble> {
        let resource = self.any_version(place)?;
        match self.api.get(&object_of(&resource, &place.namespace, &place.name)).await {
            Ok(value) => Ok(Facts::of_value(&value).map(|facts| (resource, facts))),
            Err(trouble) if trouble.is_not_found() => Ok(None),
            Err(trouble) => Err(trouble),
        }
    }

    async fn attempt(&self, uid: &str) -> Result<Next<Work>, Trouble> {
        let Some(item) = self.graph.lock().item(uid) else { return Ok(Next::default()) };
        if item.is_terminating && !item.is_foreground {
            return Ok(Next::default());
        }
        if item.is_virtual && self.is_claimed_without_namespace(&item)? {
            return Ok(Next::default());
        }
        let found = self.look_up(&item.identity).await?;
        let Some((resource, latest)) = found.filter(|(_, facts)| facts.identity.uid == uid) else {
            return self.absent(&item.identity);
        };
        if item.is_foreground {
            return self.attempt_foreground(&resource, &item).await;
        }
        let Some(owners) = self.standings(&item.identity.namespace, &latest.owners).await? else {
            return Ok(Next::default());
        };
        match decide(&latest, &item, &owners) {
            Decision::Keep => {}
            Decision::Trim(gone) => self.trim(&resource, &latest, &gone).await?,
            Decision::Delete { propagation, unblock } => {
                if unblock {
                    self.unblock(&resource, &latest).await?;
                }
                if !self.delete(&resource, &latest, propagation).await? {
                    return self.absent(&item.identity);
                }
            }
        }
        // An owner that exists but has not been seen yet may be gone again before it is.
        if item.is_virtual {
            Err(Trouble::Several(format!("{} is not seen yet", item.identity)))
        } else {
            Ok(Next::default())
        }
    }

    /// A virtual owner of a namespaced kind that a cluster-scoped object claims: no retry will resolve that.
    fn is_claimed_without_namespace(&self, item: &Item) -> Result<bool, Trouble> {
        let resource = self.resource(&item.identity.api_version, &item.identity.kind)?;
        Ok(resource.namespaced && item.identity.namespace.is_empty())
    }

    fn absent(&self, place: &Identity) -> Result<Next<Work>, Trouble> {
        let effects = self.graph.lock().absent(place);
        let is_open = effects.is_open;
        let also = self.keys(effects);
        if is_open && also.is_empty() {
            return Err(Trouble::Several(format!("{place} may be elsewhere")));
        }
        let again = is_open.then_some(std::time::Duration::from_millis(50));
        Ok(Next { again, also })
    }

    async fn attempt_foreground(&self, resource: &Resource, item: &Item) -> Result<Next<Work>, Trouble> {
        let blocking: Vec<_> = item.dependents.iter().filter(|dependent| dependent.is_blocking).collect();
        if blocking.is_empty() {
            self.remove_finalizer(resource, &item.identity, FOREGROUND).await?;
            return Ok(Next::default());
        }
        let idle = blocking.into_iter().filter(|dependent| !dependent.is_foreground);
        let also = idle.map(|dependent| Work::Delete(dependent.identity.uid.clone())).collect();
        Ok(Next { again: None, also })
    }

    async fn orphan(&self, uid: &str) -> Result<Next<Work>, Trouble> {
        let Some(item) = self.graph.lock().item(uid) else { return Ok(Next::default()) };
        let owner = [uid.to_owned()];
        let released = item.dependents.iter().map(|dependent| self.release(&dependent.identity, &owner));
        if let Some(trouble) = join_all(released).await.into_iter().find_map(Result::err) {
            return Err(trouble);
        }
        let resource = self.any_version(&item.identity)?;
        self.remove_finalizer(&resource, &item.identity, ORPHAN).await?;
        Ok(Next::default())
    }

    async fn release(&self, dependent: &Identity, owners: &[String]) -> Result<(), Trouble> {
        let Some((resource, latest)) = self.look_up(dependent).await? else { return Ok(()) };
        let is_held = latest.owners.iter().any(|owner| owners.contains(&owner.uid));
        if latest.identity.uid != dependent.uid || !is_held {
            return Ok(());
        }
        match self.trim(&resource, &latest, owners).await {
            Err(trouble) if trouble.is_not_found() => Ok(()),
            other => other,
        }
    }

    /// `None` if a reference can never be right, so that nothing may follow from it.
    async fn standings(
        &self,
        namespace: &str,
        owners: &[OwnerRef],
    ) -> Result<Option<Vec<(OwnerRef, Standing)>>, Trouble> {
        for owner in owners {
            let resource = self.resource(&owner.api_version, &owner.kind)?;
            if namespace.is_empty() && resource.namespaced {
                return Ok(None);
            }
        }
        let standings = owners.iter().map(async |owner| {
            let found = self.look_up(&owner.claimed_in(namespace)).await?;
            let standing = match found.filter(|(_, facts)| facts.identity.uid == owner.uid) {
                None => Standing::Dangling,
                Some((_, facts)) if facts.is_terminating && facts.has_foreground_finalizer => {
                    Standing::Waiting
                }
                Some(_) => Standing::Solid,
            };
            Ok((owner.clone(), standing))
        });
        try_join_all(standings).await.map(Some)
    }

    async fn trim(&self, resource: &Resource, latest: &Facts, gone: &[String]) -> Result<(), Trouble> {
        if !resource.custom {
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

    async fn unblock(&self, resource: &Resource, latest: &Facts) -> Result<(), Trouble> {
        self.rewrite_owners(resource, latest, |owners| {
            for owner in owners {
                if owner.get("blockOwnerDeletion") == Some(&Value::Bool(true)) {
                    owner["blockOwnerDeletion"] = Value::Bool(false);
                }
            }
        })
        .await
    }

    /// Merge patches replace the whole list, so they name the version that the list was read from.
    async fn rewrite_owners(
        &self,
        resource: &Resource,
        latest: &Facts,
        change: impl FnOnce(&mut Vec<Value>) + Send,
    ) -> Result<(), Trouble> {
        let path = object_of(resource, &latest.identity.namespace, &latest.identity.name);
        let object = self.api.get(&path).await?;
        let owners = at(&object, &["metadata", "ownerReferences"]).and_then(Value::as_array);
        let mut owners = owners.cloned().unwrap_or_default();
        change(&mut owners);
        let owners = if owners.is_empty() { Value::Null } else { Value::Array(owners) };
        let version = at(&object, &["metadata", "resourceVersion"]).cloned();
        let rewritten = json!({"metadata": {
            "uid": latest.identity.uid, "resourceVersion": version, "ownerReferences": owners,
        }});
        self.patch(resource, latest, PatchKind::Merge, &rewritten).await
    }

    async fn patch(
        &self,
        resource: &Resource,
        latest: &Facts,
        kind: PatchKind,
        change: &Value,
    ) -> Result<(), Trouble> {
        let path = object_of(resource, &latest.identity.namespace, &latest.identity.name);
        self.api.patch(&path, kind, change).await.map(drop)
    }

    /// Says whether the object was there. A conflict over anything but the owners does not save it.
    async fn delete(
        &self,
        resource: &Resource,
        latest: &Facts,
        propagation: Propagation,
    ) -> Result<bool, Trouble> {
        let Identity { namespace, name, uid, .. } = &latest.identity;
        let path = object_of(resource, namespace, name);
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
        Err(Trouble::Several(format!("{} could not be deleted", latest.identity)))
    }

    async fn remove_finalizer(
        &self,
        resource: &Resource,
        place: &Identity,
        finalizer: &str,
    ) -> Result<(), Trouble> {
        let path = object_of(resource, &place.namespace, &place.name);
        for _ in 0..CONFLICTS_IN_A_ROW {
            let object = match self.api.get(&path).await {
                Err(trouble) if trouble.is_not_found() => return Ok(()),
                other => other?,
            };
            let finalizers = at(&object, &["metadata", "finalizers"]).and_then(Value::as_array);
            let finalizers = finalizers.map(Vec::as_slice).unwrap_or_default();
            let left: Vec<&Value> = finalizers.iter().filter(|one| one.as_str() != Some(finalizer)).collect();
            if left.len() == finalizers.len() {
                return Ok(());
            }
            let version = at(&object, &["metadata", "resourceVersion"]);
            let change = json!({"metadata": {"resourceVersion": version, "finalizers": left}});
            match self.api.patch(&path, PatchKind::Merge, &change).await {
                Err(trouble) if trouble.is_not_found() => return Ok(()),
                Err(trouble) if trouble.is_conflict() => {}
                other => return other.map(drop),
            }
        }
        Err(Trouble::Several(format!("{place} keeps changing")))
    }

    async fn report_strays(&self) {
        let strays = std::mem::take(&mut *self.strays.lock());
        for Stray { dependent, owner } in strays {
            let claim = owner.claimed_in(&dependent.namespace);
            let text = format!("ownerRef {claim} does not exist in namespace \"{}\"", dependent.namespace);
            let about = json!({
                "kind": dependent.kind, "apiVersion": dependent.api_version,
                "metadata": {"namespace": dependent.namespace, "name": dependent.name, "uid": dependent.uid},
            });
            self.recorder.record(&about, Kind::Warning, "OwnerRefInvalidNamespace", &text).await;
        }
    }
}

impl Controller for Collector {
    type Key = Work;
    const NAME: &'static str = "garbage-collector-controller";
    const PREFIXES: &'static [&'static str] = &[""];

    fn wake(&self, change: &Change<'_>) -> Vec<Work> {
        if is_ignored(change.key) {
            return Vec::new();
        }
        let facts = change.now.or(change.before).and_then(|entry| Facts::of_document(&entry.document));
        let Some(facts) = facts else { return Vec::new() };
        let mut graph = self.graph.lock();
        let effects = match change.now {
            Some(_) => graph.observe(&facts),
            None => graph.forget(&facts.identity.uid),
        };
        drop(graph);
        self.keys(effects)
    }

    fn begin(&self, snapshot: &[(Arc<str>, Entry)]) -> Vec<Work> {
        let mut gone: std::collections::HashSet<String> =
            self.graph.lock().observed().map(str::to_owned).collect();
        let mut keys = Vec::new();
        for (key, entry) in snapshot.iter().filter(|(key, _)| !is_ignored(key)) {
            if let Some(facts) = Facts::of_document(&entry.document) {
                gone.remove(&facts.identity.uid);
            }
            keys.extend(self.wake(&Change { key, now: Some(entry), before: None }));
        }
        for uid in gone {
            let effects = self.graph.lock().forget(&uid);
            keys.extend(self.keys(effects));
        }
        keys
    }

    async fn reconcile(&self, key: &Work) -> Result<Next<Work>, Trouble> {
        self.report_strays().await;
        match key {
            Work::Delete(uid) => self.attempt(uid).await,
            Work::Orphan(uid) => self.orphan(uid).await,
        }
    }
}

/// Events own nothing and are owned by nobody; there are many of them.
fn is_ignored(key: &str) -> bool {
    key.starts_with("/events/") || key.starts_with("events.k8s.io/events/")
}
