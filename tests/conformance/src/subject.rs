//! A server under test.

use std::path::{Path, PathBuf};

use anyhow::Result;
use kube::Client;
use tempfile::TempDir;

use crate::real::{self, RealKube};

/// A server: its administrator's client, and what kubectl needs to talk to it.
pub struct Subject {
    /// What the reports call it.
    pub name: &'static str,
    client: Client,
    kubeconfig: PathBuf,
    kubectl: PathBuf,
    scratch: TempDir,
    _server: Server,
}

/// What must live as long as the subject.
enum Server {
    Real { _processes: RealKube },
}

impl Subject {
    /// The real control plane.
    pub async fn real(bin: &Path, kubectl: PathBuf) -> Result<Self> {
        let server = real::start(bin).await?;
        let kubeconfig = server.kubeconfig.clone();
        Ok(Self {
            name: "real",
            client: real::client(&kubeconfig).await?,
            kubeconfig,
            kubectl,
            scratch: tempfile::tempdir()?,
            _server: Server::Real { _processes: server },
        })
    }

    /// The administrator's client.
    pub fn client(&self) -> Client {
        self.client.clone()
    }

    /// The administrator's kubeconfig.
    pub fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    /// The kubectl to call.
    pub fn kubectl(&self) -> &Path {
        &self.kubectl
    }

    /// A directory for a case: kubectl's home, with its cache.
    pub(crate) fn home_of(&self, case: &str) -> Result<PathBuf> {
        let home = self.scratch.path().join(case);
        std::fs::create_dir_all(&home)?;
        Ok(home)
    }
}
