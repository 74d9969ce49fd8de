//! What every reconcile of a control plane gets: what all get, and the world.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use futures::channel::mpsc::{UnboundedReceiver, UnboundedSender, unbounded};
use kube::{core::DeserializeGuard, runtime::reflector::ObjectRef};

use super::look::{Cloud, Looks};
use crate::{api::CaptControlPlane, controllers::common, model::Limits};

/// How often EKS is asked although nothing happened.
const POLL: Duration = Duration::from_mins(2);

/// An object that is to be looked at.
pub(super) type Wake = ObjectRef<DeserializeGuard<CaptControlPlane>>;

/// What every reconcile of a control plane gets.
pub struct Context {
    /// What all controllers get.
    pub common: Arc<common::Context>,
    /// EKS, tokens, API servers.
    pub cloud: Arc<dyn Cloud>,
    /// Quotas of the account.
    pub limits: Limits,
    /// How often EKS is asked although nothing happened.
    pub poll: Duration,
    /// What EKS said.
    pub looks: Arc<Looks>,
    wake: UnboundedSender<Wake>,
    woken: Mutex<Option<UnboundedReceiver<Wake>>>,
}

impl std::fmt::Debug for Context {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Context")
            .field("limits", &self.limits)
            .field("poll", &self.poll)
            .finish_non_exhaustive()
    }
}

impl Context {
    /// With the quotas of AWS, and a question to EKS every two minutes.
    pub fn new(common: Arc<common::Context>, cloud: Arc<dyn Cloud>) -> Self {
        let (wake, woken) = unbounded();
        Self {
            common,
            cloud,
            limits: Limits::default(),
            poll: POLL,
            looks: Arc::default(),
            wake,
            woken: Mutex::new(Some(woken)),
        }
    }

    /// With these quotas.
    #[must_use]
    pub const fn with_limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// With a question to EKS this often.
    #[must_use]
    pub const fn with_poll(mut self, poll: Duration) -> Self {
        self.poll = poll;
        self
    }

    /// A call that leads to another look at an object.
    pub(super) fn waker(&self, object: &CaptControlPlane) -> impl FnOnce() + Send + 'static {
        let wake = self.wake.clone();
        let name = object.metadata.name.clone().unwrap_or_default();
        let namespace = object.metadata.namespace.clone().unwrap_or_default();
        move || {
            // Nobody listens while the process ends.
            let _ = wake.unbounded_send(ObjectRef::new(&name).within(&namespace));
        }
    }

    /// The objects that are to be looked at. There is one such stream.
    pub(super) fn woken(&self) -> UnboundedReceiver<Wake> {
        let mut woken = self.woken.lock().unwrap_or_else(PoisonError::into_inner);
        woken.take().unwrap_or_else(|| unbounded().1)
    }
}
