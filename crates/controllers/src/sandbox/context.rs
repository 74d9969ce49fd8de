//! The context of a Sandbox reconcile: the common context, caches, and the channel that triggers reconciles.

use std::{
    borrow::Cow,
    sync::{Arc, Mutex, OnceLock, PoisonError},
};

use capt_kinds::sandbox::Sandbox;
use futures::{
    FutureExt as _,
    channel::mpsc::{UnboundedReceiver, UnboundedSender, unbounded},
};
use kube::{
    core::{DeserializeGuard, DynamicObject},
    runtime::reflector::{ObjectRef, Store},
};
use sandbox::routes::OwnerKind;
use tokio::sync::Notify;

use super::{
    baseline_index::{BaselineIndex, ClusterNamespace},
    fork_cache::ForkCache,
    key_conflict::{self, Claimant},
    remote_clusters::ClusterConnections,
};
use crate::{
    common,
    sandbox_common::{remote_target::SandboxScope, route_snapshot::RouteSnapshotter},
};

/// Reference to a Sandbox in the controller's queue.
pub(super) type SandboxObjectRef = ObjectRef<DeserializeGuard<Sandbox>>;

/// The context of every reconcile.
pub struct Context {
    /// The context of all controllers.
    pub(super) common: Arc<common::Context>,
    /// Sandboxes by baseline.
    pub(super) index: Arc<BaselineIndex>,
    /// Management cluster or workload cluster.
    pub(super) scope: SandboxScope,
    /// Connections to the workload clusters that Sandboxes refer to.
    pub(super) clusters: ClusterConnections,
    /// Notified when the last Sandbox of a workload cluster was deleted.
    pub(super) cluster_vacated: Notify,
    /// State of forks that is kept between reconciles.
    pub(super) fork_cache: ForkCache,
    /// The desired routes, and the routers that have them.
    pub(super) snapshotter: Arc<RouteSnapshotter>,
    sandbox_store: OnceLock<Store<DeserializeGuard<Sandbox>>>,
    local_workload_store: OnceLock<Store<DynamicObject>>,
    trigger_sender: UnboundedSender<SandboxObjectRef>,
    trigger_receiver: Mutex<Option<UnboundedReceiver<SandboxObjectRef>>>,
}

impl common::runner::ControllerContext for Context {
    fn common(&self) -> &common::Context {
        &self.common
    }
}

impl Context {
    pub(super) fn new(
        common: Arc<common::Context>,
        snapshotter: Arc<RouteSnapshotter>,
        scope: SandboxScope,
    ) -> Self {
        let (trigger_sender, heard) = unbounded();
        Self {
            snapshotter,
            common,
            scope,
            index: Arc::default(),
            clusters: ClusterConnections::default(),
            cluster_vacated: Notify::new(),
            fork_cache: ForkCache::default(),
            sandbox_store: OnceLock::new(),
            local_workload_store: OnceLock::new(),
            trigger_sender,
            trigger_receiver: Mutex::new(Some(heard)),
        }
    }

    /// The stream of Sandboxes to reconcile. Some only for the first call.
    pub(super) fn take_triggers(&self) -> Option<UnboundedReceiver<SandboxObjectRef>> {
        self.trigger_receiver.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Sets the store of all Sandboxes.
    pub(super) fn set_sandbox_store(&self, store: Store<DeserializeGuard<Sandbox>>) {
        // Called once; a second call would be ignored.
        let _first = self.sandbox_store.set(store);
    }

    /// Sets the store of all local workloads.
    pub(super) fn set_local_workload_store(&self, store: Store<DynamicObject>) {
        // Called once; a second call would be ignored.
        let _first = self.local_workload_store.set(store);
    }

    /// All local workloads; `None` until the store is synced.
    pub(super) fn local_workloads(&self) -> Option<Vec<Arc<DynamicObject>>> {
        let store = self.local_workload_store.get()?;
        store.wait_until_ready().now_or_never()?.ok()?;
        Some(store.state())
    }

    /// All objects that claim a routing key.
    pub(super) fn claimants(&self, key: &str) -> Vec<Claimant> {
        let of = |it: &Sandbox| {
            let is_rival = current_routing_key(it) == key && !key_conflict::has_released_key(&it.metadata);
            is_rival.then(|| (OwnerKind::Sandbox, it.metadata.clone()))
        };
        let mut all: Vec<Claimant> =
            self.sandboxes().iter().filter_map(|it| of(it.0.as_ref().ok()?)).collect();
        let snapshot = self.snapshotter.latest_snapshot();
        let groups = snapshot.iter().filter_map(|it| it.groups.get(key)).flatten();
        all.extend(groups.map(|it| (OwnerKind::RouteGroup, it.clone())));
        all
    }

    /// All Sandboxes, including those that do not decode.
    pub(super) fn sandboxes(&self) -> Vec<Arc<DeserializeGuard<Sandbox>>> {
        self.sandbox_store.get().map(Store::state).unwrap_or_default()
    }

    /// Sender that triggers reconciles of Sandboxes.
    pub(super) fn trigger_sender(&self) -> UnboundedSender<SandboxObjectRef> {
        self.trigger_sender.clone()
    }
}

/// The routing key of a Sandbox, from its status if possible: hashing uids of thousands of Sandboxes is measurable.
pub(super) fn current_routing_key(object: &Sandbox) -> Cow<'_, str> {
    let told = object.status.as_ref().and_then(|it| it.routing_key.as_deref());
    let said = object.spec.routing_key.as_deref().filter(|it| !it.is_empty());
    said.or(told).map_or_else(|| Cow::Owned(super::validate::routing_key(object)), Cow::Borrowed)
}

/// The object reference of a Sandbox.
pub(super) fn object_ref(spot: &ClusterNamespace, name: &str) -> SandboxObjectRef {
    ObjectRef::new(name).within(&spot.namespace)
}
