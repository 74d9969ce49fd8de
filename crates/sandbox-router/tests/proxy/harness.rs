//! Test harness: pods, a proxy in front of them, and clients.

use std::{
    convert::Infallible,
    future::Future,
    net::{IpAddr, Ipv4Addr, SocketAddr},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use bytes::Bytes;
use http::{HeaderMap, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full, combinators::UnsyncBoxBody};
use hyper::{body::Incoming, service::service_fn};
use hyper_util::{
    rt::{TokioExecutor, TokioIo},
    server::conn::auto,
};
use sandbox_router::{
    local_transport::{LocalTransport, NoLocalTransport},
    proxy::{Proxy, ProxyLimits, ProxySettings},
    table::{Backend, Route, RouteTable, RoutingKey, ServicePort, Target},
};
use serde_json::{Value, json};
use socket2::{Domain, Socket, Type};
use tokio::{net::TcpListener, task::JoinHandle};

/// Bounds a hang: longer than anything here takes, even on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_mins(3);

/// Waits for a condition.
pub(crate) async fn eventually<F: Future<Output = bool>>(what: &str, mut is_so: impl FnMut() -> F) {
    let limit = Instant::now() + PATIENCE;
    while !is_so().await {
        assert!(Instant::now() < limit, "not within {PATIENCE:?}: {what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Does something on a connection that is closed when it is idle for too long. On a busy machine that may happen here too:
/// `attempt` says for how long at most the connection was idle when it was closed, and then there is another attempt.
pub(crate) async fn unless_idle<T>(
    idle: Duration,
    mut attempt: impl AsyncFnMut() -> Result<T, Duration>,
) -> T {
    let limit = Instant::now() + PATIENCE;
    loop {
        match attempt().await {
            Ok(done) => return done,
            Err(most) => assert!(most >= idle, "closed after {most:?} at most, and not after {idle:?}"),
        }
        assert!(Instant::now() < limit, "the machine is too slow for an idle time of {idle:?}");
    }
}

/// A server that says what it is and what it was asked.
pub(crate) struct Pod {
    pub(crate) address: SocketAddr,
    pub(crate) requests: Arc<AtomicUsize>,
    pub(crate) connections: Arc<AtomicUsize>,
    task: JoinHandle<()>,
}

impl Drop for Pod {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Pod {
    pub(crate) async fn start(name: &str) -> Self {
        Self::at(name, SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).await
    }

    pub(crate) async fn at(name: &str, address: SocketAddr) -> Self {
        let listener = TcpListener::bind(address).await.unwrap();
        let address = listener.local_addr().unwrap();
        let (requests, connections) = (Arc::<AtomicUsize>::default(), Arc::<AtomicUsize>::default());
        let counted = (Arc::clone(&requests), Arc::clone(&connections));
        let name: Arc<str> = name.into();
        // Its connections end with it.
        let task = tokio::spawn(async move {
            let mut open = tokio::task::JoinSet::new();
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                stream.set_nodelay(true).unwrap();
                counted.1.fetch_add(1, Ordering::SeqCst);
                let (name, requests) = (Arc::clone(&name), Arc::clone(&counted.0));
                open.spawn(async move {
                    let service = service_fn(move |request| {
                        requests.fetch_add(1, Ordering::SeqCst);
                        answer(Arc::clone(&name), request)
                    });
                    let builder = auto::Builder::new(TokioExecutor::new());
                    let _ = builder.serve_connection_with_upgrades(TokioIo::new(stream), service).await;
                });
            }
        });
        Self { address, requests, connections, task }
    }

    pub(crate) fn seen(&self) -> usize {
        self.requests.load(Ordering::SeqCst)
    }
}

type Answer = Response<UnsyncBoxBody<Bytes, Infallible>>;

async fn answer(name: Arc<str>, request: Request<Incoming>) -> Result<Answer, hyper::Error> {
    let path = request.uri().path().to_owned();
    let query = request.uri().query().unwrap_or_default().to_owned();
    let full = |text: String| Full::new(Bytes::from(text)).boxed_unsync();
    let mut response = match path.as_str() {
        "/echo" => {
            let body = request.into_body().collect().await?;
            Response::new(Full::new(body.to_bytes()).boxed_unsync())
        }
        "/slow" => {
            tokio::time::sleep(Duration::from_millis(query.parse().unwrap())).await;
            Response::new(full(name.to_string()))
        }
        "/big" => Response::new(full("x".repeat(query.parse().unwrap()))),
        "/status" => {
            let mut response = Response::new(full(name.to_string()));
            *response.status_mut() = StatusCode::from_u16(query.parse().unwrap()).unwrap();
            response
        }
        "/nothing" => Response::new(full(String::new())),
        _ => Response::new(full(told(&name, request).await?.to_string())),
    };
    response.headers_mut().insert("x-pod", name.parse().unwrap());
    Ok(response)
}

async fn told(name: &str, request: Request<Incoming>) -> Result<Value, hyper::Error> {
    let (parts, body) = request.into_parts();
    let body = body.collect().await?;
    let headers = parts.headers.iter().map(|(name, value)| (name.to_string(), value.to_str().unwrap_or("?")));
    Ok(json!({
        "pod": name,
        "method": parts.method.as_str(),
        "uri": parts.uri.to_string(),
        "version": format!("{:?}", parts.version),
        "headers": headers.map(|(name, value)| json!([name, value])).collect::<Vec<_>>(),
        "body": body.to_bytes().len(),
    }))
}

/// A reserved port: bound, but not listening.
pub(crate) struct Reserved {
    pub(crate) port: u16,
    _socket: Socket,
}

impl Reserved {
    pub(crate) fn new() -> Self {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        socket.set_reuse_address(true).unwrap();
        socket.set_reuse_port(true).unwrap();
        socket.bind(&SocketAddr::from((Ipv4Addr::LOCALHOST, 0)).into()).unwrap();
        let port = socket.local_addr().unwrap().as_socket().unwrap().port();
        Self { port, _socket: socket }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.port).into()
    }
}

pub(crate) fn loopback() -> SocketAddr {
    (Ipv4Addr::LOCALHOST, 0).into()
}

/// Silence of a caller after which a router of [`server_first_settings`] connects to a pod.
pub(crate) const SERVER_FIRST_DELAY: Duration = Duration::from_millis(100);

/// Settings under which a slow caller is never taken for one of a server-first protocol: on a busy machine any caller is
/// slow, and the pod would see an additional connection.
pub(crate) fn settings() -> ProxySettings {
    ProxySettings {
        address: IpAddr::V4(Ipv4Addr::LOCALHOST),
        host_listener: Some(loopback()),
        admin: Some(loopback()),
        workers: 2,
        drain: PATIENCE,
        limits: ProxyLimits { server_first_delay: PATIENCE, ..ProxyLimits::default() },
        ..ProxySettings::default()
    }
}

/// Settings for tests of server-first protocols.
pub(crate) fn server_first_settings() -> ProxySettings {
    let limits = ProxyLimits { server_first_delay: SERVER_FIRST_DELAY, ..settings().limits };
    ProxySettings { limits, ..settings() }
}

pub(crate) fn server_first_proxy() -> Proxy {
    Proxy::start(server_first_settings(), Arc::new(NoLocalTransport)).unwrap()
}

pub(crate) fn proxy() -> Proxy {
    proxy_with(Arc::new(NoLocalTransport))
}

pub(crate) fn proxy_with(locals: Arc<dyn LocalTransport>) -> Proxy {
    Proxy::start(settings(), locals).unwrap()
}

pub(crate) fn key(text: &str) -> RoutingKey {
    RoutingKey::parse(text).unwrap()
}

/// `shop/cart:80` at a port of the router.
pub(crate) fn cart(listen: u16, baseline: &[SocketAddr]) -> Route {
    Route::new(ServicePort::new("shop", "cart", 80), Backend::baseline(baseline.iter().copied()))
        .with_listener(listen)
}

pub(crate) fn fork(sandbox: &str, at: SocketAddr) -> Target {
    Target::Backend(Backend::fork("shop", sandbox, [at]))
}

pub(crate) fn table(routes: impl IntoIterator<Item = Route>) -> RouteTable {
    let mut builder = RouteTable::builder();
    for route in routes {
        builder.add(route);
    }
    builder.build()
}

/// A baseline and a fork with the key `k1`, behind a proxy.
pub(crate) struct ShopFixture {
    pub(crate) proxy: Proxy,
    pub(crate) port: Reserved,
    pub(crate) baseline: Pod,
    pub(crate) fork: Pod,
}

impl ShopFixture {
    pub(crate) async fn open() -> Self {
        Self::with(proxy()).await
    }

    pub(crate) async fn with(proxy: Proxy) -> Self {
        let (baseline, fork_pod) = (Pod::start("baseline").await, Pod::start("fork").await);
        let port = Reserved::new();
        let mut route = cart(port.port, &[baseline.address]);
        route.set_override(key("k1"), fork("pr-1", fork_pod.address));
        let applied = proxy.apply(table([route])).await;
        assert!(applied.failed.is_empty(), "{applied:?}");
        Self { proxy, port, baseline, fork: fork_pod }
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}{path}", self.port.port)
    }
}

/// What a command said.
#[derive(Debug)]
pub(crate) struct CommandOutput {
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    #[expect(dead_code, reason = "shown where a test fails")]
    pub(crate) err: String,
}

/// Runs a command without blocking the servers.
pub(crate) async fn run(program: &str, arguments: &[&str]) -> CommandOutput {
    let output = tokio::process::Command::new(program).args(arguments).kill_on_drop(true).output();
    let output = tokio::time::timeout(PATIENCE, output).await.expect("in time").expect(program);
    CommandOutput {
        code: output.status.code(),
        out: String::from_utf8_lossy(&output.stdout).into_owned(),
        err: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

/// Runs curl, which must succeed.
pub(crate) async fn curl(arguments: &[&str]) -> String {
    let said = run("curl", &[&["-sS", "--max-time", "150", "--noproxy", "*"], arguments].concat()).await;
    assert_eq!(said.code, Some(0), "curl {arguments:?}: {said:?}");
    said.out
}

/// A connection of HTTP/1.1 to a port.
pub(crate) async fn http1(to: SocketAddr) -> hyper::client::conn::http1::SendRequest<Full<Bytes>> {
    let stream = tokio::net::TcpStream::connect(to).await.unwrap();
    stream.set_nodelay(true).unwrap();
    let (sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    sender
}

/// A connection of HTTP/2 to a port.
pub(crate) async fn http2(to: SocketAddr) -> hyper::client::conn::http2::SendRequest<Full<Bytes>> {
    let stream = tokio::net::TcpStream::connect(to).await.unwrap();
    stream.set_nodelay(true).unwrap();
    let handshake = hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream));
    let (sender, connection) = handshake.await.unwrap();
    tokio::spawn(connection);
    sender
}

/// A request to `path` with headers.
pub(crate) fn get(path: &str, headers: &[(&'static str, &str)]) -> Request<Full<Bytes>> {
    let mut request = Request::get(path).body(Full::default()).unwrap();
    request.headers_mut().insert("host", "cart.shop".parse().unwrap());
    for (name, value) in headers {
        request.headers_mut().append(*name, value.parse().unwrap());
    }
    request
}

/// All of an answer.
pub(crate) async fn whole(response: Response<Incoming>) -> (StatusCode, HeaderMap, String) {
    let (parts, body) = response.into_parts();
    let body = body.collect().await.unwrap().to_bytes();
    (parts.status, parts.headers, String::from_utf8(body.to_vec()).unwrap())
}

/// Sends one request on a connection of its own.
pub(crate) async fn ask(to: SocketAddr, request: Request<Full<Bytes>>) -> (StatusCode, HeaderMap, String) {
    let response = tokio::time::timeout(PATIENCE, http1(to).await.send_request(request)).await;
    whole(response.expect("in time").unwrap()).await
}
