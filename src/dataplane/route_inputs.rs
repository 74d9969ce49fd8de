//! What routes are made of, as watches tell it: to the router of a namespace, and to the operator for all of them.

use std::{fmt::Debug, hash::Hash, sync::Arc};

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
use sandbox::{
    api::{LocalWorkload, RouteGroup, Sandbox},
    routes::{Objects, Routes, routes},
};
use serde::de::DeserializeOwned;
use tokio::{sync::watch, task::AbortHandle};

/// Watches that go on until this is dropped.
pub struct Watches {
    tell: watch::Sender<u64>,
    /// Says what went wrong with one; it goes on by itself.
    trouble: fn(&watcher::Error),
    tasks: Vec<AbortHandle>,
}

impl Drop for Watches {
    fn drop(&mut self) {
        for task in &self.tasks {
            task.abort();
        }
    }
}

impl Watches {
    /// None yet. The receiver is told whenever something is different.
    pub fn new(trouble: fn(&watcher::Error)) -> (Self, watch::Receiver<u64>) {
        let (tell, told) = watch::channel(0);
        (Self { tell, trouble, tasks: Vec::new() }, told)
    }

    /// Who tells that something is different.
    pub fn teller(&self) -> watch::Sender<u64> {
        self.tell.clone()
    }

    /// Something else that goes on as long.
    pub fn also(&mut self, task: AbortHandle) {
        self.tasks.push(task);
    }

    /// Keeps what a watch tells, and tells that it did. A watch that fails goes on where it was; what is kept stays.
    pub fn keep<K>(&mut self, objects: Api<K>, which: watcher::Config) -> Store<K>
    where
        K: Resource + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
        K::DynamicType: Eq + Hash + Clone + Default + Unpin + Send + Sync,
    {
        let ((reader, writer), tell, trouble) = (reflector::store(), self.tell.clone(), self.trouble);
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

/// What was seen last of everything that routes are made of.
pub struct Watched {
    /// Sandboxes.
    pub sandboxes: Store<DeserializeGuard<Sandbox>>,
    /// Route groups.
    pub groups: Store<DeserializeGuard<RouteGroup>>,
    locals: Store<DeserializeGuard<LocalWorkload>>,
    services: Store<Service>,
    slices: Store<EndpointSlice>,
    namespaces: Store<Namespace>,
}

/// For whom routes are made.
#[derive(Debug, Clone, Copy, Default)]
pub struct View<'a> {
    /// The domain of preview hosts.
    pub domain: Option<&'a str>,
    /// The namespace whose routes are wanted; all of them otherwise.
    pub scope: Option<&'a str>,
}

impl Watched {
    /// Starts to watch: sandboxes of one namespace or of all, Services likewise.
    pub fn new(
        watches: &mut Watches,
        client: &Client,
        sandboxes: Option<&str>,
        services: Option<&str>,
    ) -> Self {
        let all = watcher::Config::default;
        Self {
            sandboxes: watches.keep(api(client, sandboxes), all()),
            groups: watches.keep(api(client, sandboxes), all()),
            locals: watches.keep(api(client, sandboxes), all()),
            services: watches.keep(api(client, services), all()),
            slices: watches.keep(api(client, services), all()),
            namespaces: watches.keep(Api::all(client.clone()), all()),
        }
    }

    /// Waits until everything was seen once.
    pub async fn ready(&self) -> Result<(), WriterDropped> {
        self.sandboxes.wait_until_ready().await?;
        self.groups.wait_until_ready().await?;
        self.locals.wait_until_ready().await?;
        self.services.wait_until_ready().await?;
        self.slices.wait_until_ready().await?;
        self.namespaces.wait_until_ready().await
    }

    /// The local workloads, as far as they can be read.
    pub fn locals(&self) -> Vec<LocalWorkload> {
        readable(&self.locals.state()).into_iter().cloned().collect()
    }

    /// The routes of what is there now. Objects that cannot be read have none; their controllers say so.
    pub fn routes(&self, view: View<'_>) -> Routes {
        let (sandboxes, groups, locals) = (self.sandboxes.state(), self.groups.state(), self.locals.state());
        let (services, slices) = (self.services.state(), self.slices.state());
        let namespaces = self.namespaces.state();
        let View { domain, scope } = view;
        routes(&Objects {
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

/// Those that are what they should be.
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
