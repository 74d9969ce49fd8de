//! The kubelet of a node, as far as it forwards ports; `tests/real-kube/kubelet-forward` says what of it is real.

use std::{
    net::{Ipv4Addr, SocketAddr, TcpListener},
    path::Path,
    time::Duration,
};

use anyhow::{Context as _, Result, ensure};
use tokio::{net::TcpStream, process::Child, time::Instant};

use crate::{process, real_kube::RealKube};

const PROGRAM: &str = "kubelet-forward";

/// A kubelet that runs until it is dropped.
pub struct Kubelet {
    /// Where it listens.
    pub address: SocketAddr,
    _process: Child,
}

impl RealKube {
    /// Starts the kubelet of a node, at the port that it had before if it had one.
    pub async fn start_kubelet(&self, bin: &Path, node: &str, before: Option<SocketAddr>) -> Result<Kubelet> {
        let program = bin.join(PROGRAM);
        ensure!(program.is_file(), "there is no {}: `scripts/real-kube build` makes it", program.display());
        let address = match before {
            Some(address) => address,
            None => TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?,
        };
        let home = self.directory();
        let file = |name: &str| home.join(name).display().to_string();
        let arguments = [
            format!("--node={node}"),
            format!("--address={}", address.ip()),
            format!("--port={}", address.port()),
            format!("--kubeconfig={}", file("admin.kubeconfig")),
            format!("--client-ca-file={}", file("ca.crt")),
            format!("--tls-cert-file={}", file("kubelet.crt")),
            format!("--tls-private-key-file={}", file("kubelet.key")),
        ];
        let log = home.join(format!("kubelet-{node}.log"));
        let process = process::spawn_server(&program, &arguments, &log)?;
        let deadline = Instant::now() + Duration::from_mins(1);
        while let Err(error) = TcpStream::connect(address).await {
            let said = || std::fs::read_to_string(&log).unwrap_or_default();
            Err(error)
                .or_else(|it| if Instant::now() < deadline { Ok(()) } else { Err(it) })
                .with_context(|| format!("the kubelet of {node} does not listen; it says {}", said()))?;
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        Ok(Kubelet { address, _process: process })
    }
}
