//! Dependencies of the control plane controller: the common ones, the EKS backend and the poller.

use std::{
    sync::{Arc, Mutex, OnceLock, PoisonError},
    time::Duration,
};

use capt_kinds::api::CaptControlPlane;
use capt_model::model::Limits;
use futures::channel::mpsc::{UnboundedReceiver, UnboundedSender, unbounded};
use kube::{
    core::DeserializeGuard,
    runtime::reflector::{ObjectRef, Store},
};

use super::{
    eks_poll::{EksBackend, EksPoller},
    ownership::OtherControlPlane,
};
use crate::common;

/// Default EKS poll interval.
const POLL_INTERVAL: Duration = Duration::from_mins(2);

/// A control plane to reconcile.
pub(super) type ReconcileTrigger = ObjectRef<DeserializeGuard<CaptControlPlane>>;

/// Dependencies of the control plane controller.
pub struct Context {
    /// Common dependencies.
    pub common: Arc<common::Context>,
    /// Calls EKS, issues tokens, probes API servers.
    pub backend: Arc<dyn EksBackend>,
    /// Service quotas of the account.
    pub limits: Limits,
    /// EKS poll interval.
    pub poll_interval: Duration,
    /// Background poller with the last EKS observations.
    pub eks_poller: Arc<EksPoller>,
    control_planes: OnceLock<Store<DeserializeGuard<CaptControlPlane>>>,
    trigger_sender: UnboundedSender<ReconcileTrigger>,
    trigger_receiver: Mutex<Option<UnboundedReceiver<ReconcileTrigger>>>,
}

impl std::fmt::Debug for Context {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Context")
            .field("limits", &self.limits)
            .field("poll", &self.poll_interval)
            .finish_non_exhaustive()
    }
}

impl common::runner::ControllerContext for Context {
    fn common(&self) -> &common::Context {
        &self.common
    }
}

impl Context {
    /// Uses the default AWS quotas and polls EKS every two minutes.
    pub fn new(common: Arc<common::Context>, backend: Arc<dyn EksBackend>) -> Self {
        let (trigger_sender, woken) = unbounded();
        Self {
            common,
            backend,
            limits: Limits::default(),
            poll_interval: POLL_INTERVAL,
            eks_poller: Arc::default(),
            control_planes: OnceLock::new(),
            trigger_sender,
            trigger_receiver: Mutex::new(Some(woken)),
        }
    }

    /// Sets the quotas.
    #[must_use]
    pub const fn with_limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// Sets the EKS poll interval.
    #[must_use]
    pub const fn with_poll_interval(mut self, poll: Duration) -> Self {
        self.poll_interval = poll;
        self
    }

    /// Sets the cache of all control planes. Once: the controller runs once.
    pub(super) fn set_control_planes(&self, all: Store<DeserializeGuard<CaptControlPlane>>) {
        // A second controller with this context has the same objects in its cache.
        let _ = self.control_planes.set(all);
    }

    /// All control planes but this one.
    pub(super) fn other_control_planes(&self, object: &CaptControlPlane) -> Vec<OtherControlPlane> {
        let all = self.control_planes.get().map(Store::state).unwrap_or_default();
        let others = all.iter().filter_map(|it| it.0.as_ref().ok());
        others.filter(|it| it.metadata.uid != object.metadata.uid).map(OtherControlPlane::new).collect()
    }

    /// A callback that triggers a reconcile of an object.
    pub(super) fn reconcile_trigger(&self, object: &CaptControlPlane) -> impl FnOnce() + Send + 'static {
        let wake = self.trigger_sender.clone();
        let name = object.metadata.name.clone().unwrap_or_default();
        let namespace = object.metadata.namespace.clone().unwrap_or_default();
        move || {
            // The receiver is gone during shutdown.
            let _ = wake.unbounded_send(ObjectRef::new(&name).within(&namespace));
        }
    }

    /// The stream of triggered objects. It can be taken once; later calls return an empty stream.
    pub(super) fn take_trigger_stream(&self) -> UnboundedReceiver<ReconcileTrigger> {
        let mut woken = self.trigger_receiver.lock().unwrap_or_else(PoisonError::into_inner);
        woken.take().unwrap_or_else(|| unbounded().1)
    }
}
