//! A server under test.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use embedded_kube::cluster::{EmbeddedKube, ListenConfig};
use kube::Client;
use tempfile::TempDir;

use crate::real_kube::{self, RealKube};

/// A server: its administrator's client, and what kubectl needs to talk to it.
pub struct ServerUnderTest {
    /// What the reports call it.
    pub name: &'static str,
    client: Client,
    kubeconfig: PathBuf,
    kubectl: PathBuf,
    scratch: TempDir,
    _server: RunningServer,
}

/// What must live as long as the subject.
enum RunningServer {
    Real { _processes: RealKube },
    Embedded { _cluster: EmbeddedKube },
}

impl ServerUnderTest {
    /// The real control plane.
    pub async fn real(bin: &Path, kubectl: PathBuf) -> Result<Self> {
        let server = real_kube::start(bin).await?;
        let kubeconfig = server.kubeconfig.clone();
        Ok(Self {
            name: "real",
            client: real_kube::client(&kubeconfig).await?,
            kubeconfig,
            kubectl,
            scratch: tempfile::tempdir()?,
            _server: RunningServer::Real { _processes: server },
        })
    }

    /// The embedded server, in memory. It is asked over HTTPS like the real one, unless it is to be asked in process.
    pub async fn embedded(kubectl: PathBuf, in_process: bool) -> Result<Self> {
        let cluster = EmbeddedKube::builder().in_memory().listen(ListenConfig::loopback()).start().await?;
        // As on the real one, the first revisions are a past that is gone.
        cluster.faults().expire_history();
        let scratch = tempfile::tempdir()?;
        let kubeconfig = scratch.path().join("kubeconfig");
        std::fs::write(
            &kubeconfig,
            cluster.kubeconfig().context("a cluster that listens has a kubeconfig")?,
        )?;
        let client = if in_process { cluster.client() } else { real_kube::client(&kubeconfig).await? };
        let server = RunningServer::Embedded { _cluster: cluster };
        Ok(Self { name: "embedded", client, kubeconfig, kubectl, scratch, _server: server })
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
    pub(crate) fn scratch_dir_for(&self, case: &str) -> Result<PathBuf> {
        let home = self.scratch.path().join(case);
        std::fs::create_dir_all(&home)?;
        Ok(home)
    }
}
