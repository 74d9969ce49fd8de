//! What runs in the background of a cluster: the parts of a controller manager that make owner references, namespaces
//! and readiness behave.
//!
//! Controllers are ordinary clients: they write through the API, each as its own account, and see the store only to
//! read. Each is a [`run::Controller`] around pure decisions; none of them polls.

mod api;
mod collector;
mod deployments;
mod endpoints;
mod expiry;
mod furnish;
mod namespaces;
mod pods;
mod queue;
mod recorder;
mod replicasets;
mod roles;
mod run;
mod selecting;
mod selector;
mod view;

use std::sync::Arc;

use kube::Client;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use self::{
    api::Api, collector::Collector, deployments::Deployments, endpoints::Endpoints, furnish::Furnish,
    namespaces::Namespaces, recorder::Recorder, replicasets::ReplicaSets, roles::Roles, run::run,
};
use crate::{registry::Registry, store::Store};

/// What the controllers have to be told.
#[derive(Debug, Clone, Default)]
pub struct Settings {
    /// Certificates in PEM that verify the API server; published in every namespace.
    pub ca: Option<String>,
}

/// Starts all controllers. `client` must be allowed to impersonate anybody. They end when `cancel` is cancelled; the
/// tracker is closed, so that its `wait` returns when the last one has ended.
pub fn start(
    client: &Client,
    store: &Store,
    registry: &Arc<Registry>,
    settings: Settings,
    cancel: &CancellationToken,
) -> TaskTracker {
    let tasks = TaskTracker::new();
    let api = |account: &str| Api::of(client, account);
    let recorder = |account: &str, component| Recorder::new(Api::of(client, account), component);
    macro_rules! start {
        ($controller:expr) => {
            tasks.spawn(run($controller, store.clone(), cancel.clone()))
        };
    }
    let told = recorder("generic-garbage-collector", "garbage-collector-controller");
    start!(Collector::new(api("generic-garbage-collector"), Arc::clone(registry), told));
    start!(Namespaces::new(api("namespace-controller"), store.clone(), Arc::clone(registry)));
    start!(Furnish {
        accounts: api("service-account-controller"),
        publisher: api("root-ca-cert-publisher"),
        store: store.clone(),
        ca: settings.ca,
    });
    start!(Roles { api: api("clusterrole-aggregation-controller"), store: store.clone() });
    let told = recorder("replicaset-controller", "replicaset-controller");
    start!(ReplicaSets::new(api("replicaset-controller"), store.clone(), told));
    let told = recorder("deployment-controller", "deployment-controller");
    start!(Deployments::new(api("deployment-controller"), store.clone(), told));
    start!(Endpoints::new(api("endpointslice-controller"), api("endpoint-controller"), store.clone()));
    tasks.spawn(expiry::run(api("ttl-controller"), store.clone(), cancel.clone()));
    tasks.close();
    tasks
}
