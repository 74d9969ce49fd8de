//! The server as a service in the same process: no socket, no TLS, no copy of bodies.

use std::task::{Context, Poll};

use futures::future::BoxFuture;
use http::{HeaderValue, header::USER_AGENT};

use super::{Caller, Front, payload::Broken, respond::Response};
use crate::request::User;

/// A client's way in, for one user.
#[derive(Clone)]
pub struct InProcess {
    front: Front,
    user: User,
    agent: Option<HeaderValue>,
}

impl InProcess {
    /// For this user; `agent` is the name of clients that give none.
    pub fn new(front: Front, user: User, agent: &str) -> Self {
        Self { front, user, agent: HeaderValue::from_str(agent).ok() }
    }
}

impl tower::Service<http::Request<kube::client::Body>> for InProcess {
    type Error = Broken;
    type Future = BoxFuture<'static, Result<Response, Broken>>;
    type Response = Response;

    fn poll_ready(&mut self, _context: &mut Context<'_>) -> Poll<Result<(), Broken>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<kube::client::Body>) -> Self::Future {
        let (front, user, agent) = (self.front.clone(), self.user.clone(), self.agent.clone());
        Box::pin(async move {
            let (mut parts, body) = request.into_parts();
            if let (Some(agent), false) = (agent, parts.headers.contains_key(USER_AGENT)) {
                parts.headers.insert(USER_AGENT, agent);
            }
            front.answer(parts, body, Caller::Known(user)).await
        })
    }
}
