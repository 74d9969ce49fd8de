//! The HTTPS listener: HTTP/1.1 and HTTP/2 by ALPN.
//!
//! Connections are bounded in number and in how long they may dawdle: a handshake and a request's head have deadlines, an
//! idle connection of HTTP/1.1 too, and a peer of HTTP/2 that answers no ping is dropped. When the server stops, running
//! requests may end and watches are ended.

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

use super::{Caller, Front};

const MOST_CONNECTIONS: usize = 2048;
const HANDSHAKE: Duration = Duration::from_secs(10);
const HEAD: Duration = Duration::from_mins(1);
const PING: Duration = Duration::from_secs(30);
const GRACE: Duration = Duration::from_secs(3);

/// A running listener.
pub struct Listener {
    address: SocketAddr,
    tasks: TaskTracker,
}

impl Listener {
    /// Starts to listen. It ends when the front stops.
    pub async fn start(front: Front, address: SocketAddr, tls: ServerConfig) -> io::Result<Self> {
        let listener = TcpListener::bind(address).await?;
        let address = listener.local_addr()?;
        let tasks = TaskTracker::new();
        let acceptor = TlsAcceptor::from(Arc::new(tls));
        tasks.spawn(accept(listener, front, acceptor, tasks.clone()));
        Ok(Self { address, tasks })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Waits until every connection is gone, for a while.
    pub async fn stopped(&self) {
        self.tasks.close();
        let _ = tokio::time::timeout(GRACE + Duration::from_secs(1), self.tasks.wait()).await;
    }
}

async fn accept(listener: TcpListener, front: Front, acceptor: TlsAcceptor, tasks: TaskTracker) {
    let places = Arc::new(Semaphore::new(MOST_CONNECTIONS));
    let stopping = front.stopping().clone();
    loop {
        let Ok(place) = Arc::clone(&places).acquire_owned().await else { return };
        let stream = tokio::select! {
            () = stopping.cancelled() => return,
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => stream,
                Err(why) => {
                    // Out of descriptors, most likely: give others time to close theirs.
                    tracing::warn!(%why, "a connection was not accepted");
                    tokio::time::sleep(Duration::from_millis(50)).await;
                    continue;
                }
            },
        };
        tasks.spawn(connection(stream, front.clone(), acceptor.clone(), place));
    }
}

async fn connection(stream: TcpStream, front: Front, acceptor: TlsAcceptor, _place: OwnedSemaphorePermit) {
    // Events are small and must not wait for each other.
    let _ = stream.set_nodelay(true);
    let Ok(Ok(stream)) = tokio::time::timeout(HANDSHAKE, acceptor.accept(stream)).await else { return };
    let stopping = front.stopping().clone();
    let service = service_fn(move |request: http::Request<hyper::body::Incoming>| {
        let front = front.clone();
        async move {
            let (parts, body) = request.into_parts();
            front.answer(parts, body, Caller::Headers).await
        }
    });
    // Told, not guessed from the first bytes: a guess would wait for them without a deadline.
    let is_http2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
    let builder = if is_http2 { builder().http2_only() } else { builder().http1_only() };
    let serving = builder.serve_connection(TokioIo::new(stream), service);
    tokio::pin!(serving);
    let ended = tokio::select! {
        ended = serving.as_mut() => Some(ended),
        () = stopping.cancelled() => {
            serving.as_mut().graceful_shutdown();
            tokio::time::timeout(GRACE, serving).await.ok()
        }
    };
    if let Some(Err(why)) = ended {
        tracing::debug!(%why, "a connection ended");
    }
}

fn builder() -> Builder<TokioExecutor> {
    let mut builder = Builder::new(TokioExecutor::new());
    builder.http1().timer(TokioTimer::new()).header_read_timeout(HEAD).max_headers(128);
    builder
        .http2()
        .timer(TokioTimer::new())
        .keep_alive_interval(PING)
        .keep_alive_timeout(PING)
        .max_concurrent_streams(1024)
        .max_header_list_size(64 * 1024);
    builder
}
