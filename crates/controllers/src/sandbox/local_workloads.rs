//! The `LocalWorkload` objects of a Sandbox, and the watch that maps their changes to Sandboxes.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    hash::{DefaultHasher, Hash as _, Hasher as _},
    sync::Arc,
};

use capt_kinds::api::names::WATCH_FILTER_LABEL;
use capt_kinds::sandbox::{
    LocalSpec, LocalWorkload, LocalWorkloadSpec, Sandbox, SandboxRef, conditions::types, names,
};
use futures::{Stream, StreamExt as _, stream};
use kube::{
    Api, Resource as _, ResourceExt as _,
    core::{DynamicObject, ObjectMeta},
    runtime::{
        WatchStreamExt as _,
        reflector::{reflector, store::Writer},
        watcher::{self, Event, watcher},
    },
};
use sandbox::{rejection::Rejection, ttl};
use serde_json::Value;

use super::{
    build::to_dynamic,
    context::{Context, SandboxObjectRef, object_ref},
    dereference::api_resource,
    fork_target::{ClusterNamespace, cluster_namespace},
};

/// The name of the `LocalWorkload` of an entry of `spec.local`.
pub(super) fn object_name(object: &Sandbox, local: &str) -> String {
    format!("{}-{local}", object.name_any())
}

/// The desired `LocalWorkload` objects of a Sandbox.
pub(super) fn desired_objects(object: &Sandbox) -> Result<Vec<DynamicObject>, Rejection> {
    object.spec.local.iter().map(|it| to_dynamic(&build_local_workload(object, it))).collect()
}

fn build_local_workload(object: &Sandbox, local: &LocalSpec) -> LocalWorkload {
    let LocalSpec { name: short, from, mappings, disconnect_policy, disconnect_grace_period, over } = local;
    // The operator instance that reconciles the Sandbox also reconciles its local workloads.
    let filter = object.labels().get_key_value(WATCH_FILTER_LABEL);
    let filter = filter.map(|(label, value)| (label.clone(), value.clone()));
    let own = (names::SANDBOX_LABEL.to_owned(), object.name_any());
    let labels: BTreeMap<String, String> = filter.into_iter().chain([own]).collect();
    LocalWorkload {
        metadata: ObjectMeta {
            name: Some(object_name(object, short)),
            namespace: object.namespace(),
            labels: Some(labels),
            owner_references: object.controller_owner_ref(&()).map(|it| vec![it]),
            ..ObjectMeta::default()
        },
        spec: LocalWorkloadSpec {
            sandbox_ref: SandboxRef { name: object.name_any() },
            from: from.clone(),
            mappings: mappings.clone(),
            disconnect_policy: *disconnect_policy,
            disconnect_grace_period: grace_period(disconnect_grace_period.as_deref()),
            over: over.clone(),
        },
        status: None,
    }
}

/// The grace period of the spec, or the default.
fn grace_period(text: Option<&str>) -> String {
    let said = text.filter(|it| !it.is_empty() && ttl::parse_grace_period(it).is_some());
    said.unwrap_or("30s").to_owned()
}

/// Stream of the Sandboxes affected by changes of local workloads; the store is updated first. Heartbeats, which are written
/// every 30 s while connected, are filtered out.
pub(super) fn watch_local_workloads(
    ctx: &Arc<Context>,
) -> impl Stream<Item = SandboxObjectRef> + Send + use<> {
    let kind = api_resource::<LocalWorkload>();
    let client = ctx.common.kube.client().clone();
    let api: Api<DynamicObject> = match &ctx.common.settings.namespace {
        Some(namespace) => Api::namespaced_with(client, namespace, &kind),
        None => Api::all_with(client, &kind),
    };
    let writer = Writer::new(kind);
    ctx.set_local_workload_store(writer.as_reader());
    let (ctx, mut seen) = (Arc::clone(ctx), LocalWorkloadTracker::default());
    let changes = reflector(writer, watcher(api, watcher::Config::default())).default_backoff();
    changes.flat_map(move |event| {
        stream::iter(
            event.map(|it| seen.affected(&it, |gone| waiting_for_name(gone, &ctx))).unwrap_or_default(),
        )
    })
}

/// Detects relevant changes of local workloads.
#[derive(Debug, Default)]
struct LocalWorkloadTracker {
    last_seen: HashMap<LocalWorkloadKey, LocalWorkloadFingerprint>,
    /// Known objects that the list in progress has not returned yet.
    unlisted: HashSet<LocalWorkloadKey>,
    /// Sandboxes affected by the list in progress. Triggered at its end, because the store is swapped only then.
    pending: Vec<SandboxObjectRef>,
}

/// Namespace and name of a local workload.
type LocalWorkloadKey = (Option<String>, Option<String>);

fn object_key(meta: &ObjectMeta) -> LocalWorkloadKey {
    (meta.namespace.clone(), meta.name.clone())
}

/// A hash of the fields of a local workload that affect its Sandbox, and that Sandbox.
type LocalWorkloadFingerprint = (u64, Option<SandboxObjectRef>);

impl LocalWorkloadTracker {
    /// The Sandboxes affected by an event. `wants` returns those that wait for the name of a deleted object.
    fn affected(
        &mut self,
        event: &Event<DynamicObject>,
        wants: impl Fn(&LocalWorkloadKey) -> Vec<SandboxObjectRef>,
    ) -> Vec<SandboxObjectRef> {
        match event {
            Event::Apply(it) => self.changed_sandbox(it).into_iter().collect(),
            Event::Delete(it) => {
                let gone = object_key(&it.metadata);
                self.last_seen.remove(&gone);
                referenced_sandbox(it).into_iter().chain(wants(&gone)).collect()
            }
            Event::Init => {
                self.unlisted = self.last_seen.keys().cloned().collect();
                Vec::new()
            }
            Event::InitApply(it) => {
                self.unlisted.remove(&object_key(&it.metadata));
                let news = self.changed_sandbox(it);
                self.pending.extend(news);
                Vec::new()
            }
            Event::InitDone => self.finish_list(wants),
        }
    }

    /// The Sandboxes affected by a list, including those of objects deleted while the watch was interrupted.
    fn finish_list(
        &mut self,
        wants: impl Fn(&LocalWorkloadKey) -> Vec<SandboxObjectRef>,
    ) -> Vec<SandboxObjectRef> {
        let mut all = std::mem::take(&mut self.pending);
        for gone in self.unlisted.drain() {
            all.extend(wants(&gone));
            all.extend(self.last_seen.remove(&gone).and_then(|(_, sandbox)| sandbox));
        }
        all
    }

    /// The Sandbox to reconcile if a relevant field of its local workload changed.
    fn changed_sandbox(&mut self, local: &DynamicObject) -> Option<SandboxObjectRef> {
        let mut hasher = DefaultHasher::new();
        let meta = &local.metadata;
        (&meta.uid, &meta.labels, meta.deletion_timestamp.is_some()).hash(&mut hasher);
        local.data.get("spec").map(Value::to_string).hash(&mut hasher);
        let owners = serde_json::to_string(&meta.owner_references).unwrap_or_default();
        (owners, is_connected(local)).hash(&mut hasher);
        let (digest, sandbox) = (hasher.finish(), referenced_sandbox(local));
        let before = self.last_seen.insert(object_key(meta), (digest, sandbox.clone()));
        sandbox.filter(|_| before.is_none_or(|(known, _)| known != digest))
    }
}

/// The Sandboxes that need the name of a deleted local workload.
fn waiting_for_name((home, taken): &LocalWorkloadKey, ctx: &Context) -> Vec<SandboxObjectRef> {
    let wants = |it: &&Sandbox| {
        it.metadata.namespace == *home
            && it.spec.local.iter().any(|local| Some(object_name(it, &local.name)) == *taken)
    };
    let all = ctx.sandboxes();
    let all = all.iter().filter_map(|it| it.0.as_ref().ok()).filter(wants);
    all.map(|it| object_ref(&cluster_namespace(it), &it.name_any())).collect()
}

/// Whether an agent is connected.
fn is_connected(local: &DynamicObject) -> bool {
    let conditions = local.data.pointer("/status/conditions").and_then(Value::as_array);
    conditions.into_iter().flatten().any(|it| it["type"] == types::CONNECTED && it["status"] == "True")
}

/// The Sandbox that a local workload refers to.
fn referenced_sandbox(local: &DynamicObject) -> Option<SandboxObjectRef> {
    let name = local.data.pointer("/spec/sandboxRef/name").and_then(Value::as_str)?;
    let here = ClusterNamespace { cluster: None, namespace: local.namespace().unwrap_or_default() };
    Some(object_ref(&here, name))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_heartbeat_is_no_news_and_a_connection_is() {
        let local = |at: &str, connected: &str| -> DynamicObject {
            let conditions = json!([{"type": "Connected", "status": connected}]);
            serde_json::from_value(json!({
                "metadata": {"name": "pr-1-web", "namespace": "shop", "uid": "u"},
                "spec": {"sandboxRef": {"name": "pr-1"}},
                "status": {"session": {"lastHeartbeatTime": at}, "conditions": conditions},
            }))
            .unwrap()
        };
        let mut seen = LocalWorkloadTracker::default();
        assert!(seen.changed_sandbox(&local("one", "False")).is_some());
        assert!(seen.changed_sandbox(&local("two", "False")).is_none());
        assert!(seen.changed_sandbox(&local("three", "True")).is_some());
        assert!(seen.changed_sandbox(&local("four", "True")).is_none());
    }

    #[test]
    fn a_list_concerns_those_for_whom_something_changed_and_at_its_end() {
        let local = |name: &str, port: u16| -> DynamicObject {
            serde_json::from_value(json!({
                "metadata": {"name": format!("{name}-web"), "namespace": "shop", "uid": name},
                "spec": {"sandboxRef": {"name": name}, "port": port},
            }))
            .unwrap()
        };
        let mut seen = LocalWorkloadTracker::default();
        let mut tell = |event: Event<DynamicObject>| {
            let who = seen.affected(&event, |(_, gone)| {
                let waits = format!("waits-for-{}", gone.as_deref().unwrap_or_default());
                vec![object_ref(&ClusterNamespace { cluster: None, namespace: "shop".to_owned() }, &waits)]
            });
            let mut names: Vec<String> = who.into_iter().map(|it| it.name).collect();
            names.sort();
            names
        };
        assert!(tell(Event::Init).is_empty());
        for name in ["same", "other", "gone"] {
            assert!(tell(Event::InitApply(local(name, 1))).is_empty(), "the store does not have it yet");
        }
        assert_eq!(tell(Event::InitDone), ["gone", "other", "same"]);

        // The watch restarts; its first list is interrupted.
        assert!(tell(Event::Init).is_empty());
        assert!(tell(Event::InitApply(local("other", 2))).is_empty());
        assert!(tell(Event::Init).is_empty());
        for (name, port) in [("same", 1), ("other", 2)] {
            assert!(tell(Event::InitApply(local(name, port))).is_empty());
        }
        assert_eq!(tell(Event::InitDone), ["gone", "other", "waits-for-gone-web"]);

        assert!(tell(Event::Init).is_empty());
        for (name, port) in [("same", 1), ("other", 2)] {
            assert!(tell(Event::InitApply(local(name, port))).is_empty());
        }
        assert!(tell(Event::InitDone).is_empty(), "nothing changed");
    }

    #[test]
    fn a_local_workload_passes_the_filter_that_its_sandbox_passes() {
        let sandbox: Sandbox = serde_json::from_value(json!({
            "apiVersion": "sandbox.capt.x-k8s.io/v1alpha1", "kind": "Sandbox",
            "metadata": {"name": "pr-1", "namespace": "shop", "labels": {WATCH_FILTER_LABEL: "blue", "team": "cart"}},
            "spec": {"local": [{"name": "web", "from": {"name": "web"}, "mappings": [{"port": 80, "toLocal": "localhost:1"}]}]},
        }))
        .unwrap();
        let made = desired_objects(&sandbox).unwrap().remove(0);
        let labels = [(WATCH_FILTER_LABEL, "blue"), (names::SANDBOX_LABEL, "pr-1")];
        assert_eq!(made.labels().clone(), labels.map(|(k, v)| (k.to_owned(), v.to_owned())).into());
    }
}
