//! A gateway, people who may use it, and agents.

use std::{
    collections::HashMap,
    future::Future,
    net::SocketAddr,
    pin::Pin,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt as _, Empty};
use sandbox_router::tunnel::{
    Incoming, Mapping, Times, Workload,
    agent::{Agent, Config, Dial, End, Tcp, Tokens, View},
    gateway::{Authority, Failure, Gateway, Grant, Holder, Phase, Refused},
};
use tokio::{net::TcpListener, sync::watch, task::JoinHandle};
use tokio_util::sync::{CancellationToken, DropGuard};

/// Bounds a hang, and nothing else.
pub(crate) const PATIENCE: Duration = Duration::from_mins(3);

/// The port of the baseline's container in all tests.
pub(crate) const PORT: u16 = 8080;

/// Everything quicker than for people, and slow enough for a busy machine.
pub(crate) fn quick() -> Times {
    Times {
        ping: Duration::from_millis(250),
        // Nobody is taken for dead because the machine is busy; who has to be found dead is tested with `alert`.
        dead: Duration::from_secs(30),
        doubt: Duration::from_secs(30),
        goodbye: Duration::from_secs(30),
        recheck: Duration::from_millis(200),
        // A request that should wait waits until a busy machine is done.
        wait: PATIENCE,
        retry_first: Duration::from_millis(20),
        retry_silent: Duration::from_millis(100),
        retry_last: Duration::from_millis(200),
        probe: Duration::from_millis(50),
        ..Times::default()
    }
}

/// The same, and quick to find somebody dead.
pub(crate) fn alert() -> Times {
    Times { dead: Duration::from_secs(2), doubt: Duration::from_secs(1), ..quick() }
}

pub(crate) fn cart() -> Workload {
    Workload::new("shop", "cart-local")
}

/// Who may do what: by token and workload.
#[derive(Default)]
pub(crate) struct People {
    known: Mutex<HashMap<(String, Workload), Result<Grant, Refused>>>,
    grace: Mutex<Option<Duration>>,
    /// What the other gateways have told.
    pub(crate) told: Mutex<(u64, Option<Holder>)>,
    /// Whether no answer comes yet.
    pub(crate) thinks: watch::Sender<bool>,
    /// How often somebody was asked about.
    pub(crate) asked: AtomicUsize,
}

impl People {
    /// A user whose token is their name may serve the cart.
    pub(crate) fn allow(&self, user: &str) {
        self.allow_to(user, cart());
    }

    pub(crate) fn allow_to(&self, user: &str, workload: Workload) {
        let grace = self.grace.lock().unwrap().unwrap_or(Duration::from_mins(1));
        let (epoch, holder) = self.told.lock().unwrap().clone();
        let grant = Grant { user: user.to_owned(), grace, epoch, holder };
        self.known.lock().unwrap().insert((user.to_owned(), workload), Ok(grant));
    }

    pub(crate) fn refuse(&self, user: &str, refused: Refused) {
        self.known.lock().unwrap().insert((user.to_owned(), cart()), Err(refused));
    }

    pub(crate) fn grace(&self, grace: Duration) {
        *self.grace.lock().unwrap() = Some(grace);
        self.allow("ann");
    }
}

impl Authority for People {
    fn check(
        &self,
        token: String,
        workload: Workload,
    ) -> Pin<Box<dyn Future<Output = Result<Grant, Refused>> + Send>> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        let (known, mut thinks) = (self.known.lock().unwrap(), self.thinks.subscribe());
        let is_somebody = known.keys().any(|it| it.0 == token);
        let found = known.get(&(token, workload)).cloned();
        let unknown = if is_somebody {
            Refused::Forbidden("may not connect to this workload".to_owned())
        } else {
            Refused::Unauthenticated("unknown or expired".to_owned())
        };
        Box::pin(async move {
            let _done = thinks.wait_for(|thinks| !thinks).await;
            found.unwrap_or(Err(unknown))
        })
    }
}

/// A gateway that ann may use.
pub(crate) struct Rig {
    pub(crate) gateway: Arc<Gateway>,
    pub(crate) address: SocketAddr,
    pub(crate) people: Arc<People>,
    pub(crate) times: Times,
    _stop: DropGuard,
}

impl Rig {
    pub(crate) async fn start() -> Self {
        Self::with(quick()).await
    }

    pub(crate) async fn with(times: Times) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let people = Arc::new(People::default());
        people.allow("ann");
        let gateway = Gateway::new(people.clone(), times.clone());
        let address = listener.local_addr().unwrap();
        let stop = CancellationToken::new();
        tokio::spawn(Arc::clone(&gateway).serve(listener, None, stop.clone()));
        Self { gateway, address, people, times, _stop: stop.drop_guard() }
    }

    /// Ann's agent, connected.
    pub(crate) async fn ann(&self, mappings: &[String]) -> Running {
        let agent = Running::start(self.config("ann-1", mappings), "ann", self.address);
        self.until_connected().await;
        agent
    }

    pub(crate) fn config(&self, session: &str, mappings: &[String]) -> Config {
        config(&self.times, session, mappings)
    }

    /// It is connected, and has said a word of its own.
    pub(crate) async fn until_connected(&self) {
        self.until(|it| it.phase == Phase::Connected && !it.ports.is_empty()).await;
    }

    pub(crate) async fn until(
        &self,
        is_so: impl Fn(&sandbox_router::tunnel::gateway::View) -> bool,
    ) -> sandbox_router::tunnel::gateway::View {
        let mut changes = self.gateway.changes();
        let so = async {
            loop {
                if let Some(view) = self.gateway.session(&cart()).filter(|it| is_so(it)) {
                    return view;
                }
                // Figures change without notice.
                let _changed = tokio::time::timeout(Duration::from_millis(20), changes.changed()).await;
            }
        };
        tokio::time::timeout(PATIENCE, so)
            .await
            .unwrap_or_else(|_| panic!("it did not become so: {:?}", self.gateway.session(&cart())))
    }

    pub(crate) async fn get(&self, path: &str) -> Result<Response<Incoming>, Failure> {
        self.gateway.request(&cart(), PORT, get(path)).await
    }

    /// The text of an answer.
    pub(crate) async fn text(&self, path: &str) -> String {
        let body = self.get(path).await.unwrap().into_body().collect().await.unwrap();
        String::from_utf8(body.to_bytes().to_vec()).unwrap()
    }
}

pub(crate) fn config(times: &Times, session: &str, mappings: &[String]) -> Config {
    Config {
        workload: cart(),
        version: "test".to_owned(),
        session: session.to_owned(),
        takeover: false,
        mappings: mappings.iter().map(|it| it.parse::<Mapping>().unwrap()).collect(),
        times: times.clone(),
    }
}

pub(crate) fn get(path: &str) -> Request<Empty<Bytes>> {
    Request::get(format!("http://cart.shop{path}")).body(Empty::new()).unwrap()
}

/// A token that is the name of a user.
pub(crate) struct Name(pub(crate) String);

impl Tokens for Name {
    fn token(&self) -> Pin<Box<dyn Future<Output = Result<String, String>> + Send>> {
        let token = self.0.clone();
        Box::pin(async move { Ok(token) })
    }
}

/// An agent in this process.
pub(crate) struct Running {
    pub(crate) view: watch::Receiver<View>,
    pub(crate) task: JoinHandle<Result<(), End>>,
    pub(crate) stop: CancellationToken,
}

impl Running {
    pub(crate) fn start(config: Config, token: &str, gateway: SocketAddr) -> Self {
        Self::over(config, token, Arc::new(Tcp { address: gateway.to_string() }))
    }

    /// Which goes to gateways in its own way.
    pub(crate) fn over(config: Config, token: &str, dial: Arc<dyn Dial>) -> Self {
        let agent = Agent::new(config, dial, Arc::new(Name(token.to_owned())));
        let (view, stop) = (agent.watch(), CancellationToken::new());
        let task = tokio::spawn({
            let stop = stop.clone();
            async move { agent.run(stop).await }
        });
        Self { view, task, stop }
    }

    /// Why it ended by itself.
    pub(crate) async fn end(&mut self) -> End {
        let ended = tokio::time::timeout(PATIENCE, &mut self.task).await;
        ended.expect("it goes on").unwrap().unwrap_err()
    }

    pub(crate) async fn until(&mut self, is_so: impl Fn(&View) -> bool) -> View {
        let mut view = self.view.clone();
        let so = tokio::time::timeout(PATIENCE, view.wait_for(|it| is_so(it))).await;
        so.unwrap_or_else(|_| panic!("it did not become so: {:?}", self.view.borrow())).unwrap().clone()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.task.abort();
    }
}
