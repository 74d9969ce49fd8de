//! What a local AWS can be told at its start. Durations and limits can also be changed while it runs
//! (`POST /_capt/timing`), because tests want slow and fast clouds in one process.

use std::{net::SocketAddr, path::PathBuf, sync::Arc, time::Duration};

use serde::{Deserialize, Serialize};

use crate::host::ClusterHost;

/// How a [`crate::LocalAws`] is started.
#[derive(Debug, Clone)]
pub struct Config {
    /// Where the front door listens. Port 0 takes a free one.
    pub listen: SocketAddr,
    /// The python of a virtual environment in which `requirements.txt` is installed.
    pub python: PathBuf,
    /// File that keeps the EKS model across restarts. Moto keeps nothing: see [`crate::LocalAws::instance`].
    pub persist: Option<PathBuf>,
    /// How long the states of EKS last.
    pub timing: Timing,
    /// The quotas of EKS.
    pub limits: Limits,
    /// File for what moto prints, one line a request. Without it moto only reports errors, through `tracing`.
    pub log: Option<PathBuf>,
    /// Base URL of cluster endpoints; the cluster's id is appended as a path. Without it the endpoint looks like
    /// the real one, and nothing answers there.
    pub endpoint_base: Option<String>,
    /// PEM of the certificate authority that clusters report. Without it a certificate whose key nobody has.
    pub certificate_authority: Option<String>,
    /// Plays the APIs of clusters; its endpoints and authorities take the place of the two above.
    pub host: Option<Arc<dyn ClusterHost>>,
}

impl Config {
    /// A local AWS on a free loopback port with the default timing, nothing persisted.
    pub fn new(python: impl Into<PathBuf>) -> Self {
        Self {
            listen: SocketAddr::from(([127, 0, 0, 1], 0)),
            python: python.into(),
            persist: None,
            timing: Timing::default(),
            limits: Limits::default(),
            log: None,
            endpoint_base: None,
            certificate_authority: None,
            host: None,
        }
    }
}

/// How long each state of EKS lasts. Real ones take minutes; these are short so that a person can watch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Timing {
    /// CREATING of a cluster, in milliseconds.
    pub cluster_create_ms: u64,
    /// UPDATING of a cluster, in milliseconds.
    pub cluster_update_ms: u64,
    /// DELETING of a cluster, in milliseconds.
    pub cluster_delete_ms: u64,
    /// For this long after a cluster became ACTIVE it still refuses Fargate mutations with 'an update in progress',
    /// as real clusters sometimes do while EKS writes their access entries.
    pub cluster_settle_ms: u64,
    /// CREATING of a Fargate profile, in milliseconds.
    pub profile_create_ms: u64,
    /// DELETING of a Fargate profile, in milliseconds.
    pub profile_delete_ms: u64,
    /// CREATING, UPDATING and DELETING of an addon, in milliseconds.
    pub addon_ms: u64,
}

impl Default for Timing {
    fn default() -> Self {
        Self {
            cluster_create_ms: 2000,
            cluster_update_ms: 1500,
            cluster_delete_ms: 1500,
            cluster_settle_ms: 0,
            profile_create_ms: 1000,
            profile_delete_ms: 1000,
            addon_ms: 500,
        }
    }
}

impl Timing {
    /// Every state is over at the next request.
    pub fn instant() -> Self {
        Self {
            cluster_create_ms: 0,
            cluster_update_ms: 0,
            cluster_delete_ms: 0,
            cluster_settle_ms: 0,
            profile_create_ms: 0,
            profile_delete_ms: 0,
            addon_ms: 0,
        }
    }
}

/// The quotas of EKS, with the defaults of a new account.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Limits {
    /// Clusters per region.
    pub clusters: usize,
    /// Fargate profiles per cluster.
    pub profiles: usize,
    /// Selectors per Fargate profile.
    pub selectors: usize,
    /// Label pairs per selector.
    pub labels: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { clusters: 100, profiles: 10, selectors: 5, labels: 5 }
    }
}

/// How long the child gets between the request to stop and the kill.
pub(crate) const STOP_GRACE: Duration = Duration::from_secs(3);
/// How long a cold virtual environment may take to import moto on a busy machine.
pub(crate) const START_DEADLINE: Duration = Duration::from_secs(90);
/// Largest request body that is read into memory. No call of the services in use comes near it.
pub(crate) const MAX_BODY: usize = 4 * 1024 * 1024;
/// The account of moto, and therefore ours.
pub(crate) const ACCOUNT: &str = "123456789012";
