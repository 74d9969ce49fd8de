//! Requests to processes on people's desks.

use std::{net::SocketAddr, sync::Arc};

use bytes::{Bytes, BytesMut};
use http::{HeaderValue, Request, Response, StatusCode};
use http_body_util::BodyExt;

use super::{
    answer::{Answer, Refusal},
    forward::{Caller, Trouble},
    headers::{HOP, ROUTE, strip_hop_by_hop, wants_upgrade},
    upgrade, upstream,
};
use crate::{
    body::Body,
    locals::{LocalAnswer, LocalError},
    table::{Backend, Local, Otherwise, Route, When},
};

/// Sends a request to a local process, or to who answers instead.
pub(super) async fn send(
    caller: &Arc<Caller>,
    route: &Arc<Route>,
    to: &Arc<Local>,
    request: Request<Body>,
    upgrades: bool,
) -> Result<Response<Answer>, Trouble> {
    if let Some(address) = elsewhere(caller, route, to, &request) {
        return hand_on(caller, to, address, request, upgrades).await;
    }
    if upgrades {
        return match caller.worker.shared.locals.connect(to).await {
            Ok(stream) => upgrade::ask(caller, stream, request).await,
            Err(error) => fall_back(caller, route, to, error, Some(request)).await,
        };
    }
    if *to.counts_when() != When::Always {
        return try_first(caller, route, to, request).await;
    }
    match caller.worker.shared.locals.send(to, request).await {
        Ok(answer) => Ok(answered(answer)),
        Err(error) => fall_back(caller, route, to, error, None).await,
    }
}

fn answered(mut answer: LocalAnswer) -> Response<Answer> {
    strip_hop_by_hop(answer.headers_mut(), false);
    answer.map(Answer::local)
}

/// The router that has the session, if that is another one. A request that was handed on already stays here.
fn elsewhere(caller: &Caller, route: &Route, to: &Local, request: &Request<Body>) -> Option<SocketAddr> {
    let gateway = to.gateway()?;
    let settings = &caller.worker.shared.settings;
    if gateway.name == settings.name || request.headers().contains_key(HOP) {
        return None;
    }
    let port = route.listener().or_else(|| settings.front.map(|front| front.port()))?;
    Some(SocketAddr::new(gateway.address, port))
}

async fn hand_on(
    caller: &Arc<Caller>,
    to: &Local,
    address: SocketAddr,
    mut request: Request<Body>,
    upgrades: bool,
) -> Result<Response<Answer>, Trouble> {
    request.headers_mut().insert(HOP, HeaderValue::from_static("1"));
    let peer = Backend::fork(to.namespace(), to.workload(), [address]);
    if upgrades {
        return upgrade::to_pods(caller, &peer, request).await;
    }
    let mut response = upstream::send(&caller.worker, &peer, &mut request).await?;
    // The other router knows who answered there.
    if let Some(name) = response.headers().get(ROUTE).cloned() {
        response.body_mut().given_by(name);
    }
    Ok(response)
}

/// Asks the local process, and then perhaps somebody else: so the body must be kept.
async fn try_first(
    caller: &Arc<Caller>,
    route: &Arc<Route>,
    to: &Arc<Local>,
    request: Request<Body>,
) -> Result<Response<Answer>, Trouble> {
    let (parts, body) = request.into_parts();
    let kept = keep(body, caller.worker.shared.settings.limits.kept_body).await?;
    let again = || Request::from_parts(parts.clone(), Body::whole(kept.clone()));
    match caller.worker.shared.locals.send(to, again()).await {
        Ok(answer) if counts(to.counts_when(), &answer) => Ok(answered(answer)),
        Ok(_) => through(caller, route, to, again()).await,
        Err(error) => fall_back(caller, route, to, error, Some(again())).await,
    }
}

/// A body as a whole, if it is not too long.
async fn keep(mut body: Body, most: usize) -> Result<Bytes, Refusal> {
    let mut kept = BytesMut::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| {
            Refusal::new(StatusCode::BAD_REQUEST, "body", format!("the body broke off: {error}"))
        })?;
        let Ok(data) = frame.into_data() else { continue };
        if kept.len() + data.len() > most {
            let message = format!("a request that may fall through can have a body of {most} bytes at most");
            return Err(Refusal::new(StatusCode::PAYLOAD_TOO_LARGE, "override-body", message));
        }
        kept.extend_from_slice(&data);
    }
    Ok(kept.freeze())
}

fn counts(when: &When, answer: &LocalAnswer) -> bool {
    match when {
        When::Always => true,
        When::Header(name, value) => answer.headers().get(name).is_some_and(|it| it == value),
        When::ExceptStatus(codes) => !codes.contains(&answer.status()),
    }
}

/// What the local process stands before.
async fn through(
    caller: &Arc<Caller>,
    route: &Arc<Route>,
    to: &Local,
    request: Request<Body>,
) -> Result<Response<Answer>, Trouble> {
    let backend = match to.fallback() {
        Otherwise::Fork(fork) => fork,
        Otherwise::Baseline | Otherwise::Fail => route.baseline(),
    };
    send_named(caller, backend, request).await
}

/// The local process cannot be asked.
async fn fall_back(
    caller: &Arc<Caller>,
    route: &Arc<Route>,
    to: &Local,
    error: LocalError,
    kept: Option<Request<Body>>,
) -> Result<Response<Answer>, Trouble> {
    let name = to.name().to_str().unwrap_or_default();
    let (refusal, request) = match error {
        LocalError::Disconnected(request) => {
            let message = format!("{name}: nobody is connected; start `capt connect` again");
            (Refusal::unavailable("disconnected", message), kept.or_else(|| request.map(|it| *it)))
        }
        LocalError::Waiting => {
            let message = format!("{name}: the connection is being made again");
            let refusal = Refusal { again: true, ..Refusal::unavailable("reconnecting", message) };
            return Err(refusal.into());
        }
        LocalError::Unreachable(cause) => {
            let message = format!("{name}: nothing answers at the local port: {cause}");
            return Err(Refusal::new(StatusCode::BAD_GATEWAY, "local-unreachable", message).into());
        }
        LocalError::Broken(cause) => {
            let message = format!("{name}: the local process broke off: {cause}");
            return Err(Refusal::new(StatusCode::BAD_GATEWAY, "local", message).into());
        }
    };
    match (to.fallback(), request) {
        (Otherwise::Fail, _) | (_, None) => Err(refusal.into()),
        (Otherwise::Baseline, Some(request)) if wants_upgrade(request.headers()) => {
            upgrade::to_pods(caller, route.baseline(), request).await
        }
        (Otherwise::Fork(fork), Some(request)) if wants_upgrade(request.headers()) => {
            upgrade::to_pods(caller, fork, request).await
        }
        (_, Some(request)) => through(caller, route, to, request).await,
    }
}

/// Somebody else answers, and the answer says so.
async fn send_named(
    caller: &Arc<Caller>,
    backend: &Backend,
    mut request: Request<Body>,
) -> Result<Response<Answer>, Trouble> {
    let mut response = upstream::send(&caller.worker, backend, &mut request).await?;
    response.body_mut().given_by(backend.name().clone());
    Ok(response)
}
