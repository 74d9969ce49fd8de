//! The server as a service in the same process: no socket, no TLS, no copy of bodies.

use std::task::{Context, Poll};

use futures::future::BoxFuture;

use super::{Caller, Front, payload::Broken, respond::Response};
use crate::request::User;

/// A client's way in, for one user.
#[derive(Clone)]
pub struct InProcess {
    front: Front,
    user: User,
}

impl InProcess {
    pub fn new(front: Front, user: User) -> Self {
        Self { front, user }
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
        let (front, user) = (self.front.clone(), self.user.clone());
        Box::pin(async move {
            let (parts, body) = request.into_parts();
            front.answer(parts, body, Caller::Known(user)).await
        })
    }
}
