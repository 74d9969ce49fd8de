//! Where the pods of a service are: endpoint slices, and the older `Endpoints` beside them.

mod facts;
mod plain;
mod slices;
#[cfg(test)]
mod tests;

use std::collections::HashMap;

use jiff::Timestamp;
use parking_lot::Mutex;
use serde_json::{Value, json};

use self::{facts::Triggers, slices::Changes};
use super::{
    api::{Api, Trouble, collection, object},
    run::{Change, Controller, Next},
    selector::Selector,
    view,
};
use crate::{
    object::{Meta, MetaMut, at, at_mut, text},
    store::{Entry, Store},
};

const SERVICES: &str = "/services/";
const PODS: &str = "/pods/";
const NODES: &str = "/nodes/";
const ENDPOINTS: &str = "/endpoints/";
const SLICES: &str = "discovery.k8s.io/endpointslices/";
const TRIGGERED: &str = "endpoints.kubernetes.io/last-change-trigger-time";

/// Namespace and name of a service.
pub type Key = (String, String);

/// See the module.
pub struct Endpoints {
    slices: Api,
    plain: Api,
    store: Store,
    triggers: Mutex<Triggers>,
}

fn selector_of(service: &Value) -> Option<Selector> {
    let selector = at(service, &["spec", "selector"]).filter(|selector| selector.is_object())?;
    if text(service, &["spec", "type"]) == "ExternalName" { None } else { Selector::of_labels(selector) }
}

fn key_of(service: &Value) -> Key {
    (service.namespace().to_owned(), service.name().to_owned())
}

impl Endpoints {
    /// `slices` writes slices, `plain` writes `Endpoints`.
    pub fn new(slices: Api, plain: Api, store: Store) -> Self {
        Self { slices, plain, store, triggers: Mutex::default() }
    }

    fn services(&self, namespace: &str, selects: impl Fn(&Selector) -> bool) -> Vec<Key> {
        let prefix =
            if namespace.is_empty() { SERVICES.to_owned() } else { format!("{SERVICES}{namespace}/") };
        let services = view::list(&self.store, &prefix);
        services.iter().filter(|one| selector_of(one).is_some_and(|it| selects(&it))).map(key_of).collect()
    }

    fn zones(&self) -> HashMap<String, String> {
        let nodes = view::list(&self.store, NODES);
        let zone = |node: &Value| node.label("topology.kubernetes.io/zone").unwrap_or_default().to_owned();
        nodes.iter().map(|node| (node.name().to_owned(), zone(node))).collect()
    }

    async fn write_slices(
        &self,
        service: &Value,
        pods: &[Value],
        triggered: Option<Timestamp>,
    ) -> Result<(), Trouble> {
        let (namespace, name) = (service.namespace(), service.name());
        let mut present = view::list(&self.store, &format!("{SLICES}{namespace}/"));
        present.retain(|slice| {
            slice.label(slices::SERVICE) == Some(name)
                && slice.label(slices::MANAGED_BY) == Some(slices::MANAGER)
        });
        let changes = slices::plan(service, pods, present, &self.zones());
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
        let states =
            || [change.now, change.before].into_iter().flatten().map(|entry: &Entry| entry.document.value());
        if change.is_in(PODS) {
            let pods: Vec<Value> = states().collect();
            return self
                .services(change.namespace(), |selector| pods.iter().any(|pod| selector.matches(pod)));
        }
        if change.is_in(NODES) {
            // What a node says of itself does not matter, only that it is there.
            let is_news = change.before.is_none() || change.now.is_none();
            return if is_news { self.services("", |_| true) } else { Vec::new() };
        }
        if change.is_in(SLICES) {
            let is_ours = |slice: &Value| slice.label(slices::MANAGED_BY) == Some(slices::MANAGER);
            let service = |slice: &Value| slice.label(slices::SERVICE).map(str::to_owned);
            let names = states().filter(is_ours).filter_map(|slice| service(&slice));
            return names.map(|name| (change.namespace().to_owned(), name)).collect();
        }
        vec![(change.namespace().to_owned(), change.name().to_owned())]
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
        let mut pods = view::list(&self.store, &format!("{PODS}{namespace}/"));
        pods.retain(|pod| selector.matches(pod));
        let triggered = self.triggers.lock().look(&service, &pods);
        let (slices, endpoints) = futures::join!(
            self.write_slices(&service, &pods, triggered),
            self.write_endpoints(&service, &pods, triggered)
        );
        slices.and(endpoints)?;
        Ok(Next::default())
    }
}
