//! The HTTPS listener: HTTP/1.1 and HTTP/2 by ALPN.
//!
//! Connections are limited in number and in time: the TLS handshake and the request head have timeouts, idle HTTP/1.1
//! connections too, and an HTTP/2 peer that does not answer pings is dropped. On shutdown, running requests may finish
//! and watches are ended.

use std::{io, net::SocketAddr, sync::Arc, time::Duration};

use hyper::service::service_fn;
use hyper_util::{
    rt::{TokioExecutor, TokioIo, TokioTimer},
    server::conn::auto::Builder,
};
use rustls::ServerConfig;
use tokio::{
    net::{TcpListener, TcpStream},
    sync::{OwnedSemaphorePermit, Semaphore},
};
use tokio_rustls::TlsAcceptor;
use tokio_util::task::TaskTracker;

use super::{CallerIdentity, HttpServer};

const MAX_CONNECTIONS: usize = 2048;
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
const HEADER_TIMEOUT: Duration = Duration::from_mins(1);
const PING_INTERVAL: Duration = Duration::from_secs(30);
const SHUTDOWN_GRACE: Duration = Duration::from_secs(3);

/// A running listener.
pub struct Listener {
    address: SocketAddr,
    tasks: TaskTracker,
}

impl Listener {
    /// Starts listening. Ends when the server stops.
    pub async fn start(front: HttpServer, address: SocketAddr, tls: ServerConfig) -> io::Result<Self> {
        let listener = TcpListener::bind(address).await?;
        let address = listener.local_addr()?;
        let tasks = TaskTracker::new();
        let acceptor = TlsAcceptor::from(Arc::new(tls));
        tasks.spawn(accept_loop(listener, front, acceptor, tasks.clone()));
        Ok(Self { address, tasks })
    }

    /// Bound address.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Waits until all connections are closed, up to a limit.
    pub async fn wait_closed(&self) {
        self.tasks.close();
        let _ = tokio::time::timeout(SHUTDOWN_GRACE + Duration::from_secs(1), self.tasks.wait()).await;
    }
}

async fn accept_loop(listener: TcpListener, front: HttpServer, acceptor: TlsAcceptor, tasks: TaskTracker) {
    let places = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    let stopping = front.stopping().clone();
    loop {
        let Ok(place) = Arc::clone(&places).acquire_owned().await else { return };
        let stream = tokio::select! {
            () = stopping.cancelled() => return,
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => stream,
                Err(why) => {
                    // Most likely out of file descriptors: wait until others are closed.
                    tracing::warn!(%why, "failed to accept connection");
                    tokio::time::sleep(Duration::from_millis(50)).await;
                    continue;
                }
            },
        };
        tasks.spawn(serve_connection(stream, front.clone(), acceptor.clone(), place));
    }
}

async fn serve_connection(
    stream: TcpStream,
    front: HttpServer,
    acceptor: TlsAcceptor,
    _place: OwnedSemaphorePermit,
) {
    // Events are small and must not wait for Nagle's algorithm.
    let _ = stream.set_nodelay(true);
    let Ok(Ok(stream)) = tokio::time::timeout(HANDSHAKE_TIMEOUT, acceptor.accept(stream)).await else {
        return;
    };
    let stopping = front.stopping().clone();
    let service = service_fn(move |request: http::Request<hyper::body::Incoming>| {
        let front = front.clone();
        async move {
            let (parts, body) = request.into_parts();
            front.serve(parts, body, CallerIdentity::FromHeaders).await
        }
    });
    // By ALPN, not by the first bytes: reading those would wait without a timeout.
    let is_http2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
    let builder =
        if is_http2 { connection_builder().http2_only() } else { connection_builder().http1_only() };
    let serving = builder.serve_connection(TokioIo::new(stream), service);
    tokio::pin!(serving);
    let ended = tokio::select! {
        ended = serving.as_mut() => Some(ended),
        () = stopping.cancelled() => {
            serving.as_mut().graceful_shutdown();
            tokio::time::timeout(SHUTDOWN_GRACE, serving).await.ok()
        }
    };
    if let Some(Err(why)) = ended {
        tracing::debug!(%why, "connection closed with an error");
    }
}

fn connection_builder() -> Builder<TokioExecutor> {
    let mut builder = Builder::new(TokioExecutor::new());
    builder.http1().timer(TokioTimer::new()).header_read_timeout(HEADER_TIMEOUT).max_headers(128);
    builder
        .http2()
        .timer(TokioTimer::new())
        .keep_alive_interval(PING_INTERVAL)
        .keep_alive_timeout(PING_INTERVAL)
        .max_concurrent_streams(1024)
        .max_header_list_size(64 * 1024);
    builder
}
