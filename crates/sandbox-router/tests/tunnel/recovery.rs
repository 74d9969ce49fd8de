//! Recovery: traffic resumes soon after the path is back, and requests do not wait for dead sessions.

use std::{
    future::Future,
    io,
    net::SocketAddr,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use nix::sys::signal::Signal;
use sandbox_router::tunnel::{
    BoxIo, TunnelTimeouts, WorkloadName,
    agent::{AgentConfig, AgentState, GatewayDialer},
    gateway::{Gateway, SessionPhase, TunnelError},
};
use tokio::{
    net::{TcpListener, TcpStream},
    task::JoinSet,
};
use tokio_util::sync::CancellationToken;

use super::{
    app::App,
    cuttable_link::CuttableLink,
    harness::{Reserved, eventually},
    process::Process,
    rig::{PATIENCE, PORT, People, Rig, Running, alert, cart, config, get, quick},
};

/// How long laptops sleep and networks are away: short here, as long as in life with `TUNNEL_OUTAGE_SECONDS` (`make
/// soak-sandbox`).
#[expect(clippy::disallowed_methods, reason = "how long is the caller's choice")]
fn outage() -> Duration {
    let seconds = std::env::var("TUNNEL_OUTAGE_SECONDS").ok().and_then(|it| it.parse().ok());
    Duration::from_secs(seconds.unwrap_or(1))
}

/// A request waits until traffic flows again; on an idle machine that is less than two seconds.
async fn flows_again(rig: &Rig) -> Duration {
    let since = Instant::now();
    assert!(rig.text("/hello/x").await.starts_with("cart "), "another application answers");
    since.elapsed()
}

#[tokio::test(flavor = "multi_thread")]
async fn f14_an_agent_that_was_stopped_is_found_dead_and_comes_back_when_it_goes_on() {
    let (rig, app) = (Rig::with(alert()).await, App::start("cart").await);
    rig.people.grace(outage() + Duration::from_mins(2));
    let agent = Process::start(rig.address, &format!("{PORT}={}", app.to_local()));
    rig.until_connected().await;
    assert!(rig.text("/hello/x").await.starts_with("cart "));
    agent.signal(Signal::SIGSTOP);
    let view = rig.until(|it| it.phase == SessionPhase::Reconnecting).await;
    assert_eq!(view.why.as_deref(), Some("no response from the agent"));
    tokio::time::sleep(outage()).await;
    agent.signal(Signal::SIGCONT);
    let took = flows_again(&rig).await;
    println!("after SIGCONT traffic flows again in {took:?}");
    // On a machine that stands still for seconds it is found dead more than once.
    assert!(rig.until(|it| it.phase == SessionPhase::Connected).await.epoch >= 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn f14_an_agent_that_was_killed_is_noticed_at_once_and_a_new_one_takes_its_place() {
    let (rig, app) = (Rig::start().await, App::start("cart").await);
    let agent = Process::start(rig.address, &format!("{PORT}={}", app.to_local()));
    rig.until_connected().await;
    agent.signal(Signal::SIGKILL);
    rig.until(|it| it.phase == SessionPhase::Reconnecting).await;
    let _next = Process::start(rig.address, &format!("{PORT}={}", app.to_local()));
    flows_again(&rig).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn f14_a_network_that_was_cut_is_noticed_on_both_sides_and_used_again_when_it_is_back() {
    let (rig, app) = (Rig::with(alert()).await, App::start("cart").await);
    rig.people.grace(outage() + Duration::from_mins(2));
    let cable = CuttableLink::to(rig.address).await;
    let mappings = [format!("{PORT}={}", app.to_local())];
    let mut agent = Running::start(rig.config("ann-1", &mappings), "ann", cable.address);
    rig.until_connected().await;
    assert!(rig.text("/hello/x").await.starts_with("cart "));
    cable.cut();
    rig.until(|it| it.phase == SessionPhase::Reconnecting).await;
    agent.until(|it| it.state != AgentState::Connected).await;
    tokio::time::sleep(outage()).await;
    cable.mend();
    let took = flows_again(&rig).await;
    println!("after the cut traffic flows again in {took:?}");
    assert!(agent.until(|it| it.state == AgentState::Connected).await.connections >= 2);
}

/// A gateway in its own runtime, which can be killed with all its sockets.
struct KillableGateway {
    gateway: Arc<Gateway>,
    runtime: Option<tokio::runtime::Runtime>,
}

impl KillableGateway {
    async fn start(address: SocketAddr) -> Self {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let people = Arc::new(People::default());
        people.allow("ann");
        let gateway = Gateway::new(people, quick());
        let served = Arc::clone(&gateway);
        let bound = runtime.spawn(async move {
            // The one before it dies in its own time.
            let limit = Instant::now() + PATIENCE;
            let listener = loop {
                match TcpListener::bind(address).await {
                    Err(_) if Instant::now() < limit => tokio::time::sleep(Duration::from_millis(10)).await,
                    bound => break bound.unwrap(),
                }
            };
            tokio::spawn(served.serve(listener, None, CancellationToken::new()));
        });
        bound.await.unwrap();
        Self { gateway, runtime: Some(runtime) }
    }

    async fn answers(&self) -> bool {
        let limit = Instant::now() + PATIENCE;
        while Instant::now() < limit {
            if self.gateway.request(&cart(), PORT, get("/hello/x")).await.is_ok() {
                return true;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        false
    }
}

impl Drop for KillableGateway {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn f14_a_gateway_that_was_killed_is_found_again_and_epochs_go_on() {
    let app = App::start("cart").await;
    let port = Reserved::new();
    let address = port.address();
    let first = KillableGateway::start(address).await;
    let mappings = [format!("{PORT}={}", app.to_local())];
    let mut agent = Running::start(config(&quick(), "ann-1", &mappings), "ann", address);
    assert!(first.answers().await);
    drop(first);
    agent.until(|it| it.state != AgentState::Connected).await;
    tokio::time::sleep(outage()).await;
    let second = KillableGateway::start(address).await;
    assert!(second.answers().await);
    assert_eq!(second.gateway.session(&cart()).unwrap().epoch, 2);
}

fn impatient() -> TunnelTimeouts {
    TunnelTimeouts { session_wait: Duration::from_millis(300), ..quick() }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_waits_for_an_agent_that_is_coming_back_but_not_for_ever() {
    let (rig, app) = (Rig::with(impatient()).await, App::start("cart").await);
    let agent = rig.ann(&[format!("{PORT}={}", app.to_local())]).await;
    drop(agent);
    rig.until(|it| it.phase == SessionPhase::Reconnecting).await;
    let failure = rig.get("/hello/x").await.unwrap_err();
    assert_eq!(failure, TunnelError::Reconnecting);
    assert_eq!(failure.status(), 503);
    assert!(failure.retry_after().is_some());
}

#[tokio::test(flavor = "multi_thread")]
async fn no_more_than_sixty_four_requests_wait() {
    let (rig, app) = (Rig::start().await, App::start("cart").await);
    let mappings = [format!("{PORT}={}", app.to_local())];
    let agent = rig.ann(&mappings).await;
    drop(agent);
    rig.until(|it| it.phase == SessionPhase::Reconnecting).await;
    let mut asked = JoinSet::new();
    for _ in 0..100 {
        let gateway = Arc::clone(&rig.gateway);
        asked.spawn(async move { gateway.request(&cart(), PORT, get("/hello/x")).await.map(drop) });
    }
    for _ in 0..36 {
        assert_eq!(asked.join_next().await.unwrap().unwrap(), Err(TunnelError::Reconnecting));
    }
    let _back = Running::start(rig.config("ann-1", &mappings), "ann", rig.address);
    while let Some(answer) = asked.join_next().await {
        assert_eq!(answer.unwrap(), Ok(()), "one that waited was not served");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn after_the_time_of_grace_nobody_waits() {
    // Distinguishes a waiting request from one that is not.
    let rig = Rig::with(TunnelTimeouts { session_wait: PATIENCE * 100, ..quick() }).await;
    let app = App::start("cart").await;
    rig.people.grace(Duration::from_millis(100));
    let agent = rig.ann(&[format!("{PORT}={}", app.to_local())]).await;
    drop(agent);
    let view = rig.until(|it| it.phase == SessionPhase::Disconnected).await;
    assert!(view.why.is_some());
    let asked = tokio::time::timeout(PATIENCE, rig.get("/hello/x")).await.expect("it waits");
    assert_eq!(asked.unwrap_err(), TunnelError::Disconnected);
}

#[tokio::test(flavor = "multi_thread")]
async fn two_hundred_machines_are_served_by_one_gateway() {
    let (rig, app) = (Rig::start().await, App::start("cart").await);
    let mappings = [format!("{PORT}={}", app.to_local())];
    let workload = |number: usize| WorkloadName::new("shop", &format!("cart-{number}"));
    let mut agents = Vec::new();
    for number in 0..200 {
        rig.people.allow_to("ann", workload(number));
        // Two hundred agents look at one application: once in a while is enough.
        let times = TunnelTimeouts { probe_interval: Duration::from_secs(5), ..quick() };
        let config =
            AgentConfig { workload: workload(number), ..config(&times, &number.to_string(), &mappings) };
        agents.push(Running::start(config, "ann", rig.address));
    }
    for agent in &mut agents {
        agent.until(|it| it.state == AgentState::Connected).await;
    }
    for number in 0..200 {
        let answer = rig.gateway.request(&workload(number), PORT, get("/hello/x")).await.unwrap();
        assert_eq!(answer.status(), 200);
    }
    assert_eq!(rig.gateway.sessions().len(), 200);
}

/// Counts how often an agent tries.
struct CountingDialer {
    address: SocketAddr,
    dialled: AtomicUsize,
}

impl GatewayDialer for CountingDialer {
    fn dial(&self) -> Pin<Box<dyn Future<Output = io::Result<BoxIo>> + Send + '_>> {
        self.dialled.fetch_add(1, Ordering::SeqCst);
        Box::pin(async move { Ok(Box::new(TcpStream::connect(self.address).await?) as BoxIo) })
    }

    fn name(&self) -> String {
        self.address.to_string()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_begins_before_its_gateway_does_and_never_gives_up() {
    let app = App::start("cart").await;
    let port = Reserved::new();
    let address = port.address();
    let mappings = [format!("{PORT}={}", app.to_local())];
    let dial = Arc::new(CountingDialer { address, dialled: AtomicUsize::new(0) });
    let mut agent =
        Running::over(config(&quick(), "ann-1", &mappings), "ann", Arc::<CountingDialer>::clone(&dial));
    agent
        .until(|it| matches!(&it.state, AgentState::Waiting { why, .. } if why.contains("cannot reach")))
        .await;
    let often = || async { dial.dialled.load(Ordering::SeqCst) >= 5 };
    eventually("it has dialled five times", often).await;
    let gateway = KillableGateway::start(address).await;
    assert!(gateway.answers().await);
}
