//! Start configuration. Timing and limits can also be changed at run time (`POST /_capt/timing`), so that one test
//! process can use slow and fast clouds.

use std::{net::SocketAddr, path::PathBuf, sync::Arc, time::Duration};

use serde::{Deserialize, Serialize};

use crate::cluster_host::ClusterHost;

/// Configuration of a [`crate::LocalAws`].
#[derive(Debug, Clone)]
pub struct Config {
    /// Listen address of the front end. Port 0 selects a free port.
    pub listen: SocketAddr,
    /// Python interpreter of a virtual environment with `requirements.txt` installed.
    pub python: PathBuf,
    /// File that persists the EKS model across restarts. Moto persists nothing: see [`crate::LocalAws::instance`].
    pub persist: Option<PathBuf>,
    /// Durations of EKS state transitions.
    pub timing: Timing,
    /// EKS quotas.
    pub limits: Limits,
    /// File for moto's access log. Without it moto logs errors only, through `tracing`.
    pub log: Option<PathBuf>,
    /// Base URL of cluster endpoints; the cluster id is appended as a path. Without it the endpoint looks like a real
    /// one and nothing listens there.
    pub endpoint_base: Option<String>,
    /// PEM of the certificate authority that clusters report. The default is a certificate whose private key does not
    /// exist.
    pub certificate_authority: Option<String>,
    /// Hosts the Kubernetes APIs of clusters; its endpoints and authorities replace the two settings above.
    pub host: Option<Arc<dyn ClusterHost>>,
}

impl Config {
    /// A local AWS on a free loopback port with default timing and no persistence.
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

/// Duration of each EKS state. Real transitions take minutes; the defaults are short enough to watch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Timing {
    /// Duration of cluster CREATING, in milliseconds.
    pub cluster_create_ms: u64,
    /// Duration of cluster UPDATING, in milliseconds.
    pub cluster_update_ms: u64,
    /// Duration of cluster DELETING, in milliseconds.
    pub cluster_delete_ms: u64,
    /// How long an ACTIVE cluster still rejects Fargate mutations with 'an update in progress', as real clusters
    /// sometimes do while EKS writes their access entries.
    pub cluster_settle_ms: u64,
    /// Duration of Fargate profile CREATING, in milliseconds.
    pub profile_create_ms: u64,
    /// Duration of Fargate profile DELETING, in milliseconds.
    pub profile_delete_ms: u64,
    /// Duration of addon CREATING, UPDATING and DELETING, in milliseconds.
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
    /// Every transition completes at the next request.
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

/// EKS quotas, with the defaults of a new account.
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

/// Time between SIGTERM and SIGKILL for the moto process.
pub(crate) const STOP_GRACE: Duration = Duration::from_secs(3);
/// How long moto may take to start: a cold virtual environment on a busy machine is slow to import.
pub(crate) const START_DEADLINE: Duration = Duration::from_secs(90);
/// Largest request body that is buffered; far above any call of the supported services.
pub(crate) const MAX_BODY: usize = 4 * 1024 * 1024;
/// Moto's account id.
pub(crate) const ACCOUNT: &str = "123456789012";
