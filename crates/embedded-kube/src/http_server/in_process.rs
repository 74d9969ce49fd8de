//! In-process transport: no socket, no TLS, no copy of bodies.

use std::task::{Context, Poll};

use futures::future::BoxFuture;
use http::{HeaderValue, header::USER_AGENT};

use super::{CallerIdentity, HttpServer, response::Response, response_body::ConnectionAborted};
use crate::request::User;

/// A `tower` service for one user.
#[derive(Clone)]
pub struct InProcessService {
    front: HttpServer,
    user: User,
    agent: Option<HeaderValue>,
}

impl InProcessService {
    /// A service for this user; `agent` is the default `User-Agent`.
    pub fn new(front: HttpServer, user: User, agent: &str) -> Self {
        Self { front, user, agent: HeaderValue::from_str(agent).ok() }
    }
}

impl tower::Service<http::Request<kube::client::Body>> for InProcessService {
    type Error = ConnectionAborted;
    type Future = BoxFuture<'static, Result<Response, ConnectionAborted>>;
    type Response = Response;

    fn poll_ready(&mut self, _context: &mut Context<'_>) -> Poll<Result<(), ConnectionAborted>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<kube::client::Body>) -> Self::Future {
        let (front, user, agent) = (self.front.clone(), self.user.clone(), self.agent.clone());
        Box::pin(async move {
            let (mut parts, body) = request.into_parts();
            if let (Some(agent), false) = (agent, parts.headers.contains_key(USER_AGENT)) {
                parts.headers.insert(USER_AGENT, agent);
            }
            front.serve(parts, body, CallerIdentity::Authenticated(user)).await
        })
    }
}
