//! What the agent may dial: the mappings it was made with, and nothing else, whatever a request says.

use std::{
    future::Future,
    io,
    net::{Ipv4Addr, Ipv6Addr, SocketAddr},
    pin::Pin,
    sync::atomic::{AtomicU64, Ordering},
    task::{Context, Poll},
    time::Duration,
};

use http::Uri;
use hyper_util::{
    client::legacy::Client,
    rt::{TokioExecutor, TokioIo, TokioTimer},
};
use tokio::{
    net::{TcpStream, lookup_host},
    sync::watch,
    time::timeout,
};
use tower::Service;

use super::super::{Mapping, PortReport, Protocol, Times, body::Incoming};

/// How long a connection on this machine may be idle: Node closes them after five seconds.
const IDLE: Duration = Duration::from_secs(3);
/// What an application with HTTP/2 may send us ahead, on one stream and in all.
const WINDOWS: (u32, u32) = (1024 * 1024, 64 * 1024 * 1024);

/// All that the agent serves.
pub(super) struct Locals {
    pub(super) all: Vec<Local>,
    pub(super) reports: watch::Sender<Vec<PortReport>>,
    requests: AtomicU64,
}

impl Locals {
    pub(super) fn new(mappings: &[Mapping], times: &Times) -> Self {
        let unknown = |it: &Mapping| PortReport {
            port: it.port,
            to_local: it.to_local(),
            reachable: false,
            last_error: Some("not looked at yet".to_owned()),
        };
        let reports = watch::Sender::new(mappings.iter().map(unknown).collect());
        let all = mappings.iter().map(|it| Local::new(it.clone(), times.dial)).collect();
        Self { all, reports, requests: AtomicU64::new(0) }
    }

    /// What serves a port; counted as a request.
    pub(super) fn find(&self, port: u16) -> Option<&Local> {
        let found = self.all.iter().find(|it| it.dial.mapping.port == port)?;
        self.requests.fetch_add(1, Ordering::Relaxed);
        Some(found)
    }

    pub(super) fn requests(&self) -> u64 {
        self.requests.load(Ordering::Relaxed)
    }

    pub(super) fn reports(&self) -> Vec<PortReport> {
        self.reports.borrow().clone()
    }
}

/// One mapping, and the connections to what it names.
pub(super) struct Local {
    pub(super) dial: Dialer,
    pub(super) client: Client<Dialer, Incoming>,
}

impl Local {
    fn new(mapping: Mapping, patience: Duration) -> Self {
        let is_h2 = mapping.protocol == Protocol::H2c;
        let dial = Dialer { mapping, patience };
        let client = Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .timer(TokioTimer::new())
            .pool_idle_timeout(IDLE)
            .http2_only(is_h2)
            .http2_initial_stream_window_size(WINDOWS.0)
            .http2_initial_connection_window_size(WINDOWS.1)
            .build(dial.clone());
        Self { dial, client }
    }

    pub(super) fn protocol(&self) -> Protocol {
        self.dial.mapping.protocol
    }
}

/// Dials one mapping.
#[derive(Debug, Clone)]
pub(super) struct Dialer {
    pub(super) mapping: Mapping,
    patience: Duration,
}

impl Dialer {
    pub(super) async fn dial(&self) -> io::Result<TcpStream> {
        let mut last = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
        for address in self.addresses().await? {
            match timeout(self.patience, TcpStream::connect(address)).await {
                Ok(Ok(socket)) => {
                    socket.set_nodelay(true)?;
                    return Ok(socket);
                }
                Ok(Err(error)) => last = error,
                Err(_) => last = io::ErrorKind::TimedOut.into(),
            }
        }
        Err(last)
    }

    /// What is on this machine is not asked of a name server, which could say otherwise.
    async fn addresses(&self) -> io::Result<Vec<SocketAddr>> {
        let Mapping { host, to, .. } = &self.mapping;
        if let Ok(address) = host.parse() {
            return Ok(vec![SocketAddr::new(address, *to)]);
        }
        if self.mapping.is_loopback() {
            return Ok(vec![(Ipv4Addr::LOCALHOST, *to).into(), (Ipv6Addr::LOCALHOST, *to).into()]);
        }
        Ok(lookup_host((host.as_str(), *to)).await?.collect())
    }
}

/// Whatever a request names, the mapping is dialled.
impl Service<Uri> for Dialer {
    type Response = TokioIo<TcpStream>;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<TokioIo<TcpStream>>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Uri) -> Self::Future {
        let dialer = self.clone();
        Box::pin(async move { dialer.dial().await.map(TokioIo::new) })
    }
}
