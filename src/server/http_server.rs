//! The listener of both servers: HTTP/1.1, with or without TLS.
//!
//! Connections are bounded in number and in time: a handshake, a request's head, its body and the connection as a whole have
//! deadlines, so that callers who dawdle cannot keep others out. When the server stops, running requests may end.

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

const MOST_CONNECTIONS: usize = 512;

/// An answer that is there as a whole.
pub(super) type Answer = Response<Full<Bytes>>;

/// How long slow callers are waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Patience {
    /// For a TLS handshake.
    pub handshake: Duration,
    /// For the head of a request, and between requests of one connection.
    pub head: Duration,
    /// For the body of a request.
    pub body: Duration,
    /// For a connection from its first byte to its last.
    pub connection: Duration,
    /// For running requests when the server stops or a connection's time is up.
    pub grace: Duration,
}

impl Default for Patience {
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

/// Whoever answers requests.
pub(super) trait Handler: Send + Sync + 'static {
    /// The answer to a request of this caller.
    fn handle(&self, peer: SocketAddr, request: Request<Incoming>) -> impl Future<Output = Answer> + Send;
}

struct Listening<H> {
    tls: Option<TlsAcceptor>,
    handler: Arc<H>,
    patience: Patience,
    stop: CancellationToken,
}

impl<H> Clone for Listening<H> {
    fn clone(&self) -> Self {
        let Self { tls, handler, patience, stop } = self;
        Self { tls: tls.clone(), handler: Arc::clone(handler), patience: *patience, stop: stop.clone() }
    }
}

/// Answers until it is told to stop, and returns when the last connection is gone or had its grace.
pub(super) async fn serve<H: Handler>(
    listener: TcpListener,
    tls: Option<TlsAcceptor>,
    handler: Arc<H>,
    (patience, stop): (Patience, CancellationToken),
) {
    let listening = Listening { tls, handler, patience, stop };
    let (places, tasks) = (Arc::new(Semaphore::new(MOST_CONNECTIONS)), TaskTracker::new());
    loop {
        let Ok(place) = Arc::clone(&places).acquire_owned().await else { break };
        let accepted = tokio::select! {
            () = listening.stop.cancelled() => break,
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((stream, peer)) => {
                tasks.spawn(listening.clone().connection(stream, peer, place));
            }
            Err(why) => {
                // Out of descriptors, most likely: give others time to close theirs.
                tracing::warn!(%why, "a connection was not accepted");
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
    }
    tasks.close();
    tasks.wait().await;
}

impl<H: Handler> Listening<H> {
    async fn connection(self, stream: TcpStream, peer: SocketAddr, _place: OwnedSemaphorePermit) {
        // Answers are small and go out at once.
        let _ = stream.set_nodelay(true);
        let Some(tls) = &self.tls else { return self.requests(stream, peer).await };
        if let Ok(Ok(stream)) = tokio::time::timeout(self.patience.handshake, tls.accept(stream)).await {
            self.requests(stream, peer).await;
        }
    }

    async fn requests(&self, stream: impl AsyncRead + AsyncWrite + Unpin, peer: SocketAddr) {
        let handler = &self.handler;
        let service =
            service_fn(
                move |request| async move { Ok::<_, Infallible>(handler.handle(peer, request).await) },
            );
        let serving = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(self.patience.head)
            .max_headers(64)
            .serve_connection(TokioIo::new(stream), service);
        tokio::pin!(serving);
        let ended = tokio::select! {
            ended = serving.as_mut() => Some(ended),
            () = self.over() => {
                serving.as_mut().graceful_shutdown();
                tokio::time::timeout(self.patience.grace, serving).await.ok()
            }
        };
        if let Some(Err(why)) = ended {
            tracing::debug!(%why, %peer, "a connection ended");
        }
    }

    /// The connection's time is up.
    async fn over(&self) {
        tokio::select! {
            () = self.stop.cancelled() => {}
            () = tokio::time::sleep(self.patience.connection) => {}
        }
    }
}

/// The whole body, or the answer to one that is too long, too slow or broken off.
pub(super) async fn body(
    request: Request<Incoming>,
    longest: usize,
    patience: Duration,
) -> Result<Bytes, Answer> {
    let reading = Limited::new(request.into_body(), longest).collect();
    match tokio::time::timeout(patience, reading).await {
        Ok(Ok(body)) => Ok(body.to_bytes()),
        Ok(Err(error)) if error.is::<LengthLimitError>() => {
            Err(text(StatusCode::PAYLOAD_TOO_LARGE, &format!("the body is longer than {longest} bytes")))
        }
        Ok(Err(_)) => Err(text(StatusCode::BAD_REQUEST, "the body broke off")),
        Err(_) => Err(text(StatusCode::REQUEST_TIMEOUT, "the body did not come in time")),
    }
}

/// An answer of this type.
pub(super) fn answer(status: StatusCode, kind: &'static str, body: impl Into<Bytes>) -> Answer {
    let mut answer = Response::new(Full::new(body.into()));
    *answer.status_mut() = status;
    answer.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    answer
}

/// An answer for people: text, ended by a line break.
pub(super) fn text(status: StatusCode, body: &str) -> Answer {
    answer(status, "text/plain; charset=utf-8", format!("{body}\n"))
}

/// The answer to a method that the path does not know.
pub(super) fn allow(methods: &'static str) -> Answer {
    let mut answer = text(StatusCode::METHOD_NOT_ALLOWED, &format!("use {methods}"));
    answer.headers_mut().insert(header::ALLOW, HeaderValue::from_static(methods));
    answer
}
