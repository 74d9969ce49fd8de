//! Replica sets: as many pods as are wished, made of the template.

mod decide;
#[cfg(test)]
mod tests;

use futures::future::join_all;
use parking_lot::Mutex;
use serde_json::{Value, json};

use self::decide::{Claim, claim, has_surplus, missing, new_pod, next_available, status, surplus};
use super::{
    api::{Api, PatchKind, Trouble, collection, object},
    pods::{controller_of, controller_ref},
    recorder::{Kind, Recorder},
    run::{Change, Controller, Next},
    selecting::{Key, Selecting, selector_in},
    selector::Selector,
    view,
};
use crate::{
    clock,
    object::{Marks, Meta, at},
    store::{Entry, Store},
};

const SETS: &str = "apps/replicasets/";
const PODS: &str = "/pods/";
const FIRST_BATCH: usize = 1;

/// See the module.
pub struct ReplicaSets {
    api: Api,
    store: Store,
    recorder: Recorder,
    selecting: Mutex<Selecting>,
}

impl ReplicaSets {
    /// `api` writes, `store` is read, `recorder` tells people.
    pub fn new(api: Api, store: Store, recorder: Recorder) -> Self {
        Self { api, store, recorder, selecting: Mutex::default() }
    }

    /// The pods around a set.
    fn claim(&self, set: &Value) -> Claim {
        let Some(selector) = at(set, &["spec", "selector"]).and_then(Selector::of) else {
            return Claim::default();
        };
        let pods = view::claimable(&self.store, &format!("{PODS}{}/", set.namespace()), set.uid(), &selector);
        claim(set, &selector, pods)
    }

    /// Sets that a pod belongs to, or that may take it in.
    fn sets_of(&self, namespace: &str, pod: &Marks) -> Vec<Key> {
        let Some(owner) = pod.controller() else { return self.selecting.lock().of(namespace, pod) };
        let is_ours = &*owner.kind == "ReplicaSet" && &*owner.api_version == "apps/v1";
        is_ours.then(|| (namespace.to_owned(), owner.name.to_string())).into_iter().collect()
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
        if !has_surplus(set, active.len()) {
            return Ok(());
        }
        let names = surplus(set, active.to_vec(), &self.related_pods(set));
        let outcomes = join_all(names.iter().map(|name| self.delete_one(set, name))).await;
        outcomes.into_iter().collect::<Result<(), Trouble>>().map_err(|trouble| ("FailedDelete", trouble))
    }

    /// Pods of all sets of the same controller: a node that has many of them can spare one.
    fn related_pods(&self, set: &Value) -> Vec<Value> {
        let Some(owner) = controller_of(set) else { return Vec::new() };
        let within = |prefix: &str| format!("{prefix}{}/", set.namespace());
        let sisters = view::managed(&self.store, &within(SETS), [owner.uid.as_str()]);
        view::managed(&self.store, &within(PODS), sisters.iter().map(Meta::uid))
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
            let key = change.whose();
            self.selecting.lock().set(&key, change.now.and_then(|entry| selector_in(&entry.document)));
            return vec![key];
        }
        let states = [change.now, change.before].into_iter().flatten();
        states.flat_map(|pod: &Entry| self.sets_of(change.namespace(), pod.document.marks())).collect()
    }

    fn forget(&self) {
        self.selecting.lock().clear();
    }

    async fn reconcile(&self, (namespace, name): &Key) -> Result<Next<Key>, Trouble> {
        let Some(set) = view::get(&self.store, &format!("{SETS}{namespace}/{name}")) else {
            return Ok(Next::default());
        };
        let mut mine = self.claim(&set);
        if self.settle_ownership(&set, &mine).await? {
            mine = self.claim(&set);
        }
        let managed = if set.is_terminating() { Ok(()) } else { self.manage(&set, &mine.active).await };
        let failure = managed.as_ref().err().map(|(reason, trouble)| (*reason, trouble.to_string()));
        let failure = failure.as_ref().map(|(reason, text)| (*reason, text.as_str()));
        let mine = self.claim(&set);
        let now = clock::now();
        let again = next_available(&set, &mine.active, now);
        let status = status(&set, &mine, failure, now);
        self.write_status(set, status).await?;
        managed.map_err(|(_, trouble)| trouble)?;
        Ok(Next { again, also: Vec::new() })
    }
}
