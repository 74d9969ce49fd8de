//! Deployment controller: one `ReplicaSet` per pod template, and rollouts between templates.

mod conditions;
mod plan;
mod proportional_scaling;
mod replica_set;
mod rollout_limits;
mod status;
#[cfg(test)]
mod tests;

use parking_lot::Mutex;
use serde_json::{Value, json};

use self::{
    plan::{DeploymentPlan, plan},
    replica_set::same_template,
};
use super::{
    api_client::{ApiClient, ControllerError, PatchKind, collection_path, object_path},
    control_loop::{Controller, ObjectChange, ReconcileResult},
    event_recorder::{EventRecorder, EventType},
    pod_state::{controller_of, controller_ref, int_at},
    selector::Selector,
    selector_index::{NamespacedName, SelectorIndex, workload_selector},
    store_query,
};
use crate::{
    clock,
    object::{IndexedMeta, MetaAccessor, get_path},
    store::Store,
};

const DEPLOYMENTS: &str = "apps/deployments/";
const REPLICA_SETS: &str = "apps/replicasets/";
const PODS: &str = "/pods/";

/// The deployment controller.
pub struct DeploymentController {
    api: ApiClient,
    store: Store,
    recorder: EventRecorder,
    selector_index: Mutex<SelectorIndex>,
}

fn selector_of(object: &Value) -> Option<Selector> {
    get_path(object, &["spec", "selector"])
        .and_then(Selector::from_value)
        .filter(|selector| !selector.is_empty())
}

impl DeploymentController {
    /// Writes through `api`, reads from `store`, records events with `recorder`.
    pub fn new(api: ApiClient, store: Store, recorder: EventRecorder) -> Self {
        Self { api, store, recorder, selector_index: Mutex::default() }
    }

    /// Deployments that control a `ReplicaSet` or may adopt it.
    fn deployments_of_set(&self, namespace: &str, set: &IndexedMeta) -> Vec<NamespacedName> {
        let Some(owner) = set.controller() else {
            return self.selector_index.lock().selecting(namespace, set);
        };
        let is_ours = &*owner.kind == "Deployment" && &*owner.api_version == "apps/v1";
        is_ours.then(|| (namespace.to_owned(), owner.name.to_string())).into_iter().collect()
    }

    fn deployments_of_pod(&self, namespace: &str, pod: &IndexedMeta) -> Vec<NamespacedName> {
        let owner = pod.controller().filter(|owner| &*owner.kind == "ReplicaSet");
        let set =
            owner.and_then(|owner| self.store.get(&format!("{REPLICA_SETS}{namespace}/{}", owner.name)));
        set.map(|set| self.deployments_of_set(namespace, set.document.indexed_meta())).unwrap_or_default()
    }

    /// Adopts matching `ReplicaSets` and releases those that no longer match.
    async fn claim_sets(
        &self,
        deployment: &Value,
        selector: &Selector,
    ) -> Result<Vec<Value>, ControllerError> {
        let is_own = |set: &Value| controller_of(set).is_some_and(|owner| owner.uid == deployment.uid());
        let prefix = format!("{REPLICA_SETS}{}/", deployment.namespace());
        let mut has_written = false;
        for set in store_query::list_claimable(&self.store, &prefix, deployment.uid(), selector) {
            let fits = selector.matches(&set);
            let owner = if is_own(&set) && !fits {
                json!({"$patch": "delete", "uid": deployment.uid()})
            } else if fits && controller_of(&set).is_none() && !set.is_terminating() {
                controller_ref(deployment, "apps/v1", "Deployment")
            } else {
                continue;
            };
            if !deployment.is_terminating() {
                has_written = true;
                let path = object_path("apps/v1", set.namespace(), "replicasets", set.name());
                let change = json!({"metadata": {"uid": set.uid(), "ownerReferences": [owner]}});
                match self.api.patch(&path, PatchKind::Strategic, &change).await {
                    Err(trouble) if !trouble.is_not_found() && !trouble.is_invalid() => return Err(trouble),
                    _ => {}
                }
            }
        }
        tracing::trace!(has_written, deployment = deployment.name(), "replica sets claimed");
        let mut own = store_query::list_controlled(&self.store, &prefix, [deployment.uid()]);
        own.retain(|set| selector.matches(set));
        Ok(own)
    }

    fn pods(&self, deployment: &Value, sets: &[Value]) -> Vec<Value> {
        let prefix = format!("{PODS}{}/", deployment.namespace());
        store_query::list_controlled(&self.store, &prefix, sets.iter().map(MetaAccessor::uid))
    }

    async fn apply_plan(
        &self,
        deployment: &Value,
        plan: DeploymentPlan,
    ) -> Result<ReconcileResult<NamespacedName>, ControllerError> {
        let DeploymentPlan { create, update, delete, status, events: told, requeue_after: again } = plan;
        let sets = collection_path("apps/v1", deployment.namespace(), "replicasets");
        if let Some(set) = create {
            match self.api.create(&sets, &set).await {
                Err(trouble) if trouble.is_namespace_terminating() => return Ok(ReconcileResult::default()),
                Err(trouble) => return self.handle_create_error(deployment, &set, trouble).await,
                Ok(_) => {}
            }
        }
        for set in update {
            self.api.update(&format!("{sets}/{}", set.name()), &set).await?;
        }
        for name in delete {
            match self
                .api
                .delete(&format!("{sets}/{name}"), &json!({"kind": "DeleteOptions", "apiVersion": "v1"}))
                .await
            {
                Err(trouble) if !trouble.is_not_found() => return Err(trouble),
                _ => {}
            }
        }
        for text in told {
            self.recorder.record(deployment, EventType::Normal, "ScalingReplicaSet", &text).await;
        }
        if let Some(changed) = status {
            self.write_status(&changed).await?;
        }
        Ok(ReconcileResult { requeue_after: again, enqueue: Vec::new() })
    }

    /// On a hash collision with another template, `collisionCount` is incremented and the next name is tried.
    async fn handle_create_error(
        &self,
        deployment: &Value,
        set: &Value,
        trouble: ControllerError,
    ) -> Result<ReconcileResult<NamespacedName>, ControllerError> {
        let mut changed = deployment.clone();
        if trouble.is_already_exists() {
            let present = store_query::get_object(
                &self.store,
                &format!("{REPLICA_SETS}{}/{}", set.namespace(), set.name()),
            );
            let is_own = present.is_some_and(|present| {
                controller_of(&present).is_some_and(|owner| owner.uid == deployment.uid())
                    && same_template(&present, deployment)
            });
            if !is_own {
                let count = int_at(deployment, &["status", "collisionCount"]) + 1;
                changed["status"]["collisionCount"] = count.into();
                self.write_status(&changed).await?;
            }
            return Err(trouble);
        }
        let text = format!("Failed to create new replica set \"{}\": {trouble}", set.name());
        if status::has_deadline(deployment) {
            let mut conditions = conditions::DeploymentConditions::from_status(
                changed.get("status").unwrap_or(&Value::Null),
                clock::now(),
            );
            conditions.set("Progressing", "False", "ReplicaSetCreateError", &text);
            conditions.write_into(&mut changed["status"]);
            if changed != *deployment {
                self.write_status(&changed).await.ok();
            }
        }
        self.recorder.record(deployment, EventType::Warning, "ReplicaSetCreateError", &text).await;
        Err(trouble)
    }

    async fn write_status(&self, deployment: &Value) -> Result<(), ControllerError> {
        let path = object_path("apps/v1", deployment.namespace(), "deployments", deployment.name());
        match self.api.update(&format!("{path}/status"), deployment).await {
            Err(trouble) if !trouble.is_not_found() => Err(trouble),
            _ => Ok(()),
        }
    }
}

impl Controller for DeploymentController {
    type Key = NamespacedName;
    const NAME: &'static str = "deployment-controller";
    const PREFIXES: &'static [&'static str] = &[DEPLOYMENTS, REPLICA_SETS, PODS];

    fn keys_for_change(&self, change: &ObjectChange<'_>) -> Vec<NamespacedName> {
        if change.has_prefix(DEPLOYMENTS) {
            let key = change.namespaced_name();
            self.selector_index
                .lock()
                .set(&key, change.current.and_then(|entry| workload_selector(&entry.document)));
            return vec![key];
        }
        let namespace = change.namespace();
        if change.has_prefix(REPLICA_SETS) {
            let states = [change.current, change.previous].into_iter().flatten();
            return states
                .flat_map(|set| self.deployments_of_set(namespace, set.document.indexed_meta()))
                .collect();
        }
        // Other pod changes show in the status of the ReplicaSet; a rollout may wait for a deleted pod.
        match (change.current, change.previous) {
            (None, Some(pod)) => self.deployments_of_pod(namespace, pod.document.indexed_meta()),
            _ => Vec::new(),
        }
    }

    fn reset(&self) {
        self.selector_index.lock().clear();
    }

    async fn reconcile(
        &self,
        (namespace, name): &NamespacedName,
    ) -> Result<ReconcileResult<NamespacedName>, ControllerError> {
        let Some(deployment) =
            store_query::get_object(&self.store, &format!("{DEPLOYMENTS}{namespace}/{name}"))
        else {
            return Ok(ReconcileResult::default());
        };
        let Some(selector) = selector_of(&deployment) else {
            let text = "This deployment is selecting all pods. A non-empty selector is required.";
            self.recorder.record(&deployment, EventType::Warning, "SelectingAll", text).await;
            return Ok(ReconcileResult::default());
        };
        let sets = self.claim_sets(&deployment, &selector).await?;
        let pods = self.pods(&deployment, &sets);
        let plan = plan(deployment.clone(), sets, &pods, clock::now());
        self.apply_plan(&deployment, plan).await
    }
}
