//! One connection of the agent: it knocks as a client, and then it is the server.

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
        BoxIo, STREAMS,
        hello::Hello,
        line::{FRAME, Line, WINDOW_ALL, WINDOW_FIRST},
        wire,
        wiretap::Metered,
    },
    Agent, State,
    awake::Awake,
    dial::{first, is_final},
    forward::{Forward, Internal, Last, innermost},
};

/// How much of a refusal is read.
const REFUSAL: usize = 4096;

/// How an attempt ended.
#[derive(Debug)]
pub(super) enum Ended {
    /// Nobody answered.
    Silent(String),
    /// The gateway answered, and cannot now.
    Answered(String),
    /// The gateway answered no.
    Refused(String),
    /// Somebody else has our place.
    Fenced(String),
    /// It was connected, and is not any longer.
    Lost(String),
    /// It was told to.
    Left,
}

/// One attempt.
pub(super) struct Visit<'a> {
    pub(super) agent: &'a Agent,
    pub(super) awake: &'a Awake,
    pub(super) stop: &'a CancellationToken,
}

impl Visit<'_> {
    /// Knocks, and serves for as long as it can, or until it was told to end and has said so.
    pub(super) async fn run(self) -> Ended {
        tokio::select! {
            ended = self.attempt() => ended,
            () = self.overdue() => Ended::Left,
        }
    }

    /// Who is told to end has this long to tell the gateway.
    async fn overdue(&self) {
        self.stop.cancelled().await;
        tokio::time::sleep(self.agent.config.times.goodbye).await;
    }

    async fn attempt(&self) -> Ended {
        let reached = tokio::select! {
            reached = self.reach() => reached,
            // Nobody knows of us, so nobody has to hear that we leave.
            () = self.stop.cancelled(), if !self.agent.was_connected() => return Ended::Left,
        };
        // From the hello on the gateway may hold the place for us: who is told to end now goes in, and leaves as always.
        let let_in = match reached {
            Ok((token, io)) => self.knock(token, io).await,
            Err(ended) => Err(ended),
        };
        match let_in {
            Ok((io, headers)) => self.serve(io, &headers).await,
            Err(ended) => ended,
        }
    }

    /// A token, and a connection on which nothing was said yet.
    async fn reach(&self) -> Result<(String, BoxIo), Ended> {
        let (times, gateway) = (&self.agent.config.times, self.agent.dial.name());
        let token = match timeout(times.handshake, self.agent.tokens.token()).await {
            Ok(Ok(token)) => token,
            Ok(Err(why)) => return Err(Ended::Answered(format!("no token: {why}"))),
            Err(_) => return Err(Ended::Answered("no token came in time".to_owned())),
        };
        match timeout(times.dial, first(self.agent.dial.as_ref(), times.redial)).await {
            Ok(Ok(io)) => Ok((token, io)),
            // Nothing was said to it, the token least of all.
            Ok(Err(error)) if is_final(&error) => Err(Ended::Refused(error.to_string())),
            Ok(Err(error)) => Err(Ended::Silent(format!("cannot reach {gateway}: {error}"))),
            Err(_) => Err(Ended::Silent(format!("{gateway} does not answer"))),
        }
    }

    async fn knock(&self, token: String, io: BoxIo) -> Result<(TokioIo<Upgraded>, HeaderMap), Ended> {
        let gateway = self.agent.dial.name();
        timeout(self.agent.config.times.handshake, knock(&self.hello(token), &gateway, io))
            .await
            .unwrap_or_else(|_| Err(Ended::Silent(format!("{gateway} says nothing"))))
    }

    fn hello(&self, token: String) -> Hello {
        let config = &self.agent.config;
        let epoch = self.agent.view.borrow().epoch;
        Hello {
            workload: config.workload.clone(),
            token,
            session: config.session.clone(),
            epoch,
            version: config.version.clone(),
            // Once is enough: who took it from us afterwards has it.
            takeover: config.takeover && epoch == 0,
            mappings: config.mappings.clone(),
        }
    }

    async fn serve(&self, io: TokioIo<Upgraded>, headers: &HeaderMap) -> Ended {
        let times = &self.agent.config.times;
        let line = Line::new();
        let mut connection = match timeout(times.handshake, open(io, &line)).await {
            Ok(Ok(connection)) => connection,
            Ok(Err(error)) => return Ended::Silent(format!("the connection broke at once: {error}")),
            Err(_) => return Ended::Silent("the router said no more".to_owned()),
        };
        self.connected(headers);
        let ping = connection.ping_pong();
        let (forward, Last { fenced, moved }) = self.forward();
        let mut driver = AbortOnDropHandle::new(tokio::spawn(drive(connection, Arc::clone(&line), forward)));
        line.measure();
        let pulse = async {
            if let Some(ping) = ping {
                line.pulse(ping, times).await;
            }
        };
        tokio::select! {
            // What the gateway said before it hung up counts, however late it is heard.
            biased;
            Ok(why) = fenced => {
                // What is under way may be finished; the gateway hangs up when it is.
                let _hung_up = timeout(times.drain, &mut driver).await;
                Ended::Fenced(why)
            }
            () = moved.cancelled() => {
                // Beside the next connection. The gateway hangs up when nothing is under way any more.
                tokio::spawn(timeout(times.drain, driver));
                Ended::Lost("the router ends".to_owned())
            }
            why = &mut driver => Ended::Lost(why.unwrap_or_else(|error| error.to_string())),
            () = pulse => Ended::Lost("nothing was heard of the router".to_owned()),
            () = self.stop.cancelled() => {
                // The gateway hears it, and hangs up; `overdue` is how long that may take.
                let _hung_up = (&mut driver).await;
                Ended::Left
            }
            () = self.show(&line) => Ended::Lost("nobody looks any more".to_owned()),
            () = self.doubt(&line) => Ended::Lost("nobody looks any more".to_owned()),
        }
    }

    /// Where requests go, and where the last words of the gateway are heard.
    fn forward(&self) -> (Forward, Last) {
        let (tokens, stop) = (Arc::clone(&self.agent.tokens), self.stop.clone());
        let (internal, last) = Internal::new(tokens, &self.agent.locals, stop);
        (Forward { locals: Arc::clone(&self.agent.locals), internal: Arc::new(internal) }, last)
    }

    fn connected(&self, headers: &HeaderMap) {
        let text = |name| headers.get(name).and_then(|it| it.to_str().ok());
        self.agent.view.send_modify(|view| {
            view.state = State::Connected;
            view.since = Instant::now();
            view.connections += 1;
            view.epoch = text(wire::EPOCH).and_then(|it| it.parse().ok()).unwrap_or(view.epoch + 1);
            view.user = text(wire::USER).map(str::to_owned);
        });
    }

    /// Keeps the figures current, without end.
    async fn show(&self, line: &Line) {
        loop {
            tokio::time::sleep(self.agent.config.times.probe / 2).await;
            let (rtt, requests) = (line.rtt(), self.agent.locals.requests());
            self.agent.view.send_if_modified(|view| {
                let is_news = view.rtt != rtt || view.requests != requests;
                (view.rtt, view.requests) = (rtt, requests);
                is_news
            });
        }
    }

    /// After a sleep the connection has to prove that it lives, without end.
    async fn doubt(&self, line: &Line) {
        loop {
            self.awake.woke().await;
            line.doubt();
        }
    }
}

/// Says who we are. The connection and what the gateway says of us, or how it ended.
async fn knock(hello: &Hello, host: &str, io: BoxIo) -> Result<(TokioIo<Upgraded>, HeaderMap), Ended> {
    let broke = |error: hyper::Error| Ended::Silent(format!("{host} broke off: {}", innermost(&error)));
    let (mut send, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(io)).await.map_err(broke)?;
    let _driver = AbortOnDropHandle::new(tokio::spawn(connection.with_upgrades()));
    let request = hello
        .request(host)
        .map_err(|error| Ended::Refused(format!("the token or the name cannot be sent: {error}")))?;
    let answer = send.send_request(request).await.map_err(broke)?;
    let (status, headers) = (answer.status(), answer.headers().clone());
    if status == StatusCode::SWITCHING_PROTOCOLS {
        let io = hyper::upgrade::on(answer).await.map_err(broke)?;
        return Ok((TokioIo::new(io), headers));
    }
    Err(refusal(status, answer).await)
}

async fn refusal(status: StatusCode, answer: Response<hyper::body::Incoming>) -> Ended {
    let text = Limited::new(answer.into_body(), REFUSAL).collect().await;
    let text = text.map(|it| String::from_utf8_lossy(&it.to_bytes()).into_owned()).unwrap_or_default();
    let text = if text.is_empty() { format!("the router answers {status}") } else { text };
    match status {
        StatusCode::CONFLICT => Ended::Fenced(text),
        StatusCode::UNAUTHORIZED
        | StatusCode::FORBIDDEN
        | StatusCode::NOT_FOUND
        | StatusCode::BAD_REQUEST => Ended::Refused(text),
        _ => Ended::Answered(text),
    }
}

type Served = Connection<Metered<TokioIo<Upgraded>>, Bytes>;

async fn open(io: TokioIo<Upgraded>, line: &Arc<Line>) -> Result<Served, h2::Error> {
    h2::server::Builder::new()
        .initial_window_size(WINDOW_FIRST)
        .initial_connection_window_size(WINDOW_ALL)
        .max_frame_size(FRAME)
        .max_send_buffer_size(WINDOW_FIRST as usize * 4)
        .max_concurrent_streams(STREAMS)
        // Callers who go away early are no attack: the gateway is whom we dialled.
        .max_pending_accept_reset_streams(STREAMS as usize)
        .handshake(Metered::new(io, Arc::clone(line)))
        .await
}

/// Moves frames and begins every request that comes; says why it ended. Requests end with it.
async fn drive(mut connection: Served, line: Arc<Line>, forward: Forward) -> String {
    let mut tasks = JoinSet::new();
    loop {
        tokio::select! {
            request = connection.accept() => match request {
                Some(Ok((request, respond))) => {
                    let forward = forward.clone();
                    tasks.spawn(async move { forward.serve(request, respond).await });
                }
                Some(Err(error)) => return format!("the connection broke: {error}"),
                None => return "the connection was closed".to_owned(),
            },
            window = line.wider() => {
                // While an earlier change is not acknowledged there is no other; the next measurement asks again.
                let _unacknowledged = connection.set_initial_window_size(window);
            }
            Some(_) = tasks.join_next() => {}
        }
    }
}
