//! Requests to local workloads on developers' machines.

mod peer_router;

use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use http::{Request, Response, StatusCode};
use http_body_util::BodyExt;

use self::peer_router::{SessionWait, latest_target};
use super::{
    forward::{Caller, ForwardError},
    headers::{strip_hop_by_hop, wants_upgrade},
    response::{ErrorResponse, ResponseBody, is_grpc},
    upgrade, upstream,
};
use crate::{
    local_transport::{LocalError, LocalResponse},
    request_body::RequestBody,
    table::{AppProtocol, Backend, DisconnectedPolicy, FallThrough, LocalTarget, ResponseCondition, Route},
};

/// Sends a request to a local process, or to its fallback.
pub(super) async fn send(
    caller: &Arc<Caller>,
    route: &Arc<Route>,
    to: &Arc<LocalTarget>,
    mut request: Request<RequestBody>,
    upgrades: bool,
) -> Result<Response<ResponseBody>, ForwardError> {
    peer_router::verify_hop(caller, to, &request)?;
    let (mut to, mut search) = (Arc::clone(to), SessionWait::new(caller));
    let mut address = peer_router::peer_address(caller, route, &to, &request, false);
    loop {
        let visit = LocalAttempt { caller, route, target: &to, upgrades };
        let away = match address {
            Some(address) => visit.send_to_peer(address, request).await,
            None => visit.send_here(request).await,
        };
        request = match away {
            Ok(response) => return Ok(response),
            Err(LocalSendError::Failed(trouble)) => return Err(trouble),
            Err(LocalSendError::OtherRouter(untouched)) => *untouched,
        };
        // The agent is moving to another router; the next table has its address.
        loop {
            to = latest_target(caller, route, &to);
            if to.gateway().is_none() {
                return LocalAttempt { caller, route, target: &to, upgrades }
                    .apply_disconnected_policy(Some(request))
                    .await;
            }
            let next = peer_router::peer_address(caller, route, &to, &request, true);
            if std::mem::replace(&mut address, next) != next || search.wait_for_retry(&to).await? {
                break;
            }
        }
    }
}

/// A local attempt failed.
enum LocalSendError {
    Failed(ForwardError),
    /// Nothing was sent: another router holds the session, or that router is gone.
    OtherRouter(Box<Request<RequestBody>>),
}

impl From<ForwardError> for LocalSendError {
    fn from(trouble: ForwardError) -> Self {
        Self::Failed(trouble)
    }
}

impl From<ErrorResponse> for LocalSendError {
    fn from(refusal: ErrorResponse) -> Self {
        Self::Failed(refusal.into())
    }
}

/// One attempt.
struct LocalAttempt<'a> {
    caller: &'a Arc<Caller>,
    route: &'a Arc<Route>,
    target: &'a Arc<LocalTarget>,
    upgrades: bool,
}

impl LocalAttempt<'_> {
    /// Sends the request through a session of this router.
    async fn send_here(
        &self,
        request: Request<RequestBody>,
    ) -> Result<Response<ResponseBody>, LocalSendError> {
        let locals = &self.caller.worker.shared.locals;
        if self.upgrades {
            return match locals.connect(self.target).await {
                Ok(stream) => Ok(upgrade::request_upgrade(self.caller, stream, request).await?),
                Err(error) => self.handle_error(error, Some(request)).await,
            };
        }
        if *self.target.response_condition() != ResponseCondition::Always
            && !is_streaming(self.target, &request)
        {
            return self.send_with_fall_through(request).await;
        }
        match locals.send(self.target, request).await {
            Ok(answer) => Ok(into_proxy_response(answer)),
            Err(error) => self.handle_error(error, None).await,
        }
    }

    /// Sends the request to the local process first and possibly to another responder after it, so the body is
    /// buffered.
    async fn send_with_fall_through(
        &self,
        request: Request<RequestBody>,
    ) -> Result<Response<ResponseBody>, LocalSendError> {
        let (parts, body) = request.into_parts();
        let shared = &self.caller.worker.shared;
        let kept = buffer_body(body, shared.settings.limits.max_buffered_body).await?;
        let again = || Request::from_parts(parts.clone(), RequestBody::full(kept.clone()));
        match shared.locals.send(self.target, again()).await {
            Ok(answer) if accepts_response(self.target.response_condition(), &answer) => {
                Ok(into_proxy_response(answer))
            }
            Ok(_) => Ok(self.fall_through(again()).await?),
            Err(error) => self.handle_error(error, Some(again())).await,
        }
    }

    /// Sends the request to what the local process intercepts.
    async fn fall_through(
        &self,
        request: Request<RequestBody>,
    ) -> Result<Response<ResponseBody>, ForwardError> {
        match self.target.fall_through() {
            FallThrough::Fork(fork) => self.send_to_backend(fork, request).await,
            FallThrough::Baseline => self.send_to_backend(self.route.baseline(), request).await,
            FallThrough::Unavailable(why) => {
                let mut refusal = ErrorResponse::unavailable("unavailable", why.message());
                refusal.error = why.error().clone();
                let mut response = refusal.into_response(is_grpc(&request));
                response.body_mut().set_responder(why.name().clone());
                Ok(response)
            }
        }
    }

    /// Maps a transport error to a response or a fallback.
    async fn handle_error(
        &self,
        error: LocalError,
        kept: Option<Request<RequestBody>>,
    ) -> Result<Response<ResponseBody>, LocalSendError> {
        let name = self.target.name().to_str().unwrap_or_default();
        match error {
            LocalError::Disconnected(request) => {
                let request = kept.or_else(|| request.map(|it| *it));
                // It was forwarded by a peer router with an older table.
                if peer_router::is_on_peer(self.caller, self.target) {
                    return Err(reconnecting_response(self.target).into());
                }
                Ok(self.apply_disconnected_policy(request).await?)
            }
            LocalError::Moved(request) => match kept.map(Box::new).or(request) {
                Some(request) => Err(LocalSendError::OtherRouter(request)),
                None => Err(reconnecting_response(self.target).into()),
            },
            LocalError::Reconnecting => Err(reconnecting_response(self.target).into()),
            LocalError::Busy => {
                let message = format!("{name}: too many concurrent requests to this machine");
                let refusal = ErrorResponse::unavailable("local-busy", message);
                Err(ErrorResponse { is_retryable: true, ..refusal }.into())
            }
            LocalError::Unreachable(cause) => {
                let message = format!("{name}: the local port does not respond: {cause}");
                Err(ErrorResponse::new(StatusCode::BAD_GATEWAY, "local-unreachable", message).into())
            }
            LocalError::Interrupted(cause) => {
                let message = format!("{name}: the local process closed the connection: {cause}");
                Err(ErrorResponse::new(StatusCode::BAD_GATEWAY, "local", message).into())
            }
        }
    }

    /// No agent is connected: the workload's policy decides.
    async fn apply_disconnected_policy(
        &self,
        request: Option<Request<RequestBody>>,
    ) -> Result<Response<ResponseBody>, ForwardError> {
        let name = self.target.name().to_str().unwrap_or_default();
        let message = format!("{name}: no agent is connected; run `capt connect`");
        let refusal = ErrorResponse::unavailable("disconnected", message);
        match (self.target.disconnected_policy(), request) {
            (DisconnectedPolicy::Fail, _) | (_, None) => Err(refusal.into()),
            (DisconnectedPolicy::Baseline, Some(request)) => {
                self.send_to_backend(self.route.baseline(), request).await
            }
            (DisconnectedPolicy::Before, Some(request)) => self.fall_through(request).await,
        }
    }

    /// Sends the request to another responder, and records that in the response.
    async fn send_to_backend(
        &self,
        backend: &Backend,
        mut request: Request<RequestBody>,
    ) -> Result<Response<ResponseBody>, ForwardError> {
        if wants_upgrade(request.headers()) {
            return upgrade::upgrade_to_pods(self.caller, backend, request).await;
        }
        let mut response = upstream::send(&self.caller.worker, backend, &mut request).await?;
        response.body_mut().set_responder(backend.name().clone());
        Ok(response)
    }
}

/// Whether request and response may be streamed concurrently. Then the body cannot be buffered for a second attempt,
/// and the local process alone answers.
fn is_streaming(to: &LocalTarget, request: &Request<RequestBody>) -> bool {
    matches!(to.protocol(), AppProtocol::H2c | AppProtocol::Grpc) || is_grpc(request)
}

fn into_proxy_response(mut answer: LocalResponse) -> Response<ResponseBody> {
    strip_hop_by_hop(answer.headers_mut(), false);
    answer.map(ResponseBody::from_local)
}

/// The session is expected to reconnect, here or at another router.
fn reconnecting_response(to: &LocalTarget) -> ErrorResponse {
    let name = to.name().to_str().unwrap_or_default();
    let message = format!("{name}: the agent is reconnecting");
    ErrorResponse { is_retryable: true, ..ErrorResponse::unavailable("reconnecting", message) }
}

/// Buffers a body up to a limit.
async fn buffer_body(mut body: RequestBody, most: usize) -> Result<Bytes, ErrorResponse> {
    let mut kept = BytesMut::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| {
            ErrorResponse::new(
                StatusCode::BAD_REQUEST,
                "body",
                format!("the request body ended early: {error}"),
            )
        })?;
        let Ok(data) = frame.into_data() else { continue };
        if kept.len() + data.len() > most {
            let message = format!("the body of a request that may fall through is limited to {most} bytes");
            return Err(ErrorResponse::new(StatusCode::PAYLOAD_TOO_LARGE, "override-body", message));
        }
        kept.extend_from_slice(&data);
    }
    Ok(kept.freeze())
}

fn accepts_response(when: &ResponseCondition, answer: &LocalResponse) -> bool {
    match when {
        ResponseCondition::Always => true,
        ResponseCondition::Header(name, value) => answer.headers().get(name).is_some_and(|it| it == value),
        ResponseCondition::ExceptStatus(codes) => !codes.contains(&answer.status()),
    }
}
