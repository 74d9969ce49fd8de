//! Sessions that another router has. It may be gone without a word, and its agent on the way to the next one.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use http::{HeaderValue, Request, Response};
use tokio::{
    sync::SemaphorePermit,
    time::{Instant, timeout_at},
};

use super::{
    super::{
        answer::{Answer, Refusal},
        dial::Dial,
        forward::Caller,
        headers::{HOP, ROUTE},
        upgrade,
        upstream::{self, Attempt},
    },
    Away, Visit, waiting,
};
use crate::{
    body::Body,
    table::{Local, Route, Target},
};

/// How many routers a request may be handed on to: the second one is where the session went in that very moment.
const HOPS: usize = 2;
/// How soon a router is tried again that took no connection: one whose container starts anew has the same name and address.
const AGAIN: Duration = Duration::from_millis(200);

/// A request that was handed on names the router that was meant: the address may be another's by now.
pub(super) fn check(caller: &Caller, to: &Local, request: &Request<Body>) -> Result<(), Refusal> {
    let meant = request.headers().get_all(HOP).iter().next_back();
    let is_us = meant.is_none_or(|it| it.as_bytes() == caller.worker.shared.settings.name.as_bytes());
    if is_us { Ok(()) } else { Err(waiting(to)) }
}

/// Whether another router has the session, by our table.
pub(super) fn is_other(caller: &Caller, to: &Local) -> bool {
    to.gateway().is_some_and(|it| it.name != caller.worker.shared.settings.name)
}

/// Where the router is that has the session, if that is another one. A request that was handed on to us stays here, unless
/// the session `has_left` from here.
pub(super) fn address(
    caller: &Caller,
    route: &Route,
    to: &Local,
    request: &Request<Body>,
    has_left: bool,
) -> Option<SocketAddr> {
    let gateway = to.gateway().filter(|_| is_other(caller, to))?;
    let hops = request.headers().get_all(HOP).iter().count();
    if hops >= HOPS || (hops > 0 && !has_left) {
        return None;
    }
    let settings = &caller.worker.shared.settings;
    let port = route.listener().or_else(|| settings.front.map(|front| front.port()))?;
    Some(SocketAddr::new(gateway.address, port))
}

/// The same port of the same workload, as the table in force has it.
pub(super) fn newest(caller: &Caller, route: &Route, to: &Arc<Local>) -> Arc<Local> {
    let table = caller.worker.shared.table.load();
    let at = route.service();
    let is_it = |it: &&Arc<Local>| {
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

/// Waiting for a session to appear, as one waits for an agent that reconnects: not for long, and not too many.
pub(super) struct Search<'a> {
    caller: &'a Caller,
    until: Instant,
    place: Option<SemaphorePermit<'a>>,
}

impl<'a> Search<'a> {
    pub(super) fn new(caller: &'a Caller) -> Self {
        let until = Instant::now() + caller.worker.shared.settings.limits.moving;
        Self { caller, until, place: None }
    }

    /// True when it is time to try the same router again; false when there is another table.
    pub(super) async fn again(&mut self, to: &Local) -> Result<bool, Refusal> {
        let shared = &self.caller.worker.shared;
        if self.place.is_none() {
            self.place = Some(shared.seekers.try_acquire().map_err(|_| waiting(to))?);
        }
        let now = Instant::now();
        if now >= self.until {
            return Err(waiting(to));
        }
        let next = (now + AGAIN).min(self.until);
        Ok(timeout_at(next, shared.applied.notified()).await.is_err())
    }
}

impl Visit<'_> {
    /// Lets the router answer that has the session.
    pub(super) async fn hand_on(
        &self,
        address: SocketAddr,
        mut request: Request<Body>,
    ) -> Result<Response<Answer>, Away> {
        let stream = match Dial::peer(&self.caller.worker.shared.settings).pod(address).await {
            Ok(stream) => stream,
            Err(error) => {
                tracing::debug!(%address, %error, "the router that has a session takes no connection");
                return Err(Away::Elsewhere(Box::new(request)));
            }
        };
        let name = self.to.gateway().and_then(|it| HeaderValue::try_from(&it.name).ok());
        request.headers_mut().append(HOP, name.unwrap_or_else(|| HeaderValue::from_static("unnamed")));
        if self.upgrades {
            return Ok(upgrade::ask(self.caller, Box::new(stream), request).await?);
        }
        match upstream::on(&self.caller.worker, (address, stream), &mut request).await {
            Attempt::Answered(mut response) => {
                // The other router knows who answered there.
                if let Some(name) = response.headers().get(ROUTE).cloned() {
                    response.body_mut().given_by(name);
                }
                Ok(response)
            }
            Attempt::Unsent(_) => {
                drop_last(&mut request);
                Err(Away::Elsewhere(Box::new(request)))
            }
            Attempt::Failed(trouble) => Err(Away::Trouble(trouble)),
        }
    }
}

/// It was not handed on after all.
fn drop_last(request: &mut Request<Body>) {
    let mut hops: Vec<HeaderValue> = request.headers().get_all(HOP).iter().cloned().collect();
    hops.pop();
    request.headers_mut().remove(HOP);
    for hop in hops {
        request.headers_mut().append(HOP, hop);
    }
}
