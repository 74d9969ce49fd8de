//! Replica sets: as many pods as are wished, made of the template.

mod decide;
#[cfg(test)]
mod tests;

use futures::future::join_all;
use serde_json::{Value, json};

use self::decide::{Claim, claim, missing, new_pod, next_available, status, surplus};
use super::{
    api::{Api, PatchKind, Trouble, collection, object},
    pods::{controller_of, controller_ref},
    recorder::{Kind, Recorder},
    run::{Change, Controller, Next},
    selector::Selector,
    view,
};
use crate::{
    clock,
    object::{Meta, at},
    store::{Entry, Store},
};

const SETS: &str = "apps/replicasets/";
const PODS: &str = "/pods/";
const FIRST_BATCH: usize = 1;

/// Namespace and name.
pub type Key = (String, String);

/// See the module.
pub struct ReplicaSets {
    /// For writing.
    pub api: Api,
    /// For reading.
    pub store: Store,
    /// For telling people.
    pub recorder: Recorder,
}

impl ReplicaSets {
    fn pods(&self, namespace: &str) -> Vec<Value> {
        view::list(&self.store, &format!("{PODS}{namespace}/"))
    }

    /// Sets that a pod belongs to, or that may take it in.
    fn sets_of(&self, pod: &Value) -> Vec<Key> {
        let namespace = pod.namespace();
        if let Some(owner) = controller_of(pod) {
            let is_ours = owner.kind == "ReplicaSet" && owner.api_version == "apps/v1";
            return is_ours.then(|| (namespace.to_owned(), owner.name)).into_iter().collect();
        }
        let sets = view::list(&self.store, &format!("{SETS}{namespace}/"));
        let fits = |set: &&Value| {
            let selector = at(set, &["spec", "selector"]).and_then(Selector::of);
            selector.is_some_and(|selector| !selector.is_empty() && selector.matches(pod))
        };
        sets.iter().filter(fits).map(|set| (namespace.to_owned(), set.name().to_owned())).collect()
    }

    /// Says whether anything was written.
    async fn settle_ownership(&self, set: &Value, claim: &Claim) -> Result<bool, Trouble> {
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

    async fn patch_pod(&self, pod: &Value, change: &Value) -> Result<(), Trouble> {
        let path = object("v1", pod.namespace(), "pods", pod.name());
        match self.api.patch(&path, PatchKind::Strategic, change).await {
            Err(trouble) if trouble.is_not_found() || trouble.is_invalid() => Ok(()),
            other => other.map(drop),
        }
    }

    /// In batches that double, so that what fails for one does not fail for hundreds.
    async fn create(&self, set: &Value, mut count: usize) -> Result<(), Trouble> {
        let pod = new_pod(set);
        let mut batch = FIRST_BATCH;
        while count > 0 {
            batch = batch.min(count);
            let outcomes = join_all((0..batch).map(|_| self.create_one(set, &pod))).await;
            outcomes.into_iter().collect::<Result<(), Trouble>>()?;
            count -= batch;
            batch *= 2;
        }
        Ok(())
    }

    async fn create_one(&self, set: &Value, pod: &Value) -> Result<(), Trouble> {
        match self.api.create(&collection("v1", set.namespace(), "pods"), pod).await {
            Ok(pod) => {
                let text = format!("Created pod: {}", pod.name());
                self.recorder.record(set, Kind::Normal, "SuccessfulCreate", &text).await;
                Ok(())
            }
            Err(trouble) if trouble.is_namespace_terminating() => Ok(()),
            Err(trouble) => {
                let text = format!("Error creating: {trouble}");
                self.recorder.record(set, Kind::Warning, "FailedCreate", &text).await;
                Err(trouble)
            }
        }
    }

    async fn delete_one(&self, set: &Value, name: &str) -> Result<(), Trouble> {
        let path = object("v1", set.namespace(), "pods", name);
        match self.api.delete(&path, &json!({"kind": "DeleteOptions", "apiVersion": "v1"})).await {
            Ok(()) => {
                let text = format!("Deleted pod: {name}");
                self.recorder.record(set, Kind::Normal, "SuccessfulDelete", &text).await;
                Ok(())
            }
            Err(trouble) if trouble.is_not_found() => Ok(()),
            Err(trouble) => {
                let text = format!("Error deleting: {trouble}");
                self.recorder.record(set, Kind::Warning, "FailedDelete", &text).await;
                Err(trouble)
            }
        }
    }

    /// Creates what is missing or deletes what is too much.
    async fn manage(&self, set: &Value, active: &[Value]) -> Result<(), (&'static str, Trouble)> {
        let missing = missing(set, active.len());
        if missing > 0 {
            return self.create(set, missing).await.map_err(|trouble| ("FailedCreate", trouble));
        }
        let names = surplus(set, active.to_vec(), &self.related_pods(set));
        let outcomes = join_all(names.iter().map(|name| self.delete_one(set, name))).await;
        outcomes.into_iter().collect::<Result<(), Trouble>>().map_err(|trouble| ("FailedDelete", trouble))
    }

    /// Pods of all sets of the same controller: a node that has many of them can spare one.
    fn related_pods(&self, set: &Value) -> Vec<Value> {
        let Some(owner) = controller_of(set) else { return Vec::new() };
        let sets = view::list(&self.store, &format!("{SETS}{}/", set.namespace()));
        let sisters: Vec<String> = sets
            .iter()
            .filter(|sister| controller_of(sister).is_some_and(|other| other.uid == owner.uid))
            .map(|sister| sister.uid().to_owned())
            .collect();
        let mut pods = self.pods(set.namespace());
        pods.retain(|pod| controller_of(pod).is_some_and(|owner| sisters.contains(&owner.uid)));
        pods
    }

    async fn write_status(&self, set: Value, status: Value) -> Result<(), Trouble> {
        if set.get("status") == Some(&status) {
            return Ok(());
        }
        let path = object("apps/v1", set.namespace(), "replicasets", set.name());
        let mut changed = set;
        changed["status"] = status;
        match self.api.update(&format!("{path}/status"), &changed).await {
            Err(trouble) if !trouble.is_not_found() => Err(trouble),
            _ => Ok(()),
        }
    }
}

impl Controller for ReplicaSets {
    type Key = Key;
    const NAME: &'static str = "replicaset-controller";
    const PREFIXES: &'static [&'static str] = &[SETS, PODS];

    fn wake(&self, change: &Change<'_>) -> Vec<Key> {
        if change.is_in(SETS) {
            return vec![(change.namespace().to_owned(), change.name().to_owned())];
        }
        let states = [change.now, change.before];
        let pods = states.into_iter().flatten().map(|entry: &Entry| entry.document.value());
        pods.flat_map(|pod| self.sets_of(&pod)).collect()
    }

    async fn reconcile(&self, (namespace, name): &Key) -> Result<Next<Key>, Trouble> {
        let Some(set) = view::get(&self.store, &format!("{SETS}{namespace}/{name}")) else {
            return Ok(Next::default());
        };
        let mut mine = claim(&set, self.pods(namespace));
        if self.settle_ownership(&set, &mine).await? {
            mine = claim(&set, self.pods(namespace));
        }
        let managed = if set.is_terminating() { Ok(()) } else { self.manage(&set, &mine.active).await };
        let failure = managed.as_ref().err().map(|(reason, trouble)| (*reason, trouble.to_string()));
        let failure = failure.as_ref().map(|(reason, text)| (*reason, text.as_str()));
        let mine = claim(&set, self.pods(namespace));
        let now = clock::now();
        let again = next_available(&set, &mine.active, now);
        let status = status(&set, &mine, failure, now);
        self.write_status(set, status).await?;
        managed.map_err(|(_, trouble)| trouble)?;
        Ok(Next { again, also: Vec::new() })
    }
}
