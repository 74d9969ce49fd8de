//! Namespace controller: deletes the content of terminating namespaces, pods first, then removes the finalizer.
//!
//! Every object that disappears from a terminating namespace triggers a reconcile, so deletion takes no longer than the
//! finalizers.

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
    conditions::NamespaceConditions,
    remaining::{RemainingContent, pods_grace},
};
use super::{
    api_client::{ApiClient, ControllerError, collection_path, object_path},
    control_loop::{Controller, ObjectChange, ReconcileResult},
    store_query,
};
use crate::{
    clock,
    object::{MetaAccessor, MetaAccessorMut, get_path, str_at},
    registry::{Registry, Resource},
    store::Store,
};

const FINALIZER: &str = "kubernetes";
const FINALIZER_RETRY_SECONDS: u64 = 15;

/// The namespace controller.
pub struct NamespaceController {
    api: ApiClient,
    store: Store,
    registry: Arc<Registry>,
    terminating: Mutex<HashSet<String>>,
}

/// Result of one deletion pass over a namespace.
#[derive(Default)]
struct DeletionPass {
    conditions: NamespaceConditions,
    remaining: RemainingContent,
    /// Seconds until the next pass; 0 if the namespace is empty.
    retry_after_seconds: u64,
    errors: Vec<ControllerError>,
}

impl NamespaceController {
    /// Reads the whole store, writes through the API.
    pub fn new(api: ApiClient, store: Store, registry: Arc<Registry>) -> Self {
        Self { api, store, registry, terminating: Mutex::default() }
    }

    async fn delete_content(&self, namespace: &Value) -> Result<DeletionPass, ControllerError> {
        let name = namespace.name();
        let mut sweep = DeletionPass::default();
        let (pods, others): (Vec<_>, Vec<_>) = self
            .deletable_resources()
            .into_iter()
            .partition(|one| one.id.group.is_empty() && one.id.plural == "pods");
        for resource in pods {
            self.delete_resource(&resource, namespace, &mut sweep).await;
        }
        if sweep.remaining.is_empty() {
            for resource in others {
                self.delete_resource(&resource, namespace, &mut sweep).await;
            }
            sweep.conditions.remaining(&sweep.remaining);
        }
        tracing::debug!(
            namespace = name,
            estimate = sweep.retry_after_seconds,
            "namespace deletion pass finished"
        );
        Ok(sweep)
    }

    /// One version of each namespaced resource that supports deletion.
    fn deletable_resources(&self) -> Vec<Arc<Resource>> {
        let mut preferred: BTreeMap<(String, String), Arc<Resource>> = BTreeMap::new();
        for resource in self.registry.catalogue().values() {
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

    async fn delete_resource(&self, resource: &Resource, namespace: &Value, sweep: &mut DeletionPass) {
        let prefix = format!("{}/{}/", resource.storage_prefix, namespace.name());
        if store_query::has_no_objects(&self.store, &prefix) {
            return;
        }
        let is_pods = resource.id.group.is_empty() && resource.id.plural == "pods";
        let grace = if is_pods { pods_grace(&store_query::list_objects(&self.store, &prefix)) } else { 0 };
        let grace = remaining::remaining_grace(grace, namespace.meta_str("deletionTimestamp"), clock::now());
        let trouble = match self.delete_all(resource, namespace.name()).await {
            Err(trouble) => Some(trouble),
            Ok(()) => self.count_remaining(resource, namespace.name(), grace, sweep),
        };
        sweep.retry_after_seconds = sweep.retry_after_seconds.max(grace);
        if let Some(trouble) = trouble {
            sweep.conditions.content_failed(&trouble.to_string());
            sweep.errors.push(trouble);
        }
    }

    fn count_remaining(
        &self,
        resource: &Resource,
        namespace: &str,
        grace: u64,
        sweep: &mut DeletionPass,
    ) -> Option<ControllerError> {
        let left =
            store_query::list_objects(&self.store, &format!("{}/{namespace}/", resource.storage_prefix));
        if left.is_empty() {
            return None;
        }
        let has_finalizers = sweep.remaining.add(&resource.id.plural, &resource.id.group, &left);
        if has_finalizers {
            sweep.retry_after_seconds = sweep.retry_after_seconds.max(FINALIZER_RETRY_SECONDS);
        }
        (grace == 0 && !has_finalizers).then(|| {
            let id = &resource.id;
            ControllerError::Aggregate(format!(
                "unexpected items still remain in namespace: {namespace} for gvr: {}/{}, Resource={}",
                id.group, id.version, id.plural
            ))
        })
    }

    async fn delete_all(&self, resource: &Resource, namespace: &str) -> Result<(), ControllerError> {
        let path = collection_path(&resource.api_version(), namespace, &resource.id.plural);
        let options = json!({"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": "Background"});
        if resource.verbs.contains(&"deletecollection") {
            match self.api.delete(&path, &options).await {
                Err(trouble) if trouble.is_not_found() || trouble.is_not_supported() => {}
                other => return other,
            }
        }
        for item in
            store_query::list_objects(&self.store, &format!("{}/{namespace}/", resource.storage_prefix))
        {
            match self.api.delete(&format!("{path}/{}", item.name()), &options).await {
                Err(trouble) if !trouble.is_not_found() && !trouble.is_not_supported() => {
                    return Err(trouble);
                }
                _ => {}
            }
        }
        Ok(())
    }

    async fn mark_terminating(&self, namespace: Value, path: &str) -> Result<Value, ControllerError> {
        if str_at(&namespace, &["status", "phase"]) == "Terminating" {
            return Ok(namespace);
        }
        let mut changed = namespace;
        changed["status"]["phase"] = "Terminating".into();
        self.api.update(&format!("{path}/status"), &changed).await
    }

    async fn finalize(&self, mut namespace: Value, path: &str) -> Result<(), ControllerError> {
        let finalizers = get_path(&namespace, &["spec", "finalizers"]).and_then(Value::as_array);
        let mut left: Vec<Value> = finalizers.cloned().unwrap_or_default();
        left.retain(|one| one.as_str() != Some(FINALIZER));
        namespace["spec"]["finalizers"] = left.into();
        namespace.drop_field("status");
        match self.api.update(&format!("{path}/finalize"), &namespace).await {
            Err(trouble) if !trouble.is_not_found() => Err(trouble),
            _ => Ok(()),
        }
    }

    async fn reconcile_deletion(&self, name: &str) -> Result<ReconcileResult<String>, ControllerError> {
        let path = object_path("v1", "", "namespaces", name);
        let namespace = self.api.get(&path).await?;
        if !namespace.is_terminating() {
            return Ok(ReconcileResult::default());
        }
        let namespace = self.mark_terminating(namespace, &path).await?;
        let finalizers = get_path(&namespace, &["spec", "finalizers"]).and_then(Value::as_array);
        if finalizers.is_none_or(Vec::is_empty) {
            return Ok(ReconcileResult::default());
        }
        let sweep = self.delete_content(&namespace).await?;
        let mut changed = namespace;
        if sweep.conditions.write_into(&mut changed, clock::now()) {
            changed = self.api.update(&format!("{path}/status"), &changed).await?;
        }
        if let Some(trouble) = sweep.errors.into_iter().next() {
            return Err(trouble);
        }
        if sweep.retry_after_seconds > 0 {
            let again = Some(Duration::from_secs(sweep.retry_after_seconds / 2 + 1));
            return Ok(ReconcileResult { requeue_after: again, enqueue: Vec::new() });
        }
        self.finalize(changed, &path).await?;
        Ok(ReconcileResult::default())
    }
}

impl Controller for NamespaceController {
    type Key = String;
    const NAME: &'static str = "namespace-controller";
    const PREFIXES: &'static [&'static str] = &[""];

    fn keys_for_change(&self, change: &ObjectChange<'_>) -> Vec<String> {
        if change.has_prefix("/namespaces/") {
            let is_going = change.current.is_some_and(|entry| entry.document.value().is_terminating());
            let name = change.name().to_owned();
            return if is_going {
                self.terminating.lock().insert(name.clone());
                vec![name]
            } else {
                self.terminating.lock().remove(&name);
                Vec::new()
            };
        }
        let namespace = change.namespace();
        let is_news =
            change.current.is_none() && !namespace.is_empty() && self.terminating.lock().contains(namespace);
        if is_news { vec![namespace.to_owned()] } else { Vec::new() }
    }

    async fn reconcile(&self, key: &String) -> Result<ReconcileResult<String>, ControllerError> {
        match self.reconcile_deletion(key).await {
            Err(trouble) if trouble.is_not_found() => Ok(ReconcileResult::default()),
            other => other,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        object::Draft,
        store::{Entry, HistoryLimits, Precondition, StoreLocation},
    };

    /// The namespace is reconciled when an object disappears, not only after the finalizer timeout.
    #[tokio::test]
    async fn what_vanishes_from_a_namespace_that_goes_wakes_it_and_nothing_else_does() {
        let store = Store::open(StoreLocation::Memory, HistoryLimits::default()).await.unwrap();
        let nobody = tower::service_fn(async |_: http::Request<kube::client::Body>| {
            Err::<http::Response<kube::client::Body>, _>(std::io::Error::other("nobody is asked"))
        });
        let api = ApiClient::for_account(&kube::Client::new(nobody, "default"), "namespace-controller");
        let namespaces = NamespaceController::new(api, store.clone(), Arc::default());
        let entry = async |key: &str, meta: Value| {
            let draft = Draft::from_value(&json!({"metadata": meta})).unwrap();
            store.write(key, Precondition::Any, Some(draft)).await.unwrap();
            store.get(key).unwrap()
        };
        let wake = |key: &str, now: Option<&Entry>| {
            namespaces.keys_for_change(&ObjectChange { key, current: now, previous: None })
        };
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
