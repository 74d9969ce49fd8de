//! Two routers, as `deploy/router` has them: whoever is connected to one is known to the other, and goes there when it stops.

use std::{net::SocketAddr, time::Instant};

use nix::sys::signal::Signal;
use tokio::{
    io::copy_bidirectional,
    net::{TcpListener, TcpStream},
    sync::watch,
};

use super::{
    agent::Agent,
    network::{in_own_network, ports},
    rig::app,
    whole::{KEY, LOCAL, Whole, ask, router, until_answered},
};

/// What a caller hears who has waited long enough.
const AGAIN: &str = "503 local/shop/cart-local reconnecting";

/// The address of the tunnel, which leads to one router or the other.
struct Door {
    address: SocketAddr,
    to: watch::Sender<SocketAddr>,
}

impl Door {
    async fn to(first: SocketAddr) -> Self {
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
        Self { address, to }
    }
}

/// The second router: itself, where it serves the service, and its tunnel.
async fn second(whole: &Whole) -> (Agent, SocketAddr, SocketAddr) {
    let at = |port: u16| SocketAddr::from(([127, 0, 0, 2], port));
    let [_, front, admin, tunnel] = ports(1).map(|it| at(it.port()));
    let service = at(whole.service.port());
    let other = router(&whole.cluster, "router-1", [front, admin, tunnel]);
    until_answered(service, None, "200 baseline baseline").await;
    (other, service, tunnel)
}

#[tokio::test(flavor = "multi_thread")]
async fn f14_a_router_that_stops_gives_its_agents_to_the_other_and_nobody_else_answers() {
    if !in_own_network(
        "connect::two::f14_a_router_that_stops_gives_its_agents_to_the_other_and_nobody_else_answers",
    ) {
        return;
    }
    let mut whole = Whole::start(app("mine").await.port()).await;
    let (other, service, tunnel) = second(&whole).await;
    let door = Door::to(whole.tunnel.parse().unwrap()).await;
    let mut ann = whole.connect_at(&door.address.to_string(), "ann", &[]).await;
    ann.says("connected as ann").await;
    whole.until(Some(KEY), LOCAL).await;
    until_answered(service, Some(KEY), LOCAL).await;

    let mut zoe = whole.connect_at(&tunnel.to_string(), "zoe", &[]).await;
    assert_eq!(zoe.ends().await, Some(1));
    assert!(zoe.said().contains("ann is connected; --takeover takes it from them"), "{}", zoe.said());

    door.to.send_replace(tunnel);
    let since = Instant::now();
    whole.router.signal(Signal::SIGTERM);
    let (tell, told) = watch::channel(false);
    let callers = tokio::spawn(async move {
        let mut waited = 0;
        while !*told.borrow() {
            let answer = ask(service, Some(KEY)).await;
            // On a machine that is busy enough the agent takes longer than a request waits.
            assert!([LOCAL, AGAIN].contains(&answer.as_str()), "somebody else answers: {answer}");
            waited += usize::from(answer == AGAIN);
        }
        waited
    });
    let moved = |it: &serde_json::Value| it["session"]["gateway"] == "router-1" && it["phase"] == "Connected";
    whole.cluster.until(moved).await;
    println!("the agent is at the other router after {:?}", since.elapsed());
    until_answered(service, Some(KEY), LOCAL).await;
    assert_eq!(whole.router.ends().await, Some(0), "{}", whole.router.said());
    assert_eq!(ask(service, Some(KEY)).await, LOCAL);
    tell.send_replace(true);
    println!("{} callers were told to come again; ann says {}", callers.await.unwrap(), ann.said());
    drop(other);
}
