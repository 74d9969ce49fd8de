//! The local workloads that a Sandbox names in its spec, as objects, and what is seen of all of them.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
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
use crate::api::names::WATCH_FILTER_LABEL;

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
    changes.flat_map(move |event| {
        stream::iter(event.map(|it| seen.concerned(&it, |gone| waiting(gone, &ctx))).unwrap_or_default())
    })
}

/// What was seen of local workloads last.
#[derive(Debug, Default)]
struct Seen {
    last: HashMap<Place, Sight>,
    /// Those that a list which began has not shown yet.
    unseen: HashSet<Place>,
    /// Whom a list concerns. They are told at its end: before that the store has what was known without it.
    concerned: Vec<Ref>,
}

/// The namespace of a local workload, and its name.
type Place = (Option<String>, Option<String>);

fn place(meta: &ObjectMeta) -> Place {
    (meta.namespace.clone(), meta.name.clone())
}

/// What was seen of a local workload: a digest of what a Sandbox says of it, and that Sandbox.
type Sight = (u64, Option<Ref>);

impl Seen {
    /// Whom an event concerns. `wants` says who waits for the name of what is gone.
    fn concerned(&mut self, event: &Event<DynamicObject>, wants: impl Fn(&Place) -> Vec<Ref>) -> Vec<Ref> {
        match event {
            Event::Apply(it) => self.news(it).into_iter().collect(),
            Event::Delete(it) => {
                let gone = place(&it.metadata);
                self.last.remove(&gone);
                of(it).into_iter().chain(wants(&gone)).collect()
            }
            Event::Init => {
                self.unseen = self.last.keys().cloned().collect();
                Vec::new()
            }
            Event::InitApply(it) => {
                self.unseen.remove(&place(&it.metadata));
                let news = self.news(it);
                self.concerned.extend(news);
                Vec::new()
            }
            Event::InitDone => self.listed(wants),
        }
    }

    /// Whom a list concerns. What went while nobody looked was told by nobody.
    fn listed(&mut self, wants: impl Fn(&Place) -> Vec<Ref>) -> Vec<Ref> {
        let mut all = std::mem::take(&mut self.concerned);
        for gone in self.unseen.drain() {
            all.extend(wants(&gone));
            all.extend(self.last.remove(&gone).and_then(|(_, sandbox)| sandbox));
        }
        all
    }

    /// The Sandbox that would say something else of a local workload, or put it right.
    fn news(&mut self, local: &DynamicObject) -> Option<Ref> {
        let mut hasher = DefaultHasher::new();
        let meta = &local.metadata;
        (&meta.uid, &meta.labels, meta.deletion_timestamp.is_some()).hash(&mut hasher);
        local.data.get("spec").map(Value::to_string).hash(&mut hasher);
        let owners = serde_json::to_string(&meta.owner_references).unwrap_or_default();
        (owners, is_connected(local)).hash(&mut hasher);
        let (digest, sandbox) = (hasher.finish(), of(local));
        let before = self.last.insert(place(meta), (digest, sandbox.clone()));
        sandbox.filter(|_| before.is_none_or(|(known, _)| known != digest))
    }
}

/// The Sandboxes that want the name of a local workload that is gone.
fn waiting((home, taken): &Place, ctx: &Context) -> Vec<Ref> {
    let wants = |it: &&Sandbox| {
        it.metadata.namespace == *home
            && it.spec.local.iter().any(|local| Some(name(it, &local.name)) == *taken)
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
        assert!(seen.news(&local("one", "False")).is_some());
        assert!(seen.news(&local("two", "False")).is_none());
        assert!(seen.news(&local("three", "True")).is_some());
        assert!(seen.news(&local("four", "True")).is_none());
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
        let mut seen = Seen::default();
        let mut tell = |event: Event<DynamicObject>| {
            let who = seen.concerned(&event, |(_, gone)| {
                let waits = format!("waits-for-{}", gone.as_deref().unwrap_or_default());
                vec![reference(&Spot { cluster: None, namespace: "shop".to_owned() }, &waits)]
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

        // A watch that had to begin anew; the first list breaks off.
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
        let made = wanted(&sandbox).unwrap().remove(0);
        let labels = [(WATCH_FILTER_LABEL, "blue"), (names::SANDBOX_LABEL, "pr-1")];
        assert_eq!(made.labels().clone(), labels.map(|(k, v)| (k.to_owned(), v.to_owned())).into());
    }
}
