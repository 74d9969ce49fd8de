//! One request: who answers it, and how it gets there and back.

use std::{
    mem::take,
    sync::{Arc, atomic::Ordering},
    time::Instant,
};

use http::{HeaderValue, Method, Request, Response, StatusCode, Version};

use super::{
    answer::{Answer, Refusal, Visit, is_grpc},
    decide::{Asked, Decision, To, decide},
    headers::{ROUTE, add_forwarded_for, inject, strip_hop_by_hop, wants_upgrade},
    local,
    origin::{Origin, Place},
    upgrade::{self, Joint},
    upstream,
    worker::Worker,
};
use crate::{
    body::Body,
    proxy::io::Notes,
    table::{Key, Kind, Route, Table, Target},
};

/// A caller's connection, as its requests see it.
pub(super) struct Caller {
    pub(super) worker: Arc<Worker>,
    pub(super) origin: Arc<Origin>,
    /// The caller's address.
    pub(super) peer: HeaderValue,
    /// Of a connection that speaks HTTP/1.
    pub(super) notes: Option<Arc<Notes>>,
    /// The other end of an upgrade, until this end is ready for it.
    pub(super) joint: parking_lot::Mutex<Option<Joint>>,
}

/// Answers one request. An error resets the stream with the reason that the other side gave.
pub(super) async fn forward(
    caller: &Arc<Caller>,
    request: &mut Request<Body>,
) -> Result<Response<Answer>, h2::Error> {
    let since = Instant::now();
    if let Some(notes) = &caller.notes {
        notes.begin();
    }
    let to_grpc = is_grpc(request);
    let table = caller.worker.shared.table.load_full();
    let route = match find(caller, &table, request) {
        Ok(route) => route,
        Err(refusal) => {
            if let Some(notes) = &caller.notes {
                notes.end();
            }
            return Ok(refusal.answer(to_grpc));
        }
    };
    let Place { route, is_leaving } = route;
    let decision = decide(&Asked::of(request.headers(), request.uri()), &table, &route);
    drop(table);
    let (kind, name) = named(&decision.to);
    let visit = Visit::new(Arc::clone(&route), kind, since, caller.notes.clone());
    if decision.unknown {
        route.meter().unknown_key();
    }
    let version = request.version();
    let mut response = match send(caller, &route, &decision, request).await {
        Ok(response) => response,
        Err(Trouble::Refused(refusal)) => refusal.answer(to_grpc),
        Err(Trouble::Reset(error)) => return Err(error),
    };
    *response.version_mut() = if version == Version::HTTP_2 { version } else { Version::HTTP_11 };
    if caller.worker.shared.settings.show_route {
        let name = response.body_mut().take_giver().unwrap_or(name);
        response.headers_mut().insert(ROUTE, name);
    }
    let is_leaving = is_leaving || caller.worker.shared.retired.load(Ordering::Relaxed);
    if is_leaving && version != Version::HTTP_2 && response.status() != StatusCode::SWITCHING_PROTOCOLS {
        response.headers_mut().insert(http::header::CONNECTION, HeaderValue::from_static("close"));
    }
    Ok(response.map(|answer| answer.of(visit)))
}

/// Why there is no answer of anybody else.
pub(super) enum Trouble {
    /// The router answers.
    Refused(Refusal),
    /// The other side reset the stream, and so do we.
    Reset(h2::Error),
}

impl From<Refusal> for Trouble {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

/// The route that a request came in for.
fn find(caller: &Caller, table: &Arc<Table>, request: &Request<Body>) -> Result<Place, Refusal> {
    if request.method() == Method::CONNECT {
        let message = "the router is no proxy that could be asked for tunnels";
        return Err(Refusal::new(StatusCode::NOT_IMPLEMENTED, "connect", message));
    }
    caller.origin.place(table, &Asked::of(request.headers(), request.uri()))
}

fn named(to: &To) -> (Kind, HeaderValue) {
    match to {
        To::Baseline(backend) => (Kind::Baseline, backend.name().clone()),
        To::Override(target) => (target.kind(), target.name().clone()),
    }
}

async fn send(
    caller: &Arc<Caller>,
    route: &Arc<Route>,
    decision: &Decision,
    request: &mut Request<Body>,
) -> Result<Response<Answer>, Trouble> {
    let upgrades = prepare(caller, route, decision.inject.as_ref(), request);
    let backend = match &decision.to {
        To::Baseline(backend) | To::Override(Target::Backend(backend)) => backend,
        // In all but its name the answer is the baseline's.
        To::Override(Target::Virtual(_)) => route.baseline(),
        To::Override(Target::Unavailable(it)) => {
            let mut refusal = Refusal::unavailable("unavailable", it.message());
            refusal.error = it.error().clone();
            return Err(refusal.into());
        }
        // What is rare is in a box: every request would have to carry the room for it.
        To::Override(Target::Local(it)) => {
            return Box::pin(local::send(caller, route, it, take(request), upgrades)).await;
        }
    };
    if upgrades {
        Box::pin(upgrade::to_pods(caller, backend, take(request))).await
    } else {
        upstream::send(&caller.worker, backend, request).await
    }
}

/// Makes a request of this router's out of the caller's. Says whether it asks for an upgrade.
fn prepare(caller: &Caller, route: &Route, key: Option<&Key>, request: &mut Request<Body>) -> bool {
    let is_single = request.version() != Version::HTTP_2;
    let headers = request.headers_mut();
    let upgrades = is_single && wants_upgrade(headers);
    // HTTP/2 has no headers for the neighbour alone: a request with one of them is not let in.
    if is_single {
        strip_hop_by_hop(headers, upgrades);
    }
    add_forwarded_for(headers, &caller.peer);
    if let Some(key) = key {
        inject(headers, key);
    }
    if is_single {
        if !headers.contains_key(http::header::HOST) {
            let name = format!("{}.{}", route.service().name(), route.service().namespace());
            let name = HeaderValue::try_from(name).unwrap_or_else(|_| HeaderValue::from_static("unknown"));
            headers.insert(http::header::HOST, name);
        }
        *request.version_mut() = Version::HTTP_11;
    } else if request.uri().authority().is_none() {
        name_authority(request);
    }
    upgrades
}

/// HTTP/2 lets callers name the host in a header, as HTTP/1 does. Nobody answers a request without an authority here.
fn name_authority(request: &mut Request<Body>) {
    let host = request.headers_mut().remove(http::header::HOST);
    let host = host.as_ref().and_then(|host| host.to_str().ok()).unwrap_or("unknown");
    let mut parts = request.uri().clone().into_parts();
    parts.authority = host.parse().ok();
    parts.scheme.get_or_insert(http::uri::Scheme::HTTP);
    if let Ok(uri) = http::Uri::from_parts(parts) {
        *request.uri_mut() = uri;
    }
}
