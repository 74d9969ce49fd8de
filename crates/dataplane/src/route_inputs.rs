//! Watches the inputs of the route table: for the router of one namespace, and for the operator in all namespaces.

use std::{fmt::Debug, hash::Hash, sync::Arc};

use capt_kinds::sandbox::{LocalWorkload, RouteGroup, Sandbox};
use futures::StreamExt as _;
use k8s_openapi::api::{
    core::v1::{Namespace, Service},
    discovery::v1::EndpointSlice,
};
use kube::{
    Api, Client, Resource, ResourceExt as _,
    core::{DeserializeGuard, NamespaceResourceScope},
    runtime::{
        WatchStreamExt as _,
        reflector::{self, Store, reflector, store::WriterDropped},
        watcher,
    },
};
use sandbox::routes::{RouteObjects, Routes, build_routes};
use serde::de::DeserializeOwned;
use tokio::{sync::watch, task::AbortHandle};

/// A set of watch tasks that are aborted on drop.
pub struct WatchSet {
    change_sender: watch::Sender<u64>,
    /// Called with watch errors; the watches restart by themselves.
    on_error: fn(&watcher::Error),
    tasks: Vec<AbortHandle>,
}

impl Drop for WatchSet {
    fn drop(&mut self) {
        for task in &self.tasks {
            task.abort();
        }
    }
}

impl WatchSet {
    /// An empty set. The receiver is notified of every change.
    pub fn new(trouble: fn(&watcher::Error)) -> (Self, watch::Receiver<u64>) {
        let (tell, told) = watch::channel(0);
        (Self { change_sender: tell, on_error: trouble, tasks: Vec::new() }, told)
    }

    /// Sender for changes from other sources.
    pub fn change_sender(&self) -> watch::Sender<u64> {
        self.change_sender.clone()
    }

    /// Adds a task that is aborted together with the watches.
    pub fn add_task(&mut self, task: AbortHandle) {
        self.tasks.push(task);
    }

    /// Starts a watch that fills a store and notifies the receiver. The store is kept while a failed watch restarts.
    pub fn watch_store<K>(&mut self, objects: Api<K>, which: watcher::Config) -> Store<K>
    where
        K: Resource + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
        K::DynamicType: Eq + Hash + Clone + Default + Unpin + Send + Sync,
    {
        let ((reader, writer), tell, trouble) =
            (reflector::store(), self.change_sender.clone(), self.on_error);
        let slim = watcher(objects, which).default_backoff().modify(|it| it.managed_fields_mut().clear());
        let events = reflector(writer, slim);
        let follow = async move {
            let mut events = std::pin::pin!(events);
            while let Some(event) = events.next().await {
                match event {
                    Ok(_) => tell.send_modify(|count| *count += 1),
                    Err(error) => trouble(&error),
                }
            }
        };
        self.tasks.push(tokio::spawn(follow).abort_handle());
        reader
    }
}

/// Stores of all objects that the route table is built from.
pub struct RouteInputs {
    /// Sandboxes.
    pub sandboxes: Store<DeserializeGuard<Sandbox>>,
    /// Route groups.
    pub groups: Store<DeserializeGuard<RouteGroup>>,
    locals: Store<DeserializeGuard<LocalWorkload>>,
    services: Store<Service>,
    slices: Store<EndpointSlice>,
    namespaces: Store<Namespace>,
}

/// What a route table covers.
#[derive(Debug, Clone, Copy, Default)]
pub struct TableScope<'a> {
    /// The domain of preview hosts.
    pub domain: Option<&'a str>,
    /// The namespace whose Services are routed; all if `None`.
    pub namespace: Option<&'a str>,
}

impl RouteInputs {
    /// Starts the watches: Sandboxes and the namespace itself of one namespace or of all, Services likewise.
    pub fn new(
        watches: &mut WatchSet,
        client: &Client,
        sandboxes: Option<&str>,
        services: Option<&str>,
    ) -> Self {
        let all = watcher::Config::default;
        // A rule with resource names allows a list and a watch that select this name.
        let namespaces = sandboxes.map_or_else(all, |name| all().fields(&format!("metadata.name={name}")));
        Self {
            sandboxes: watches.watch_store(api(client, sandboxes), all()),
            groups: watches.watch_store(api(client, sandboxes), all()),
            locals: watches.watch_store(api(client, sandboxes), all()),
            services: watches.watch_store(api(client, services), all()),
            slices: watches.watch_store(api(client, services), all()),
            namespaces: watches.watch_store(Api::all(client.clone()), namespaces),
        }
    }

    /// Waits until all stores are synced.
    pub async fn wait_ready(&self) -> Result<(), WriterDropped> {
        self.sandboxes.wait_until_ready().await?;
        self.groups.wait_until_ready().await?;
        self.locals.wait_until_ready().await?;
        self.services.wait_until_ready().await?;
        self.slices.wait_until_ready().await?;
        self.namespaces.wait_until_ready().await
    }

    /// The local workloads that decode.
    pub fn locals(&self) -> Vec<LocalWorkload> {
        readable(&self.locals.state()).into_iter().cloned().collect()
    }

    /// Builds the routes of the current objects. Undecodable objects have none; their controllers report them.
    pub fn build_routes(&self, view: TableScope<'_>) -> Routes {
        let (sandboxes, groups, locals) = (self.sandboxes.state(), self.groups.state(), self.locals.state());
        let (services, slices) = (self.services.state(), self.slices.state());
        let namespaces = self.namespaces.state();
        let TableScope { domain, namespace: scope } = view;
        build_routes(&RouteObjects {
            sandboxes: readable(&sandboxes),
            groups: readable(&groups),
            locals: readable(&locals),
            services: services.iter().map(AsRef::as_ref).collect(),
            slices: slices.iter().map(AsRef::as_ref).collect(),
            namespaces: namespaces.iter().map(AsRef::as_ref).collect(),
            domain,
            scope,
        })
    }
}

/// The objects that decode.
pub fn readable<K>(all: &[Arc<DeserializeGuard<K>>]) -> Vec<&K> {
    all.iter().filter_map(|it| it.0.as_ref().ok()).collect()
}

fn api<K>(client: &Client, namespace: Option<&str>) -> Api<K>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
{
    match namespace {
        Some(namespace) => Api::namespaced(client.clone(), namespace),
        None => Api::all(client.clone()),
    }
}
