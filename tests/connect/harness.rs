//! Test harness: the tunnel gateway of a router in this process, on a Kubernetes API.

use std::{net::SocketAddr, ops::Deref, sync::Arc, time::Duration};

use capt_dataplane::tunnel::{ApiServerAuthority, RouterIdentity, report_sessions};
use capt_kube::k8s::KubeClient;
use http_body_util::{BodyExt as _, Empty};
use sandbox_router::tunnel::{
    TunnelTimeouts, WorkloadName,
    gateway::{Gateway, TunnelError},
};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpListener,
};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::{
    capt_process::CaptProcess,
    cluster::{ConnectCluster, NAMESPACE, WORKLOAD},
};

pub(crate) struct GatewayHarness {
    cluster: ConnectCluster,
    gateway: Arc<Gateway>,
    address: SocketAddr,
    _stop: DropGuard,
}

impl Deref for GatewayHarness {
    type Target = ConnectCluster;

    fn deref(&self) -> &ConnectCluster {
        &self.cluster
    }
}

impl GatewayHarness {
    pub(crate) async fn start() -> Self {
        let cluster = ConnectCluster::start().await;
        let kube = KubeClient::new(cluster.server.client("router"));
        let times =
            TunnelTimeouts { probe_interval: Duration::from_millis(100), ..TunnelTimeouts::default() };
        let gateway = Gateway::new(Arc::new(ApiServerAuthority::new(kube.clone())), times);
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let stop = CancellationToken::new();
        tokio::spawn(Arc::clone(&gateway).serve(listener, None, stop.clone()));
        let me = RouterIdentity { name: "router-0".to_owned(), address: Some("127.0.0.1".to_owned()) };
        tokio::spawn(report_sessions(
            kube,
            Some(NAMESPACE.to_owned()),
            Arc::clone(&gateway),
            me,
            stop.clone(),
        ));
        Self { cluster, gateway, address, _stop: stop.drop_guard() }
    }

    /// A developer runs `capt connect`.
    pub(crate) fn connect(&self, user: &str, more: &[&str]) -> CaptProcess {
        let address = self.address.to_string();
        self.run_connect(user, &[&["--address", &address, "--plain"], more].concat())
    }

    /// What the local application answers.
    pub(crate) async fn request(&self) -> Result<String, TunnelError> {
        self.request_port(8080).await
    }

    pub(crate) async fn request_port(&self, port: u16) -> Result<String, TunnelError> {
        let request = http::Request::get("http://cart/").body(Empty::new()).unwrap();
        let answer = self.gateway.request(&WorkloadName::new(NAMESPACE, WORKLOAD), port, request).await?;
        let body = answer.into_body().collect().await.unwrap().to_bytes();
        Ok(String::from_utf8(body.to_vec()).unwrap())
    }
}

/// Starts an application that answers every request with this text.
pub(crate) async fn start_app(words: &'static str) -> SocketAddr {
    start_app_at(SocketAddr::from(([127, 0, 0, 1], 0)), words).await
}

/// The same at an address.
pub(crate) async fn start_app_at(at: SocketAddr, words: &'static str) -> SocketAddr {
    let listener = TcpListener::bind(at).await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        loop {
            let (mut socket, _) = listener.accept().await.unwrap();
            tokio::spawn(async move {
                let mut request = vec![0; 64 * 1024];
                // Probes say nothing.
                if !matches!(socket.read(&mut request).await, Ok(read) if read > 0) {
                    return;
                }
                let length = words.len();
                let head = "HTTP/1.1 200 OK\r\nconnection: close";
                let answer = format!("{head}\r\ncontent-length: {length}\r\n\r\n{words}");
                socket.write_all(answer.as_bytes()).await.unwrap();
                // The rest of the request, so that closing does not take the answer away.
                socket.shutdown().await.unwrap();
                while matches!(socket.read(&mut request).await, Ok(read) if read > 0) {}
            });
        }
    });
    address
}
