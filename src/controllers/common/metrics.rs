//! What the controllers tell whoever measures them.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use crate::error::Class;

/// How a reconcile ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// Nothing is left to do.
    Done,
    /// With an error of this class.
    Failed(Class),
}

/// What is made and removed, and takes long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Thing {
    /// An EKS cluster with everything that was asked for.
    Cluster,
    /// A Fargate profile.
    FargateProfile,
}

/// Hears what the controllers do. Implemented by whoever makes metrics of it; by default nobody listens.
pub trait Meter: Send + Sync {
    /// An object of this kind shall be looked at.
    fn told(&self, _kind: &'static str, _object: &str) {}

    /// An object that should have been looked at is gone.
    fn vanished(&self, _kind: &'static str, _object: &str) {}

    /// A reconcile began. The answer is told how it ended, or dropped if it never did.
    fn begin(&self, _kind: &'static str, _object: &str) -> Box<dyn FnOnce(End) + Send> {
        Box::new(|_| {})
    }

    /// Something is there, so long after it was asked for.
    fn made(&self, _thing: Thing, _took: Duration) {}

    /// Something is gone, so long after its deletion.
    fn removed(&self, _thing: Thing, _took: Duration) {}

    /// The states of the Fargate profiles of a control plane, as EKS says them.
    fn profiles(&self, _control_plane: &str, _states: &[&str]) {}

    /// Whether a workspace differs from reality.
    fn drifted(&self, _workspace: &str, _is: bool) {}

    /// The phase of a Sandbox; none if it is gone.
    fn sandbox(&self, _sandbox: &str, _phase: Option<&'static str>) {}

    /// All routers of a namespace have routes, so long after the first of them should have had them.
    fn propagated(&self, _took: Duration) {}

    /// A state was copied to the API server.
    fn replicated(&self, _took: Duration) {}
}

impl Meter for () {}

/// How long something has been going on; nothing if clocks disagree.
pub fn since(then: Option<&Time>, now: Timestamp) -> Option<Duration> {
    Duration::try_from(now.duration_since(then?.0)).ok()
}
