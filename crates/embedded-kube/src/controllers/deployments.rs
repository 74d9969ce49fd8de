//! Deployments: one replica set per template, and the way from one template to the next.

mod conditions;
mod limits;
mod plan;
mod scale;
mod set;
mod status;
#[cfg(test)]
mod tests;

use parking_lot::Mutex;
use serde_json::{Value, json};

use self::{
    plan::{Plan, plan},
    set::same_template,
};
use super::{
    api::{Api, PatchKind, Trouble, collection, object},
    pods::{controller_of, controller_ref, number},
    recorder::{Kind, Recorder},
    run::{Change, Controller, Next},
    selecting::{Key, Selecting, selector_in},
    selector::Selector,
    view,
};
use crate::{
    clock,
    object::{Marks, Meta, at},
    store::Store,
};

const DEPLOYMENTS: &str = "apps/deployments/";
const SETS: &str = "apps/replicasets/";
const PODS: &str = "/pods/";

/// See the module.
pub struct Deployments {
    api: Api,
    store: Store,
    recorder: Recorder,
    selecting: Mutex<Selecting>,
}

fn selector_of(object: &Value) -> Option<Selector> {
    at(object, &["spec", "selector"]).and_then(Selector::of).filter(|selector| !selector.is_empty())
}

impl Deployments {
    /// `api` writes, `store` is read, `recorder` tells people.
    pub fn new(api: Api, store: Store, recorder: Recorder) -> Self {
        Self { api, store, recorder, selecting: Mutex::default() }
    }

    /// Deployments that a set belongs to, or that may take it in.
    fn deployments_of(&self, namespace: &str, set: &Marks) -> Vec<Key> {
        let Some(owner) = set.controller() else { return self.selecting.lock().of(namespace, set) };
        let is_ours = &*owner.kind == "Deployment" && &*owner.api_version == "apps/v1";
        is_ours.then(|| (namespace.to_owned(), owner.name.to_string())).into_iter().collect()
    }

    fn deployments_of_pod(&self, namespace: &str, pod: &Marks) -> Vec<Key> {
        let owner = pod.controller().filter(|owner| &*owner.kind == "ReplicaSet");
        let set = owner.and_then(|owner| self.store.get(&format!("{SETS}{namespace}/{}", owner.name)));
        set.map(|set| self.deployments_of(namespace, set.document.marks())).unwrap_or_default()
    }

    /// Takes in sets that fit and lets go of those that do not any more.
    async fn claim(&self, deployment: &Value, selector: &Selector) -> Result<Vec<Value>, Trouble> {
        let is_own = |set: &Value| controller_of(set).is_some_and(|owner| owner.uid == deployment.uid());
        let prefix = format!("{SETS}{}/", deployment.namespace());
        let mut has_written = false;
        for set in view::claimable(&self.store, &prefix, deployment.uid(), selector) {
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
                let path = object("apps/v1", set.namespace(), "replicasets", set.name());
                let change = json!({"metadata": {"uid": set.uid(), "ownerReferences": [owner]}});
                match self.api.patch(&path, PatchKind::Strategic, &change).await {
                    Err(trouble) if !trouble.is_not_found() && !trouble.is_invalid() => return Err(trouble),
                    _ => {}
                }
            }
        }
        tracing::trace!(has_written, deployment = deployment.name(), "sets are claimed");
        let mut own = view::managed(&self.store, &prefix, [deployment.uid()]);
        own.retain(|set| selector.matches(set));
        Ok(own)
    }

    fn pods(&self, deployment: &Value, sets: &[Value]) -> Vec<Value> {
        let prefix = format!("{PODS}{}/", deployment.namespace());
        view::managed(&self.store, &prefix, sets.iter().map(Meta::uid))
    }

    async fn carry_out(&self, deployment: &Value, plan: Plan) -> Result<Next<Key>, Trouble> {
        let Plan { create, update, delete, status, told, again } = plan;
        let sets = collection("apps/v1", deployment.namespace(), "replicasets");
        if let Some(set) = create {
            match self.api.create(&sets, &set).await {
                Err(trouble) if trouble.is_namespace_terminating() => return Ok(Next::default()),
                Err(trouble) => return self.not_created(deployment, &set, trouble).await,
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
            self.recorder.record(deployment, Kind::Normal, "ScalingReplicaSet", &text).await;
        }
        if let Some(changed) = status {
            self.write_status(&changed).await?;
        }
        Ok(Next { again, also: Vec::new() })
    }

    /// The name may be taken by a set of another template: then the next one is made with another number.
    async fn not_created(
        &self,
        deployment: &Value,
        set: &Value,
        trouble: Trouble,
    ) -> Result<Next<Key>, Trouble> {
        let mut changed = deployment.clone();
        if trouble.is_already_exists() {
            let present = view::get(&self.store, &format!("{SETS}{}/{}", set.namespace(), set.name()));
            let is_own = present.is_some_and(|present| {
                controller_of(&present).is_some_and(|owner| owner.uid == deployment.uid())
                    && same_template(&present, deployment)
            });
            if !is_own {
                let count = number(deployment, &["status", "collisionCount"]) + 1;
                changed["status"]["collisionCount"] = count.into();
                self.write_status(&changed).await?;
            }
            return Err(trouble);
        }
        let text = format!("Failed to create new replica set \"{}\": {trouble}", set.name());
        if status::has_deadline(deployment) {
            let mut conditions =
                conditions::Conditions::of(changed.get("status").unwrap_or(&Value::Null), clock::now());
            conditions.set("Progressing", "False", "ReplicaSetCreateError", &text);
            conditions.write_into(&mut changed["status"]);
            if changed != *deployment {
                self.write_status(&changed).await.ok();
            }
        }
        self.recorder.record(deployment, Kind::Warning, "ReplicaSetCreateError", &text).await;
        Err(trouble)
    }

    async fn write_status(&self, deployment: &Value) -> Result<(), Trouble> {
        let path = object("apps/v1", deployment.namespace(), "deployments", deployment.name());
        match self.api.update(&format!("{path}/status"), deployment).await {
            Err(trouble) if !trouble.is_not_found() => Err(trouble),
            _ => Ok(()),
        }
    }
}

impl Controller for Deployments {
    type Key = Key;
    const NAME: &'static str = "deployment-controller";
    const PREFIXES: &'static [&'static str] = &[DEPLOYMENTS, SETS, PODS];

    fn wake(&self, change: &Change<'_>) -> Vec<Key> {
        if change.is_in(DEPLOYMENTS) {
            let key = change.whose();
            self.selecting.lock().set(&key, change.now.and_then(|entry| selector_in(&entry.document)));
            return vec![key];
        }
        let namespace = change.namespace();
        if change.is_in(SETS) {
            let states = [change.now, change.before].into_iter().flatten();
            return states.flat_map(|set| self.deployments_of(namespace, set.document.marks())).collect();
        }
        // What else happens to a pod is told by the status of its set; a vanished one may be waited for.
        match (change.now, change.before) {
            (None, Some(pod)) => self.deployments_of_pod(namespace, pod.document.marks()),
            _ => Vec::new(),
        }
    }

    fn forget(&self) {
        self.selecting.lock().clear();
    }

    async fn reconcile(&self, (namespace, name): &Key) -> Result<Next<Key>, Trouble> {
        let Some(deployment) = view::get(&self.store, &format!("{DEPLOYMENTS}{namespace}/{name}")) else {
            return Ok(Next::default());
        };
        let Some(selector) = selector_of(&deployment) else {
            let text = "This deployment is selecting all pods. A non-empty selector is required.";
            self.recorder.record(&deployment, Kind::Warning, "SelectingAll", text).await;
            return Ok(Next::default());
        };
        let sets = self.claim(&deployment, &selector).await?;
        let pods = self.pods(&deployment, &sets);
        let plan = plan(deployment.clone(), sets, &pods, clock::now());
        self.carry_out(&deployment, plan).await
    }
}
