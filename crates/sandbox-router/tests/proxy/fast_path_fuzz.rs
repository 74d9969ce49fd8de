//! Differential fuzzing of the fast path against hyper: two routers, one with and one without the fast path, get the same request
//! and the same bytes of a pod; the pod must see the same request, and the caller the same response.
//!
//! Two seconds in an ordinary test run; `FUZZ_SECONDS` and `FUZZ_SEED` as in `fuzz.rs`.

use std::{
    net::SocketAddr,
    sync::Arc,
    time::{Duration, Instant},
};

use parking_lot::Mutex;
use sandbox_router::{
    local_transport::NoLocalTransport,
    proxy::{Proxy, ProxySettings},
};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    sync::watch,
};

use super::harness::{PATIENCE, Reserved, cart, settings, table};
use crate::fuzz::setting;

const METHODS: [&str; 10] = [
    "GET",
    "GET",
    "GET",
    "GET",
    "HEAD",
    "DELETE",
    "X-ODD",
    "get",
    "P.2_~",
    "A-METHOD-THAT-IS-LONGER-THAN-OTHERS",
];
const TARGETS: [&str; 11] =
    ["/", "/a?b=c", "/%zz", "//a", "/a b", "*", "http://a/b", "/ä", "/a?sd=k1&x=[1]", "?a", "HTTP://a/b"];
/// What servers skip before a request.
const PREFIXES: [&str; 4] = ["\r\n", "\r\n\r\n", "\n", "\r\n\n\r\n"];
const HOSTS: [(&str, usize); 7] = [
    ("", 0),
    ("host: a\r\nhost: b\r\n", 2),
    ("host: a\r\nHost: a\r\n", 2),
    ("host:\r\n", 1),
    ("HOST: a:80\r\n", 1),
    ("host: a/b\r\n", 1),
    ("host: [::1]:80\r\n", 1),
];
/// Header lines of requests: nearly all are valid, and few exclude the fast path.
const REQUEST_LINES: [&str; 22] = [
    "accept: */*",
    "Accept:*/*",
    "user-agent: fuzz",
    "x-a: 1",
    "X-A:  2  ",
    "x-a:",
    "cookie: a=b; c=d",
    "cookie: e=\"f\"",
    "baggage: sd-routing-key=k1",
    "baggage: a=b,sd-routing-key=k9",
    "x-forwarded-for: 10.0.0.1",
    "X-Forwarded-For: 10.0.0.2, 10.0.0.3",
    "x-forwarded-for:",
    "connection: keep-alive",
    "Connection: Keep-Alive",
    "connection: close",
    "connection: x-a",
    "content-length: 0",
    "te: trailers",
    "x-t\u{e4}: 1",
    "x-b: \u{e4}",
    "x-tab: a\tb",
];
const STATUS_LINES: [&str; 10] = [
    "HTTP/1.1 200 OK",
    "HTTP/1.1 200 OK",
    "HTTP/1.1 200",
    "HTTP/1.1 200 ",
    "HTTP/1.1 404 Not Found",
    "HTTP/1.1 204 No Content",
    "HTTP/1.1 304 Not Modified",
    "HTTP/1.1 500 Oh No",
    "HTTP/1.0 200 OK",
    "HTTP/1.1 999 Odd",
];
const RESPONSE_LINES: [&str; 16] = [
    "server: fuzz",
    "Date: Thu, 01 Jan 2026 00:00:00 GMT",
    "content-type: text/plain",
    "x-a: 1",
    "X-A: 2",
    "x-a:",
    "set-cookie: a=b",
    "set-cookie: c=d",
    "etag: \"a\"",
    "connection: close",
    "connection: keep-alive",
    "connection: x-a",
    "keep-alive: timeout=5",
    "x-sandbox-route: fake",
    "trailer: x-t",
    "x-b: \u{e4}",
];
/// What a pod says of the framing of its body, and what follows the head.
const BODIES: [(&str, &str); 15] = [
    ("content-length: 5\r\n", "hello"),
    ("Content-Length: 5\r\n", "hello"),
    ("content-length: 0\r\n", ""),
    ("content-length: 05\r\n", "hello"),
    ("content-length: 5, 5\r\n", "hello"),
    ("content-length: +5\r\n", "hello"),
    ("content-length: x\r\n", "hello"),
    ("transfer-encoding: chunked\r\n", "5\r\nhello\r\n0\r\n\r\n"),
    ("Transfer-Encoding: Chunked\r\n", "3;a=b\r\nhel\r\n2\r\nlo\r\n0\r\n\r\n"),
    ("transfer-encoding: chunked\r\ncontent-length: 5\r\n", "5\r\nhello\r\n0\r\n\r\n"),
    ("transfer-encoding: chunked\r\ntrailer: x-t\r\n", "5\r\nhello\r\n0\r\nx-t: 1\r\n\r\n"),
    ("transfer-encoding: chunked\r\n", "5\r\nhel"),
    ("transfer-encoding: chunked\r\n", "z\r\nhello\r\n0\r\n\r\n"),
    ("", "hello"),
    ("", ""),
];

/// Framing that no pod should send: the fast path refuses what is ambiguous, while hyper ignores codings that it does not know,
/// and drops the connection to the caller if a response without a body has more than one length.
const INVALID_FRAMING: [(&str, &str); 5] = [
    ("content-length: 5\r\ncontent-length: 5\r\n", "hello"),
    ("content-length: 5\r\ncontent-length: 6\r\n", "hello"),
    ("transfer-encoding: gzip, chunked\r\n", "5\r\nhello\r\n0\r\n\r\n"),
    ("transfer-encoding: gzip\r\n", "hello"),
    ("transfer-encoding: chunked\r\ntransfer-encoding: chunked\r\n", "5\r\nhello\r\n0\r\n\r\n"),
];

fn pick<'a>(numbers: &mut fastrand::Rng, among: &[&'a str]) -> &'a str {
    among[numbers.usize(..among.len())]
}

fn lines(numbers: &mut fastrand::Rng, among: &[&str], most: usize) -> String {
    (0..numbers.usize(..=most)).flat_map(|_| [pick(numbers, among), "\r\n"]).collect()
}

/// A request without a body.
struct RandomRequest {
    text: String,
    is_head: bool,
    /// The number of its Host headers, if nothing else about it is wrong.
    hosts: Option<usize>,
}

/// Now and then with a byte that does not belong there.
fn random_request(numbers: &mut fastrand::Rng) -> RandomRequest {
    let method = pick(numbers, &METHODS);
    // Mostly a target that is eligible.
    let target = if numbers.bool() { "/a?b=c" } else { pick(numbers, &TARGETS) };
    let version = if numbers.usize(..12) == 0 { "HTTP/1.0" } else { "HTTP/1.1" };
    let prefix = if numbers.usize(..8) == 0 { pick(numbers, &PREFIXES) } else { "" };
    let (host, hosts) =
        if numbers.usize(..8) == 0 { HOSTS[numbers.usize(..HOSTS.len())] } else { ("Host: a\r\n", 1) };
    let lines = lines(numbers, &REQUEST_LINES, 4);
    let mut text = format!("{prefix}{method} {target} {version}\r\n{host}{lines}\r\n");
    let mut is_intact = version == "HTTP/1.1" && target == "/a?b=c" && lines.is_ascii();
    if numbers.usize(..25) == 0 {
        is_intact = false;
        // Not in the end of the head, which the pod waits for.
        let at = numbers.usize(..text.len() - 4);
        if text.is_char_boundary(at) {
            text.insert(
                at,
                pick(numbers, &["\0", "\u{1}", "\u{7f}", " ", ":", "\t", "@"]).chars().next().unwrap(),
            );
        }
    }
    RandomRequest { text, is_head: method == "HEAD", hosts: is_intact.then_some(hosts) }
}

impl RandomRequest {
    /// Whether its first line is that of HTTP/1, in whatever form, so that the request must not be passed through.
    fn is_http1(&self) -> bool {
        let line = self.text.trim_start_matches(['\r', '\n']).lines().next().unwrap_or_default();
        !line.contains(|it: char| it.is_ascii_control() && it != '\t')
            && (line.ends_with(" HTTP/1.1") || line.ends_with(" HTTP/1.0"))
    }

    /// What is wrong with its outcome, whatever both paths agree on.
    fn complaint(&self, outcome: &Outcome) -> Option<&'static str> {
        let (forwarded, response) = outcome;
        let is_routed = |request: &ForwardedRequest| {
            let last = request.headers.iter().rfind(|line| line.0 == "x-forwarded-for");
            last.is_some_and(|line| line.1.ends_with("127.0.0.1"))
        };
        match self.hosts {
            _ if self.is_http1() && !forwarded.iter().all(is_routed) => Some("it bypassed routing"),
            Some(0 | 2) if response.code() != "400" || !forwarded.is_empty() => {
                Some("not refused for its hosts")
            }
            _ => None,
        }
    }
}

/// The bytes of a pod, and whether their framing is one of [`INVALID_FRAMING`].
fn random_response(numbers: &mut fastrand::Rng) -> (String, bool) {
    let interim = if numbers.usize(..10) == 0 { "HTTP/1.1 103 Early Hints\r\nlink: a\r\n\r\n" } else { "" };
    let is_invalid = numbers.usize(..10) == 0;
    let (framing, body) = match numbers.bool() {
        _ if is_invalid => INVALID_FRAMING[numbers.usize(..INVALID_FRAMING.len())],
        true => BODIES[0],
        false => BODIES[numbers.usize(..BODIES.len())],
    };
    let (before, after) = (lines(numbers, &RESPONSE_LINES, 3), lines(numbers, &RESPONSE_LINES, 2));
    let status = pick(numbers, &STATUS_LINES);
    (format!("{interim}{status}\r\n{before}{framing}{after}\r\n{body}"), is_invalid)
}

/// What a pod does and saw.
#[derive(Default)]
struct PodScript {
    response: String,
    requests: Vec<String>,
}

/// A pod that answers each request with the current response and closes. It counts connections that are begun and ended.
struct ScriptedPod {
    address: SocketAddr,
    script: Arc<Mutex<PodScript>>,
    open: watch::Receiver<usize>,
}

impl ScriptedPod {
    async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (address, script) = (listener.local_addr().unwrap(), Arc::<Mutex<PodScript>>::default());
        let (count, open) = watch::channel(0);
        let (shared, count) = (Arc::clone(&script), Arc::new(count));
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                count.send_modify(|open| *open += 1);
                let (shared, count) = (Arc::clone(&shared), Arc::clone(&count));
                tokio::spawn(async move {
                    answer_once(stream, &shared).await;
                    count.send_modify(|open| *open -= 1);
                });
            }
        });
        Self { address, script, open }
    }

    fn set_response(&self, response: &str) {
        *self.script.lock() = PodScript { response: response.to_owned(), requests: Vec::new() };
    }

    /// Its connections are closed then, so that none of them is used for the next request.
    async fn requests(&mut self) -> Vec<ForwardedRequest> {
        tokio::time::timeout(PATIENCE, self.open.wait_for(|open| *open == 0)).await.unwrap().unwrap();
        self.script.lock().requests.iter().map(|text| ForwardedRequest::parse(text)).collect()
    }
}

async fn answer_once(mut stream: TcpStream, script: &Mutex<PodScript>) {
    let mut heard = Vec::new();
    while let Ok(1..) = stream.read_buf(&mut heard).await {
        if heard.windows(4).any(|bytes| bytes == b"\r\n\r\n") {
            let response = {
                let mut script = script.lock();
                script.requests.push(String::from_utf8_lossy(&heard).into_owned());
                script.response.clone()
            };
            let _ = stream.write_all(response.as_bytes()).await;
            let _ = stream.shutdown().await;
            return;
        }
    }
}

/// Status codes of responses without a body.
const BODYLESS: [&str; 2] = ["204", "304"];

/// Names in lower case, and headers by name: neither case nor the order of different headers has a meaning. The values of one
/// header keep their order.
fn header_lines<'a>(lines: impl Iterator<Item = &'a str>) -> Vec<(String, String)> {
    let pair = |line: &str| {
        let (name, value) = line.split_once(':').unwrap_or((line, "no colon"));
        (name.to_ascii_lowercase(), value.trim().to_owned())
    };
    let mut headers: Vec<_> = lines.map(pair).collect();
    headers.sort_by(|one, other| one.0.cmp(&other.0));
    headers
}

/// A request as the pod saw it.
#[derive(Debug, PartialEq, Eq)]
struct ForwardedRequest {
    start: String,
    headers: Vec<(String, String)>,
    body: String,
}

impl ForwardedRequest {
    fn parse(text: &str) -> Self {
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        let mut lines = head.split("\r\n");
        let start = lines.next().unwrap().to_owned();
        Self { start, headers: header_lines(lines), body: body.to_owned() }
    }
}

/// A response as the caller understands it. A body may be framed in one way or another.
#[derive(Debug, PartialEq, Eq)]
struct CallerResponse {
    status: String,
    headers: Vec<(String, String)>,
    /// `None` if it is cut.
    body: Option<String>,
}

impl CallerResponse {
    async fn read(to: SocketAddr, request: &str, is_head: bool) -> Self {
        let mut stream = TcpStream::connect(to).await.unwrap();
        stream.write_all(request.as_bytes()).await.unwrap();
        // Callers without further requests still get their response.
        stream.shutdown().await.unwrap();
        let mut all = Vec::new();
        let _cut = tokio::time::timeout(PATIENCE, stream.read_to_end(&mut all)).await.expect("it ends");
        Self::parse(&String::from_utf8_lossy(&all), is_head)
    }

    fn code(&self) -> &str {
        self.status.split(' ').nth(1).unwrap_or_default()
    }

    fn is_refusal_or_bodyless(&self, is_head: bool) -> bool {
        is_head || self.code() == "502" || BODYLESS.contains(&self.code())
    }

    fn parse(text: &str, is_head: bool) -> Self {
        let (head, rest) = text.split_once("\r\n\r\n").unwrap_or((text, ""));
        let mut lines = head.split("\r\n");
        let status = lines.next().unwrap_or_default().to_owned();
        let mut headers = header_lines(lines);
        let find = |name: &str| headers.iter().find(|line| line.0 == name).map(|line| line.1.clone());
        let code = status.split(' ').nth(1).unwrap_or_default();
        let body = match (find("transfer-encoding"), find("content-length")) {
            _ if is_head || BODYLESS.contains(&code) => Some(rest.to_owned()),
            // The router explains a failure in its own words, with the parser's message.
            _ if code == "502" => None,
            (Some(_), _) => join_chunks(rest),
            (None, Some(length)) => {
                // `05` and `5, 5` are five, too.
                let length = length.split(',').next().unwrap_or_default().parse().ok();
                (length == Some(rest.len())).then(|| rest.to_owned())
            }
            (None, None) => Some(rest.to_owned()),
        };
        // hyper omits `Trailer` where no trailers can follow.
        let framing = ["transfer-encoding", "content-length", "connection", "trailer"];
        headers.retain(|line| !framing.contains(&line.0.as_str()));
        Self { status, headers, body }
    }
}

/// The data of chunks. Trailers are left out: hyper sends them only to callers with `te: trailers`, and those requests do not
/// take the fast path.
fn join_chunks(mut chunks: &str) -> Option<String> {
    let mut all = String::new();
    loop {
        let (size, rest) = chunks.split_once("\r\n")?;
        let size = usize::from_str_radix(size.split(';').next()?.trim(), 16).ok()?;
        if size == 0 {
            return rest.ends_with("\r\n").then_some(all);
        }
        all.push_str(rest.get(..size)?);
        chunks = rest.get(size..)?.strip_prefix("\r\n")?;
    }
}

/// A router, and the pod behind it.
struct Lane {
    _proxy: Proxy,
    port: Reserved,
    pod: ScriptedPod,
}

type Outcome = (Vec<ForwardedRequest>, CallerResponse);

impl Lane {
    async fn open(http1_fast_path: bool) -> Self {
        let (pod, port) = (ScriptedPod::start().await, Reserved::new());
        let settings = ProxySettings { http1_fast_path, ..settings() };
        let proxy = Proxy::start(settings, Arc::new(NoLocalTransport)).unwrap();
        let applied = proxy.apply(table([cart(port.port, &[pod.address])])).await;
        assert!(applied.failed.is_empty(), "{applied:?}");
        Self { _proxy: proxy, port, pod }
    }

    async fn outcome(&mut self, request: &str, is_head: bool, response: &str) -> Outcome {
        self.pod.set_response(response);
        let received = CallerResponse::read(self.port.address(), request, is_head).await;
        (self.pod.requests().await, received)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn m5_the_fast_path_and_hyper_forward_the_same_requests_and_responses() {
    let until = Instant::now() + Duration::from_secs(setting("FUZZ_SECONDS").unwrap_or(2));
    let seed = setting("FUZZ_SEED").unwrap_or(1);
    let mut numbers = fastrand::Rng::with_seed(seed);
    let (mut with, mut without) = (Lane::open(true).await, Lane::open(false).await);
    let (mut answered, mut round, mut differences) = (0_u64, 0_u64, Vec::new());
    // At least so many, even where the machine gives them no time.
    while differences.len() < 5 && (round < 200 || Instant::now() < until) {
        let asked = random_request(&mut numbers);
        let (request, is_head) = (&asked.text, asked.is_head);
        let (response, is_invalid) = random_response(&mut numbers);
        let fast = with.outcome(request, is_head, &response).await;
        let general = without.outcome(request, is_head, &response).await;
        let is_refused = is_invalid && fast.0 == general.0 && fast.1.is_refusal_or_bodyless(is_head);
        if fast != general && !is_refused {
            differences
                .push(format!("round {round}: {request:?} answered {response:?}\n{fast:?}\n{general:?}"));
        }
        if let Some(complaint) = asked.complaint(&fast) {
            differences.push(format!("round {round}: {request:?}: {complaint}\n{fast:?}"));
        }
        answered += u64::from(!fast.0.is_empty());
        round += 1;
    }
    assert!(
        differences.is_empty(),
        "FUZZ_SEED={seed}, fast path and hyper differ:\n{}",
        differences.join("\n")
    );
    assert!(answered * 2 > round && answered < round, "{answered} of {round} reached the pod");
}
