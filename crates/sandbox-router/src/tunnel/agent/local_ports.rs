//! Local ports of the agent: it dials its configured mappings and nothing else, whatever a request says.

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

use super::super::{LocalMapping, PortReport, TunnelProtocol, TunnelTimeouts, body::TunnelBody};

/// Idle timeout of pooled local connections: Node closes them after five seconds.
const POOL_IDLE_TIMEOUT: Duration = Duration::from_secs(3);
/// HTTP/2 receive windows per stream and per connection.
const H2_WINDOWS: (u32, u32) = (1024 * 1024, 64 * 1024 * 1024);

/// All mappings of the agent.
pub(super) struct LocalPorts {
    pub(super) all: Vec<LocalPort>,
    pub(super) reports: watch::Sender<Vec<PortReport>>,
    requests: AtomicU64,
}

impl LocalPorts {
    pub(super) fn new(mappings: &[LocalMapping], times: &TunnelTimeouts) -> Self {
        let unknown = |it: &LocalMapping| PortReport {
            port: it.port,
            to_local: it.to_local(),
            reachable: false,
            last_error: Some("not probed yet".to_owned()),
        };
        let reports = watch::Sender::new(mappings.iter().map(unknown).collect());
        let all = mappings.iter().map(|it| LocalPort::new(it.clone(), times.dial_timeout)).collect();
        Self { all, reports, requests: AtomicU64::new(0) }
    }

    /// The mapping of a port; counts a request.
    pub(super) fn find(&self, port: u16) -> Option<&LocalPort> {
        let found = self.all.iter().find(|it| it.dialer.mapping.port == port)?;
        self.requests.fetch_add(1, Ordering::Relaxed);
        Some(found)
    }

    pub(super) fn request_count(&self) -> u64 {
        self.requests.load(Ordering::Relaxed)
    }

    pub(super) fn current_reports(&self) -> Vec<PortReport> {
        self.reports.borrow().clone()
    }
}

/// One mapping with its HTTP client.
pub(super) struct LocalPort {
    pub(super) dialer: Dialer,
    pub(super) client: Client<Dialer, TunnelBody>,
}

impl LocalPort {
    fn new(mapping: LocalMapping, patience: Duration) -> Self {
        let is_h2 = mapping.protocol == TunnelProtocol::H2c;
        let dialer = Dialer { mapping, connect_timeout: patience };
        let client = Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .timer(TokioTimer::new())
            .pool_idle_timeout(POOL_IDLE_TIMEOUT)
            .http2_only(is_h2)
            .http2_initial_stream_window_size(H2_WINDOWS.0)
            .http2_initial_connection_window_size(H2_WINDOWS.1)
            .build(dialer.clone());
        Self { dialer, client }
    }

    pub(super) fn protocol(&self) -> TunnelProtocol {
        self.dialer.mapping.protocol
    }
}

/// Dials the target of one mapping.
#[derive(Debug, Clone)]
pub(super) struct Dialer {
    pub(super) mapping: LocalMapping,
    connect_timeout: Duration,
}

impl Dialer {
    pub(super) async fn dial(&self) -> io::Result<TcpStream> {
        let mut last = io::Error::new(io::ErrorKind::NotFound, "the host name has no address");
        for address in self.addresses().await? {
            match timeout(self.connect_timeout, TcpStream::connect(address)).await {
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

    /// Loopback names are not resolved through DNS, which could return another address.
    async fn addresses(&self) -> io::Result<Vec<SocketAddr>> {
        let LocalMapping { host, to, .. } = &self.mapping;
        if let Ok(address) = host.parse() {
            return Ok(vec![SocketAddr::new(address, *to)]);
        }
        if self.mapping.is_loopback() {
            return Ok(vec![(Ipv4Addr::LOCALHOST, *to).into(), (Ipv6Addr::LOCALHOST, *to).into()]);
        }
        Ok(lookup_host((host.as_str(), *to)).await?.collect())
    }
}

/// Dials the mapping, whatever the URI of the request is.
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
