//! A `capt router` as a process of its own, and what it says of its table.

use std::{
    fs::{self, File},
    net::{IpAddr, TcpListener},
    path::Path,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use anyhow::{Context, ensure};
use http_body_util::{BodyExt as _, Empty};
use hyper::body::Bytes;
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::TokioExecutor,
};
use serde_json::Value;

use crate::test_namespace::name;

/// How often a router is asked while a change is awaited: often enough for a figure in milliseconds, and seldom enough to
/// leave it room to work.
const POLL_INTERVAL: Duration = Duration::from_millis(1);
/// How long a change may take.
const TIMEOUT: Duration = Duration::from_secs(30);

pub(crate) struct RouterProcess {
    process: Child,
    admin: String,
    client: Client<HttpConnector, Empty<Bytes>>,
}

impl RouterProcess {
    /// The router of a pod. Pods of this machine have one address each.
    #[expect(clippy::disallowed_methods, reason = "a bench starts commands as a person would")]
    pub(crate) fn start(dir: &Path, kubeconfig: &Path, pod: &Value, at: IpAddr) -> anyhow::Result<Self> {
        let (front, admin, tunnel) = (free_address(at)?, free_address(at)?, free_address(at)?);
        let log = File::create(dir.join(format!("{}.log", name(pod))))?;
        let at = at.to_string();
        let process = Command::new(env!("CARGO_BIN_EXE_capt"))
            .args(["router", "-n", "shop", "--name", name(pod), "--workers", "1", "--log", "warn"])
            .args(["--uid", pod["metadata"]["uid"].as_str().unwrap_or_default()])
            .args(["--pod-address", &at, "--address", &at, "--front", &front, "--admin", &admin])
            .args(["--tunnel", &tunnel])
            .arg("--kubeconfig")
            .arg(kubeconfig)
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()
            .context("starting a router")?;
        let client = Client::builder(TokioExecutor::new()).build_http();
        Ok(Self { process, admin, client })
    }

    /// Who would answer a request with a key.
    async fn explain(&self, service: &str, key: &str) -> anyhow::Result<Value> {
        let question = format!("service=shop/{service}:80&baggage=sd-routing-key%3D{key}");
        let address: http::Uri = format!("http://{}/explain?{question}", self.admin).parse()?;
        let answer = self.client.get(address).await?;
        let body = answer.into_body().collect().await?.to_bytes();
        // A table that does not know the service yet says so in words.
        Ok(serde_json::from_slice(&body).unwrap_or_default())
    }

    /// When the answer is like this.
    pub(crate) async fn wait_until(
        &self,
        service: &str,
        key: &str,
        is: impl Fn(&Value) -> bool,
    ) -> anyhow::Result<Instant> {
        let begun = Instant::now();
        let mut last = None;
        while begun.elapsed() < TIMEOUT {
            match self.explain(service, key).await {
                Ok(answer) if is(&answer) => return Ok(Instant::now()),
                // It begins only now, or the change is not there yet.
                other => last = Some(other),
            }
            tokio::time::sleep(POLL_INTERVAL).await;
        }
        anyhow::bail!("a router still answers {last:?}")
    }

    /// The most memory that it ever had, in megabytes.
    pub(crate) fn peak_memory(&mut self) -> anyhow::Result<u64> {
        ensure!(self.process.try_wait()?.is_none(), "a router ended by itself");
        let status = fs::read_to_string(format!("/proc/{}/status", self.process.id()))?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let kilobytes = line.and_then(|line| line.split_whitespace().next()).context("no VmHWM")?;
        Ok(kilobytes.parse::<u64>()? / 1024)
    }
}

impl Drop for RouterProcess {
    fn drop(&mut self) {
        // It is a child of ours, and holds nothing that anybody needs.
        let _gone = self.process.kill();
        let _waited = self.process.wait();
    }
}

fn free_address(at: IpAddr) -> anyhow::Result<String> {
    Ok(TcpListener::bind((at, 0))?.local_addr()?.to_string())
}
