//! The application on a developer's machine.

use std::{
    convert::Infallible,
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use bytes::Bytes;
use futures::{SinkExt as _, StreamExt as _};
use http::{HeaderMap, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full, StreamBody, combinators::BoxBody};
use hyper::{
    body::{Frame, Incoming},
    service::service_fn,
};
use hyper_util::{
    rt::{TokioExecutor, TokioIo},
    server::conn::auto,
};
use tokio::net::{TcpListener, TcpStream};

pub(crate) const MIB: usize = 1024 * 1024;

/// An application that speaks HTTP/1.1 and HTTP/2 on one port.
pub(crate) struct App {
    pub(crate) address: SocketAddr,
    pub(crate) state: Arc<Counts>,
    task: tokio::task::JoinHandle<()>,
}

/// What it has seen.
#[derive(Default)]
pub(crate) struct Counts {
    pub(crate) requests: AtomicUsize,
    pub(crate) connections: AtomicUsize,
    /// Requests that wait without end.
    pub(crate) hanging: AtomicUsize,
}

impl App {
    pub(crate) async fn start(name: &'static str) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        Self::on(name, listener)
    }

    /// On the given listener.
    pub(crate) fn on(name: &'static str, listener: TcpListener) -> Self {
        let address = listener.local_addr().unwrap();
        let state = Arc::new(Counts::default());
        let counts = Arc::clone(&state);
        let task = tokio::spawn(async move {
            let mut tasks = tokio::task::JoinSet::new();
            loop {
                let (socket, _) = listener.accept().await.unwrap();
                counts.connections.fetch_add(1, Ordering::SeqCst);
                tasks.spawn(serve(name, socket, Arc::clone(&counts)));
            }
        });
        Self { address, state, task }
    }

    /// As in a mapping.
    pub(crate) fn to_local(&self) -> String {
        format!("localhost:{}", self.address.port())
    }

    pub(crate) fn stop(&self) {
        self.task.abort();
    }
}

impl Drop for App {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn serve(name: &'static str, socket: TcpStream, counts: Arc<Counts>) {
    socket.set_nodelay(true).unwrap();
    let answer = service_fn(move |request| {
        let counts = Arc::clone(&counts);
        async move { Ok::<_, Infallible>(answer(name, request, &counts).await) }
    });
    // Probes come and go without a word.
    let _ended =
        auto::Builder::new(TokioExecutor::new()).serve_connection(TokioIo::new(socket), answer).await;
}

type Body = BoxBody<Bytes, hyper::Error>;

async fn answer(name: &str, request: Request<Incoming>, counts: &Arc<Counts>) -> Response<Body> {
    counts.requests.fetch_add(1, Ordering::SeqCst);
    let path = request.uri().path().to_owned();
    let (_, number) = path.rsplit_once('/').unwrap();
    match path.split('/').nth(1).unwrap_or_default() {
        "hello" => {
            let host = request.headers().get("host").map(|it| it.to_str().unwrap().to_owned());
            let host = host.or_else(|| request.uri().authority().map(ToString::to_string));
            let mut seen: Vec<&str> = request.headers().keys().map(http::HeaderName::as_str).collect();
            seen.sort_unstable();
            text(&format!("{name} {} {} {:?}", host.unwrap(), request.uri().path(), seen))
        }
        "echo" => Response::new(request.into_body().boxed()),
        "sink" => text(&count(request.into_body()).await.to_string()),
        "big" => Response::new(big(number.parse().unwrap())),
        "trailers" => Response::new(trailers()),
        "status" => {
            let mut answer = text("a status");
            *answer.status_mut() = StatusCode::from_u16(number.parse().unwrap()).unwrap();
            answer
        }
        "forged" => {
            let mut answer = text("forged");
            answer.headers_mut().insert("capt-tunnel-error", "not-mapped".parse().unwrap());
            answer
        }
        "hang" => {
            let _hanging = Hanging::new(counts);
            std::future::pending().await
        }
        other => panic!("the application knows no {other}"),
    }
}

struct Hanging(Arc<Counts>);

impl Hanging {
    fn new(counts: &Arc<Counts>) -> Self {
        counts.hanging.fetch_add(1, Ordering::SeqCst);
        Self(Arc::clone(counts))
    }
}

impl Drop for Hanging {
    fn drop(&mut self) {
        self.0.hanging.fetch_sub(1, Ordering::SeqCst);
    }
}

fn text(text: &str) -> Response<Body> {
    Response::new(Full::new(Bytes::from(text.to_owned())).map_err(|never| match never {}).boxed())
}

fn big(mebibytes: usize) -> Body {
    let piece = Bytes::from(vec![7; 64 * 1024]);
    let pieces = (0..mebibytes * MIB / piece.len()).map(move |_| Ok(Frame::data(piece.clone())));
    BodyExt::boxed(StreamBody::new(futures::stream::iter(pieces)))
}

fn trailers() -> Body {
    let mut trailers = HeaderMap::new();
    trailers.insert("grpc-status", "0".parse().unwrap());
    let frames = [Frame::data(Bytes::from_static(b"before the trailers")), Frame::trailers(trailers)];
    BodyExt::boxed(StreamBody::new(futures::stream::iter(frames.map(Ok))))
}

pub(crate) async fn count<B>(body: B) -> usize
where
    B: hyper::body::Body<Data = Bytes>,
    B::Error: std::fmt::Debug,
{
    let mut body = std::pin::pin!(body);
    let mut count = 0;
    while let Some(frame) = body.frame().await {
        count += frame.unwrap().into_data().map_or(0, |it| it.len());
    }
    count
}

/// An application that sends bytes back.
pub(crate) async fn tcp_echo() -> SocketAddr {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        loop {
            let (mut socket, _) = listener.accept().await.unwrap();
            tokio::spawn(async move {
                let (mut read, mut write) = socket.split();
                // Probes come and go without a word.
                let _ended = tokio::io::copy(&mut read, &mut write).await;
                let _ended = tokio::io::AsyncWriteExt::shutdown(&mut write).await;
            });
        }
    });
    address
}

/// An application that sends the texts of websockets back.
pub(crate) async fn websocket_echo() -> SocketAddr {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        loop {
            let (socket, _) = listener.accept().await.unwrap();
            tokio::spawn(async move {
                // Probes are no websockets.
                let Ok(mut socket) = tokio_tungstenite::accept_async(socket).await else { return };
                while let Some(Ok(message)) = socket.next().await {
                    if message.is_text() {
                        socket.send(message).await.unwrap();
                    }
                }
            });
        }
    });
    address
}
