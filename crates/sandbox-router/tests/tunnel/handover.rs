//! Gateway shutdown and restart: agents move from one gateway to another.

use std::{
    future::Future,
    io,
    net::SocketAddr,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, SystemTime},
};

use sandbox_router::tunnel::{
    BoxIo, TunnelTimeouts,
    agent::{AgentError, AgentState, GatewayDialer},
    gateway::{ExpectedSession, SessionHolder, SessionPhase, TunnelError},
};
use tokio::net::TcpStream;

use super::{
    app::{App, MIB, count},
    rig::{PORT, Rig, Running, cart, quick},
};

/// Another gateway every time.
struct AlternatingDialer {
    gateways: [SocketAddr; 2],
    turn: AtomicUsize,
}

impl AlternatingDialer {
    fn new(gateways: [SocketAddr; 2]) -> Arc<Self> {
        Arc::new(Self { gateways, turn: AtomicUsize::new(0) })
    }
}

impl GatewayDialer for AlternatingDialer {
    fn dial(&self) -> Pin<Box<dyn Future<Output = io::Result<BoxIo>> + Send + '_>> {
        let to = self.gateways[self.turn.fetch_add(1, Ordering::SeqCst) % 2];
        Box::pin(async move { Ok(Box::new(TcpStream::connect(to).await?) as BoxIo) })
    }

    fn name(&self) -> String {
        "one of two".to_owned()
    }
}

/// What is under way may take as long as a busy machine takes.
async fn patient() -> Rig {
    Rig::with(TunnelTimeouts { drain_timeout: Duration::from_mins(1), ..quick() }).await
}

#[tokio::test(flavor = "multi_thread")]
async fn f14_a_gateway_that_ends_sends_its_agents_to_another_one_and_finishes_what_is_under_way() {
    let (first, second, app) = (patient().await, patient().await, App::start("cart").await);
    let mappings = [format!("{PORT}={}", app.to_local())];
    let dial = AlternatingDialer::new([first.address, second.address]);
    let mut agent = Running::over(first.config("ann-1", &mappings), "ann", dial);
    first.until_connected().await;
    let under_way = first.get("/big/8").await.unwrap();
    first.gateway.retire();
    assert_eq!(
        first.gateway.session(&cart()).unwrap().phase,
        SessionPhase::Reconnecting,
        "it is expected elsewhere"
    );
    second.until_connected().await;
    assert!(second.text("/hello/x").await.starts_with("cart"));
    assert_eq!(agent.until(|it| it.state == AgentState::Connected).await.epoch, 2);
    assert_eq!(count(under_way.into_body()).await, 8 * MIB);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gateway_that_ends_lets_nobody_in() {
    let rig = Rig::start().await;
    rig.gateway.retire();
    let mut agent = Running::start(rig.config("ann-1", &[format!("{PORT}=1")]), "ann", rig.address);
    agent
        .until(|it| matches!(&it.state, AgentState::Waiting { why, .. } if why.contains("another one")))
        .await;
    assert!(rig.gateway.session(&cart()).is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_that_waits_for_an_agent_hears_that_it_is_elsewhere_now() {
    let (rig, app) = (Rig::start().await, App::start("cart").await);
    let agent = rig.ann(&[format!("{PORT}={}", app.to_local())]).await;
    drop(agent);
    rig.until(|it| it.phase == SessionPhase::Reconnecting).await;
    let moves = async {
        tokio::task::yield_now().await;
        rig.gateway.fence_session(&cart(), 1, "ann went on at another router");
    };
    let (asked, ()) = tokio::join!(rig.get("/hello/x"), moves);
    assert_eq!(asked.unwrap_err(), TunnelError::Moved);
    assert_eq!(rig.get("/hello/x").await.unwrap_err(), TunnelError::Moved, "until she is back");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gateway_that_was_started_anew_waits_for_whom_it_had() {
    let (rig, app) = (Rig::start().await, App::start("cart").await);
    let expected = ExpectedSession {
        workload: cart(),
        holder: SessionHolder { session: "ann-1".to_owned(), user: "ann".to_owned() },
        agent_version: "test".to_owned(),
        epoch: 4,
        since: SystemTime::UNIX_EPOCH,
        grace: Duration::from_mins(1),
    };
    rig.gateway.expect_session(&expected);
    rig.people.allow("bob");
    let mappings = [format!("{PORT}={}", app.to_local())];
    let mut bob = Running::start(rig.config("bob-1", &mappings), "bob", rig.address);
    assert!(matches!(bob.end().await, AgentError::Fenced(why) if why.contains("ann is connected")));
    let comes_back = async {
        tokio::task::yield_now().await;
        Running::start(rig.config("ann-1", &mappings), "ann", rig.address)
    };
    let (asked, _ann) = tokio::join!(rig.text("/hello/x"), comes_back);
    assert!(asked.starts_with("cart"), "{asked}");
    assert_eq!(rig.gateway.session(&cart()).unwrap().epoch, 5);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gateway_that_was_started_anew_does_not_wait_for_ever() {
    let rig = Rig::start().await;
    rig.gateway.expect_session(&ExpectedSession {
        workload: cart(),
        holder: SessionHolder { session: "ann-1".to_owned(), user: "ann".to_owned() },
        agent_version: "test".to_owned(),
        epoch: 4,
        since: SystemTime::UNIX_EPOCH,
        grace: Duration::from_millis(100),
    });
    rig.until(|it| it.phase == SessionPhase::Disconnected).await;
    assert_eq!(rig.get("/hello/x").await.unwrap_err(), TunnelError::Disconnected);
}
