//! Sessions held by a peer router. That router may be gone, and its agent on the way to another one.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use http::{HeaderValue, Request, Response};
use tokio::{
    sync::SemaphorePermit,
    time::{Instant, timeout_at},
};

use super::{
    super::{
        forward::Caller,
        headers::{HOP, ROUTE},
        pod_dialer::PodDialer,
        response::{ErrorResponse, ResponseBody},
        upgrade,
        upstream::{self, SendAttempt},
    },
    LocalAttempt, LocalSendError, reconnecting_response,
};
use crate::{
    request_body::RequestBody,
    table::{LocalTarget, Route, Target},
};

/// How many routers may forward a request: the second covers a session that moves at the same time.
const MAX_HOPS: usize = 2;
/// Retry interval for an unreachable router: a restarted container keeps its name and address.
const RETRY_INTERVAL: Duration = Duration::from_millis(200);

/// A forwarded request names the intended router: its address may belong to another router by now.
pub(super) fn verify_hop(
    caller: &Caller,
    to: &LocalTarget,
    request: &Request<RequestBody>,
) -> Result<(), ErrorResponse> {
    let meant = request.headers().get_all(HOP).iter().next_back();
    let is_us = meant.is_none_or(|it| it.as_bytes() == caller.worker.shared.settings.name.as_bytes());
    if is_us { Ok(()) } else { Err(reconnecting_response(to)) }
}

/// Whether another router holds the session, according to the table.
pub(super) fn is_on_peer(caller: &Caller, to: &LocalTarget) -> bool {
    to.gateway().is_some_and(|it| it.name != caller.worker.shared.settings.name)
}

/// The address of the peer router that holds the session, if any. A forwarded request is not forwarded again, unless
/// the session has just left this router (`has_left`).
pub(super) fn peer_address(
    caller: &Caller,
    route: &Route,
    to: &LocalTarget,
    request: &Request<RequestBody>,
    has_left: bool,
) -> Option<SocketAddr> {
    let gateway = to.gateway().filter(|_| is_on_peer(caller, to))?;
    let hops = request.headers().get_all(HOP).iter().count();
    if hops >= MAX_HOPS || (hops > 0 && !has_left) {
        return None;
    }
    let settings = &caller.worker.shared.settings;
    let port = route.listener().or_else(|| settings.host_listener.map(|front| front.port()))?;
    Some(SocketAddr::new(gateway.address, port))
}

/// The same port of the same workload in the current table.
pub(super) fn latest_target(caller: &Caller, route: &Route, to: &Arc<LocalTarget>) -> Arc<LocalTarget> {
    let table = caller.worker.shared.table.load();
    let at = route.service();
    let is_it = |it: &&Arc<LocalTarget>| {
        (it.namespace(), it.workload(), it.port()) == (to.namespace(), to.workload(), to.port())
    };
    let found = table.route(at.namespace(), at.name(), at.port()).and_then(|route| {
        let locals = route.overrides().values().filter_map(|it| match it {
            Target::Local(local) => Some(local),
            Target::Backend(_) | Target::Virtual(_) | Target::Unavailable(_) => None,
        });
        locals.into_iter().find(is_it)
    });
    Arc::clone(found.unwrap_or(to))
}

/// Waits for a session to appear, bounded in time and in number.
pub(super) struct SessionWait<'a> {
    caller: &'a Caller,
    deadline: Instant,
    permit: Option<SemaphorePermit<'a>>,
}

impl<'a> SessionWait<'a> {
    pub(super) fn new(caller: &'a Caller) -> Self {
        let deadline = Instant::now() + caller.worker.shared.settings.limits.session_move_timeout;
        Self { caller, deadline, permit: None }
    }

    /// Returns true when the same router should be retried, false when there is a new table.
    pub(super) async fn wait_for_retry(&mut self, to: &LocalTarget) -> Result<bool, ErrorResponse> {
        let shared = &self.caller.worker.shared;
        if self.permit.is_none() {
            self.permit =
                Some(shared.session_wait_slots.try_acquire().map_err(|_| reconnecting_response(to))?);
        }
        let now = Instant::now();
        if now >= self.deadline {
            return Err(reconnecting_response(to));
        }
        let next = (now + RETRY_INTERVAL).min(self.deadline);
        Ok(timeout_at(next, shared.table_changed.notified()).await.is_err())
    }
}

impl LocalAttempt<'_> {
    /// Forwards the request to the router that holds the session.
    pub(super) async fn send_to_peer(
        &self,
        address: SocketAddr,
        mut request: Request<RequestBody>,
    ) -> Result<Response<ResponseBody>, LocalSendError> {
        let stream =
            match PodDialer::for_peer_router(&self.caller.worker.shared.settings).connect(address).await {
                Ok(stream) => stream,
                Err(error) => {
                    tracing::debug!(%address, %error, "peer router with the session is unreachable");
                    return Err(LocalSendError::OtherRouter(Box::new(request)));
                }
            };
        let name = self.target.gateway().and_then(|it| HeaderValue::try_from(&it.name).ok());
        request.headers_mut().append(HOP, name.unwrap_or_else(|| HeaderValue::from_static("unnamed")));
        if self.upgrades {
            return Ok(upgrade::request_upgrade(self.caller, Box::new(stream), request).await?);
        }
        match upstream::send_on_stream(&self.caller.worker, (address, stream), &mut request).await {
            SendAttempt::Responded(mut response) => {
                // The peer router knows the responder.
                if let Some(name) = response.headers().get(ROUTE).cloned() {
                    response.body_mut().set_responder(name);
                }
                Ok(response)
            }
            SendAttempt::NotSent(_) => {
                remove_last_hop(&mut request);
                Err(LocalSendError::OtherRouter(Box::new(request)))
            }
            SendAttempt::Failed(trouble) => Err(LocalSendError::Failed(trouble)),
        }
    }
}

/// Undoes the hop header of a request that was not sent.
fn remove_last_hop(request: &mut Request<RequestBody>) {
    let mut hops: Vec<HeaderValue> = request.headers().get_all(HOP).iter().cloned().collect();
    hops.pop();
    request.headers_mut().remove(HOP);
    for hop in hops {
        request.headers_mut().append(HOP, hop);
    }
}
