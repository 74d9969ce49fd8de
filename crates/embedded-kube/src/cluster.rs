//! A logical cluster: its builder and its handle.
//!
//! ```no_run
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use embedded_kube::cluster::EmbeddedKube;
//!
//! let kube = EmbeddedKube::builder().in_memory().start().await?;
//! let client = kube.client();
//! println!("{} {}", kube.name(), client.default_namespace());
//! kube.stop().await;
//! # Ok(()) }
//! ```

mod backend;
mod bootstrap;
mod builder;
mod kubeconfig;
mod private_files;

use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
};

use tokio_util::{sync::CancellationToken, task::TaskTracker};

pub use self::builder::{Builder, ListenConfig, StartError};
use crate::{
    auth,
    fault_injection::{FaultInjector, RequestLog},
    http_server::{HttpServer, InProcessService, listen::Listener},
    request::User,
    store::Store,
};

/// A running cluster. It stops when [`EmbeddedKube::stop`] is called or the handle is dropped; the former waits.
pub struct EmbeddedKube {
    name: String,
    http: HttpServer,
    faults: FaultInjector,
    request_log: RequestLog,
    listener: Option<Listener>,
    certificate_authority: String,
    kubeconfig: Option<String>,
    kubeconfig_path: Option<PathBuf>,
    store: Store,
    cancel: CancellationToken,
    tasks: TaskTracker,
}

impl std::fmt::Debug for EmbeddedKube {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("EmbeddedKube").field("name", &self.name).finish_non_exhaustive()
    }
}

impl EmbeddedKube {
    /// Returns a builder with the default settings.
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// The cluster's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// An in-process client with administrator rights.
    pub fn client(&self) -> kube::Client {
        self.client_as(auth::admin())
    }

    /// An in-process client for this user, subject to RBAC.
    pub fn client_as(&self, user: User) -> kube::Client {
        self.client_with_agent(user, "in-process")
    }

    /// An in-process client with its own `User-Agent`, so that the request log can tell it apart.
    pub fn client_with_agent(&self, user: User, agent: &str) -> kube::Client {
        kube::Client::new(InProcessService::new(self.http.clone(), user, agent), "default")
    }

    /// Address of the HTTPS listener, if there is one.
    pub fn address(&self) -> Option<SocketAddr> {
        self.listener.as_ref().map(Listener::address)
    }

    /// PEM of the certificate authority that signed the listener's certificate.
    pub fn certificate_authority(&self) -> &str {
        &self.certificate_authority
    }

    /// A kubeconfig for the administrator, if the cluster listens.
    pub fn kubeconfig(&self) -> Option<&str> {
        self.kubeconfig.as_deref()
    }

    /// Path of the kubeconfig file, if the cluster listens and has a data directory.
    pub fn kubeconfig_path(&self) -> Option<&Path> {
        self.kubeconfig_path.as_deref()
    }

    /// The fault injector, for tests.
    pub fn faults(&self) -> &FaultInjector {
        &self.faults
    }

    /// The log of handled requests.
    pub fn request_log(&self) -> &RequestLog {
        &self.request_log
    }

    /// Ends watches, waits for running requests and closes the store. The data directory is unlocked afterwards.
    pub async fn stop(self) {
        self.cancel.cancel();
        self.tasks.close();
        self.tasks.wait().await;
        if let Some(listener) = &self.listener {
            listener.wait_closed().await;
        }
        self.store.clone().close().await;
    }
}

impl Drop for EmbeddedKube {
    fn drop(&mut self) {
        self.cancel.cancel();
    }
}
