//! Requests to processes on people's desks.

mod elsewhere;

use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use http::{Request, Response, StatusCode};
use http_body_util::BodyExt;

use self::elsewhere::{Search, newest};
use super::{
    answer::{Answer, Refusal, is_grpc},
    forward::{Caller, Trouble},
    headers::{strip_hop_by_hop, wants_upgrade},
    upgrade, upstream,
};
use crate::{
    body::Body,
    locals::{LocalAnswer, LocalError},
    table::{AppProtocol, Backend, Before, Local, Otherwise, Route, When},
};

/// Sends a request to a local process, or to who answers instead.
pub(super) async fn send(
    caller: &Arc<Caller>,
    route: &Arc<Route>,
    to: &Arc<Local>,
    mut request: Request<Body>,
    upgrades: bool,
) -> Result<Response<Answer>, Trouble> {
    elsewhere::check(caller, to, &request)?;
    let (mut to, mut search) = (Arc::clone(to), Search::new(caller));
    let mut address = elsewhere::address(caller, route, &to, &request, false);
    loop {
        let visit = Visit { caller, route, to: &to, upgrades };
        let away = match address {
            Some(address) => visit.hand_on(address, request).await,
            None => visit.here(request).await,
        };
        request = match away {
            Ok(response) => return Ok(response),
            Err(Away::Trouble(trouble)) => return Err(trouble),
            Err(Away::Elsewhere(untouched)) => *untouched,
        };
        // Its agent is on its way to another router, and the next table tells to which.
        loop {
            to = newest(caller, route, &to);
            if to.gateway().is_none() {
                return Visit { caller, route, to: &to, upgrades }.disconnected(Some(request)).await;
            }
            let next = elsewhere::address(caller, route, &to, &request, true);
            if std::mem::replace(&mut address, next) != next || search.again(&to).await? {
                break;
            }
        }
    }
}

/// Why there is no answer.
enum Away {
    Trouble(Trouble),
    /// Nothing was sent: the session is at another router, or that one is gone.
    Elsewhere(Box<Request<Body>>),
}

impl From<Trouble> for Away {
    fn from(trouble: Trouble) -> Self {
        Self::Trouble(trouble)
    }
}

impl From<Refusal> for Away {
    fn from(refusal: Refusal) -> Self {
        Self::Trouble(refusal.into())
    }
}

/// One attempt.
struct Visit<'a> {
    caller: &'a Arc<Caller>,
    route: &'a Arc<Route>,
    to: &'a Arc<Local>,
    upgrades: bool,
}

impl Visit<'_> {
    /// Asks the process whose session this router has.
    async fn here(&self, request: Request<Body>) -> Result<Response<Answer>, Away> {
        let locals = &self.caller.worker.shared.locals;
        if self.upgrades {
            return match locals.connect(self.to).await {
                Ok(stream) => Ok(upgrade::ask(self.caller, stream, request).await?),
                Err(error) => self.failed(error, Some(request)).await,
            };
        }
        if *self.to.counts_when() != When::Always && !is_stream(self.to, &request) {
            return self.try_first(request).await;
        }
        match locals.send(self.to, request).await {
            Ok(answer) => Ok(answered(answer)),
            Err(error) => self.failed(error, None).await,
        }
    }

    /// Asks the local process, and then perhaps somebody else: so the body must be kept.
    async fn try_first(&self, request: Request<Body>) -> Result<Response<Answer>, Away> {
        let (parts, body) = request.into_parts();
        let shared = &self.caller.worker.shared;
        let kept = keep(body, shared.settings.limits.kept_body).await?;
        let again = || Request::from_parts(parts.clone(), Body::whole(kept.clone()));
        match shared.locals.send(self.to, again()).await {
            Ok(answer) if counts(self.to.counts_when(), &answer) => Ok(answered(answer)),
            Ok(_) => Ok(self.through(again()).await?),
            Err(error) => self.failed(error, Some(again())).await,
        }
    }

    /// What the local process stands before.
    async fn through(&self, request: Request<Body>) -> Result<Response<Answer>, Trouble> {
        match self.to.stands_before() {
            Before::Fork(fork) => self.send_to(fork, request).await,
            Before::Baseline => self.send_to(self.route.baseline(), request).await,
            Before::Unavailable(why) => {
                let mut refusal = Refusal::unavailable("unavailable", why.message());
                refusal.error = why.error().clone();
                let mut response = refusal.answer(is_grpc(&request));
                response.body_mut().given_by(why.name().clone());
                Ok(response)
            }
        }
    }

    /// The local process cannot be asked.
    async fn failed(&self, error: LocalError, kept: Option<Request<Body>>) -> Result<Response<Answer>, Away> {
        let name = self.to.name().to_str().unwrap_or_default();
        match error {
            LocalError::Disconnected(request) => {
                let request = kept.or_else(|| request.map(|it| *it));
                // It was handed on to us, by a router that knows less than we do.
                if elsewhere::is_other(self.caller, self.to) {
                    return Err(waiting(self.to).into());
                }
                Ok(self.disconnected(request).await?)
            }
            LocalError::Moved(request) => match kept.map(Box::new).or(request) {
                Some(request) => Err(Away::Elsewhere(request)),
                None => Err(waiting(self.to).into()),
            },
            LocalError::Waiting => Err(waiting(self.to).into()),
            LocalError::Busy => {
                let message = format!("{name}: too many requests are under way to this machine");
                let refusal = Refusal::unavailable("local-busy", message);
                Err(Refusal { again: true, ..refusal }.into())
            }
            LocalError::Unreachable(cause) => {
                let message = format!("{name}: nothing answers at the local port: {cause}");
                Err(Refusal::new(StatusCode::BAD_GATEWAY, "local-unreachable", message).into())
            }
            LocalError::Broken(cause) => {
                let message = format!("{name}: the local process broke off: {cause}");
                Err(Refusal::new(StatusCode::BAD_GATEWAY, "local", message).into())
            }
        }
    }

    /// Nobody is connected: the workload's policy decides.
    async fn disconnected(&self, request: Option<Request<Body>>) -> Result<Response<Answer>, Trouble> {
        let name = self.to.name().to_str().unwrap_or_default();
        let message = format!("{name}: nobody is connected; start `capt connect` again");
        let refusal = Refusal::unavailable("disconnected", message);
        match (self.to.fallback(), request) {
            (Otherwise::Fail, _) | (_, None) => Err(refusal.into()),
            (Otherwise::Baseline, Some(request)) => self.send_to(self.route.baseline(), request).await,
            (Otherwise::Before, Some(request)) => self.through(request).await,
        }
    }

    /// Somebody else answers, and the answer says so.
    async fn send_to(
        &self,
        backend: &Backend,
        mut request: Request<Body>,
    ) -> Result<Response<Answer>, Trouble> {
        if wants_upgrade(request.headers()) {
            return upgrade::to_pods(self.caller, backend, request).await;
        }
        let mut response = upstream::send(&self.caller.worker, backend, &mut request).await?;
        response.body_mut().given_by(backend.name().clone());
        Ok(response)
    }
}

/// Whether a request and its answer may go on side by side: then there is no body that could be kept for a second time, and
/// the local process answers alone.
fn is_stream(to: &Local, request: &Request<Body>) -> bool {
    matches!(to.protocol(), AppProtocol::H2c | AppProtocol::Grpc) || is_grpc(request)
}

fn answered(mut answer: LocalAnswer) -> Response<Answer> {
    strip_hop_by_hop(answer.headers_mut(), false);
    answer.map(Answer::local)
}

/// The session is expected back, here or elsewhere.
fn waiting(to: &Local) -> Refusal {
    let name = to.name().to_str().unwrap_or_default();
    let message = format!("{name}: the connection is being made again");
    Refusal { again: true, ..Refusal::unavailable("reconnecting", message) }
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
