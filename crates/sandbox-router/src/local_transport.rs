//! How the proxy reaches processes on people's desks. The tunnel does it; tests do it without one.

use std::{io, time::Duration};

use bytes::Bytes;
use futures::future::BoxFuture;
use http::{Request, Response};
use http_body_util::combinators::UnsyncBoxBody;
use tokio::io::{AsyncRead, AsyncWrite};

use crate::{body::Body, table::Local};

/// What goes wrong with a body on its way.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// The answer of a local process.
pub type LocalAnswer = Response<UnsyncBoxBody<Bytes, BoxError>>;

/// Bytes both ways.
pub trait Duplex: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Duplex for T {}

/// The sessions of local workloads.
pub trait Locals: Send + Sync + 'static {
    /// Sends a request to a port of a local workload. Dropping the future, or the body of the answer, cancels it there.
    ///
    /// While a session is expected back, this waits, and gives up with [`LocalError::Waiting`].
    fn send(&self, to: &Local, request: Request<Body>)
    -> BoxFuture<'static, Result<LocalAnswer, LocalError>>;

    /// Opens a stream of bytes to a port of a local workload: for upgrades, which are between the two ends alone.
    fn connect(&self, to: &Local) -> BoxFuture<'static, Result<Box<dyn Duplex>, LocalError>>;

    /// What there is to tell of the sessions; nothing where there are none.
    fn figures(&self) -> Option<Figures> {
        None
    }
}

/// Figures of the sessions of a router.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Figures {
    /// The workloads that somebody is connected for, and how long the last ping took.
    pub connected: Vec<(String, Option<Duration>)>,
    /// How often an agent that had been connected came back.
    pub reconnects: u64,
}

/// Why a local process did not answer.
#[derive(Debug, thiserror::Error)]
pub enum LocalError {
    /// There is no session and none is expected. The request comes back untouched, to be sent elsewhere.
    #[error("nobody is connected")]
    Disconnected(Option<Box<Request<Body>>>),
    /// Another router has the session by now. The request comes back untouched, to be sent there.
    #[error("another router has the connection")]
    Moved(Option<Box<Request<Body>>>),
    /// The session is expected back, and did not come in time; or too many wait for it already.
    #[error("the connection is being made again")]
    Waiting,
    /// The session has as many requests as it takes at once, and none of them ended in time.
    #[error("too many requests at once")]
    Busy,
    /// The session is there, and the local port does not answer.
    #[error("nothing answers at the local port")]
    Unreachable(#[source] io::Error),
    /// It broke off on the way.
    #[error("the local process did not finish its answer")]
    Broken(#[source] BoxError),
}

/// Nobody is ever connected.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoLocals;

impl Locals for NoLocals {
    fn send(&self, _: &Local, request: Request<Body>) -> BoxFuture<'static, Result<LocalAnswer, LocalError>> {
        Box::pin(async { Err(LocalError::Disconnected(Some(Box::new(request)))) })
    }

    fn connect(&self, _: &Local) -> BoxFuture<'static, Result<Box<dyn Duplex>, LocalError>> {
        Box::pin(async { Err(LocalError::Disconnected(None)) })
    }
}
