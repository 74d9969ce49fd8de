//! The two servers, each in processes of its own.

use std::{
    path::{Path, PathBuf},
    process::Stdio,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result};
use conformance::RealKube;
use embedded_kube::cluster::{EmbeddedKube, ListenConfig};
use kube::{
    Client, Config,
    config::{KubeConfigOptions, Kubeconfig},
};
use tempfile::TempDir;
use tokio::process::{Child, Command};

/// Where both keep their data: beside the build, because the place for temporary files may be memory.
const DISK: &str = env!("CARGO_TARGET_TMPDIR");

/// A running server.
pub(crate) struct Server {
    /// From the start of the process to its readiness.
    pub(crate) start: Duration,
    kubeconfig: PathBuf,
    pids: Vec<u32>,
    _running: RunningServer,
}

/// Stopped, and its data removed, when dropped.
#[expect(dead_code, reason = "only held")]
enum RunningServer {
    Embedded(Child, TempDir),
    Real(RealKube),
}

impl Server {
    /// This very program, started again to serve from a directory.
    pub(crate) async fn embedded() -> Result<Self> {
        let directory = tempfile::tempdir_in(DISK)?;
        let kubeconfig = directory.path().join("kubeconfig");
        let begin = Instant::now();
        #[expect(clippy::disallowed_methods, reason = "the benchmark starts what it measures")]
        let child = Command::new(std::env::current_exe()?)
            .arg("serve")
            .arg(directory.path())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .kill_on_drop(true)
            .spawn()?;
        let pids = child.id().into_iter().collect();
        let mut server = Self {
            start: Duration::ZERO,
            kubeconfig,
            pids,
            _running: RunningServer::Embedded(child, directory),
        };
        server.wait_until_ready(begin).await?;
        Ok(server)
    }

    /// etcd that syncs, and kube-apiserver; no controllers.
    pub(crate) async fn real(bin: &Path) -> Result<Self> {
        let real = RealKube::start_bare(bin, Path::new(DISK))?;
        let begin = real.since.into_std();
        let mut server = Self {
            start: Duration::ZERO,
            kubeconfig: real.kubeconfig.clone(),
            pids: real.pids(),
            _running: RunningServer::Real(real),
        };
        server.wait_until_ready(begin).await?;
        Ok(server)
    }

    /// A client with connections of its own.
    pub(crate) async fn client(&self) -> Result<Client> {
        let kubeconfig = Kubeconfig::read_from(&self.kubeconfig)?;
        let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
        Ok(Client::try_from(config)?)
    }

    /// Resident memory of all its processes.
    pub(crate) fn memory_mb(&self) -> Result<f64> {
        let mut kilobytes = 0.0;
        for pid in &self.pids {
            let status = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
            let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).context("no VmRSS")?;
            kilobytes += line.trim().trim_end_matches(" kB").trim().parse::<f64>()?;
        }
        Ok(kilobytes / 1024.0)
    }

    async fn wait_until_ready(&mut self, begin: Instant) -> Result<()> {
        loop {
            if self.kubeconfig.exists()
                && let Ok(client) = self.client().await
                && client.request_text(http::Request::get("/readyz").body(Vec::new())?).await.is_ok()
            {
                self.start = begin.elapsed();
                return Ok(());
            }
            anyhow::ensure!(
                begin.elapsed() < Duration::from_mins(1),
                "the server is not ready after a minute"
            );
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}

/// What the child does.
pub(crate) async fn serve_embedded(directory: PathBuf) -> Result<()> {
    let kube = EmbeddedKube::builder().data(directory).listen(ListenConfig::loopback()).start().await?;
    std::future::pending::<()>().await;
    kube.stop().await;
    Ok(())
}
