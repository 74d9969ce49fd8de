//! Callers of a Service at a constant rate, whatever the answers take. Each of two nodes has a kube-proxy, which learns of
//! endpoints by a watch: one at once, and one a second later, as nodes do that have much to do. A new connection goes where the
//! node believes the Service to be; one that is open stays where it is.

use std::{
    net::{IpAddr, SocketAddr},
    sync::{
        Arc, Mutex,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use futures::StreamExt as _;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::{
    Api,
    runtime::{
        WatchStreamExt as _,
        reflector::{self, reflector},
        watcher,
    },
};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    sync::watch,
    task::JoinSet,
    time::{Instant, sleep, sleep_until, timeout},
};
use tokio_util::sync::CancellationToken;

use super::{
    env_settings::env_number,
    test_namespace::{TIMEOUT, TestNamespace},
    traffic::service_endpoints,
};

/// Each is late for its next request only if an answer takes as long as this many requests of all.
const CALLERS: u32 = 64;
/// kube-proxy's own `minSyncPeriod`.
const LAG: Duration = Duration::from_secs(1);

/// Where a node sends new connections.
type Endpoints = watch::Receiver<Vec<SocketAddr>>;

/// Callers without a key.
pub(crate) struct LoadGenerator {
    shop: TestNamespace,
    service: String,
    rate: u32,
    begun: Instant,
    stop: CancellationToken,
    callers: JoinSet<CallerReport>,
    counters: Vec<Arc<CallerCounters>>,
    nodes: [Endpoints; 2],
    _following: JoinSet<()>,
}

/// What a caller has seen so far.
#[derive(Default)]
struct CallerCounters {
    answered: AtomicU32,
    /// By a router.
    routed: AtomicU32,
    /// Where its connection leads.
    connected_to: Mutex<Option<SocketAddr>>,
}

/// What a caller saw.
#[derive(Default)]
struct CallerReport {
    opened: u32,
    /// From the moment in which a request was due.
    slowest: Duration,
    failures: Vec<String>,
}

impl LoadGenerator {
    /// `F3_RATE` requests a second to a Service, which are to be answered like this. The whole property asks for 2000; an
    /// unoptimised build on two cores manages 5000, and less while it has other work.
    pub(crate) async fn start(shop: &TestNamespace, service: &str, answer: &'static str) -> Self {
        let rate = env_number("F3_RATE", 500);
        let mut nodes = JoinSet::new();
        let (tell, mut prompt) = watch::channel(Vec::new());
        nodes.spawn(follow_endpoints(shop.clone(), service.to_owned(), tell));
        prompt.wait_for(|it| !it.is_empty()).await.unwrap();
        let (tell, late) = watch::channel(prompt.borrow().clone());
        nodes.spawn(delay_endpoints(prompt.clone(), tell));
        let (begun, over) = (Instant::now(), CancellationToken::new());
        let mut callers = JoinSet::new();
        let sums: Vec<Arc<CallerCounters>> = (0..CALLERS).map(|_| Arc::default()).collect();
        for (at, sums) in (0..CALLERS).zip(&sums) {
            let ways = if at % 2 == 0 { prompt.clone() } else { late.clone() };
            // Of four on each node one never lets its connection go, one does sometimes, and two have a new one each time.
            let keeps = [u32::MAX, 50, 1, 1][(at / 2 % 4) as usize];
            let due = begun + Duration::from_secs(1) * at / rate;
            let step = Duration::from_secs(1) * CALLERS / rate;
            let (sums, tally) = (Arc::clone(sums), CallerReport::default());
            let caller = Caller {
                endpoints: ways,
                requests_per_connection: keeps,
                answer,
                open: None,
                counters: sums,
                report: tally,
            };
            callers.spawn(caller.run(due, step, over.clone()));
        }
        let (shop, service) = (shop.clone(), service.to_owned());
        Self {
            shop,
            service,
            rate,
            begun,
            stop: over,
            callers,
            counters: sums,
            nodes: [prompt, late],
            _following: nodes,
        }
    }

    fn answered(&self) -> u32 {
        self.counters.iter().map(|it| it.answered.load(Ordering::SeqCst)).sum()
    }

    fn through_routers(&self) -> u32 {
        self.counters.iter().map(|it| it.routed.load(Ordering::SeqCst)).sum()
    }

    /// As many requests as are due in two seconds.
    fn sample_size(&self) -> u32 {
        self.rate * 2
    }

    /// Waits until every node knows what there is now, and many requests were answered since.
    pub(crate) async fn wait_until_endpoints_known(&self) {
        self.shop
            .wait_for("both nodes know the endpoints", async || {
                let mut now = service_endpoints(&self.shop, &self.service).await;
                now.sort();
                self.nodes.iter().all(|it| {
                    let mut known = it.borrow().clone();
                    known.sort();
                    known == now
                })
            })
            .await;
        let wanted = self.answered() + self.sample_size();
        self.shop.wait_for("callers are answered", async || self.answered() >= wanted).await;
    }

    /// Waits until many more requests were answered by a router.
    pub(crate) async fn wait_until_routed(&self) {
        let wanted = self.through_routers() + self.sample_size();
        self.shop.wait_for("routers answer callers", async || self.through_routers() >= wanted).await;
    }

    /// Waits until there is no connection to this address.
    pub(crate) async fn wait_until_disconnected_from(&self, address: IpAddr) {
        let is_there =
            |it: &Arc<CallerCounters>| it.connected_to.lock().unwrap().is_some_and(|it| it.ip() == address);
        self.shop.wait_for("callers left the router", async || !self.counters.iter().any(is_there)).await;
    }

    /// Ends it. Nothing may have failed.
    pub(crate) async fn finish(self) {
        let (answered, routed) = (self.answered(), self.through_routers());
        self.stop.cancel();
        let all = self.callers.join_all().await;
        let seconds = self.begun.elapsed().as_secs_f64();
        let opened: u32 = all.iter().map(|it| it.opened).sum();
        let failures: Vec<&String> = all.iter().flat_map(|it| &it.failures).collect();
        let slowest = all.iter().map(|it| it.slowest).max().unwrap_or_default();
        let (rate, achieved) = (self.rate, f64::from(answered) / seconds);
        let what = format!(
            "{rate} requests/s asked for, {achieved:.0} achieved for {seconds:.1} s; {answered} answered, {routed} of them \
             through a router, on {opened} connections, the slowest {slowest:.0?} after it was due; {} failed",
            failures.len()
        );
        eprintln!("{what}");
        assert!(failures.is_empty(), "{what}, the first: {}", failures[0]);
    }
}

impl CallerCounters {
    fn clear_connection(&self) {
        *self.connected_to.lock().unwrap() = None;
    }
}

/// Someone who asks again and again.
struct Caller {
    endpoints: Endpoints,
    /// How many requests a connection is used for.
    requests_per_connection: u32,
    answer: &'static str,
    /// The connection, where it leads, and what it was used for.
    open: Option<(TcpStream, SocketAddr, u32)>,
    counters: Arc<CallerCounters>,
    report: CallerReport,
}

impl Caller {
    /// One request at each time that it is due, or as soon as the one before was answered.
    async fn run(mut self, mut due: Instant, step: Duration, over: CancellationToken) -> CallerReport {
        while over.run_until_cancelled(sleep_until(due)).await.is_some() {
            match timeout(TIMEOUT, self.request()).await.unwrap_or_else(|_| Err("no answer".to_owned())) {
                Ok(said) if said == self.answer => {
                    self.counters.answered.fetch_add(1, Ordering::SeqCst);
                }
                other => {
                    self.open = None;
                    self.counters.clear_connection();
                    self.report.failures.push(format!("{other:?} after {:?}", due.elapsed()));
                }
            }
            self.report.slowest = self.report.slowest.max(due.elapsed());
            due += step;
        }
        self.report
    }

    async fn request(&mut self) -> Result<String, String> {
        let (mut stream, to, used) = match self.open.take() {
            Some(open) => open,
            None => self.connect().await?,
        };
        let is_last = used + 1 >= self.requests_per_connection;
        let close = if is_last { "connection: close\r\n" } else { "" };
        let request = format!("GET / HTTP/1.1\r\nhost: cart\r\n{close}\r\n");
        let exchanged = exchange(&mut stream, &request).await;
        let said = exchanged.map_err(|error| format!("{to}, request {}: {error}", used + 1))?;
        self.counters.routed.fetch_add(u32::from(said.via_router), Ordering::SeqCst);
        if is_last || said.closes {
            drop(stream);
            self.counters.clear_connection();
        } else {
            self.open = Some((stream, to, used + 1));
        }
        Ok(said.body)
    }

    async fn connect(&mut self) -> Result<(TcpStream, SocketAddr, u32), String> {
        let to =
            fastrand::choice(self.endpoints.borrow().iter()).copied().ok_or("the Service has no endpoint")?;
        let words = |error: std::io::Error| format!("connecting to {to}: {error}");
        *self.counters.connected_to.lock().unwrap() = Some(to);
        let stream = TcpStream::connect(to).await.map_err(words)?;
        stream.set_nodelay(true).map_err(words)?;
        self.report.opened += 1;
        Ok((stream, to, 0))
    }
}

/// An answer.
struct LoadResponse {
    body: String,
    /// A router says so.
    via_router: bool,
    /// The connection ends with it.
    closes: bool,
}

/// Sends a request, and reads its answer.
async fn exchange(stream: &mut TcpStream, request: &str) -> Result<LoadResponse, String> {
    let words = |error: std::io::Error| error.to_string();
    stream.write_all(request.as_bytes()).await.map_err(words)?;
    let (mut said, mut buffer) = (String::new(), [0; 4096]);
    loop {
        if let Some((head, body)) = said.split_once("\r\n\r\n") {
            let head = head.to_ascii_lowercase();
            let field = |name: &str| head.lines().find_map(|it| it.strip_prefix(name)).map(str::trim);
            let length: usize = field("content-length:").and_then(|it| it.parse().ok()).ok_or(&said)?;
            if body.len() >= length {
                if !head.starts_with("http/1.1 200 ") || body.len() > length {
                    return Err(said);
                }
                let is_routed = field("x-sandbox-route:").is_some();
                return Ok(LoadResponse {
                    body: body.to_owned(),
                    via_router: is_routed,
                    closes: field("connection:") == Some("close"),
                });
            }
        }
        match stream.read(&mut buffer).await.map_err(words)? {
            0 => return Err(format!("it ended after {said:?}")),
            read => said.push_str(&String::from_utf8_lossy(&buffer[..read])),
        }
    }
}

/// Keeps up with the endpoints of a Service.
async fn follow_endpoints(shop: TestNamespace, service: String, tell: watch::Sender<Vec<SocketAddr>>) {
    let (slices, writer) = reflector::store();
    let of = watcher::Config::default().labels(&format!("kubernetes.io/service-name={service}"));
    let objects: Api<EndpointSlice> = Api::namespaced(shop.client.clone(), &shop.namespace);
    let changes = watcher(objects, of).default_backoff();
    let mut changes = std::pin::pin!(reflector(writer, changes));
    while let Some(change) = changes.next().await {
        let is_whole = matches!(change, Ok(watcher::Event::Apply(_) | watcher::Event::Delete(_)))
            || matches!(change, Ok(watcher::Event::InitDone));
        if is_whole {
            let all = slices.state();
            tell.send_replace(all.iter().flat_map(|it| ready_endpoints(it)).collect());
        }
    }
}

/// Learns everything a while later.
async fn delay_endpoints(mut prompt: Endpoints, tell: watch::Sender<Vec<SocketAddr>>) {
    while prompt.changed().await.is_ok() {
        sleep(LAG).await;
        tell.send_replace(prompt.borrow_and_update().clone());
    }
}

/// Those of a slice that new connections go to.
fn ready_endpoints(slice: &EndpointSlice) -> Vec<SocketAddr> {
    let port = slice.ports.iter().flatten().find_map(|it| u16::try_from(it.port?).ok());
    let all = slice.endpoints.iter();
    let ready = all.filter(|it| it.conditions.as_ref().and_then(|it| it.ready) != Some(false));
    ready
        .filter_map(|it| Some(SocketAddr::new(it.addresses.first()?.parse::<IpAddr>().ok()?, port?)))
        .collect()
}
