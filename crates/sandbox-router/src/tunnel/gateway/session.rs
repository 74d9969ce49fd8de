//! One session with an agent, from its first frame to its last.

use std::sync::{Arc, OnceLock};

use bytes::{Bytes, BytesMut};
use h2::client::{Connection, SendRequest};
use http::{Method, Request};
use http_body_util::{BodyExt as _, Limited};
use tokio::{
    sync::Semaphore,
    time::{Instant, sleep, timeout},
};
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};

use super::{
    super::{
        MAX_CONCURRENT_REQUESTS, TunnelIo,
        body::{StreamGuard, TunnelBody},
        connection_health::{CONNECTION_WINDOW, ConnectionHealth, INITIAL_WINDOW, MAX_FRAME_SIZE},
        hello::AgentHello,
        metered_io::MeteredIo,
        wire::{self, AgentReport},
    },
    AuthorizeError, Gateway, SHUTDOWN_MESSAGE,
    registry::WorkloadSlot,
};

/// Maximum number of requests: fewer than the agent accepts, so that control requests never wait.
const MAX_REQUESTS: usize = MAX_CONCURRENT_REQUESTS as usize - 6;

/// Size limit of control responses.
const MAX_CONTROL_BYTES: usize = 64 * 1024;

/// A connection for requests to an agent.
pub(super) struct Session {
    pub(super) send: SendRequest<Bytes>,
    pub(super) health: Arc<ConnectionHealth>,
    /// Its clones count the requests in progress.
    pub(super) request_counter: Arc<()>,
    /// Permits for requests; control requests do not need one.
    pub(super) request_slots: Arc<Semaphore>,
    retired: CancellationToken,
    close_notice: OnceLock<CloseNotice>,
}

/// Notice to an agent at the end of its session.
#[derive(Debug)]
pub(super) enum CloseNotice {
    /// Another agent holds the workload, or it was deleted; with the reason.
    Fenced(String),
    /// The agent should connect to another gateway.
    Move,
}

impl Session {
    fn new(send: SendRequest<Bytes>, health: Arc<ConnectionHealth>) -> Self {
        Self {
            send,
            health,
            request_counter: Arc::default(),
            request_slots: Arc::new(Semaphore::new(MAX_REQUESTS)),
            retired: CancellationToken::new(),
            close_notice: OnceLock::new(),
        }
    }

    /// Stops sending requests. Those in progress may finish; the agent is notified if necessary.
    pub(super) fn retire(&self, farewell: Option<CloseNotice>) {
        if let Some(farewell) = farewell {
            self.close_notice.get_or_init(|| farewell);
        }
        self.retired.cancel();
    }

    /// Sends a control request to the agent itself.
    async fn control_request(
        &self,
        method: Method,
        path: &str,
        body: Bytes,
    ) -> Result<TunnelBody, h2::Error> {
        let mut request = Request::new(());
        *request.method_mut() = method;
        *request.version_mut() = http::Version::HTTP_2;
        // Built from constants.
        *request.uri_mut() = format!("http://agent{path}").parse().unwrap_or_default();
        let (answer, mut send) = self.send.clone().ready().await?.send_request(request, body.is_empty())?;
        if !body.is_empty() {
            send.send_data(body, true)?;
        }
        Ok(TunnelBody::new(answer.await?.into_body(), StreamGuard::default()))
    }
}

/// Everything that a session task needs.
pub(super) struct SessionTask {
    pub(super) gateway: Arc<Gateway>,
    pub(super) slot: Arc<WorkloadSlot>,
    pub(super) epoch: u64,
    pub(super) user: String,
    pub(super) hello: AgentHello,
    pub(super) stop: CancellationToken,
}

/// How a session ended.
enum SessionEnd {
    Lost(String),
    Refused(AuthorizeError),
    Retired,
    Left,
}

impl SessionTask {
    /// Serves an agent until it is lost, no longer authorized or superseded.
    pub(super) async fn run<T: TunnelIo>(self, io: T) {
        let line = ConnectionHealth::new();
        let opened = timeout(self.gateway.timeouts.handshake_timeout, h2_handshake(io, &line)).await;
        let (send, mut connection) = match opened {
            Ok(Ok(opened)) => opened,
            Ok(Err(error)) => {
                return self
                    .slot
                    .connection_lost(self.epoch, &format!("the connection failed immediately: {error}"));
            }
            Err(_) => return self.slot.connection_lost(self.epoch, "the HTTP/2 handshake timed out"),
        };
        let ping = connection.ping_pong();
        let mut driver = AbortOnDropHandle::new(tokio::spawn(drive(connection, Arc::clone(&line))));
        let session = Arc::new(Session::new(send, Arc::clone(&line)));
        let count_reconnect = || {
            if self.hello.epoch > 0 {
                self.gateway.registry.count_reconnect();
            }
        };
        if !self.slot.install(self.epoch, Arc::clone(&session), count_reconnect) {
            return;
        }
        // It was admitted before the gateway started to shut down.
        if self.gateway.retired.is_cancelled() {
            self.slot.move_to_other_gateway(SHUTDOWN_MESSAGE);
        }
        line.request_measurement();
        let pulse = async {
            if let Some(ping) = ping {
                line.run_pings(ping, &self.gateway.timeouts).await;
            }
        };
        let end = tokio::select! {
            why = &mut driver => SessionEnd::Lost(why.unwrap_or_else(|error| error.to_string())),
            () = pulse => SessionEnd::Lost("no response from the agent".to_owned()),
            refused = self.reauthorize(&session) => SessionEnd::Refused(refused),
            end = self.follow_reports(&session) => end,
            () = session.retired.cancelled() => {
                self.send_close_notice(&session).await;
                SessionEnd::Retired
            }
            () = self.stop.cancelled() => SessionEnd::Lost("the gateway is shutting down".to_owned()),
        };
        self.finish(end);
    }

    fn finish(&self, end: SessionEnd) {
        match end {
            SessionEnd::Lost(why) => self.slot.connection_lost(self.epoch, &why),
            // The agent may reconnect with a valid token.
            SessionEnd::Refused(why) => self.slot.revoke(self.epoch, &why.to_string()),
            SessionEnd::Left => self.slot.revoke(self.epoch, &format!("{} left", self.user)),
            SessionEnd::Retired => {}
        }
    }

    /// Rechecks the authorization periodically, with the newest token of the agent.
    async fn reauthorize(&self, session: &Session) -> AuthorizeError {
        let (every, patience) =
            (self.gateway.timeouts.reauthorize_interval, self.gateway.timeouts.handshake_timeout);
        let mut token = self.hello.token.clone();
        let mut pause = every;
        loop {
            sleep(pause).await;
            if let Ok(Some(newer)) = timeout(patience, fetch_token(session)).await {
                token = newer;
            }
            let asked = self.gateway.authorizer.authorize(token.clone(), self.hello.workload.clone());
            pause = match timeout(patience, asked).await {
                Ok(Ok(grant)) if grant.user == self.user => {
                    self.slot.set_grace(self.epoch, grant.grace);
                    every
                }
                Ok(Ok(grant)) => {
                    return AuthorizeError::Forbidden(format!("the token now belongs to {}", grant.user));
                }
                // An authorized session is not ended because the check is temporarily impossible.
                Ok(Err(AuthorizeError::Unavailable(_))) | Err(_) => every / 10,
                Ok(Err(refused)) => return refused,
            };
        }
    }

    /// Follows the port reports of the agent until they end.
    async fn follow_reports(&self, session: &Session) -> SessionEnd {
        let silent = || SessionEnd::Lost("the agent stopped reporting its ports".to_owned());
        let Ok(mut reports) = session.control_request(Method::GET, wire::REPORTS, Bytes::new()).await else {
            return silent();
        };
        let mut rest = BytesMut::new();
        while let Some(Ok(frame)) = reports.frame().await {
            let Ok(data) = frame.into_data() else { return silent() };
            rest.extend_from_slice(&data);
            while let Some(end) = rest.iter().position(|it| *it == b'\n') {
                let line = rest.split_to(end + 1);
                let Ok(report) = serde_json::from_slice::<AgentReport>(&line) else { return silent() };
                if report.leaves {
                    return SessionEnd::Left;
                }
                self.slot.set_ports(self.epoch, report.ports);
            }
            if rest.len() > MAX_CONTROL_BYTES {
                return silent();
            }
        }
        silent()
    }

    /// Notifies an agent that its session is superseded or moves, and drains its requests.
    async fn send_close_notice(&self, session: &Session) {
        let until = Instant::now() + self.gateway.timeouts.drain_timeout;
        if let Some(farewell) = session.close_notice.get() {
            let (path, why) = match farewell {
                CloseNotice::Fenced(why) => (wire::FENCED, why.as_str()),
                CloseNotice::Move => (wire::MOVE, SHUTDOWN_MESSAGE),
            };
            let told = session.control_request(Method::POST, path, Bytes::from(why.to_owned()));
            // An agent that misses the notice gets the reason at its next handshake.
            let _heard = timeout(self.gateway.timeouts.drain_timeout, told).await;
        }
        while Arc::strong_count(&session.request_counter) > 1 && Instant::now() < until {
            sleep(std::time::Duration::from_millis(20)).await;
        }
    }
}

async fn fetch_token(session: &Session) -> Option<String> {
    let answer = session.control_request(Method::GET, wire::TOKEN, Bytes::new()).await.ok()?;
    let text = Limited::new(answer, MAX_CONTROL_BYTES).collect().await.ok()?.to_bytes();
    String::from_utf8(text.to_vec()).ok().filter(|it| !it.is_empty())
}

type H2Client<T> = (SendRequest<Bytes>, Connection<MeteredIo<T>, Bytes>);

async fn h2_handshake<T: TunnelIo>(io: T, line: &Arc<ConnectionHealth>) -> Result<H2Client<T>, h2::Error> {
    h2::client::Builder::new()
        // Until the agent announces its limit: streams above it would be refused.
        .initial_max_send_streams(MAX_CONCURRENT_REQUESTS as usize)
        .initial_window_size(INITIAL_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .max_frame_size(MAX_FRAME_SIZE)
        .max_send_buffer_size(INITIAL_WINDOW as usize * 4)
        .enable_push(false)
        .handshake(MeteredIo::new(io, Arc::clone(line)))
        .await
}

/// Drives a connection; returns why it ended.
async fn drive<T: TunnelIo>(
    mut connection: Connection<MeteredIo<T>, Bytes>,
    line: Arc<ConnectionHealth>,
) -> String {
    loop {
        tokio::select! {
            end = &mut connection => return match end {
                Ok(()) => "the agent closed the connection".to_owned(),
                Err(error) => format!("the connection failed: {error}"),
            },
            window = line.next_window() => {
                // Ignored while an earlier change is not acknowledged; the next measurement tries again.
                let _unacknowledged = connection.set_initial_window_size(window);
            }
        }
    }
}
