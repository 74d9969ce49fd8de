//! Forwards requests from the tunnel to the application, and handles control requests of the gateway.

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
        PortReport, TunnelProtocol, TunnelStream,
        body::{StreamGuard, TunnelBody, strip_hop_by_hop},
        wire::{self, AgentReport},
    },
    TokenSource,
    local_ports::{LocalPort, LocalPorts},
    port_probe::describe_io_error,
};
use crate::h2_body::BodySender;

/// How much of a notice is read.
const MAX_NOTICE_BYTES: usize = 4096;
/// Copy buffer size.
const COPY_BUFFER_SIZE: usize = 64 * 1024;

/// Dispatches requests.
#[derive(Clone)]
pub(super) struct RequestForwarder {
    pub(super) ports: Arc<LocalPorts>,
    pub(super) control: Arc<ControlHandler>,
}

impl RequestForwarder {
    pub(super) async fn serve(self, request: Request<RecvStream>, mut respond: SendResponse<Bytes>) {
        let Some(port) = request.headers().get(wire::PORT) else {
            return self.control.handle_control(request, respond).await;
        };
        let port = port.to_str().ok().and_then(|it| it.parse().ok());
        let Some(local) = port.and_then(|port| self.ports.find(port)) else {
            return send_error(&mut respond, wire::NOT_MAPPED, "this port is not mapped by the agent");
        };
        if request.method() == Method::CONNECT {
            forward_connect(local, request.into_body(), respond).await;
        } else if local.protocol() == TunnelProtocol::Tcp {
            send_error(&mut respond, wire::UNREACHABLE, "the port is mapped as tcp, but the request is HTTP");
        } else {
            forward_http(local, request, respond).await;
        }
    }
}

async fn forward_http(local: &LocalPort, request: Request<RecvStream>, mut respond: SendResponse<Bytes>) {
    let (mut parts, recv) = request.into_parts();
    strip_hop_by_hop(&mut parts.headers);
    parts.version = if local.protocol() == TunnelProtocol::H2c { Version::HTTP_2 } else { Version::HTTP_11 };
    let asked =
        local.client.request(Request::from_parts(parts, TunnelBody::new(recv, StreamGuard::default())));
    let answer = tokio::select! {
        answer = asked => answer,
        // The caller went away; cancel the request to the application.
        _ = poll_fn(|cx| respond.poll_reset(cx)) => return,
    };
    match answer {
        Ok(answer) => {
            let (mut parts, body) = answer.into_parts();
            strip_hop_by_hop(&mut parts.headers);
            let head = Response::from_parts(parts, ());
            let is_empty = body.is_end_stream();
            // An error means that the caller is gone.
            if let Ok(to) = respond.send_response(head, is_empty)
                && !is_empty
            {
                let _told_by_a_reset = BodySender::new(body, to).await;
            }
        }
        Err(error) => send_error(&mut respond, wire::UNREACHABLE, &root_cause(&error)),
    }
}

async fn forward_connect(local: &LocalPort, recv: RecvStream, mut respond: SendResponse<Bytes>) {
    let mut socket = match local.dialer.dial().await {
        Ok(socket) => socket,
        Err(error) => return send_error(&mut respond, wire::UNREACHABLE, &describe_io_error(&error)),
    };
    let Ok(to) = respond.send_response(Response::new(()), false) else { return };
    let mut stream = TunnelStream::new(to, recv, StreamGuard::default());
    // Errors of one side end both.
    let _ended =
        copy_bidirectional_with_sizes(&mut stream, &mut socket, COPY_BUFFER_SIZE, COPY_BUFFER_SIZE).await;
}

/// Sends an error of the agent itself, marked by a header that applications cannot set.
fn send_error(respond: &mut SendResponse<Bytes>, word: &'static str, why: &str) {
    let mut answer = Response::new(());
    *answer.status_mut() = StatusCode::BAD_GATEWAY;
    answer.headers_mut().insert(wire::ERROR, HeaderValue::from_static(word));
    if let Ok(mut to) = respond.send_response(answer, false) {
        // An error means that the gateway is gone.
        let _gone = to.send_data(Bytes::from(why.to_owned()), true);
    }
}

/// Message of the root cause of an error.
pub fn root_cause(error: &(dyn Error + 'static)) -> String {
    let mut inner = error;
    while let Some(cause) = inner.source() {
        inner = cause;
    }
    inner.downcast_ref::<std::io::Error>().map_or_else(|| inner.to_string(), describe_io_error)
}

/// Handles control requests of the gateway.
pub(super) struct ControlHandler {
    tokens: Arc<dyn TokenSource>,
    reports: watch::Receiver<Vec<PortReport>>,
    fence: Mutex<Option<oneshot::Sender<String>>>,
    moved: CancellationToken,
    stop: CancellationToken,
}

/// Notices that end a connection.
pub(super) struct GatewayNotices {
    /// Another agent holds the workload.
    pub(super) fenced: oneshot::Receiver<String>,
    /// The gateway is shutting down; the agent connects to another one.
    pub(super) moved: CancellationToken,
}

impl ControlHandler {
    /// Returns the handler and the receiver of its notices.
    pub(super) fn new(
        tokens: Arc<dyn TokenSource>,
        locals: &LocalPorts,
        stop: CancellationToken,
    ) -> (Self, GatewayNotices) {
        let ((fence, fenced), moved) = (oneshot::channel(), CancellationToken::new());
        let (reports, fence) = (locals.reports.subscribe(), Mutex::new(Some(fence)));
        (Self { tokens, reports, fence, moved: moved.clone(), stop }, GatewayNotices { fenced, moved })
    }

    async fn handle_control(&self, request: Request<RecvStream>, mut respond: SendResponse<Bytes>) {
        match request.uri().path() {
            wire::REPORTS => {
                if let Ok(to) = respond.send_response(Response::new(()), false) {
                    self.stream_reports(to).await;
                }
            }
            wire::TOKEN => {
                // Without a new token the gateway continues with the old one.
                let token = self.tokens.token().await.unwrap_or_default();
                if let Ok(mut to) = respond.send_response(Response::new(()), false) {
                    let _gone = to.send_data(Bytes::from(token), true);
                }
            }
            wire::FENCED => {
                let body = Limited::new(
                    TunnelBody::new(request.into_body(), StreamGuard::default()),
                    MAX_NOTICE_BYTES,
                )
                .collect()
                .await;
                let why = body.map(|it| String::from_utf8_lossy(&it.to_bytes()).into_owned());
                // Before the response: afterwards the gateway may close the connection, which cancels this task.
                if let Some(fence) = self.fence.lock().take() {
                    let _ended =
                        fence.send(why.unwrap_or_else(|_| "another agent holds the workload".to_owned()));
                }
                let _gone = respond.send_response(Response::new(()), true);
            }
            wire::MOVE => {
                self.moved.cancel();
                let _gone = respond.send_response(Response::new(()), true);
            }
            _ => send_error(&mut respond, wire::NOT_MAPPED, "unknown control request"),
        }
    }

    /// Streams one report immediately, one per change, and a last one when the agent stops.
    async fn stream_reports(&self, mut to: SendStream<Bytes>) {
        let mut reports = self.reports.clone();
        reports.mark_changed();
        loop {
            let leaves = tokio::select! {
                changed = reports.changed() => if changed.is_ok() { false } else { return },
                () = self.stop.cancelled() => true,
            };
            let report = AgentReport { ports: reports.borrow_and_update().clone(), leaves };
            let Ok(mut line) = serde_json::to_vec(&report) else { return };
            line.push(b'\n');
            if to.send_data(Bytes::from(line), leaves).is_err() || leaves {
                return;
            }
        }
    }
}
