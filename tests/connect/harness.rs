//! The gateway of a router in this process, on a Kubernetes API.

use std::{net::SocketAddr, ops::Deref, sync::Arc, time::Duration};

use capt::{
    k8s::Kube,
    sandbox::tunnel::{ApiServer, Router, report},
};
use http_body_util::{BodyExt as _, Empty};
use sandbox_router::tunnel::{
    Times, Workload,
    gateway::{Failure, Gateway},
};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpListener,
};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::{
    agent::Agent,
    cluster::{Cluster, HOME, NAME},
};

pub(crate) struct Rig {
    cluster: Cluster,
    gateway: Arc<Gateway>,
    address: SocketAddr,
    _stop: DropGuard,
}

impl Deref for Rig {
    type Target = Cluster;

    fn deref(&self) -> &Cluster {
        &self.cluster
    }
}

impl Rig {
    pub(crate) async fn start() -> Self {
        let cluster = Cluster::start().await;
        let kube = Kube::new(cluster.server.client("router"));
        let times = Times { probe: Duration::from_millis(100), ..Times::default() };
        let gateway = Gateway::new(Arc::new(ApiServer::new(kube.clone())), times);
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let stop = CancellationToken::new();
        tokio::spawn(Arc::clone(&gateway).serve(listener, None, stop.clone()));
        let me = Router { name: "router-0".to_owned(), address: Some("127.0.0.1".to_owned()) };
        tokio::spawn(report(kube, Some(HOME.to_owned()), Arc::clone(&gateway), me, stop.clone()));
        Self { cluster, gateway, address, _stop: stop.drop_guard() }
    }

    /// A developer runs `capt connect`.
    pub(crate) fn connect(&self, user: &str, more: &[&str]) -> Agent {
        let address = self.address.to_string();
        self.run_connect(user, &[&["--address", &address, "--plain"], more].concat())
    }

    /// What the local application answers.
    pub(crate) async fn get(&self) -> Result<String, Failure> {
        self.get_at(8080).await
    }

    pub(crate) async fn get_at(&self, port: u16) -> Result<String, Failure> {
        let request = http::Request::get("http://cart/").body(Empty::new()).unwrap();
        let answer = self.gateway.request(&Workload::new(HOME, NAME), port, request).await?;
        let body = answer.into_body().collect().await.unwrap().to_bytes();
        Ok(String::from_utf8(body.to_vec()).unwrap())
    }
}

/// An application that answers every request with these words.
pub(crate) async fn app(words: &'static str) -> SocketAddr {
    app_at(SocketAddr::from(([127, 0, 0, 1], 0)), words).await
}

/// The same at an address.
pub(crate) async fn app_at(at: SocketAddr, words: &'static str) -> SocketAddr {
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
