//! What the tunnel costs (sandbox F15, F20): `make bench`. Prints a table with targets and verdicts.
//!
//! Application, agent, gateway and callers share this process and its cores, unlike in production: real figures are
//! better, and ratios are more meaningful than absolute numbers. `SECONDS` is the duration of each measurement (3).

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::cast_precision_loss,
    dead_code,
    reason = "a measurement that cannot be taken stops, and says where; it uses a part of what the tests use"
)]

#[path = "../../tests/tunnel/app.rs"]
mod app;
#[path = "../router/report.rs"]
mod report;
#[path = "../../tests/tunnel/rig.rs"]
mod rig;

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use app::{App, MIB, count};
use bytes::Bytes;
use http_body_util::{BodyExt as _, Empty};
use hyper_util::{client::legacy::Client, rt::TokioExecutor};
use report::Report;
use rig::{PORT, Rig, Running, cart, get};
use sandbox_router::tunnel::{
    TunnelTimeouts, WorkloadName,
    agent::{AgentConfig, AgentState},
    gateway::Gateway,
};
use tokio::{io::AsyncReadExt as _, net::TcpListener, task::JoinSet};

#[tokio::main]
async fn main() {
    // `cargo test --all-targets` starts benches too, without this argument.
    if !std::env::args().any(|it| it == "--bench") {
        return;
    }
    let seconds = seconds();
    let rig = Rig::with(TunnelTimeouts::default()).await;
    let app = App::start("cart").await;
    let source = source().await;
    let mappings = [
        format!("{PORT}={}", app.to_local()),
        format!("{}={source}/tcp", PORT + 1),
        format!("{}={}/grpc", PORT + 2, app.to_local()),
    ];
    let _agent = rig.ann(&mappings).await;
    let mut report = Report::default();
    throughput(&rig, &mut report, seconds).await;
    latency(&rig, &app, &mut report, seconds).await;
    fairness(&rig, &mut report, seconds).await;
    many(&rig, &app, &mut report).await;
    println!("\n{report}");
}

async fn throughput(rig: &Rig, report: &mut Report, seconds: Duration) {
    let rate = |value: f64| format!("{value:.0} MB/s");
    let bytes = stream_of_bytes(rig, seconds).await;
    report.add("one stream of bytes", &rate(bytes), "≥ 300 MB/s", Some(bytes >= 300.0));
    let http1 = large_answer(rig, PORT, seconds).await;
    report.add("one large answer over HTTP/1.1", &rate(http1), "≥ 300 MB/s", Some(http1 >= 300.0));
    report.add("one large answer over h2c", &rate(large_answer(rig, PORT + 2, seconds).await), "", None);
    let (few, _) = small(rig, 16, seconds).await;
    report.add("small requests, 16 callers", &format!("{few:.0} /s"), "", None);
    let (many, _) = small(rig, 64, seconds).await;
    let met = Some(many >= 10_000.0);
    report.add("small requests, 64 callers", &format!("{many:.0} /s"), "≥ 10,000 /s", met);
}

async fn latency(rig: &Rig, app: &App, report: &mut Report, seconds: Duration) {
    let direct = direct(app, seconds).await;
    let (_, through) = small(rig, 1, seconds).await;
    let added = at(&through, 0.5).saturating_sub(direct);
    let micros = |it: Duration| format!("{} µs", it.as_micros());
    report.add("p50 at one caller, direct", &micros(direct), "", None);
    report.add("p50 at one caller, through the tunnel", &micros(at(&through, 0.5)), "", None);
    report.add("p50 added", &micros(added), "≤ 500 µs", Some(added <= Duration::from_micros(500)));
    report.add("p99 at one caller, through the tunnel", &micros(at(&through, 0.99)), "", None);
}

/// As many machines as one gateway is to serve.
async fn many(rig: &Rig, app: &App, report: &mut Report) {
    const COUNT: usize = 200;
    let mut agents = Vec::new();
    for number in 0..COUNT {
        let workload = WorkloadName::new("shop", &format!("cart-{number}"));
        rig.people.allow_to("ann", workload.clone());
        let config = rig.config(&number.to_string(), &[format!("{PORT}={}", app.to_local())]);
        agents
            .push((workload.clone(), Running::start(AgentConfig { workload, ..config }, "ann", rig.address)));
    }
    let mut served = 0;
    for (workload, agent) in &mut agents {
        agent.until(|it| it.state == AgentState::Connected).await;
        served += usize::from(rig.gateway.request(workload, PORT, get("/hello/x")).await.is_ok());
    }
    let shown = format!("{served} of {COUNT}");
    report.add("machines served by one gateway", &shown, "200", Some(served == COUNT));
}

#[expect(clippy::disallowed_methods, reason = "how long is the caller's choice")]
fn seconds() -> Duration {
    let seconds = std::env::var("SECONDS").ok().and_then(|it| it.parse().ok());
    Duration::from_secs(seconds.unwrap_or(3))
}

/// Small requests alone, and the same beside one large transfer and a reader who has stalled.
async fn fairness(rig: &Rig, report: &mut Report, seconds: Duration) {
    let (_, alone) = small(rig, 50, seconds).await;
    let stalled = rig.get("/big/64").await.unwrap();
    let go_on = Arc::new(AtomicBool::new(true));
    let large = tokio::spawn({
        let (gateway, go_on) = (Arc::clone(&rig.gateway), Arc::clone(&go_on));
        async move {
            let mut total = 0;
            while go_on.load(Ordering::Relaxed) {
                let answer = gateway.request(&cart(), PORT, get("/big/64")).await.unwrap();
                total += count(answer.into_body()).await;
            }
            total
        }
    });
    let (_, beside) = small(rig, 50, seconds).await;
    go_on.store(false, Ordering::Relaxed);
    let total = large.await.unwrap();
    drop(stalled);
    let (before, after) = (at(&alone, 0.99), at(&beside, 0.99));
    let micros = |it: Duration| format!("{} µs", it.as_micros());
    report.add("p99 of 50 callers alone", &micros(before), "", None);
    report.add("p99 of 50 callers beside a large transfer", &micros(after), "", None);
    let ratio = after.as_secs_f64() / before.as_secs_f64();
    report.add("the same as a ratio", &format!("{ratio:.1}×"), "< 3×", Some(ratio < 3.0));
    let rate = total as f64 / 1e6 / seconds.as_secs_f64();
    report.add("the large transfer meanwhile", &format!("{rate:.0} MB/s"), "", None);
}

/// An application that sends without end.
async fn source() -> std::net::SocketAddr {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        loop {
            let (mut socket, _) = listener.accept().await.unwrap();
            tokio::spawn(async move {
                let piece = vec![1; 256 * 1024];
                // Until the reader stops.
                while tokio::io::AsyncWriteExt::write_all(&mut socket, &piece).await.is_ok() {}
            });
        }
    });
    address
}

async fn stream_of_bytes(rig: &Rig, seconds: Duration) -> f64 {
    let mut stream = rig.gateway.connect(&cart(), PORT + 1).await.unwrap();
    let (since, mut total, mut piece) = (Instant::now(), 0, vec![0; 256 * 1024]);
    while since.elapsed() < seconds {
        total += stream.read(&mut piece).await.unwrap();
    }
    total as f64 / 1e6 / since.elapsed().as_secs_f64()
}

async fn large_answer(rig: &Rig, port: u16, seconds: Duration) -> f64 {
    let (since, mut total) = (Instant::now(), 0);
    while since.elapsed() < seconds {
        let answer = rig.gateway.request(&cart(), port, get("/big/256")).await.unwrap();
        total += count(answer.into_body()).await;
    }
    assert_eq!(total % (256 * MIB), 0);
    total as f64 / 1e6 / since.elapsed().as_secs_f64()
}

/// Requests in a second, and how long each took, in order.
async fn small(rig: &Rig, callers: usize, seconds: Duration) -> (f64, Vec<Duration>) {
    let mut all = JoinSet::new();
    let since = Instant::now();
    for _ in 0..callers {
        all.spawn(caller(Arc::clone(&rig.gateway), since + seconds));
    }
    let mut took: Vec<Duration> = all.join_all().await.into_iter().flatten().collect();
    let rate = took.len() as f64 / since.elapsed().as_secs_f64();
    took.sort_unstable();
    (rate, took)
}

async fn caller(gateway: Arc<Gateway>, until: Instant) -> Vec<Duration> {
    let mut took = Vec::new();
    while Instant::now() < until {
        let since = Instant::now();
        let answer = gateway.request(&cart(), PORT, get("/hello/x")).await.unwrap();
        answer.into_body().collect().await.unwrap();
        took.push(since.elapsed());
    }
    took
}

/// The median of one caller without a tunnel.
async fn direct(app: &App, seconds: Duration) -> Duration {
    let client: Client<_, Empty<Bytes>> = Client::builder(TokioExecutor::new()).build_http();
    let uri: http::Uri = format!("http://{}/hello/x", app.address).parse().unwrap();
    let (until, mut took) = (Instant::now() + seconds, Vec::new());
    while Instant::now() < until {
        let since = Instant::now();
        client.get(uri.clone()).await.unwrap().into_body().collect().await.unwrap();
        took.push(since.elapsed());
    }
    took.sort_unstable();
    at(&took, 0.5)
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "an index into a list of figures"
)]
fn at(sorted: &[Duration], part: f64) -> Duration {
    sorted[((sorted.len() - 1) as f64 * part) as usize]
}
