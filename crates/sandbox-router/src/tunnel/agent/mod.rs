//! The agent: on the developer's machine, it dials out and stays connected.
//!
//! It never gives up on its own: what it is doing is in [`Agent::watch`] for whoever shows it. It dials what it was given
//! when it was made, and nothing that anybody says later.

mod awake;
mod backoff;
mod connect;
mod dial;
mod forward;
mod local;
mod probe;

use std::{
    future::Future,
    pin::Pin,
    sync::Arc,
    time::{Duration, Instant},
};

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use self::{
    awake::Awake,
    backoff::Backoff,
    connect::{Ended, Visit},
    local::Locals,
};
pub use self::{
    dial::{Dial, Refusal, Tcp, Tls, is_distrust},
    forward::innermost,
};
use super::{BoxIo, Mapping, PortReport, Times, Workload};

/// Where tokens come from. It is asked for every connection: those of clouds live for minutes.
pub trait Tokens: Send + Sync + 'static {
    /// The newest token.
    fn token(&self) -> Pin<Box<dyn Future<Output = Result<String, String>> + Send>>;
}

/// What an agent is made of.
pub struct Config {
    /// Which workload it serves.
    pub workload: Workload,
    /// What it says it is.
    pub version: String,
    /// Names this process; two agents never have the same.
    pub session: String,
    /// Whether it takes the workload from another user.
    pub takeover: bool,
    /// What it dials, and nothing else.
    pub mappings: Vec<Mapping>,
    /// How long everything takes.
    pub times: Times,
}

/// What an agent is doing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum State {
    /// It knocks.
    Connecting,
    /// It serves requests.
    Connected,
    /// It knocks again soon.
    Waiting {
        /// Why it is not connected.
        why: String,
        /// How long it waits.
        pause: Duration,
    },
}

/// Everything that can be shown of an agent.
#[derive(Debug, Clone)]
pub struct View {
    /// What it is doing.
    pub state: State,
    /// Since when.
    pub since: Instant,
    /// Who it is, by the gateway.
    pub user: Option<String>,
    /// Its epoch.
    pub epoch: u64,
    /// How often it has been connected.
    pub connections: u64,
    /// Requests it has served.
    pub requests: u64,
    /// How long the last PING took.
    pub rtt: Option<Duration>,
    /// Its ports.
    pub ports: Vec<PortReport>,
}

/// Why an agent ended by itself.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum End {
    /// It was never let in, and trying again will not help.
    #[error("{0}")]
    Refused(String),
    /// Somebody else has its place, or the workload is gone.
    #[error("{0}")]
    Fenced(String),
}

/// One tunnel, from this machine to one gateway.
pub struct Agent {
    config: Config,
    dial: Arc<dyn Dial>,
    tokens: Arc<dyn Tokens>,
    locals: Arc<Locals>,
    view: watch::Sender<View>,
}

impl Agent {
    /// An agent that has done nothing yet.
    pub fn new(config: Config, dial: Arc<dyn Dial>, tokens: Arc<dyn Tokens>) -> Self {
        let locals = Arc::new(Locals::new(&config.mappings, &config.times));
        let view = watch::Sender::new(View {
            state: State::Connecting,
            since: Instant::now(),
            user: None,
            epoch: 0,
            connections: 0,
            requests: 0,
            rtt: None,
            ports: locals.reports(),
        });
        Self { config, dial, tokens, locals, view }
    }

    /// What it does, now and later.
    pub fn watch(&self) -> watch::Receiver<View> {
        self.view.subscribe()
    }

    /// Serves until `stop`, or until there is no sense in going on.
    pub async fn run(&self, stop: CancellationToken) -> Result<(), End> {
        let awake = Awake::new();
        tokio::select! {
            end = self.stay(&awake, &stop) => end,
            () = self.locals.probe(&self.view, self.config.times.probe) => Ok(()),
            () = awake.watch() => Ok(()),
        }
    }

    /// Connects, serves, and connects again.
    async fn stay(&self, awake: &Awake, stop: &CancellationToken) -> Result<(), End> {
        let times = &self.config.times;
        let mut backoff = Backoff::new(times);
        loop {
            self.enter(State::Connecting);
            let visit = Visit { agent: self, awake, stop };
            let ended = Box::pin(visit.run()).await;
            if stop.is_cancelled() {
                return Ok(());
            }
            let why = match ended {
                Ended::Left => return Ok(()),
                Ended::Fenced(why) => return Err(End::Fenced(why)),
                Ended::Refused(why) if !self.was_connected() => return Err(End::Refused(why)),
                Ended::Refused(why) | Ended::Answered(why) => {
                    backoff.answered();
                    why
                }
                Ended::Silent(why) => {
                    backoff.silent();
                    why
                }
                Ended::Lost(why) => {
                    backoff.reset();
                    why
                }
            };
            let pause = backoff.pause();
            self.enter(State::Waiting { why, pause });
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                () = awake.woke() => backoff.reset(),
                // The gateway expects us back: one more visit tells it not to.
                () = stop.cancelled() => if !self.was_connected() { return Ok(()) },
            }
        }
    }

    /// Whether a gateway ever let it in.
    fn was_connected(&self) -> bool {
        self.view.borrow().epoch > 0
    }

    fn enter(&self, state: State) {
        self.view.send_modify(|view| {
            view.state = state;
            view.since = Instant::now();
            view.rtt = None;
        });
    }
}
