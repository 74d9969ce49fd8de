//! Endpoints controller: `EndpointSlices` and the legacy Endpoints of each Service.

mod legacy_endpoints;
mod pod_endpoint;
mod slices;
#[cfg(test)]
mod tests;

use std::collections::{HashMap, HashSet};

use jiff::Timestamp;
use parking_lot::Mutex;
use serde_json::{Value, json};

use self::{pod_endpoint::TriggerTimes, slices::SliceChanges};
use super::{
    api_client::{ApiClient, ControllerError, collection_path, object_path},
    control_loop::{Controller, ObjectChange, ReconcileResult},
    selector::Selector,
    selector_index::{NamespacedName, SelectorIndex},
    store_query,
};
use crate::{
    object::{IndexedMeta, MetaAccessor, MetaAccessorMut, get_path, get_path_mut, str_at},
    store::{Entry, Store},
};

const SERVICES: &str = "/services/";
const PODS: &str = "/pods/";
const NODES: &str = "/nodes/";
const ENDPOINTS: &str = "/endpoints/";
const SLICES: &str = "discovery.k8s.io/endpointslices/";
const TRIGGER_TIME_ANNOTATION: &str = "endpoints.kubernetes.io/last-change-trigger-time";

/// The endpoints controller.
pub struct EndpointsController {
    slices_api: ApiClient,
    endpoints_api: ApiClient,
    store: Store,
    triggers: Mutex<TriggerTimes>,
    selector_index: Mutex<SelectorIndex>,
}

fn selector_of(service: &Value) -> Option<Selector> {
    let selector = get_path(service, &["spec", "selector"]).filter(|selector| selector.is_object())?;
    if str_at(service, &["spec", "type"]) == "ExternalName" {
        None
    } else {
        Selector::from_match_labels(selector)
    }
}

impl EndpointsController {
    /// `slices` writes `EndpointSlices`, `plain` writes Endpoints.
    pub fn new(slices_api: ApiClient, endpoints_api: ApiClient, store: Store) -> Self {
        Self {
            slices_api,
            endpoints_api,
            store,
            triggers: Mutex::default(),
            selector_index: Mutex::default(),
        }
    }

    /// Zones of the nodes that these pods run on, for nodes that exist.
    fn zones(&self, pods: &[Value]) -> HashMap<String, String> {
        let names: HashSet<&str> = pods.iter().map(|pod| str_at(pod, &["spec", "nodeName"])).collect();
        let zone =
            |node: &IndexedMeta| node.label("topology.kubernetes.io/zone").unwrap_or_default().to_owned();
        let nodes = names.into_iter().filter_map(|name| {
            let node = self.store.get(&format!("{NODES}/{name}"))?;
            Some((name.to_owned(), zone(node.document.indexed_meta())))
        });
        nodes.collect()
    }

    async fn write_slices(
        &self,
        service: &Value,
        pods: &[Value],
        triggered: Option<Timestamp>,
    ) -> Result<(), ControllerError> {
        let (namespace, name) = (service.namespace(), service.name());
        let own = Selector::with_labels(&[
            (slices::SERVICE_NAME_LABEL, name),
            (slices::MANAGED_BY, slices::MANAGER),
        ]);
        let present = store_query::list_selected(&self.store, &format!("{SLICES}{namespace}/"), &own);
        let changes = slices::plan_slices(service, pods, present, &self.zones(pods));
        let SliceChanges { create, update, delete, without_node } = changes;
        let path = collection_path("discovery.k8s.io/v1", namespace, "endpointslices");
        for mut slice in create {
            set_trigger_time(&mut slice, triggered);
            ignore_terminating(self.slices_api.create(&path, &slice).await)?;
        }
        for mut slice in update {
            set_trigger_time(&mut slice, triggered);
            self.slices_api.update(&format!("{path}/{}", slice.name()), &slice).await?;
        }
        for name in delete {
            ignore_not_found(self.slices_api.delete(&format!("{path}/{name}"), &json!({})).await)?;
        }
        match without_node.first() {
            Some(pod) => Err(ControllerError::Aggregate(format!("the node of pod {pod} is not known"))),
            None => Ok(()),
        }
    }

    async fn write_endpoints(
        &self,
        service: &Value,
        pods: &[Value],
        triggered: Option<Timestamp>,
    ) -> Result<(), ControllerError> {
        let present = store_query::get_object(
            &self.store,
            &format!("{ENDPOINTS}{}/{}", service.namespace(), service.name()),
        );
        let is_new = present.is_none();
        let Some(mut endpoints) = legacy_endpoints::plan_endpoints(service, pods, present.as_ref()) else {
            return Ok(());
        };
        set_trigger_time(&mut endpoints, triggered);
        let path = collection_path("v1", service.namespace(), "endpoints");
        if is_new {
            ignore_terminating(self.endpoints_api.create(&path, &endpoints).await)
        } else {
            self.endpoints_api.update(&format!("{path}/{}", service.name()), &endpoints).await.map(drop)
        }
    }
}

fn set_trigger_time(object: &mut Value, triggered: Option<Timestamp>) {
    if let Some(time) = triggered {
        if let Some(place) = get_path_mut(object, &["metadata", "annotations", TRIGGER_TIME_ANNOTATION]) {
            *place = time.to_string().into();
        }
    } else if let Some(notes) = object.get_mut("metadata").and_then(|meta| meta.get_mut("annotations")) {
        notes.drop_field(TRIGGER_TIME_ANNOTATION);
    }
}

fn ignore_terminating(outcome: Result<Value, ControllerError>) -> Result<(), ControllerError> {
    match outcome {
        Err(trouble) if trouble.is_namespace_terminating() => Ok(()),
        other => other.map(drop),
    }
}

fn ignore_not_found(outcome: Result<(), ControllerError>) -> Result<(), ControllerError> {
    match outcome {
        Err(trouble) if trouble.is_not_found() => Ok(()),
        other => other,
    }
}

impl Controller for EndpointsController {
    type Key = NamespacedName;
    const NAME: &'static str = "endpointslice-controller";
    const PREFIXES: &'static [&'static str] = &[SERVICES, PODS, NODES, ENDPOINTS, SLICES];

    fn keys_for_change(&self, change: &ObjectChange<'_>) -> Vec<NamespacedName> {
        let namespace = change.namespace();
        let states = || {
            [change.current, change.previous]
                .into_iter()
                .flatten()
                .map(|entry: &Entry| entry.document.indexed_meta())
        };
        if change.has_prefix(PODS) {
            let selecting = self.selector_index.lock();
            return states().flat_map(|pod| selecting.selecting(namespace, pod)).collect();
        }
        if change.has_prefix(NODES) {
            // Only the existence of a node matters, not its status.
            let is_news = change.previous.is_none() || change.current.is_none();
            return if is_news { self.selector_index.lock().all_keys() } else { Vec::new() };
        }
        if change.has_prefix(SLICES) {
            let is_ours = |slice: &&IndexedMeta| slice.label(slices::MANAGED_BY) == Some(slices::MANAGER);
            let names = states().filter(is_ours).filter_map(|slice| slice.label(slices::SERVICE_NAME_LABEL));
            return names.map(|name| (namespace.to_owned(), name.to_owned())).collect();
        }
        let key = change.namespaced_name();
        if change.has_prefix(SERVICES) {
            let service = change.current.map(|entry| entry.document.value());
            self.selector_index.lock().set(&key, service.as_ref().and_then(selector_of));
        }
        vec![key]
    }

    fn reset(&self) {
        self.selector_index.lock().clear();
    }

    async fn reconcile(
        &self,
        key: &NamespacedName,
    ) -> Result<ReconcileResult<NamespacedName>, ControllerError> {
        let (namespace, name) = key;
        let Some(service) = store_query::get_object(&self.store, &format!("{SERVICES}{namespace}/{name}"))
        else {
            self.triggers.lock().forget(key);
            if self.store.get(&format!("{ENDPOINTS}{namespace}/{name}")).is_some() {
                ignore_not_found(
                    self.endpoints_api
                        .delete(&object_path("v1", namespace, "endpoints", name), &json!({}))
                        .await,
                )?;
            }
            return Ok(ReconcileResult::default());
        };
        let Some(selector) = selector_of(&service) else { return Ok(ReconcileResult::default()) };
        let pods = store_query::list_selected(&self.store, &format!("{PODS}{namespace}/"), &selector);
        let triggered = self.triggers.lock().observe(&service, &pods);
        let (slices, endpoints) = futures::join!(
            self.write_slices(&service, &pods, triggered),
            self.write_endpoints(&service, &pods, triggered)
        );
        slices.and(endpoints)?;
        Ok(ReconcileResult::default())
    }
}
