//! Handles one request: routing, forwarding, response.

use std::{
    mem::take,
    sync::{Arc, atomic::Ordering},
    time::Instant,
};

use http::{HeaderValue, Method, Request, Response, StatusCode, Version};

use super::{
    connection_budget::OpenConnection,
    entrypoint::{Entrypoint, MatchedRoute},
    headers::{ROUTE, add_forwarded_for, check_host, inject_key, strip_hop_by_hop, wants_upgrade},
    local,
    response::{ErrorResponse, RequestGuard, ResponseBody, is_grpc},
    routing::{RequestParts, Responder, RoutingDecision, decide},
    upgrade::{self, UpgradedUpstream},
    upstream,
    worker::Worker,
};
use crate::{
    proxy::caller_io::ConnectionActivity,
    request_body::RequestBody,
    table::{ResponderKind, Route, RouteTable, RoutingKey, Target},
};

/// A caller's connection, as its requests see it.
pub(super) struct Caller {
    pub(super) worker: Arc<Worker>,
    pub(super) entrypoint: Arc<Entrypoint>,
    /// The caller's address.
    pub(super) peer: HeaderValue,
    /// Its place in the budget of connections.
    pub(super) connection: OpenConnection,
    /// Set for HTTP/1 connections.
    pub(super) activity: Option<Arc<ConnectionActivity>>,
    /// The upstream side of an upgrade, until the caller's side is ready.
    pub(super) upgraded: parking_lot::Mutex<Option<UpgradedUpstream>>,
}

/// Forwards one request. An error resets the stream with the reason that the upstream gave.
pub(super) async fn forward(
    caller: &Arc<Caller>,
    request: &mut Request<RequestBody>,
) -> Result<Response<ResponseBody>, h2::Error> {
    let since = Instant::now();
    if let Some(notes) = &caller.activity {
        notes.start_request();
    }
    let to_grpc = is_grpc(request);
    let table = caller.worker.shared.table.load_full();
    let route = match find_route(caller, &table, request) {
        Ok(route) => route,
        Err(refusal) => {
            if let Some(notes) = &caller.activity {
                notes.finish_request();
            }
            return Ok(error_response(refusal, to_grpc, request.version()));
        }
    };
    let MatchedRoute { route, is_draining: is_leaving } = route;
    let decision = decide(&RequestParts::from_uri(request.headers(), request.uri()), &table, &route);
    drop(table);
    let (kind, name) = responder_name(&decision.responder);
    let visit = RequestGuard::new(Arc::clone(&route), kind, since, caller.activity.clone());
    if decision.is_unknown_key {
        route.metrics().record_unknown_key();
    }
    let version = request.version();
    let mut response = match send(caller, &route, &decision, request).await {
        Ok(response) => response,
        Err(ForwardError::Respond(refusal)) => {
            let broken = caller.activity.as_ref().filter(|notes| notes.is_body_broken());
            let refusal = broken.map_or(refusal, |_| malformed_request(BROKEN_BODY));
            error_response(refusal, to_grpc, version)
        }
        Err(ForwardError::Reset(error)) => return Err(error),
    };
    *response.version_mut() = if version == Version::HTTP_2 { version } else { Version::HTTP_11 };
    if caller.worker.shared.settings.show_route {
        let name = response.body_mut().take_responder().unwrap_or(name);
        response.headers_mut().insert(ROUTE, name);
    }
    let is_leaving = is_leaving || caller.worker.shared.retired.load(Ordering::Relaxed);
    if is_leaving && version != Version::HTTP_2 && response.status() != StatusCode::SWITCHING_PROTOCOLS {
        response.headers_mut().insert(http::header::CONNECTION, HeaderValue::from_static("close"));
    }
    Ok(response.map(|answer| answer.with_guard(visit)))
}

/// Why there is no upstream response.
pub(super) enum ForwardError {
    /// The router responds with an error.
    Respond(ErrorResponse),
    /// The upstream reset the stream; the reset is propagated.
    Reset(h2::Error),
}

impl From<ErrorResponse> for ForwardError {
    fn from(refusal: ErrorResponse) -> Self {
        Self::Respond(refusal)
    }
}

const BROKEN_BODY: &str = "the body of the request is malformed, or ended early";

/// 400: the fault is the caller's, and no pod's.
fn malformed_request(message: &str) -> ErrorResponse {
    ErrorResponse::new(StatusCode::BAD_REQUEST, "malformed", message)
}

/// Where a malformed request ends is not certain, so no other one is read from its connection.
fn error_response(refusal: ErrorResponse, to_grpc: bool, version: Version) -> Response<ResponseBody> {
    let is_malformed = refusal.status == StatusCode::BAD_REQUEST;
    let mut response = refusal.into_response(to_grpc && !is_malformed);
    if is_malformed && version != Version::HTTP_2 {
        response.headers_mut().insert(http::header::CONNECTION, HeaderValue::from_static("close"));
    }
    response
}

/// The route that a request came in for.
fn find_route(
    caller: &Caller,
    table: &Arc<RouteTable>,
    request: &Request<RequestBody>,
) -> Result<MatchedRoute, ErrorResponse> {
    if let Err(message) = check_host(request.version(), request.headers()) {
        return Err(malformed_request(message));
    }
    if request.method() == Method::CONNECT {
        let message = "CONNECT is not supported";
        return Err(ErrorResponse::new(StatusCode::NOT_IMPLEMENTED, "connect", message));
    }
    caller.entrypoint.match_route(table, &RequestParts::from_uri(request.headers(), request.uri()))
}

fn responder_name(to: &Responder) -> (ResponderKind, HeaderValue) {
    match to {
        Responder::Baseline(backend) => (ResponderKind::Baseline, backend.name().clone()),
        Responder::Override(target) => (target.kind(), target.name().clone()),
    }
}

async fn send(
    caller: &Arc<Caller>,
    route: &Arc<Route>,
    decision: &RoutingDecision,
    request: &mut Request<RequestBody>,
) -> Result<Response<ResponseBody>, ForwardError> {
    let upgrades = prepare_request(caller, route, decision.injected_key.as_ref(), request);
    let backend = match &decision.responder {
        Responder::Baseline(backend) | Responder::Override(Target::Backend(backend)) => backend,
        // The response differs from the baseline's in its route name only.
        Responder::Override(Target::Virtual(_)) => route.baseline(),
        Responder::Override(Target::Unavailable(it)) => {
            let mut refusal = ErrorResponse::unavailable("unavailable", it.message());
            refusal.error = it.error().clone();
            return Err(refusal.into());
        }
        // Boxed: rare cases must not enlarge the future of every request.
        Responder::Override(Target::Local(it)) => {
            return Box::pin(local::send(caller, route, it, take(request), upgrades)).await;
        }
    };
    if upgrades {
        Box::pin(upgrade::upgrade_to_pods(caller, backend, take(request))).await
    } else {
        upstream::send(&caller.worker, backend, request).await
    }
}

/// Rewrites the caller's request for forwarding. Returns whether it asks for an upgrade.
fn prepare_request(
    caller: &Caller,
    route: &Route,
    key: Option<&RoutingKey>,
    request: &mut Request<RequestBody>,
) -> bool {
    let is_single = request.version() != Version::HTTP_2;
    let headers = request.headers_mut();
    let upgrades = is_single && wants_upgrade(headers);
    // HTTP/2 forbids hop-by-hop headers; requests with one are rejected.
    if is_single {
        strip_hop_by_hop(headers, upgrades);
    }
    add_forwarded_for(headers, &caller.peer);
    if let Some(key) = key {
        inject_key(headers, key);
    }
    if is_single {
        if !headers.contains_key(http::header::HOST) {
            let name = format!("{}.{}", route.service().name(), route.service().namespace());
            let name = HeaderValue::try_from(name).unwrap_or_else(|_| HeaderValue::from_static("unknown"));
            headers.insert(http::header::HOST, name);
        }
        *request.version_mut() = Version::HTTP_11;
    } else if request.uri().authority().is_none() {
        set_authority(request);
    }
    upgrades
}

/// HTTP/2 allows the host in a header instead of `:authority`; upstreams require the latter.
fn set_authority(request: &mut Request<RequestBody>) {
    let host = request.headers_mut().remove(http::header::HOST);
    let host = host.as_ref().and_then(|host| host.to_str().ok()).unwrap_or("unknown");
    let mut parts = request.uri().clone().into_parts();
    parts.authority = host.parse().ok();
    parts.scheme.get_or_insert(http::uri::Scheme::HTTP);
    if let Ok(uri) = http::Uri::from_parts(parts) {
        *request.uri_mut() = uri;
    }
}
