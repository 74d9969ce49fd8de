//! How the proxy reaches processes on developers' machines. Implemented by the tunnel, and by fakes in tests.

use std::{io, time::Duration};

use bytes::Bytes;
use futures::future::BoxFuture;
use http::{Request, Response};
use http_body_util::combinators::UnsyncBoxBody;
use tokio::io::{AsyncRead, AsyncWrite};

use crate::{request_body::RequestBody, table::LocalTarget};

/// An error of a body in transit.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// The response of a local process.
pub type LocalResponse = Response<UnsyncBoxBody<Bytes, BoxError>>;

/// A bidirectional byte stream.
pub trait Duplex: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Duplex for T {}

/// Transport to local workloads.
pub trait LocalTransport: Send + Sync + 'static {
    /// Sends a request to a port of a local workload. Dropping the future or the response body cancels the request.
    ///
    /// Waits while a session is reconnecting, up to a limit; then returns [`LocalError::Waiting`].
    fn send(
        &self,
        to: &LocalTarget,
        request: Request<RequestBody>,
    ) -> BoxFuture<'static, Result<LocalResponse, LocalError>>;

    /// Opens a byte stream to a port of a local workload, for protocol upgrades.
    fn connect(&self, to: &LocalTarget) -> BoxFuture<'static, Result<Box<dyn Duplex>, LocalError>>;

    /// Statistics of the sessions, if there are any.
    fn stats(&self) -> Option<TunnelStats> {
        None
    }
}

/// Statistics of the sessions of a router.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TunnelStats {
    /// Connected workloads with their last round-trip time.
    pub connected: Vec<(String, Option<Duration>)>,
    /// Number of reconnects.
    pub reconnects: u64,
}

/// A request to a local process failed.
#[derive(Debug, thiserror::Error)]
pub enum LocalError {
    /// No session, and none is expected. Returns the unsent request, so that it can go to another responder.
    #[error("no agent is connected")]
    Disconnected(Option<Box<Request<RequestBody>>>),
    /// Another router holds the session. Returns the unsent request, to be sent there.
    #[error("another router holds the session")]
    Moved(Option<Box<Request<RequestBody>>>),
    /// The session did not reconnect in time, or too many requests wait for it.
    #[error("the agent is reconnecting")]
    Reconnecting,
    /// The session is at its request limit, and no slot became free in time.
    #[error("too many concurrent requests")]
    Busy,
    /// The session exists, but the local port does not respond.
    #[error("the local port does not respond")]
    Unreachable(#[source] io::Error),
    /// The connection failed in transit.
    #[error("the response of the local process ended early")]
    Interrupted(#[source] BoxError),
}

/// A transport without sessions.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoLocalTransport;

impl LocalTransport for NoLocalTransport {
    fn send(
        &self,
        _: &LocalTarget,
        request: Request<RequestBody>,
    ) -> BoxFuture<'static, Result<LocalResponse, LocalError>> {
        Box::pin(async { Err(LocalError::Disconnected(Some(Box::new(request)))) })
    }

    fn connect(&self, _: &LocalTarget) -> BoxFuture<'static, Result<Box<dyn Duplex>, LocalError>> {
        Box::pin(async { Err(LocalError::Disconnected(None)) })
    }
}
