//! One connection to an agent, from the first frame to the last.

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
        Io, STREAMS,
        body::{Held, Incoming},
        hello::Hello,
        line::{FRAME, Line, WINDOW_ALL, WINDOW_FIRST},
        wire::{self, Report},
        wiretap::Metered,
    },
    ENDS, Gateway, Refused,
    registry::Slot,
};

/// How many requests an agent has at once: some less than it takes, so that what it is asked itself never has to wait.
const ROOM: usize = STREAMS as usize - 6;

/// The longest answer of an agent about itself.
const ANSWER: usize = 64 * 1024;

/// A connection that requests can be sent on.
pub(super) struct Session {
    pub(super) send: SendRequest<Bytes>,
    pub(super) line: Arc<Line>,
    /// Its clones are the requests under way.
    pub(super) ticket: Arc<()>,
    /// For requests; what the gateway asks the agent itself has room beside them.
    pub(super) room: Arc<Semaphore>,
    retired: CancellationToken,
    farewell: OnceLock<Farewell>,
}

/// What an agent is told at the end.
#[derive(Debug)]
pub(super) enum Farewell {
    /// Somebody else has its place, or there is none any more: this is why.
    Fenced(String),
    /// It shall go to another gateway.
    Move,
}

impl Session {
    fn new(send: SendRequest<Bytes>, line: Arc<Line>) -> Self {
        Self {
            send,
            line,
            ticket: Arc::default(),
            room: Arc::new(Semaphore::new(ROOM)),
            retired: CancellationToken::new(),
            farewell: OnceLock::new(),
        }
    }

    /// It gets no more requests. Those under way have a while to finish; the agent is told why, if it has to know.
    pub(super) fn retire(&self, farewell: Option<Farewell>) {
        if let Some(farewell) = farewell {
            self.farewell.get_or_init(|| farewell);
        }
        self.retired.cancel();
    }

    /// Asks the agent itself.
    async fn ask(&self, method: Method, path: &str, body: Bytes) -> Result<Incoming, h2::Error> {
        let mut request = Request::new(());
        *request.method_mut() = method;
        *request.version_mut() = http::Version::HTTP_2;
        // The parts are constants of ours.
        *request.uri_mut() = format!("http://agent{path}").parse().unwrap_or_default();
        let (answer, mut send) = self.send.clone().ready().await?.send_request(request, body.is_empty())?;
        if !body.is_empty() {
            send.send_data(body, true)?;
        }
        Ok(Incoming::new(answer.await?.into_body(), Held::default()))
    }
}

/// Everything one connection needs.
pub(super) struct Visit {
    pub(super) gateway: Arc<Gateway>,
    pub(super) slot: Arc<Slot>,
    pub(super) epoch: u64,
    pub(super) user: String,
    pub(super) hello: Hello,
    pub(super) stop: CancellationToken,
}

/// How a connection ended.
enum End {
    Lost(String),
    Refused(Refused),
    Retired,
    Left,
}

impl Visit {
    /// Serves an agent until it is gone, may not any longer, or another one has its place.
    pub(super) async fn run<T: Io>(self, io: T) {
        let line = Line::new();
        let opened = timeout(self.gateway.times.handshake, open(io, &line)).await;
        let (send, mut connection) = match opened {
            Ok(Ok(opened)) => opened,
            Ok(Err(error)) => return self.slot.lost(self.epoch, &format!("it broke at once: {error}")),
            Err(_) => return self.slot.lost(self.epoch, "it said nothing"),
        };
        let ping = connection.ping_pong();
        let mut driver = AbortOnDropHandle::new(tokio::spawn(drive(connection, Arc::clone(&line))));
        let session = Arc::new(Session::new(send, Arc::clone(&line)));
        if !self.slot.install(self.epoch, Arc::clone(&session)) {
            return;
        }
        // It was let in before the gateway was told to end.
        if self.gateway.retired.is_cancelled() {
            self.slot.send_away(ENDS);
        }
        if self.hello.epoch > 0 {
            self.gateway.registry.reconnected();
        }
        line.measure();
        let pulse = async {
            if let Some(ping) = ping {
                line.pulse(ping, &self.gateway.times).await;
            }
        };
        let end = tokio::select! {
            why = &mut driver => End::Lost(why.unwrap_or_else(|error| error.to_string())),
            () = pulse => End::Lost("nothing was heard of it".to_owned()),
            refused = self.recheck(&session) => End::Refused(refused),
            end = self.follow(&session) => end,
            () = session.retired.cancelled() => {
                self.farewell(&session).await;
                End::Retired
            }
            () = self.stop.cancelled() => End::Lost("the gateway ends".to_owned()),
        };
        self.ended(end);
    }

    fn ended(&self, end: End) {
        match end {
            End::Lost(why) => self.slot.lost(self.epoch, &why),
            // It may knock again, with a better token.
            End::Refused(why) => self.slot.revoke(self.epoch, &why.to_string()),
            End::Left => self.slot.revoke(self.epoch, &format!("{} left", self.user)),
            End::Retired => {}
        }
    }

    /// Asks again and again whether the user may, with the newest token the agent has.
    async fn recheck(&self, session: &Session) -> Refused {
        let (every, patience) = (self.gateway.times.recheck, self.gateway.times.handshake);
        let mut token = self.hello.token.clone();
        let mut pause = every;
        loop {
            sleep(pause).await;
            if let Ok(Some(newer)) = timeout(patience, newest_token(session)).await {
                token = newer;
            }
            let asked = self.gateway.authority.check(token.clone(), self.hello.workload.clone());
            pause = match timeout(patience, asked).await {
                Ok(Ok(grant)) if grant.user == self.user => {
                    self.slot.set_grace(self.epoch, grant.grace);
                    every
                }
                Ok(Ok(grant)) => {
                    return Refused::Forbidden(format!("the token is now that of {}", grant.user));
                }
                // Who was right ten minutes ago is not thrown out because nobody can be asked.
                Ok(Err(Refused::Unknown(_))) | Err(_) => every / 10,
                Ok(Err(refused)) => return refused,
            };
        }
    }

    /// Follows what the agent says of its ports, until it says no more.
    async fn follow(&self, session: &Session) -> End {
        let silent = || End::Lost("it no longer tells of its ports".to_owned());
        let Ok(mut reports) = session.ask(Method::GET, wire::REPORTS, Bytes::new()).await else {
            return silent();
        };
        let mut rest = BytesMut::new();
        while let Some(Ok(frame)) = reports.frame().await {
            let Ok(data) = frame.into_data() else { return silent() };
            rest.extend_from_slice(&data);
            while let Some(end) = rest.iter().position(|it| *it == b'\n') {
                let line = rest.split_to(end + 1);
                let Ok(report) = serde_json::from_slice::<Report>(&line) else { return silent() };
                if report.leaves {
                    return End::Left;
                }
                self.slot.set_ports(self.epoch, report.ports);
            }
            if rest.len() > ANSWER {
                return silent();
            }
        }
        silent()
    }

    /// Tells an agent that its place is taken, or is elsewhere now, and lets its requests finish.
    async fn farewell(&self, session: &Session) {
        let until = Instant::now() + self.gateway.times.drain;
        if let Some(farewell) = session.farewell.get() {
            let (path, why) = match farewell {
                Farewell::Fenced(why) => (wire::FENCED, why.as_str()),
                Farewell::Move => (wire::MOVE, ENDS),
            };
            let told = session.ask(Method::POST, path, Bytes::from(why.to_owned()));
            // One that does not hear it will be told when it knocks again.
            let _heard = timeout(self.gateway.times.drain, told).await;
        }
        while Arc::strong_count(&session.ticket) > 1 && Instant::now() < until {
            sleep(std::time::Duration::from_millis(20)).await;
        }
    }
}

async fn newest_token(session: &Session) -> Option<String> {
    let answer = session.ask(Method::GET, wire::TOKEN, Bytes::new()).await.ok()?;
    let text = Limited::new(answer, ANSWER).collect().await.ok()?.to_bytes();
    String::from_utf8(text.to_vec()).ok().filter(|it| !it.is_empty())
}

type Opened<T> = (SendRequest<Bytes>, Connection<Metered<T>, Bytes>);

async fn open<T: Io>(io: T, line: &Arc<Line>) -> Result<Opened<T>, h2::Error> {
    h2::client::Builder::new()
        // Until the agent has said so itself: what is more than it serves at once would be refused.
        .initial_max_send_streams(STREAMS as usize)
        .initial_window_size(WINDOW_FIRST)
        .initial_connection_window_size(WINDOW_ALL)
        .max_frame_size(FRAME)
        .max_send_buffer_size(WINDOW_FIRST as usize * 4)
        .enable_push(false)
        .handshake(Metered::new(io, Arc::clone(line)))
        .await
}

/// Moves the frames of a connection; says why it ended.
async fn drive<T: Io>(mut connection: Connection<Metered<T>, Bytes>, line: Arc<Line>) -> String {
    loop {
        tokio::select! {
            end = &mut connection => return match end {
                Ok(()) => "the agent closed it".to_owned(),
                Err(error) => format!("it broke: {error}"),
            },
            window = line.wider() => {
                // While an earlier change is not acknowledged there is no other; the next measurement asks again.
                let _unacknowledged = connection.set_initial_window_size(window);
            }
        }
    }
}
