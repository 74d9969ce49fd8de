//! One logical cluster: started by a builder, held by a handle.
//!
//! ```no_run
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use embedded_kube::cluster::{EmbeddedKube, Listen};
//!
//! let kube = EmbeddedKube::builder().in_memory().listen(Listen::loopback()).start().await?;
//! let client = kube.client();
//! println!("{:?} {}", kube.address(), client.default_namespace());
//! kube.stop().await;
//! # Ok(()) }
//! ```

mod backend;
mod bootstrap;
mod builder;
mod files;
mod kubeconfig;

use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
};

use tokio_util::{sync::CancellationToken, task::TaskTracker};

pub use self::builder::{Builder, Listen, StartError};
use crate::{
    auth,
    faults::{Faults, Requests},
    front::{Front, InProcess, listen::Listener},
    request::User,
    store::Store,
};

/// A running cluster. It stops when [`EmbeddedKube::stop`] is called or the handle is dropped; the former waits.
pub struct EmbeddedKube {
    name: String,
    front: Front,
    faults: Faults,
    requests: Requests,
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
    /// To be told where to live and whom to serve.
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// The cluster's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// A client in this process, as an administrator.
    pub fn client(&self) -> kube::Client {
        self.client_as(auth::admin())
    }

    /// A client in this process, as this user, who may do what RBAC lets them.
    pub fn client_as(&self, user: User) -> kube::Client {
        self.client_of(user, "in-process")
    }

    /// A client in this process that names itself, so that the request log tells it from others.
    pub fn client_of(&self, user: User, agent: &str) -> kube::Client {
        kube::Client::new(InProcess::new(self.front.clone(), user, agent), "default")
    }

    /// Where it listens, if it does.
    pub fn address(&self) -> Option<SocketAddr> {
        self.listener.as_ref().map(Listener::address)
    }

    /// PEM of the authority that signed the listener's certificate.
    pub fn certificate_authority(&self) -> &str {
        &self.certificate_authority
    }

    /// A kubeconfig for the administrator, if the cluster listens.
    pub fn kubeconfig(&self) -> Option<&str> {
        self.kubeconfig.as_deref()
    }

    /// The file that holds the kubeconfig, if the cluster listens and has a directory.
    pub fn kubeconfig_path(&self) -> Option<&Path> {
        self.kubeconfig_path.as_deref()
    }

    /// Trouble on request.
    pub fn faults(&self) -> &Faults {
        &self.faults
    }

    /// Who asked for what.
    pub fn requests(&self) -> &Requests {
        &self.requests
    }

    /// Ends watches, lets running requests end, and closes the store. The directory is free afterwards.
    pub async fn stop(self) {
        self.cancel.cancel();
        self.tasks.close();
        self.tasks.wait().await;
        if let Some(listener) = &self.listener {
            listener.stopped().await;
        }
        self.store.clone().close().await;
    }
}

impl Drop for EmbeddedKube {
    fn drop(&mut self) {
        self.cancel.cancel();
    }
}
