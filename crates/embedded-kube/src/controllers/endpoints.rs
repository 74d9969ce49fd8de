//! Where the pods of a service are: endpoint slices, and the older `Endpoints` beside them.

mod facts;
mod plain;
mod slices;
#[cfg(test)]
mod tests;

use std::collections::{HashMap, HashSet};

use jiff::Timestamp;
use parking_lot::Mutex;
use serde_json::{Value, json};

use self::{facts::Triggers, slices::Changes};
use super::{
    api::{Api, Trouble, collection, object},
    run::{Change, Controller, Next},
    selecting::{Key, Selecting},
    selector::Selector,
    view,
};
use crate::{
    object::{Marks, Meta, MetaMut, at, at_mut, text},
    store::{Entry, Store},
};

const SERVICES: &str = "/services/";
const PODS: &str = "/pods/";
const NODES: &str = "/nodes/";
const ENDPOINTS: &str = "/endpoints/";
const SLICES: &str = "discovery.k8s.io/endpointslices/";
const TRIGGERED: &str = "endpoints.kubernetes.io/last-change-trigger-time";

/// See the module.
pub struct Endpoints {
    slices: Api,
    plain: Api,
    store: Store,
    triggers: Mutex<Triggers>,
    selecting: Mutex<Selecting>,
}

fn selector_of(service: &Value) -> Option<Selector> {
    let selector = at(service, &["spec", "selector"]).filter(|selector| selector.is_object())?;
    if text(service, &["spec", "type"]) == "ExternalName" { None } else { Selector::of_labels(selector) }
}

impl Endpoints {
    /// `slices` writes slices, `plain` writes `Endpoints`.
    pub fn new(slices: Api, plain: Api, store: Store) -> Self {
        Self { slices, plain, store, triggers: Mutex::default(), selecting: Mutex::default() }
    }

    /// The nodes of these pods, as far as they are known, each with its zone.
    fn zones(&self, pods: &[Value]) -> HashMap<String, String> {
        let names: HashSet<&str> = pods.iter().map(|pod| text(pod, &["spec", "nodeName"])).collect();
        let zone = |node: &Marks| node.label("topology.kubernetes.io/zone").unwrap_or_default().to_owned();
        let nodes = names.into_iter().filter_map(|name| {
            let node = self.store.get(&format!("{NODES}/{name}"))?;
            Some((name.to_owned(), zone(node.document.marks())))
        });
        nodes.collect()
    }

    async fn write_slices(
        &self,
        service: &Value,
        pods: &[Value],
        triggered: Option<Timestamp>,
    ) -> Result<(), Trouble> {
        let (namespace, name) = (service.namespace(), service.name());
        let own = Selector::having(&[(slices::SERVICE, name), (slices::MANAGED_BY, slices::MANAGER)]);
        let present = view::selected(&self.store, &format!("{SLICES}{namespace}/"), &own);
        let changes = slices::plan(service, pods, present, &self.zones(pods));
        let Changes { create, update, delete, without_node } = changes;
        let path = collection("discovery.k8s.io/v1", namespace, "endpointslices");
        for mut slice in create {
            annotate(&mut slice, triggered);
            ignore_terminating(self.slices.create(&path, &slice).await)?;
        }
        for mut slice in update {
            annotate(&mut slice, triggered);
            self.slices.update(&format!("{path}/{}", slice.name()), &slice).await?;
        }
        for name in delete {
            gone(self.slices.delete(&format!("{path}/{name}"), &json!({})).await)?;
        }
        match without_node.first() {
            Some(pod) => Err(Trouble::Several(format!("the node of pod {pod} is not known"))),
            None => Ok(()),
        }
    }

    async fn write_endpoints(
        &self,
        service: &Value,
        pods: &[Value],
        triggered: Option<Timestamp>,
    ) -> Result<(), Trouble> {
        let present =
            view::get(&self.store, &format!("{ENDPOINTS}{}/{}", service.namespace(), service.name()));
        let is_new = present.is_none();
        let Some(mut endpoints) = plain::plan(service, pods, present.as_ref()) else { return Ok(()) };
        annotate(&mut endpoints, triggered);
        let path = collection("v1", service.namespace(), "endpoints");
        if is_new {
            ignore_terminating(self.plain.create(&path, &endpoints).await)
        } else {
            self.plain.update(&format!("{path}/{}", service.name()), &endpoints).await.map(drop)
        }
    }
}

fn annotate(object: &mut Value, triggered: Option<Timestamp>) {
    if let Some(time) = triggered {
        if let Some(place) = at_mut(object, &["metadata", "annotations", TRIGGERED]) {
            *place = time.to_string().into();
        }
    } else if let Some(notes) = object.get_mut("metadata").and_then(|meta| meta.get_mut("annotations")) {
        notes.drop_field(TRIGGERED);
    }
}

fn ignore_terminating(outcome: Result<Value, Trouble>) -> Result<(), Trouble> {
    match outcome {
        Err(trouble) if trouble.is_namespace_terminating() => Ok(()),
        other => other.map(drop),
    }
}

fn gone(outcome: Result<(), Trouble>) -> Result<(), Trouble> {
    match outcome {
        Err(trouble) if trouble.is_not_found() => Ok(()),
        other => other,
    }
}

impl Controller for Endpoints {
    type Key = Key;
    const NAME: &'static str = "endpointslice-controller";
    const PREFIXES: &'static [&'static str] = &[SERVICES, PODS, NODES, ENDPOINTS, SLICES];

    fn wake(&self, change: &Change<'_>) -> Vec<Key> {
        let namespace = change.namespace();
        let states =
            || [change.now, change.before].into_iter().flatten().map(|entry: &Entry| entry.document.marks());
        if change.is_in(PODS) {
            let selecting = self.selecting.lock();
            return states().flat_map(|pod| selecting.of(namespace, pod)).collect();
        }
        if change.is_in(NODES) {
            // What a node says of itself does not matter, only that it is there.
            let is_news = change.before.is_none() || change.now.is_none();
            return if is_news { self.selecting.lock().all() } else { Vec::new() };
        }
        if change.is_in(SLICES) {
            let is_ours = |slice: &&Marks| slice.label(slices::MANAGED_BY) == Some(slices::MANAGER);
            let names = states().filter(is_ours).filter_map(|slice| slice.label(slices::SERVICE));
            return names.map(|name| (namespace.to_owned(), name.to_owned())).collect();
        }
        let key = change.whose();
        if change.is_in(SERVICES) {
            let service = change.now.map(|entry| entry.document.value());
            self.selecting.lock().set(&key, service.as_ref().and_then(selector_of));
        }
        vec![key]
    }

    fn forget(&self) {
        self.selecting.lock().clear();
    }

    async fn reconcile(&self, key: &Key) -> Result<Next<Key>, Trouble> {
        let (namespace, name) = key;
        let Some(service) = view::get(&self.store, &format!("{SERVICES}{namespace}/{name}")) else {
            self.triggers.lock().forget(key);
            if self.store.get(&format!("{ENDPOINTS}{namespace}/{name}")).is_some() {
                gone(self.plain.delete(&object("v1", namespace, "endpoints", name), &json!({})).await)?;
            }
            return Ok(Next::default());
        };
        let Some(selector) = selector_of(&service) else { return Ok(Next::default()) };
        let pods = view::selected(&self.store, &format!("{PODS}{namespace}/"), &selector);
        let triggered = self.triggers.lock().look(&service, &pods);
        let (slices, endpoints) = futures::join!(
            self.write_slices(&service, &pods, triggered),
            self.write_endpoints(&service, &pods, triggered)
        );
        slices.and(endpoints)?;
        Ok(Next::default())
    }
}
