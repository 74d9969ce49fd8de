//! Namespaces that are being deleted: everything in them goes, pods first; then the namespace is let go.
//!
//! Woken by every object that vanishes from such a namespace, so that nobody waits longer than the finalizers take.

mod conditions;
mod remaining;

use std::{
    collections::{BTreeMap, HashSet},
    sync::Arc,
    time::Duration,
};

use parking_lot::Mutex;
use serde_json::{Value, json};

use self::{
    conditions::Conditions,
    remaining::{Remaining, pods_grace},
};
use super::{
    api::{Api, Trouble, collection, object},
    run::{Change, Controller, Next},
    view,
};
use crate::{
    clock,
    object::{Meta, MetaMut, at, text},
    registry::{Registry, Resource},
    store::Store,
};

const FINALIZER: &str = "kubernetes";
const FINALIZERS_TAKE: u64 = 15;

/// See the module.
pub struct Namespaces {
    api: Api,
    store: Store,
    registry: Arc<Registry>,
    going: Mutex<HashSet<String>>,
}

/// What a pass over a namespace found.
#[derive(Default)]
struct Sweep {
    conditions: Conditions,
    remaining: Remaining,
    /// Seconds until it makes sense to look again; 0 if everything is gone.
    estimate: u64,
    troubles: Vec<Trouble>,
}

impl Namespaces {
    /// Sees the whole store, writes through the API.
    pub fn new(api: Api, store: Store, registry: Arc<Registry>) -> Self {
        Self { api, store, registry, going: Mutex::default() }
    }

    async fn sweep(&self, namespace: &Value) -> Result<Sweep, Trouble> {
        let name = namespace.name();
        let mut sweep = Sweep::default();
        let (pods, others): (Vec<_>, Vec<_>) =
            self.deletable().into_iter().partition(|one| one.id.group.is_empty() && one.id.plural == "pods");
        for resource in pods {
            self.sweep_resource(&resource, namespace, &mut sweep).await;
        }
        if sweep.remaining.is_empty() {
            for resource in others {
                self.sweep_resource(&resource, namespace, &mut sweep).await;
            }
            sweep.conditions.remaining(&sweep.remaining);
        }
        tracing::debug!(namespace = name, estimate = sweep.estimate, "the namespace was swept");
        Ok(sweep)
    }

    /// One version of each namespaced resource that can be deleted.
    fn deletable(&self) -> Vec<Arc<Resource>> {
        let mut preferred: BTreeMap<(String, String), Arc<Resource>> = BTreeMap::new();
        for resource in self.registry.all().values() {
            if !resource.namespaced || !resource.verbs.contains(&"delete") {
                continue;
            }
            let key = (resource.id.group.clone(), resource.id.plural.clone());
            let is_storage = resource.id.version == resource.storage_version;
            if is_storage || !preferred.contains_key(&key) {
                preferred.insert(key, Arc::clone(resource));
            }
        }
        preferred.into_values().collect()
    }

    async fn sweep_resource(&self, resource: &Resource, namespace: &Value, sweep: &mut Sweep) {
        let prefix = format!("{}/{}/", resource.storage, namespace.name());
        if view::is_empty(&self.store, &prefix) {
            return;
        }
        let is_pods = resource.id.group.is_empty() && resource.id.plural == "pods";
        let grace = if is_pods { pods_grace(&view::list(&self.store, &prefix)) } else { 0 };
        let grace = remaining::still_allowed(grace, namespace.meta("deletionTimestamp"), clock::now());
        let trouble = match self.delete_all(resource, namespace.name()).await {
            Err(trouble) => Some(trouble),
            Ok(()) => self.count_what_is_left(resource, namespace.name(), grace, sweep),
        };
        sweep.estimate = sweep.estimate.max(grace);
        if let Some(trouble) = trouble {
            sweep.conditions.content_failed(&trouble.to_string());
            sweep.troubles.push(trouble);
        }
    }

    fn count_what_is_left(
        &self,
        resource: &Resource,
        namespace: &str,
        grace: u64,
        sweep: &mut Sweep,
    ) -> Option<Trouble> {
        let left = view::list(&self.store, &format!("{}/{namespace}/", resource.storage));
        if left.is_empty() {
            return None;
        }
        let has_finalizers = sweep.remaining.add(&resource.id.plural, &resource.id.group, &left);
        if has_finalizers {
            sweep.estimate = sweep.estimate.max(FINALIZERS_TAKE);
        }
        (grace == 0 && !has_finalizers).then(|| {
            let id = &resource.id;
            Trouble::Several(format!(
                "unexpected items still remain in namespace: {namespace} for gvr: {}/{}, Resource={}",
                id.group, id.version, id.plural
            ))
        })
    }

    async fn delete_all(&self, resource: &Resource, namespace: &str) -> Result<(), Trouble> {
        let path = collection(&resource.api_version(), namespace, &resource.id.plural);
        let options = json!({"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": "Background"});
        if resource.verbs.contains(&"deletecollection") {
            match self.api.delete(&path, &options).await {
                Err(trouble) if trouble.is_not_found() || trouble.is_not_supported() => {}
                other => return other,
            }
        }
        for item in view::list(&self.store, &format!("{}/{namespace}/", resource.storage)) {
            match self.api.delete(&format!("{path}/{}", item.name()), &options).await {
                Err(trouble) if !trouble.is_not_found() && !trouble.is_not_supported() => {
                    return Err(trouble);
                }
                _ => {}
            }
        }
        Ok(())
    }

    async fn mark_terminating(&self, namespace: Value, path: &str) -> Result<Value, Trouble> {
        if text(&namespace, &["status", "phase"]) == "Terminating" {
            return Ok(namespace);
        }
        let mut changed = namespace;
        changed["status"]["phase"] = "Terminating".into();
        self.api.update(&format!("{path}/status"), &changed).await
    }

    async fn finalize(&self, mut namespace: Value, path: &str) -> Result<(), Trouble> {
        let finalizers = at(&namespace, &["spec", "finalizers"]).and_then(Value::as_array);
        let mut left: Vec<Value> = finalizers.cloned().unwrap_or_default();
        left.retain(|one| one.as_str() != Some(FINALIZER));
        namespace["spec"]["finalizers"] = left.into();
        namespace.drop_field("status");
        match self.api.update(&format!("{path}/finalize"), &namespace).await {
            Err(trouble) if !trouble.is_not_found() => Err(trouble),
            _ => Ok(()),
        }
    }

    async fn remove(&self, name: &str) -> Result<Next<String>, Trouble> {
        let path = object("v1", "", "namespaces", name);
        let namespace = self.api.get(&path).await?;
        if !namespace.is_terminating() {
            return Ok(Next::default());
        }
        let namespace = self.mark_terminating(namespace, &path).await?;
        let finalizers = at(&namespace, &["spec", "finalizers"]).and_then(Value::as_array);
        if finalizers.is_none_or(Vec::is_empty) {
            return Ok(Next::default());
        }
        let sweep = self.sweep(&namespace).await?;
        let mut changed = namespace;
        if sweep.conditions.write_into(&mut changed, clock::now()) {
            changed = self.api.update(&format!("{path}/status"), &changed).await?;
        }
        if let Some(trouble) = sweep.troubles.into_iter().next() {
            return Err(trouble);
        }
        if sweep.estimate > 0 {
            let again = Some(Duration::from_secs(sweep.estimate / 2 + 1));
            return Ok(Next { again, also: Vec::new() });
        }
        self.finalize(changed, &path).await?;
        Ok(Next::default())
    }
}

impl Controller for Namespaces {
    type Key = String;
    const NAME: &'static str = "namespace-controller";
    const PREFIXES: &'static [&'static str] = &[""];

    fn wake(&self, change: &Change<'_>) -> Vec<String> {
        if change.is_in("/namespaces/") {
            let is_going = change.now.is_some_and(|entry| entry.document.value().is_terminating());
            let name = change.name().to_owned();
            return if is_going {
                self.going.lock().insert(name.clone());
                vec![name]
            } else {
                self.going.lock().remove(&name);
                Vec::new()
            };
        }
        let namespace = change.namespace();
        let is_news = change.now.is_none() && !namespace.is_empty() && self.going.lock().contains(namespace);
        if is_news { vec![namespace.to_owned()] } else { Vec::new() }
    }

    async fn reconcile(&self, key: &String) -> Result<Next<String>, Trouble> {
        match self.remove(key).await {
            Err(trouble) if trouble.is_not_found() => Ok(Next::default()),
            other => other,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        object::Draft,
        store::{Entry, Expect, Place, Settings},
    };

    /// A namespace is not looked at again only after the time that finalizers may take: what vanishes wakes it.
    #[tokio::test]
    async fn what_vanishes_from_a_namespace_that_goes_wakes_it_and_nothing_else_does() {
        let store = Store::open(Place::Memory, Settings::default()).await.unwrap();
        let nobody = tower::service_fn(async |_: http::Request<kube::client::Body>| {
            Err::<http::Response<kube::client::Body>, _>(std::io::Error::other("nobody is asked"))
        });
        let api = Api::of(&kube::Client::new(nobody, "default"), "namespace-controller");
        let namespaces = Namespaces::new(api, store.clone(), Arc::default());
        let entry = async |key: &str, meta: Value| {
            let draft = Draft::of(&json!({"metadata": meta})).unwrap();
            store.write(key, Expect::Any, Some(draft)).await.unwrap();
            store.get(key).unwrap()
        };
        let wake = |key: &str, now: Option<&Entry>| namespaces.wake(&Change { key, now, before: None });
        let going = json!({"name": "a", "deletionTimestamp": "2026-01-01T00:00:00Z"});
        let (going, other) =
            (entry("/namespaces//a", going).await, entry("/configmaps/a/x", json!({"name": "x"})).await);
        assert_eq!(wake("/configmaps/a/x", None), Vec::<String>::new(), "it does not go yet");
        assert_eq!(wake("/namespaces//a", Some(&going)), ["a"]);
        assert_eq!(wake("/configmaps/a/x", Some(&other)), Vec::<String>::new(), "it is still there");
        assert_eq!(wake("/configmaps/a/x", None), ["a"]);
        assert_eq!(wake("example.org/widgets/a/w", None), ["a"]);
        assert_eq!(wake("/configmaps/b/x", None), Vec::<String>::new());
        assert_eq!(wake("/namespaces//a", None), Vec::<String>::new());
        assert_eq!(wake("/configmaps/a/x", None), Vec::<String>::new(), "it is gone");
    }
}
