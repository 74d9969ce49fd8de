//! Two routers, as in `deploy/router`: sessions of one are known to the other, and agents move there when a router stops.

use std::{net::SocketAddr, time::Instant};

use nix::sys::signal::Signal;
use tokio::{
    io::copy_bidirectional,
    net::{TcpListener, TcpStream},
    sync::watch,
};

use super::{
    capt_process::CaptProcess,
    end_to_end::{KEY, LOCAL, RouterHarness, request, start_router, wait_for_answer_from},
    harness::start_app,
    network::{in_own_network, ports},
};

/// The response after the wait for a reconnecting agent.
const RECONNECTING: &str = "503 local/shop/cart-local reconnecting";

/// A TCP proxy for the tunnel whose target router can be switched.
struct SwitchableProxy {
    address: SocketAddr,
    target: watch::Sender<SocketAddr>,
}

impl SwitchableProxy {
    async fn start(first: SocketAddr) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let to = watch::Sender::new(first);
        let leads = to.subscribe();
        tokio::spawn(async move {
            loop {
                let (mut near, _) = listener.accept().await.unwrap();
                let to = *leads.borrow();
                tokio::spawn(async move {
                    if let Ok(mut far) = TcpStream::connect(to).await {
                        let _ended = copy_bidirectional(&mut near, &mut far).await;
                    }
                });
            }
        });
        Self { address, target: to }
    }
}

/// The second router: itself, where it serves the service, and its tunnel.
async fn start_second_router(whole: &RouterHarness) -> (CaptProcess, SocketAddr, SocketAddr) {
    let at = |port: u16| SocketAddr::from(([127, 0, 0, 2], port));
    let [_, front, admin, tunnel] = ports(1).map(|it| at(it.port()));
    let service = at(whole.service.port());
    let other = start_router(&whole.cluster, "router-1", [front, admin, tunnel]);
    wait_for_answer_from(service, None, "200 baseline baseline").await;
    (other, service, tunnel)
}

#[tokio::test(flavor = "multi_thread")]
async fn f14_a_router_that_stops_gives_its_agents_to_the_other_and_nobody_else_answers() {
    if !in_own_network(
        "connect::two_routers::f14_a_router_that_stops_gives_its_agents_to_the_other_and_nobody_else_answers",
    ) {
        return;
    }
    let mut whole = RouterHarness::start(start_app("mine").await.port()).await;
    let (other, service, tunnel) = start_second_router(&whole).await;
    let door = SwitchableProxy::start(whole.tunnel.parse().unwrap()).await;
    let mut ann = whole.connect_at(&door.address.to_string(), "ann", &[]).await;
    ann.wait_for_output("connected as ann").await;
    whole.wait_for_answer(Some(KEY), LOCAL).await;
    wait_for_answer_from(service, Some(KEY), LOCAL).await;

    let mut zoe = whole.connect_at(&tunnel.to_string(), "zoe", &[]).await;
    assert_eq!(zoe.wait_for_exit().await, Some(1));
    assert!(zoe.output().contains("ann is connected; --takeover takes it from them"), "{}", zoe.output());

    door.target.send_replace(tunnel);
    let since = Instant::now();
    whole.router.signal(Signal::SIGTERM);
    let (tell, told) = watch::channel(false);
    let callers = tokio::spawn(async move {
        let mut waited = 0;
        while !*told.borrow() {
            let answer = request(service, Some(KEY)).await;
            // On a machine that is busy enough the agent takes longer than a request waits.
            assert!([LOCAL, RECONNECTING].contains(&answer.as_str()), "another backend answered: {answer}");
            waited += usize::from(answer == RECONNECTING);
        }
        waited
    });
    let moved = |it: &serde_json::Value| it["session"]["gateway"] == "router-1" && it["phase"] == "Connected";
    whole.cluster.wait_for_status(moved).await;
    println!("the agent is at the other router after {:?}", since.elapsed());
    wait_for_answer_from(service, Some(KEY), LOCAL).await;
    assert_eq!(whole.router.wait_for_exit().await, Some(0), "{}", whole.router.output());
    assert_eq!(request(service, Some(KEY)).await, LOCAL);
    tell.send_replace(true);
    println!("{} callers were told to come again; ann says {}", callers.await.unwrap(), ann.output());
    drop(other);
}
