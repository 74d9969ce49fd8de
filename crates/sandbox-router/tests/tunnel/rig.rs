//! Test harness: a gateway, its users, and agents.

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
    LocalMapping, TunnelBody, TunnelTimeouts, WorkloadName,
    agent::{Agent, AgentConfig, AgentError, AgentStatus, GatewayDialer, TcpDialer, TokenSource},
    gateway::{AuthorizeError, Authorizer, Gateway, SessionGrant, SessionHolder, SessionPhase, TunnelError},
};
use tokio::{net::TcpListener, sync::watch, task::JoinHandle};
use tokio_util::sync::{CancellationToken, DropGuard};

/// Bounds a hang, and nothing else.
pub(crate) const PATIENCE: Duration = Duration::from_mins(3);

/// The port of the baseline's container in all tests.
pub(crate) const PORT: u16 = 8080;

/// Everything quicker than for people, and slow enough for a busy machine.
pub(crate) fn quick() -> TunnelTimeouts {
    TunnelTimeouts {
        ping_interval: Duration::from_millis(250),
        // Long enough for a busy machine; dead connections are tested with `alert`.
        dead_after: Duration::from_secs(30),
        suspect_timeout: Duration::from_secs(30),
        goodbye_timeout: Duration::from_secs(30),
        reauthorize_interval: Duration::from_millis(200),
        // A request that should wait waits until a busy machine is done.
        session_wait: PATIENCE,
        backoff_initial: Duration::from_millis(20),
        backoff_max_unreachable: Duration::from_millis(100),
        backoff_max_refused: Duration::from_millis(200),
        probe_interval: Duration::from_millis(50),
        ..TunnelTimeouts::default()
    }
}

/// The same with short liveness timeouts.
pub(crate) fn alert() -> TunnelTimeouts {
    TunnelTimeouts { dead_after: Duration::from_secs(2), suspect_timeout: Duration::from_secs(1), ..quick() }
}

pub(crate) fn cart() -> WorkloadName {
    WorkloadName::new("shop", "cart-local")
}

/// Who may do what: by token and workload.
#[derive(Default)]
pub(crate) struct People {
    known: Mutex<HashMap<(String, WorkloadName), Result<SessionGrant, AuthorizeError>>>,
    grace: Mutex<Option<Duration>>,
    /// What the other gateways have told.
    pub(crate) told: Mutex<(u64, Option<SessionHolder>)>,
    /// Whether no answer comes yet.
    pub(crate) thinks: watch::Sender<bool>,
    /// Number of authorization checks.
    pub(crate) asked: AtomicUsize,
}

impl People {
    /// A user whose token is their name may serve the cart.
    pub(crate) fn allow(&self, user: &str) {
        self.allow_to(user, cart());
    }

    pub(crate) fn allow_to(&self, user: &str, workload: WorkloadName) {
        let grace = self.grace.lock().unwrap().unwrap_or(Duration::from_mins(1));
        let (epoch, holder) = self.told.lock().unwrap().clone();
        let grant = SessionGrant { user: user.to_owned(), grace, epoch, holder };
        self.known.lock().unwrap().insert((user.to_owned(), workload), Ok(grant));
    }

    pub(crate) fn refuse(&self, user: &str, refused: AuthorizeError) {
        self.known.lock().unwrap().insert((user.to_owned(), cart()), Err(refused));
    }

    pub(crate) fn grace(&self, grace: Duration) {
        *self.grace.lock().unwrap() = Some(grace);
        self.allow("ann");
    }
}

impl Authorizer for People {
    fn authorize(
        &self,
        token: String,
        workload: WorkloadName,
    ) -> Pin<Box<dyn Future<Output = Result<SessionGrant, AuthorizeError>> + Send>> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        let (known, mut thinks) = (self.known.lock().unwrap(), self.thinks.subscribe());
        let is_somebody = known.keys().any(|it| it.0 == token);
        let found = known.get(&(token, workload)).cloned();
        let unknown = if is_somebody {
            AuthorizeError::Forbidden("may not connect to this workload".to_owned())
        } else {
            AuthorizeError::Unauthenticated("unknown or expired".to_owned())
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
    pub(crate) times: TunnelTimeouts,
    _stop: DropGuard,
}

impl Rig {
    pub(crate) async fn start() -> Self {
        Self::with(quick()).await
    }

    pub(crate) async fn with(times: TunnelTimeouts) -> Self {
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

    pub(crate) fn config(&self, session: &str, mappings: &[String]) -> AgentConfig {
        config(&self.times, session, mappings)
    }

    /// It is connected, and has said a word of its own.
    pub(crate) async fn until_connected(&self) {
        self.until(|it| it.phase == SessionPhase::Connected && !it.ports.is_empty()).await;
    }

    pub(crate) async fn until(
        &self,
        is_so: impl Fn(&sandbox_router::tunnel::gateway::SessionStatus) -> bool,
    ) -> sandbox_router::tunnel::gateway::SessionStatus {
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

    pub(crate) async fn get(&self, path: &str) -> Result<Response<TunnelBody>, TunnelError> {
        self.gateway.request(&cart(), PORT, get(path)).await
    }

    /// The text of an answer.
    pub(crate) async fn text(&self, path: &str) -> String {
        let body = self.get(path).await.unwrap().into_body().collect().await.unwrap();
        String::from_utf8(body.to_bytes().to_vec()).unwrap()
    }
}

pub(crate) fn config(times: &TunnelTimeouts, session: &str, mappings: &[String]) -> AgentConfig {
    AgentConfig {
        workload: cart(),
        version: "test".to_owned(),
        session: session.to_owned(),
        takeover: false,
        mappings: mappings.iter().map(|it| it.parse::<LocalMapping>().unwrap()).collect(),
        times: times.clone(),
    }
}

pub(crate) fn get(path: &str) -> Request<Empty<Bytes>> {
    Request::get(format!("http://cart.shop{path}")).body(Empty::new()).unwrap()
}

/// A token that is the name of a user.
pub(crate) struct Name(pub(crate) String);

impl TokenSource for Name {
    fn token(&self) -> Pin<Box<dyn Future<Output = Result<String, String>> + Send>> {
        let token = self.0.clone();
        Box::pin(async move { Ok(token) })
    }
}

/// An agent in this process.
pub(crate) struct Running {
    pub(crate) view: watch::Receiver<AgentStatus>,
    pub(crate) task: JoinHandle<Result<(), AgentError>>,
    pub(crate) stop: CancellationToken,
}

impl Running {
    pub(crate) fn start(config: AgentConfig, token: &str, gateway: SocketAddr) -> Self {
        Self::over(config, token, Arc::new(TcpDialer { address: gateway.to_string() }))
    }

    /// Which goes to gateways in its own way.
    pub(crate) fn over(config: AgentConfig, token: &str, dial: Arc<dyn GatewayDialer>) -> Self {
        let agent = Agent::new(config, dial, Arc::new(Name(token.to_owned())));
        let (view, stop) = (agent.watch(), CancellationToken::new());
        let task = tokio::spawn({
            let stop = stop.clone();
            async move { agent.run(stop).await }
        });
        Self { view, task, stop }
    }

    /// Why it ended by itself.
    pub(crate) async fn end(&mut self) -> AgentError {
        let ended = tokio::time::timeout(PATIENCE, &mut self.task).await;
        ended.expect("it goes on").unwrap().unwrap_err()
    }

    pub(crate) async fn until(&mut self, is_so: impl Fn(&AgentStatus) -> bool) -> AgentStatus {
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
