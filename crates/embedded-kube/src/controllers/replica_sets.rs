//! `ReplicaSet` controller: keeps the desired number of pods of a template running.

mod decide;
#[cfg(test)]
mod tests;

use futures::future::join_all;
use parking_lot::Mutex;
use serde_json::{Value, json};

use self::decide::{
    PodClaim, claim_pods, compute_status, has_surplus, new_pod, next_available, pods_to_create,
    pods_to_delete,
};
use super::{
    api_client::{ApiClient, ControllerError, PatchKind, collection_path, object_path},
    control_loop::{Controller, ObjectChange, ReconcileResult},
    event_recorder::{EventRecorder, EventType},
    pod_state::{controller_of, controller_ref},
    selector::Selector,
    selector_index::{NamespacedName, SelectorIndex, workload_selector},
    store_query,
};
use crate::{
    clock,
    object::{IndexedMeta, MetaAccessor, get_path},
    store::{Entry, Store},
};

const REPLICA_SETS: &str = "apps/replicasets/";
const PODS: &str = "/pods/";
const INITIAL_BATCH: usize = 1;

/// The replica set controller.
pub struct ReplicaSetController {
    api: ApiClient,
    store: Store,
    recorder: EventRecorder,
    selector_index: Mutex<SelectorIndex>,
}

impl ReplicaSetController {
    /// Writes through `api`, reads from `store`, records events with `recorder`.
    pub fn new(api: ApiClient, store: Store, recorder: EventRecorder) -> Self {
        Self { api, store, recorder, selector_index: Mutex::default() }
    }

    /// Sorts the pods of a `ReplicaSet` into owned, adoptable and releasable ones.
    fn claim_pods(&self, set: &Value) -> PodClaim {
        let Some(selector) = get_path(set, &["spec", "selector"]).and_then(Selector::from_value) else {
            return PodClaim::default();
        };
        let pods = store_query::list_claimable(
            &self.store,
            &format!("{PODS}{}/", set.namespace()),
            set.uid(),
            &selector,
        );
        claim_pods(set, &selector, pods)
    }

    /// `ReplicaSets` that control a pod or may adopt it.
    fn sets_of_pod(&self, namespace: &str, pod: &IndexedMeta) -> Vec<NamespacedName> {
        let Some(owner) = pod.controller() else {
            return self.selector_index.lock().selecting(namespace, pod);
        };
        let is_ours = &*owner.kind == "ReplicaSet" && &*owner.api_version == "apps/v1";
        is_ours.then(|| (namespace.to_owned(), owner.name.to_string())).into_iter().collect()
    }

    /// Returns whether anything was written.
    async fn adopt_and_release(&self, set: &Value, claim: &PodClaim) -> Result<bool, ControllerError> {
        for pod in &claim.adopt {
            let owners = [controller_ref(set, "apps/v1", "ReplicaSet")];
            self.patch_pod(pod, &json!({"metadata": {"uid": pod.uid(), "ownerReferences": owners}})).await?;
        }
        for pod in &claim.release {
            let owners = [json!({"$patch": "delete", "uid": set.uid()})];
            self.patch_pod(pod, &json!({"metadata": {"uid": pod.uid(), "ownerReferences": owners}})).await?;
        }
        Ok(!claim.adopt.is_empty() || !claim.release.is_empty())
    }

    async fn patch_pod(&self, pod: &Value, change: &Value) -> Result<(), ControllerError> {
        let path = object_path("v1", pod.namespace(), "pods", pod.name());
        match self.api.patch(&path, PatchKind::Strategic, change).await {
            Err(trouble) if trouble.is_not_found() || trouble.is_invalid() => Ok(()),
            other => other.map(drop),
        }
    }

    /// Slow start: batches double in size, so a persistent error fails few requests.
    async fn create_pods(&self, set: &Value, mut count: usize) -> Result<(), ControllerError> {
        let pod = new_pod(set);
        let mut batch = INITIAL_BATCH;
        while count > 0 {
            batch = batch.min(count);
            let outcomes = join_all((0..batch).map(|_| self.create_pod(set, &pod))).await;
            outcomes.into_iter().collect::<Result<(), ControllerError>>()?;
            count -= batch;
            batch *= 2;
        }
        Ok(())
    }

    async fn create_pod(&self, set: &Value, pod: &Value) -> Result<(), ControllerError> {
        match self.api.create(&collection_path("v1", set.namespace(), "pods"), pod).await {
            Ok(pod) => {
                let text = format!("Created pod: {}", pod.name());
                self.recorder.record(set, EventType::Normal, "SuccessfulCreate", &text).await;
                Ok(())
            }
            Err(trouble) if trouble.is_namespace_terminating() => Ok(()),
            Err(trouble) => {
                let text = format!("Error creating: {trouble}");
                self.recorder.record(set, EventType::Warning, "FailedCreate", &text).await;
                Err(trouble)
            }
        }
    }

    async fn delete_pod(&self, set: &Value, name: &str) -> Result<(), ControllerError> {
        let path = object_path("v1", set.namespace(), "pods", name);
        match self.api.delete(&path, &json!({"kind": "DeleteOptions", "apiVersion": "v1"})).await {
            Ok(()) => {
                let text = format!("Deleted pod: {name}");
                self.recorder.record(set, EventType::Normal, "SuccessfulDelete", &text).await;
                Ok(())
            }
            Err(trouble) if trouble.is_not_found() => Ok(()),
            Err(trouble) => {
                let text = format!("Error deleting: {trouble}");
                self.recorder.record(set, EventType::Warning, "FailedDelete", &text).await;
                Err(trouble)
            }
        }
    }

    /// Creates missing pods or deletes surplus ones.
    async fn sync_replicas(
        &self,
        set: &Value,
        active: &[Value],
    ) -> Result<(), (&'static str, ControllerError)> {
        let missing = pods_to_create(set, active.len());
        if missing > 0 {
            return self.create_pods(set, missing).await.map_err(|trouble| ("FailedCreate", trouble));
        }
        if !has_surplus(set, active.len()) {
            return Ok(());
        }
        let names = pods_to_delete(set, active.to_vec(), &self.related_pods(set));
        let outcomes = join_all(names.iter().map(|name| self.delete_pod(set, name))).await;
        outcomes
            .into_iter()
            .collect::<Result<(), ControllerError>>()
            .map_err(|trouble| ("FailedDelete", trouble))
    }

    /// Pods of all `ReplicaSets` with the same controller: nodes with many of them are scaled down first.
    fn related_pods(&self, set: &Value) -> Vec<Value> {
        let Some(owner) = controller_of(set) else { return Vec::new() };
        let within = |prefix: &str| format!("{prefix}{}/", set.namespace());
        let sisters = store_query::list_controlled(&self.store, &within(REPLICA_SETS), [owner.uid.as_str()]);
        store_query::list_controlled(&self.store, &within(PODS), sisters.iter().map(MetaAccessor::uid))
    }

    async fn write_status(&self, set: Value, status: Value) -> Result<(), ControllerError> {
        if set.get("status") == Some(&status) {
            return Ok(());
        }
        let path = object_path("apps/v1", set.namespace(), "replicasets", set.name());
        let mut changed = set;
        changed["status"] = status;
        match self.api.update(&format!("{path}/status"), &changed).await {
            Err(trouble) if !trouble.is_not_found() => Err(trouble),
            _ => Ok(()),
        }
    }
}

impl Controller for ReplicaSetController {
    type Key = NamespacedName;
    const NAME: &'static str = "replicaset-controller";
    const PREFIXES: &'static [&'static str] = &[REPLICA_SETS, PODS];

    fn keys_for_change(&self, change: &ObjectChange<'_>) -> Vec<NamespacedName> {
        if change.has_prefix(REPLICA_SETS) {
            let key = change.namespaced_name();
            self.selector_index
                .lock()
                .set(&key, change.current.and_then(|entry| workload_selector(&entry.document)));
            return vec![key];
        }
        let states = [change.current, change.previous].into_iter().flatten();
        states
            .flat_map(|pod: &Entry| self.sets_of_pod(change.namespace(), pod.document.indexed_meta()))
            .collect()
    }

    fn reset(&self) {
        self.selector_index.lock().clear();
    }

    async fn reconcile(
        &self,
        (namespace, name): &NamespacedName,
    ) -> Result<ReconcileResult<NamespacedName>, ControllerError> {
        let Some(set) = store_query::get_object(&self.store, &format!("{REPLICA_SETS}{namespace}/{name}"))
        else {
            return Ok(ReconcileResult::default());
        };
        let mut mine = self.claim_pods(&set);
        if self.adopt_and_release(&set, &mine).await? {
            mine = self.claim_pods(&set);
        }
        let managed =
            if set.is_terminating() { Ok(()) } else { self.sync_replicas(&set, &mine.active).await };
        let failure = managed.as_ref().err().map(|(reason, trouble)| (*reason, trouble.to_string()));
        let failure = failure.as_ref().map(|(reason, text)| (*reason, text.as_str()));
        let mine = self.claim_pods(&set);
        let now = clock::now();
        let again = next_available(&set, &mine.active, now);
        let status = compute_status(&set, &mine, failure, now);
        self.write_status(set, status).await?;
        managed.map_err(|(_, trouble)| trouble)?;
        Ok(ReconcileResult { requeue_after: again, enqueue: Vec::new() })
    }
}
