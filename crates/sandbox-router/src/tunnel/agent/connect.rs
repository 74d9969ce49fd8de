//! One connection attempt of the agent: handshake as a client, then it acts as the HTTP/2 server.

use std::{sync::Arc, time::Instant};

use bytes::Bytes;
use h2::server::Connection;
use http::{HeaderMap, Response, StatusCode};
use http_body_util::{BodyExt as _, Limited};
use hyper::upgrade::Upgraded;
use hyper_util::rt::TokioIo;
use tokio::{task::JoinSet, time::timeout};
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};

use super::{
    super::{
        BoxIo, MAX_CONCURRENT_REQUESTS,
        connection_health::{CONNECTION_WINDOW, ConnectionHealth, INITIAL_WINDOW, MAX_FRAME_SIZE},
        hello::AgentHello,
        metered_io::MeteredIo,
        wire,
    },
    Agent, AgentState,
    forward::{ControlHandler, GatewayNotices, RequestForwarder, root_cause},
    gateway_dialer::{dial_with_retries, is_permanent},
    suspend_detector::SuspendDetector,
};

/// How much of a refusal is read.
const MAX_REFUSAL_BYTES: usize = 4096;

/// Outcome of an attempt.
#[derive(Debug)]
pub(super) enum AttemptOutcome {
    /// The gateway did not respond.
    Unreachable(String),
    /// The gateway responded, but cannot accept now.
    RefusedForNow(String),
    /// The gateway refused permanently.
    Refused(String),
    /// Another agent holds the workload.
    Fenced(String),
    /// The connection was established and lost.
    Lost(String),
    /// Stopped on request.
    Stopped,
}

/// One attempt.
pub(super) struct ConnectionAttempt<'a> {
    pub(super) agent: &'a Agent,
    pub(super) suspend_detector: &'a SuspendDetector,
    pub(super) stop: &'a CancellationToken,
}

impl ConnectionAttempt<'_> {
    /// Connects and serves until the connection is lost, or until the agent was stopped and has told the gateway.
    pub(super) async fn run(self) -> AttemptOutcome {
        tokio::select! {
            ended = self.attempt() => ended,
            () = self.stop_deadline() => AttemptOutcome::Stopped,
        }
    }

    /// Limits how long a stopping agent takes to tell the gateway.
    async fn stop_deadline(&self) {
        self.stop.cancelled().await;
        tokio::time::sleep(self.agent.config.times.goodbye_timeout).await;
    }

    async fn attempt(&self) -> AttemptOutcome {
        let reached = tokio::select! {
            reached = self.dial_gateway() => reached,
            // The gateway does not know this agent yet, so it need not be told.
            () = self.stop.cancelled(), if !self.agent.was_connected() => return AttemptOutcome::Stopped,
        };
        // From the hello on the gateway may hold the workload for this agent: when stopped now, it completes the
        // handshake and leaves in the regular way.
        let let_in = match reached {
            Ok((token, io)) => self.handshake(token, io).await,
            Err(ended) => Err(ended),
        };
        match let_in {
            Ok((io, headers)) => self.serve(io, &headers).await,
            Err(ended) => ended,
        }
    }

    /// Gets a token and opens a connection.
    async fn dial_gateway(&self) -> Result<(String, BoxIo), AttemptOutcome> {
        let (times, gateway) = (&self.agent.config.times, self.agent.dialer.name());
        let token = match timeout(times.handshake_timeout, self.agent.tokens.token()).await {
            Ok(Ok(token)) => token,
            Ok(Err(why)) => return Err(AttemptOutcome::RefusedForNow(format!("cannot get a token: {why}"))),
            Err(_) => return Err(AttemptOutcome::RefusedForNow("getting a token timed out".to_owned())),
        };
        match timeout(
            times.dial_timeout,
            dial_with_retries(self.agent.dialer.as_ref(), times.redial_interval),
        )
        .await
        {
            Ok(Ok(io)) => Ok((token, io)),
            // Permanent errors occur before anything is sent, in particular the token.
            Ok(Err(error)) if is_permanent(&error) => Err(AttemptOutcome::Refused(error.to_string())),
            Ok(Err(error)) => Err(AttemptOutcome::Unreachable(format!("cannot reach {gateway}: {error}"))),
            Err(_) => Err(AttemptOutcome::Unreachable(format!("{gateway} does not respond"))),
        }
    }

    async fn handshake(
        &self,
        token: String,
        io: BoxIo,
    ) -> Result<(TokioIo<Upgraded>, HeaderMap), AttemptOutcome> {
        let gateway = self.agent.dialer.name();
        timeout(self.agent.config.times.handshake_timeout, send_hello(&self.hello(token), &gateway, io))
            .await
            .unwrap_or_else(|_| {
                Err(AttemptOutcome::Unreachable(format!("{gateway} does not respond to the handshake")))
            })
    }

    fn hello(&self, token: String) -> AgentHello {
        let config = &self.agent.config;
        let epoch = self.agent.status.borrow().epoch;
        AgentHello {
            workload: config.workload.clone(),
            token,
            session: config.session.clone(),
            epoch,
            version: config.version.clone(),
            // Only at the first connection: afterwards another takeover wins.
            takeover: config.takeover && epoch == 0,
            mappings: config.mappings.clone(),
        }
    }

    async fn serve(&self, io: TokioIo<Upgraded>, headers: &HeaderMap) -> AttemptOutcome {
        let times = &self.agent.config.times;
        let line = ConnectionHealth::new();
        let mut connection = match timeout(times.handshake_timeout, h2_handshake(io, &line)).await {
            Ok(Ok(connection)) => connection,
            Ok(Err(error)) => {
                return AttemptOutcome::Unreachable(format!("the connection failed immediately: {error}"));
            }
            Err(_) => {
                return AttemptOutcome::Unreachable(
                    "the router did not complete the HTTP/2 handshake".to_owned(),
                );
            }
        };
        self.mark_connected(headers);
        let ping = connection.ping_pong();
        let (forward, GatewayNotices { fenced, moved }) = self.new_forwarder();
        let mut driver = AbortOnDropHandle::new(tokio::spawn(drive(connection, Arc::clone(&line), forward)));
        line.request_measurement();
        let pulse = async {
            if let Some(ping) = ping {
                line.run_pings(ping, times).await;
            }
        };
        tokio::select! {
            // A notice that the gateway sent before it closed the connection takes precedence.
            biased;
            Ok(why) = fenced => {
                // Requests in progress may finish; the gateway closes the connection afterwards.
                let _hung_up = timeout(times.drain_timeout, &mut driver).await;
                AttemptOutcome::Fenced(why)
            }
            () = moved.cancelled() => {
                // Drains in the background during the next connection. The gateway closes it when no request is in
                // progress.
                tokio::spawn(timeout(times.drain_timeout, driver));
                AttemptOutcome::Lost("the router is shutting down".to_owned())
            }
            why = &mut driver => AttemptOutcome::Lost(why.unwrap_or_else(|error| error.to_string())),
            () = pulse => AttemptOutcome::Lost("no response from the router".to_owned()),
            () = self.stop.cancelled() => {
                // The gateway is notified and closes the connection; `stop_deadline` limits that.
                let _hung_up = (&mut driver).await;
                AttemptOutcome::Stopped
            }
            () = self.publish_stats(&line) => AttemptOutcome::Lost("status task ended".to_owned()),
            () = self.suspect_on_resume(&line) => AttemptOutcome::Lost("suspend detector ended".to_owned()),
        }
    }

    /// The request forwarder, and the receiver of the gateway's notices.
    fn new_forwarder(&self) -> (RequestForwarder, GatewayNotices) {
        let (tokens, stop) = (Arc::clone(&self.agent.tokens), self.stop.clone());
        let (internal, last) = ControlHandler::new(tokens, &self.agent.ports, stop);
        (RequestForwarder { ports: Arc::clone(&self.agent.ports), control: Arc::new(internal) }, last)
    }

    fn mark_connected(&self, headers: &HeaderMap) {
        let text = |name| headers.get(name).and_then(|it| it.to_str().ok());
        self.agent.status.send_modify(|view| {
            view.state = AgentState::Connected;
            view.since = Instant::now();
            view.connections += 1;
            view.epoch = text(wire::EPOCH).and_then(|it| it.parse().ok()).unwrap_or(view.epoch + 1);
            view.user = text(wire::USER).map(str::to_owned);
        });
    }

    /// Publishes statistics, forever.
    async fn publish_stats(&self, line: &ConnectionHealth) {
        loop {
            tokio::time::sleep(self.agent.config.times.probe_interval / 2).await;
            let (rtt, requests) = (line.rtt(), self.agent.ports.request_count());
            self.agent.status.send_if_modified(|view| {
                let is_news = view.rtt != rtt || view.requests != requests;
                (view.rtt, view.requests) = (rtt, requests);
                is_news
            });
        }
    }

    /// After a resume the connection must prove that it is alive, forever.
    async fn suspect_on_resume(&self, line: &ConnectionHealth) {
        loop {
            self.suspend_detector.wait_for_resume().await;
            line.suspect();
        }
    }
}

/// Sends the hello. Returns the upgraded connection and the response headers, or the outcome.
async fn send_hello(
    hello: &AgentHello,
    host: &str,
    io: BoxIo,
) -> Result<(TokioIo<Upgraded>, HeaderMap), AttemptOutcome> {
    let broke = |error: hyper::Error| {
        AttemptOutcome::Unreachable(format!("{host} closed the connection: {}", root_cause(&error)))
    };
    let (mut send, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(io)).await.map_err(broke)?;
    let _driver = AbortOnDropHandle::new(tokio::spawn(connection.with_upgrades()));
    let request = hello.to_request(host).map_err(|error| {
        AttemptOutcome::Refused(format!("the token or a name is not a valid header: {error}"))
    })?;
    let answer = send.send_request(request).await.map_err(broke)?;
    let (status, headers) = (answer.status(), answer.headers().clone());
    if status == StatusCode::SWITCHING_PROTOCOLS {
        let io = hyper::upgrade::on(answer).await.map_err(broke)?;
        return Ok((TokioIo::new(io), headers));
    }
    Err(outcome_of_refusal(status, answer).await)
}

async fn outcome_of_refusal(status: StatusCode, answer: Response<hyper::body::Incoming>) -> AttemptOutcome {
    let text = Limited::new(answer.into_body(), MAX_REFUSAL_BYTES).collect().await;
    let text = text.map(|it| String::from_utf8_lossy(&it.to_bytes()).into_owned()).unwrap_or_default();
    let text = if text.is_empty() { format!("the router responded with {status}") } else { text };
    match status {
        StatusCode::CONFLICT => AttemptOutcome::Fenced(text),
        StatusCode::UNAUTHORIZED
        | StatusCode::FORBIDDEN
        | StatusCode::NOT_FOUND
        | StatusCode::BAD_REQUEST => AttemptOutcome::Refused(text),
        _ => AttemptOutcome::RefusedForNow(text),
    }
}

type ServerConnection = Connection<MeteredIo<TokioIo<Upgraded>>, Bytes>;

async fn h2_handshake(
    io: TokioIo<Upgraded>,
    line: &Arc<ConnectionHealth>,
) -> Result<ServerConnection, h2::Error> {
    h2::server::Builder::new()
        .initial_window_size(INITIAL_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .max_frame_size(MAX_FRAME_SIZE)
        .max_send_buffer_size(INITIAL_WINDOW as usize * 4)
        .max_concurrent_streams(MAX_CONCURRENT_REQUESTS)
        // Early resets by callers are not an attack: the peer is the gateway that was dialled.
        .max_pending_accept_reset_streams(MAX_CONCURRENT_REQUESTS as usize)
        .handshake(MeteredIo::new(io, Arc::clone(line)))
        .await
}

/// Drives the connection and spawns its requests; returns why it ended. Requests end with it.
async fn drive(
    mut connection: ServerConnection,
    line: Arc<ConnectionHealth>,
    forward: RequestForwarder,
) -> String {
    let mut tasks = JoinSet::new();
    loop {
        tokio::select! {
            request = connection.accept() => match request {
                Some(Ok((request, respond))) => {
                    let forward = forward.clone();
                    tasks.spawn(async move { forward.serve(request, respond).await });
                }
                Some(Err(error)) => return format!("the connection failed: {error}"),
                None => return "the connection was closed".to_owned(),
            },
            window = line.next_window() => {
                // Ignored while an earlier change is not acknowledged; the next measurement tries again.
                let _unacknowledged = connection.set_initial_window_size(window);
            }
            Some(_) = tasks.join_next() => {}
        }
    }
}
