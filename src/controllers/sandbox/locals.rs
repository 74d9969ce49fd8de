//! The local workloads that a Sandbox names in its spec, as objects, and what is seen of all of them.

use std::{
    collections::{BTreeMap, HashMap},
    hash::{DefaultHasher, Hash as _, Hasher as _},
    sync::Arc,
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
use sandbox::{
    api::{LocalSpec, LocalWorkload, LocalWorkloadSpec, Sandbox, SandboxRef, conditions::types, names},
    refusal::Refusal,
    ttl,
};
use serde_json::Value;

use super::{
    build::dynamic,
    context::{Context, Ref, reference},
    look::kind,
    place::{Spot, spot},
};
use crate::{api::names::WATCH_FILTER_LABEL, controllers::common::drive};

/// The name of a local workload's object.
pub(super) fn name(object: &Sandbox, local: &str) -> String {
    format!("{}-{local}", object.name_any())
}

/// All of them.
pub(super) fn wanted(object: &Sandbox) -> Result<Vec<DynamicObject>, Refusal> {
    object.spec.local.iter().map(|it| dynamic(&one(object, it))).collect()
}

fn one(object: &Sandbox, local: &LocalSpec) -> LocalWorkload {
    let LocalSpec { name: short, from, mappings, disconnect_policy, disconnect_grace_period, over } = local;
    // Whoever looks after the Sandbox alone looks after what was made for it.
    let filter = object.labels().get_key_value(WATCH_FILTER_LABEL);
    let filter = filter.map(|(label, value)| (label.clone(), value.clone()));
    let own = (names::SANDBOX_LABEL.to_owned(), object.name_any());
    let labels: BTreeMap<String, String> = filter.into_iter().chain([own]).collect();
    LocalWorkload {
        metadata: ObjectMeta {
            name: Some(name(object, short)),
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
            disconnect_grace_period: grace(disconnect_grace_period.as_deref()),
            over: over.clone(),
        },
        status: None,
    }
}

/// What was said, or the usual.
fn grace(text: Option<&str>) -> String {
    let said = text.filter(|it| !it.is_empty() && ttl::grace(it).is_some());
    said.unwrap_or("30s").to_owned()
}

/// The Sandboxes that a change of a local workload concerns; what changed is known by then. A session that lives writes every half
/// a minute, which is no news.
pub(super) fn follow(ctx: &Arc<Context>) -> impl Stream<Item = Ref> + Send + use<> {
    let kind = kind::<LocalWorkload>();
    let client = ctx.common.kube.client().clone();
    let api: Api<DynamicObject> = match &ctx.common.settings.namespace {
        Some(namespace) => Api::namespaced_with(client, namespace, &kind),
        None => Api::all_with(client, &kind),
    };
    let writer = Writer::new(kind);
    ctx.know_locals(writer.as_reader());
    let (ctx, mut seen) = (Arc::clone(ctx), Seen::default());
    let changes = reflector(writer, watcher(api, watcher::Config::default())).default_backoff();
    changes.flat_map(move |event| stream::iter(event.map(|it| seen.concerned(&it, &ctx)).unwrap_or_default()))
}

/// What was seen of local workloads last, by their paths.
#[derive(Debug, Default)]
struct Seen(HashMap<String, u64>);

impl Seen {
    fn concerned(&mut self, event: &Event<DynamicObject>, ctx: &Context) -> Vec<Ref> {
        match event {
            Event::Apply(it) | Event::InitApply(it) if self.is_news(it) => of(it).into_iter().collect(),
            Event::Delete(it) => {
                self.0.remove(&drive::path(&it.metadata));
                of(it).into_iter().chain(waiting(it, ctx)).collect()
            }
            // What went while nobody looked was told by nobody.
            Event::InitDone => {
                let all = ctx.sandboxes();
                let with =
                    all.iter().filter_map(|it| it.0.as_ref().ok()).filter(|it| !it.spec.local.is_empty());
                with.map(|it| reference(&spot(it), &it.name_any())).collect()
            }
            Event::Apply(_) | Event::Init | Event::InitApply(_) => Vec::new(),
        }
    }

    /// Whether a Sandbox would say something else of it, or put it right.
    fn is_news(&mut self, local: &DynamicObject) -> bool {
        let mut hasher = DefaultHasher::new();
        let meta = &local.metadata;
        (&meta.uid, &meta.labels, meta.deletion_timestamp.is_some()).hash(&mut hasher);
        local.data.get("spec").map(Value::to_string).hash(&mut hasher);
        let owners = serde_json::to_string(&meta.owner_references).unwrap_or_default();
        (owners, is_connected(local)).hash(&mut hasher);
        let digest = hasher.finish();
        self.0.insert(drive::path(meta), digest) != Some(digest)
    }
}

/// The Sandboxes that want the name of a local workload that is gone.
fn waiting(local: &DynamicObject, ctx: &Context) -> Vec<Ref> {
    let (home, taken) = (local.namespace(), local.name_any());
    let wants = |it: &&Sandbox| {
        it.namespace() == home && it.spec.local.iter().any(|local| name(it, &local.name) == taken)
    };
    let all = ctx.sandboxes();
    let all = all.iter().filter_map(|it| it.0.as_ref().ok()).filter(wants);
    all.map(|it| reference(&spot(it), &it.name_any())).collect()
}

/// Whether somebody is connected.
fn is_connected(local: &DynamicObject) -> bool {
    let conditions = local.data.pointer("/status/conditions").and_then(Value::as_array);
    conditions.into_iter().flatten().any(|it| it["type"] == types::CONNECTED && it["status"] == "True")
}

/// The Sandbox that a local workload names.
fn of(local: &DynamicObject) -> Option<Ref> {
    let name = local.data.pointer("/spec/sandboxRef/name").and_then(Value::as_str)?;
    let here = Spot { cluster: None, namespace: local.namespace().unwrap_or_default() };
    Some(reference(&here, name))
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
        let mut seen = Seen::default();
        assert!(seen.is_news(&local("one", "False")));
        assert!(!seen.is_news(&local("two", "False")));
        assert!(seen.is_news(&local("three", "True")));
        assert!(!seen.is_news(&local("four", "True")));
    }

    #[test]
    fn a_local_workload_passes_the_filter_that_its_sandbox_passes() {
        let sandbox: Sandbox = serde_json::from_value(json!({
            "apiVersion": "sandbox.capt.x-k8s.io/v1alpha1", "kind": "Sandbox",
            "metadata": {"name": "pr-1", "namespace": "shop", "labels": {WATCH_FILTER_LABEL: "blue", "team": "cart"}},
            "spec": {"local": [{"name": "web", "from": {"name": "web"}, "mappings": [{"port": 80, "toLocal": "localhost:1"}]}]},
        }))
        .unwrap();
        let made = wanted(&sandbox).unwrap().remove(0);
        let labels = [(WATCH_FILTER_LABEL, "blue"), (names::SANDBOX_LABEL, "pr-1")];
        assert_eq!(made.labels().clone(), labels.map(|(k, v)| (k.to_owned(), v.to_owned())).into());
    }
}
