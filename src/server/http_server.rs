//! HTTP/1.1 server with or without TLS, shared by the status endpoints and the webhook.
//!
//! Connections are limited in number and time: handshake, request head, body and connection have deadlines, so that slow
//! clients cannot block others. Requests in flight may finish during shutdown.

use std::{convert::Infallible, net::SocketAddr, sync::Arc, time::Duration};

use http::{HeaderValue, Request, Response, StatusCode, header};
use http_body_util::{BodyExt as _, Full, LengthLimitError, Limited};
use hyper::{
    body::{Bytes, Incoming},
    server::conn::http1,
    service::service_fn,
};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpListener, TcpStream},
    sync::{OwnedSemaphorePermit, Semaphore},
};
use tokio_rustls::TlsAcceptor;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

const MAX_CONNECTIONS: usize = 512;

/// A response with a complete body.
pub(super) type HttpResponse = Response<Full<Bytes>>;

/// Timeouts of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HttpTimeouts {
    /// TLS handshake.
    pub handshake: Duration,
    /// Request head, and idle time between requests.
    pub head: Duration,
    /// Request body.
    pub body: Duration,
    /// Lifetime of a connection.
    pub connection: Duration,
    /// Grace period of requests in flight during shutdown or at the end of the lifetime.
    pub grace: Duration,
}

impl Default for HttpTimeouts {
    fn default() -> Self {
        Self {
            handshake: Duration::from_secs(10),
            head: Duration::from_secs(30),
            body: Duration::from_secs(10),
            connection: Duration::from_mins(10),
            grace: Duration::from_secs(5),
        }
    }
}

/// Handles requests.
pub(super) trait Handler: Send + Sync + 'static {
    /// Handles a request of this peer.
    fn handle(
        &self,
        peer: SocketAddr,
        request: Request<Incoming>,
    ) -> impl Future<Output = HttpResponse> + Send;
}

struct ConnectionServer<H> {
    tls: Option<TlsAcceptor>,
    handler: Arc<H>,
    timeouts: HttpTimeouts,
    stop: CancellationToken,
}

impl<H> Clone for ConnectionServer<H> {
    fn clone(&self) -> Self {
        let Self { tls, handler, timeouts: patience, stop } = self;
        Self { tls: tls.clone(), handler: Arc::clone(handler), timeouts: *patience, stop: stop.clone() }
    }
}

/// Serves until `stop` is cancelled; returns when all connections are closed or their grace period is over.
pub(super) async fn serve<H: Handler>(
    listener: TcpListener,
    tls: Option<TlsAcceptor>,
    handler: Arc<H>,
    (patience, stop): (HttpTimeouts, CancellationToken),
) {
    let listening = ConnectionServer { tls, handler, timeouts: patience, stop };
    let (places, tasks) = (Arc::new(Semaphore::new(MAX_CONNECTIONS)), TaskTracker::new());
    loop {
        let Ok(place) = Arc::clone(&places).acquire_owned().await else { break };
        let accepted = tokio::select! {
            () = listening.stop.cancelled() => break,
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((stream, peer)) => {
                tasks.spawn(listening.clone().serve_connection(stream, peer, place));
            }
            Err(why) => {
                // Most likely out of file descriptors; wait until other connections close.
                tracing::warn!(%why, "cannot accept a connection");
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
    }
    tasks.close();
    tasks.wait().await;
}

impl<H: Handler> ConnectionServer<H> {
    async fn serve_connection(self, stream: TcpStream, peer: SocketAddr, _place: OwnedSemaphorePermit) {
        // Responses are small; send them without delay.
        let _ = stream.set_nodelay(true);
        let Some(tls) = &self.tls else { return self.serve_requests(stream, peer).await };
        if let Ok(Ok(stream)) = tokio::time::timeout(self.timeouts.handshake, tls.accept(stream)).await {
            self.serve_requests(stream, peer).await;
        }
    }

    async fn serve_requests(&self, stream: impl AsyncRead + AsyncWrite + Unpin, peer: SocketAddr) {
        let handler = &self.handler;
        let service =
            service_fn(
                move |request| async move { Ok::<_, Infallible>(handler.handle(peer, request).await) },
            );
        let serving = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(self.timeouts.head)
            .max_headers(64)
            .serve_connection(TokioIo::new(stream), service);
        tokio::pin!(serving);
        let ended = tokio::select! {
            ended = serving.as_mut() => Some(ended),
            () = self.expired() => {
                serving.as_mut().graceful_shutdown();
                tokio::time::timeout(self.timeouts.grace, serving).await.ok()
            }
        };
        if let Some(Err(why)) = ended {
            tracing::debug!(%why, %peer, "connection closed with an error");
        }
    }

    /// Resolves at shutdown or at the end of the connection's lifetime.
    async fn expired(&self) {
        tokio::select! {
            () = self.stop.cancelled() => {}
            () = tokio::time::sleep(self.timeouts.connection) => {}
        }
    }
}

/// Reads the whole body, or returns the error response if it is too large, too slow or incomplete.
pub(super) async fn read_body(
    request: Request<Incoming>,
    longest: usize,
    patience: Duration,
) -> Result<Bytes, HttpResponse> {
    let reading = Limited::new(request.into_body(), longest).collect();
    match tokio::time::timeout(patience, reading).await {
        Ok(Ok(body)) => Ok(body.to_bytes()),
        Ok(Err(error)) if error.is::<LengthLimitError>() => Err(text_response(
            StatusCode::PAYLOAD_TOO_LARGE,
            &format!("the request body is larger than {longest} bytes"),
        )),
        Ok(Err(_)) => Err(text_response(StatusCode::BAD_REQUEST, "the request body is incomplete")),
        Err(_) => Err(text_response(StatusCode::REQUEST_TIMEOUT, "timed out reading the request body")),
    }
}

/// A response with this content type.
pub(super) fn response(status: StatusCode, kind: &'static str, body: impl Into<Bytes>) -> HttpResponse {
    let mut answer = Response::new(Full::new(body.into()));
    *answer.status_mut() = status;
    answer.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    answer
}

/// A plain text response with a trailing line break.
pub(super) fn text_response(status: StatusCode, body: &str) -> HttpResponse {
    response(status, "text/plain; charset=utf-8", format!("{body}\n"))
}

/// The 405 response.
pub(super) fn method_not_allowed(methods: &'static str) -> HttpResponse {
    let mut answer = text_response(StatusCode::METHOD_NOT_ALLOWED, &format!("use {methods}"));
    answer.headers_mut().insert(header::ALLOW, HeaderValue::from_static(methods));
    answer
}
