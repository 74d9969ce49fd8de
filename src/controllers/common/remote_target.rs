//! Sandboxes in a cluster that this operator made. Their controllers run in this process and work on that cluster; what is
//! said of a Sandbox here is what they say of its likeness there.

use std::sync::Arc;

use sandbox::fargate::Profile;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::k8s::Kube;

/// The Fargate profiles of a cluster, as they change.
pub type Profiles = watch::Receiver<Vec<Profile>>;

/// Another cluster, for the controllers of sandboxes.
#[derive(Debug, Clone)]
pub struct Outpost {
    /// Its API server.
    pub kube: Kube,
    /// The namespace there.
    pub namespace: String,
    /// Where pods find a place.
    pub profiles: Profiles,
    /// Ends the controllers; cancelled by them if they end by themselves.
    pub stop: CancellationToken,
}

/// Starts the controllers of sandboxes in another cluster. What goes wrong with them they say themselves.
pub type Open = Arc<dyn Fn(Outpost) + Send + Sync>;

/// Where the controller of Sandboxes works.
#[derive(Clone)]
pub enum Ground {
    /// In the cluster of the operator, which opens others.
    Home(Open),
    /// In one that was opened.
    Outpost(Profiles),
}

impl Ground {
    /// The Fargate profiles, if they are known; nobody asks the operator's own cluster what it runs on.
    pub fn profiles(&self) -> Option<Vec<Profile>> {
        match self {
            Self::Home(_) => None,
            Self::Outpost(profiles) => Some(profiles.borrow().clone()),
        }
    }
}
