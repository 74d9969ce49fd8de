//! CPU of the router for each HTTP/1.1 request, with and without its fast path: `cargo bench -p sandbox-router --bench fast_path`.
//!
//! Needs no other program. Both routers are processes of their own and run side by side; samples are taken in turns, so that what
//! disturbs one disturbs both, and the ratio of each pair is reported. `CAPT_BENCH_ROUNDS` is the number of pairs (9);
//! `ROUTER_BENCH_SECONDS` the duration of a sample (2).

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::disallowed_methods,
    clippy::cast_precision_loss,
    reason = "a measurement that cannot be taken stops, and says where"
)]

use std::{
    env, fs,
    io::{BufRead as _, BufReader, Read as _},
    net::{Ipv4Addr, SocketAddr},
    process::{Child, Command, Stdio},
    sync::Arc,
    time::Duration,
};

use sandbox_router::{
    local_transport::NoLocalTransport,
    proxy::{Proxy, ProxySettings},
    table::{Backend, Route, RouteTable, RoutingKey, ServicePort, Target},
};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    runtime::{Builder, Runtime},
    time::Instant,
};

const CONNECTIONS: usize = 32;
const RESPONSE: &[u8] = b"HTTP/1.1 200 OK\r\nserver: nginx\r\ndate: Thu, 01 Jan 2026 00:00:00 GMT\r\ncontent-type: text/plain\r\n\
    content-length: 50\r\nconnection: keep-alive\r\n\r\nxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx";
const REQUESTS: [(&str, &[u8]); 2] = [
    ("no key", b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nuser-agent: bench\r\naccept: */*\r\n\r\n"),
    (
        "a key",
        b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nuser-agent: bench\r\naccept: */*\r\nbaggage: a=b,sd-routing-key=k1\r\n\r\n",
    ),
];

fn main() {
    let arguments = env::args().collect::<Vec<_>>();
    if arguments.get(1).is_some_and(|it| it == "serve") {
        return serve_router(arguments[2].parse().unwrap(), &arguments[3]);
    }
    // `cargo test --all-targets` starts benches too, without this argument.
    if !arguments.iter().any(|it| it == "--bench") {
        return;
    }
    let rounds = setting("CAPT_BENCH_ROUNDS", 9);
    let duration = Duration::from_secs(setting("ROUTER_BENCH_SECONDS", 2));
    let runtime = runtime();
    let backend = runtime.block_on(start_backend());
    let routers = ["on", "off"].map(|fast_path| RouterProcess::start(backend, fast_path));
    println!(
        "| HTTP/1.1 requests | CPU µs/request, fast path on | off | on/off: median (lowest to highest) |"
    );
    println!("|---|---|---|---|");
    for (name, request) in REQUESTS {
        let mut samples = Vec::new();
        for round in 0..rounds {
            // The order alternates: neither router is always the second one.
            let mut pair = [0.0; 2];
            for turn in 0..2 {
                let router = usize::from((round % 2 == 0) != (turn == 0));
                pair[router] = routers[router].cpu_per_request(&runtime, request, duration);
            }
            samples.push(pair);
        }
        let on = sorted(samples.iter().map(|pair| pair[0]));
        let off = sorted(samples.iter().map(|pair| pair[1]));
        let ratios = sorted(samples.iter().map(|pair| pair[0] / pair[1]));
        let middle = samples.len() / 2;
        let (lowest, highest) = (ratios[0], ratios[ratios.len() - 1]);
        println!(
            "| {name} | {:.1} | {:.1} | {:.2} ({lowest:.2} to {highest:.2}) |",
            on[middle], off[middle], ratios[middle]
        );
    }
}

fn setting(name: &str, otherwise: u64) -> u64 {
    env::var(name).map_or(otherwise, |text| text.parse().expect(name))
}

fn sorted(values: impl Iterator<Item = f64>) -> Vec<f64> {
    let mut values = values.collect::<Vec<_>>();
    values.sort_by(f64::total_cmp);
    values
}

fn runtime() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

/// The router as a process: its CPU time is then its own alone.
struct RouterProcess {
    child: Child,
    address: SocketAddr,
}

impl RouterProcess {
    fn start(backend: SocketAddr, fast_path: &str) -> Self {
        let mut child = Command::new(env::current_exe().unwrap())
            .args(["serve", &backend.port().to_string(), fast_path])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        Self { child, address: (Ipv4Addr::LOCALHOST, line.trim().parse().unwrap()).into() }
    }

    fn cpu_per_request(&self, runtime: &Runtime, request: &'static [u8], duration: Duration) -> f64 {
        let before = self.cpu();
        let count = runtime.block_on(send_requests(self.address, request, duration));
        (self.cpu() - before) / count as f64
    }

    /// Microseconds of user and system time. The kernel counts in hundredths of a second.
    fn cpu(&self) -> f64 {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.child.id())).unwrap();
        let fields = stat.rsplit_once(')').unwrap().1.split_whitespace().collect::<Vec<_>>();
        (fields[11].parse::<f64>().unwrap() + fields[12].parse::<f64>().unwrap()) * 1e4
    }
}

impl Drop for RouterProcess {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The router with one key; prints its port and ends with its standard input.
fn serve_router(backend: u16, fast_path: &str) {
    let runtime = runtime();
    runtime.block_on(async {
        let settings = ProxySettings {
            address: Ipv4Addr::LOCALHOST.into(),
            http1_fast_path: fast_path == "on",
            ..ProxySettings::default()
        };
        let proxy = Proxy::start(settings, Arc::new(NoLocalTransport)).unwrap();
        let listen = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let to = SocketAddr::from((Ipv4Addr::LOCALHOST, backend));
        let mut builder = RouteTable::builder();
        let service = ServicePort::new("shop", "cart", 80);
        let route = builder.add(Route::new(service, Backend::baseline([to])).with_listener(listen));
        let fork = Backend::fork("shop", "pr-1", [to]);
        route.set_override(RoutingKey::parse("k1").unwrap(), Target::Backend(fork));
        let applied = proxy.apply(builder.build()).await;
        assert!(applied.failed.is_empty(), "{applied:?}");
        println!("{listen}");
        tokio::task::spawn_blocking(|| std::io::stdin().read(&mut [0])).await.unwrap().unwrap();
    });
}

async fn start_backend() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            stream.set_nodelay(true).unwrap();
            tokio::spawn(answer_requests(stream));
        }
    });
    address
}

async fn answer_requests(mut stream: TcpStream) {
    let mut buffer = Vec::with_capacity(4096);
    while let Ok(1..) = stream.read_buf(&mut buffer).await {
        if buffer.ends_with(b"\r\n\r\n") {
            buffer.clear();
            if stream.write_all(RESPONSE).await.is_err() {
                return;
            }
        }
    }
}

/// Requests over all connections, each with one at a time; returns how many were answered.
async fn send_requests(address: SocketAddr, request: &'static [u8], duration: Duration) -> u64 {
    let end = Instant::now() + duration;
    let connections = (0..CONNECTIONS).map(|_| tokio::spawn(send_over_one(address, request, end)));
    let mut count = 0;
    for connection in connections.collect::<Vec<_>>() {
        count += connection.await.unwrap();
    }
    count
}

async fn send_over_one(address: SocketAddr, request: &'static [u8], end: Instant) -> u64 {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.set_nodelay(true).unwrap();
    let mut buffer = Vec::with_capacity(4096);
    let mut count = 0;
    while Instant::now() < end {
        stream.write_all(request).await.unwrap();
        buffer.clear();
        while !buffer.ends_with(b"\r\n\r\nxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx") {
            assert_ne!(stream.read_buf(&mut buffer).await.unwrap(), 0, "the router closed a connection");
        }
        assert!(buffer.starts_with(b"HTTP/1.1 200"), "{}", String::from_utf8_lossy(&buffer));
        count += 1;
    }
    count
}
