//! One request on its way from the tunnel to the application, or to the agent itself.

use std::{error::Error, future::poll_fn, sync::Arc};

use bytes::Bytes;
use h2::{RecvStream, SendStream, server::SendResponse};
use http::{HeaderValue, Method, Request, Response, StatusCode, Version};
use http_body_util::{BodyExt as _, Limited};
use hyper::body::Body as _;
use parking_lot::Mutex;
use tokio::{
    io::copy_bidirectional_with_sizes,
    sync::{oneshot, watch},
};
use tokio_util::sync::CancellationToken;

use super::{
    super::{
        PortReport, Protocol, Stream,
        body::{Held, Incoming, strip},
        wire::{self, Report},
    },
    Tokens,
    local::{Local, Locals},
    probe::words,
};
use crate::streams::Pump;

/// How much of a farewell is read.
const FAREWELL: usize = 4096;
/// How much is copied at once.
const COPY: usize = 64 * 1024;

/// Takes requests to where they belong.
#[derive(Clone)]
pub(super) struct Forward {
    pub(super) locals: Arc<Locals>,
    pub(super) internal: Arc<Internal>,
}

impl Forward {
    pub(super) async fn serve(self, request: Request<RecvStream>, mut respond: SendResponse<Bytes>) {
        let Some(port) = request.headers().get(wire::PORT) else {
            return self.internal.answer(request, respond).await;
        };
        let port = port.to_str().ok().and_then(|it| it.parse().ok());
        let Some(local) = port.and_then(|port| self.locals.find(port)) else {
            return refuse(&mut respond, wire::NOT_MAPPED, "this port was not confirmed here");
        };
        if request.method() == Method::CONNECT {
            connect(local, request.into_body(), respond).await;
        } else if local.protocol() == Protocol::Tcp {
            refuse(&mut respond, wire::UNREACHABLE, "the port is mapped as tcp, and this is HTTP");
        } else {
            http(local, request, respond).await;
        }
    }
}

async fn http(local: &Local, request: Request<RecvStream>, mut respond: SendResponse<Bytes>) {
    let (mut parts, recv) = request.into_parts();
    strip(&mut parts.headers);
    parts.version = if local.protocol() == Protocol::H2c { Version::HTTP_2 } else { Version::HTTP_11 };
    let asked = local.client.request(Request::from_parts(parts, Incoming::new(recv, Held::default())));
    let answer = tokio::select! {
        answer = asked => answer,
        // The caller went away; so does the request to the application.
        _ = poll_fn(|cx| respond.poll_reset(cx)) => return,
    };
    match answer {
        Ok(answer) => {
            let (mut parts, body) = answer.into_parts();
            strip(&mut parts.headers);
            let head = Response::from_parts(parts, ());
            let is_empty = body.is_end_stream();
            // Who does not take the answer is gone.
            if let Ok(to) = respond.send_response(head, is_empty)
                && !is_empty
            {
                let _told_by_a_reset = Pump::new(body, to).await;
            }
        }
        Err(error) => refuse(&mut respond, wire::UNREACHABLE, &innermost(&error)),
    }
}

async fn connect(local: &Local, recv: RecvStream, mut respond: SendResponse<Bytes>) {
    let mut socket = match local.dial.dial().await {
        Ok(socket) => socket,
        Err(error) => return refuse(&mut respond, wire::UNREACHABLE, &words(&error)),
    };
    let Ok(to) = respond.send_response(Response::new(()), false) else { return };
    let mut stream = Stream::new(to, recv, Held::default());
    // A side that breaks is told to the other one by the end of both.
    let _ended = copy_bidirectional_with_sizes(&mut stream, &mut socket, COPY, COPY).await;
}

/// The agent's own answer, marked as such: an application cannot give it.
fn refuse(respond: &mut SendResponse<Bytes>, word: &'static str, why: &str) {
    let mut answer = Response::new(());
    *answer.status_mut() = StatusCode::BAD_GATEWAY;
    answer.headers_mut().insert(wire::ERROR, HeaderValue::from_static(word));
    if let Ok(mut to) = respond.send_response(answer, false) {
        // Who does not take it is gone.
        let _gone = to.send_data(Bytes::from(why.to_owned()), true);
    }
}

/// What is at the bottom of an error, as people say it.
pub fn innermost(error: &(dyn Error + 'static)) -> String {
    let mut inner = error;
    while let Some(cause) = inner.source() {
        inner = cause;
    }
    inner.downcast_ref::<std::io::Error>().map_or_else(|| inner.to_string(), words)
}

/// What the gateway asks the agent itself.
pub(super) struct Internal {
    tokens: Arc<dyn Tokens>,
    reports: watch::Receiver<Vec<PortReport>>,
    fence: Mutex<Option<oneshot::Sender<String>>>,
    moved: CancellationToken,
    stop: CancellationToken,
}

/// What the gateway says at the end.
pub(super) struct Last {
    /// Who has our place.
    pub(super) fenced: oneshot::Receiver<String>,
    /// It ends itself, and we shall go to another one.
    pub(super) moved: CancellationToken,
}

impl Internal {
    /// And where the last words of the gateway are heard.
    pub(super) fn new(tokens: Arc<dyn Tokens>, locals: &Locals, stop: CancellationToken) -> (Self, Last) {
        let ((fence, fenced), moved) = (oneshot::channel(), CancellationToken::new());
        let (reports, fence) = (locals.reports.subscribe(), Mutex::new(Some(fence)));
        (Self { tokens, reports, fence, moved: moved.clone(), stop }, Last { fenced, moved })
    }

    async fn answer(&self, request: Request<RecvStream>, mut respond: SendResponse<Bytes>) {
        match request.uri().path() {
            wire::REPORTS => {
                if let Ok(to) = respond.send_response(Response::new(()), false) {
                    self.report(to).await;
                }
            }
            wire::TOKEN => {
                // Without a new one the gateway goes on with the old one.
                let token = self.tokens.token().await.unwrap_or_default();
                if let Ok(mut to) = respond.send_response(Response::new(()), false) {
                    let _gone = to.send_data(Bytes::from(token), true);
                }
            }
            wire::FENCED => {
                let body = Limited::new(Incoming::new(request.into_body(), Held::default()), FAREWELL)
                    .collect()
                    .await;
                let why = body.map(|it| String::from_utf8_lossy(&it.to_bytes()).into_owned());
                // Before the answer: after it the gateway may hang up, and this ends with the connection.
                if let Some(fence) = self.fence.lock().take() {
                    let _ended = fence.send(why.unwrap_or_else(|_| "another agent has its place".to_owned()));
                }
                let _gone = respond.send_response(Response::new(()), true);
            }
            wire::MOVE => {
                self.moved.cancel();
                let _gone = respond.send_response(Response::new(()), true);
            }
            _ => refuse(&mut respond, wire::NOT_MAPPED, "the agent knows no such question"),
        }
    }

    /// One line now, one for every change, and one when the agent leaves.
    async fn report(&self, mut to: SendStream<Bytes>) {
        let mut reports = self.reports.clone();
        reports.mark_changed();
        loop {
            let leaves = tokio::select! {
                changed = reports.changed() => if changed.is_ok() { false } else { return },
                () = self.stop.cancelled() => true,
            };
            let report = Report { ports: reports.borrow_and_update().clone(), leaves };
            let Ok(mut line) = serde_json::to_vec(&report) else { return };
            line.push(b'\n');
            if to.send_data(Bytes::from(line), leaves).is_err() || leaves {
                return;
            }
        }
    }
}
