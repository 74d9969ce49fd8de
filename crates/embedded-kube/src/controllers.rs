//! Built-in controllers: the parts of kube-controller-manager that implement owner references, namespace deletion and
//! workload readiness.
//!
//! Controllers are ordinary clients: they write through the API, each with its own service account, and only read from
//! the store. Each is a [`run::Controller`] around pure decision functions; none of them polls.

mod api_client;
mod control_loop;
mod deployments;
mod endpoints;
mod event_expiry;
mod event_recorder;
mod garbage_collector;
mod namespace_defaults;
mod namespaces;
mod pod_state;
mod replica_sets;
mod role_aggregation;
mod selector;
mod selector_index;
mod store_query;
mod work_queue;

use std::sync::Arc;

use kube::Client;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use self::{
    api_client::ApiClient, control_loop::run_controller, deployments::DeploymentController,
    endpoints::EndpointsController, event_recorder::EventRecorder, garbage_collector::GarbageCollector,
    namespace_defaults::NamespaceDefaults, namespaces::NamespaceController,
    replica_sets::ReplicaSetController, role_aggregation::RoleAggregation,
};
use crate::{registry::Registry, store::Store};

/// Settings shared by all controllers.
#[derive(Debug, Clone, Default)]
pub struct ControllerSettings {
    /// PEM certificates that verify the API server; published as a `ConfigMap` in every namespace.
    pub ca: Option<String>,
}

/// Starts all controllers. `client` must be allowed to impersonate any user. Controllers end when `cancel` is
/// cancelled; the tracker is closed, so its `wait` returns when the last one has ended.
pub fn start(
    client: &Client,
    store: &Store,
    registry: &Arc<Registry>,
    settings: ControllerSettings,
    cancel: &CancellationToken,
) -> TaskTracker {
    let tasks = TaskTracker::new();
    let api = |account: &str| ApiClient::for_account(client, account);
    let recorder =
        |account: &str, component| EventRecorder::new(ApiClient::for_account(client, account), component);
    macro_rules! start {
        ($controller:expr) => {
            tasks.spawn(run_controller($controller, store.clone(), cancel.clone()))
        };
    }
    let told = recorder("generic-garbage-collector", "garbage-collector-controller");
    start!(GarbageCollector::new(api("generic-garbage-collector"), Arc::clone(registry), told));
    start!(NamespaceController::new(api("namespace-controller"), store.clone(), Arc::clone(registry)));
    start!(NamespaceDefaults {
        accounts_api: api("service-account-controller"),
        ca_publisher_api: api("root-ca-cert-publisher"),
        store: store.clone(),
        ca: settings.ca,
    });
    start!(RoleAggregation { api: api("clusterrole-aggregation-controller"), store: store.clone() });
    let told = recorder("replicaset-controller", "replicaset-controller");
    start!(ReplicaSetController::new(api("replicaset-controller"), store.clone(), told));
    let told = recorder("deployment-controller", "deployment-controller");
    start!(DeploymentController::new(api("deployment-controller"), store.clone(), told));
    start!(EndpointsController::new(
        api("endpointslice-controller"),
        api("endpoint-controller"),
        store.clone()
    ));
    tasks.spawn(event_expiry::run_event_expiry(api("ttl-controller"), store.clone(), cancel.clone()));
    tasks.close();
    tasks
}
