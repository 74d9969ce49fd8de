//! gRPC with its four kinds of calls, by tonic on both sides.

use std::{
    net::SocketAddr,
    pin::Pin,
    sync::{Arc, Mutex},
    task::{Context, Poll},
    time::Duration,
};

use bytes::{Buf, BufMut, Bytes};
use futures::{Stream, StreamExt, future::BoxFuture};
use http_body_util::BodyExt;
use hyper_util::{
    rt::{TokioExecutor, TokioIo},
    service::TowerToHyperService,
};
use tokio::net::TcpListener;
use tonic::{
    Code, Request, Response, Status, Streaming,
    client::Grpc,
    codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder},
    transport::Channel,
};

use super::support::{Reserved, cart, eventually, fork, key, proxy, table};

/// Messages are bytes: what they mean is no matter here.
#[derive(Default, Clone)]
struct Raw;

impl Codec for Raw {
    type Encode = Bytes;
    type Decode = Bytes;
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self {
        Self
    }

    fn decoder(&mut self) -> Self {
        Self
    }
}

impl Encoder for Raw {
    type Item = Bytes;
    type Error = Status;

    fn encode(&mut self, item: Bytes, to: &mut EncodeBuf<'_>) -> Result<(), Status> {
        to.put(item);
        Ok(())
    }
}

impl Decoder for Raw {
    type Item = Bytes;
    type Error = Status;

    fn decode(&mut self, from: &mut DecodeBuf<'_>) -> Result<Option<Bytes>, Status> {
        let length = from.remaining();
        Ok(Some(from.copy_to_bytes(length)))
    }
}

/// A service whose calls all have streams on both sides, as every call of gRPC has on the wire.
#[derive(Clone)]
struct Echo {
    name: &'static str,
    ended: Arc<Mutex<Vec<&'static str>>>,
}

type Messages = Pin<Box<dyn Stream<Item = Result<Bytes, Status>> + Send>>;

/// Notes when a call's stream is dropped.
struct Noted(Messages, Arc<Mutex<Vec<&'static str>>>, &'static str);

impl Stream for Noted {
    type Item = Result<Bytes, Status>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.0.as_mut().poll_next(cx)
    }
}

impl Drop for Noted {
    fn drop(&mut self) {
        self.1.lock().unwrap().push(self.2);
    }
}

impl tonic::server::StreamingService<Bytes> for Echo {
    type Response = Bytes;
    type ResponseStream = Noted;
    type Future = BoxFuture<'static, Result<Response<Noted>, Status>>;

    fn call(&mut self, request: Request<Streaming<Bytes>>) -> Self::Future {
        let Self { name, ended } = self.clone();
        let timeout = request.metadata().get("grpc-timeout").map(|it| it.to_str().unwrap().to_owned());
        let mut input = request.into_inner();
        Box::pin(async move {
            let Some(first) = input.message().await? else { return Err(Status::invalid_argument("nothing")) };
            let named = |message: &[u8]| Bytes::from([name.as_bytes(), b" ", message].concat());
            let output: Messages = match first.as_ref() {
                b"fail" => return Err(Status::new(Code::FailedPrecondition, "no, and ünïcode")),
                b"deadline" => {
                    let text = timeout.unwrap_or_default();
                    Box::pin(futures::stream::once(async move { Ok(Bytes::from(text)) }))
                }
                b"count" => Box::pin(futures::stream::iter(
                    (0..500).map(move |at| Ok(named(at.to_string().as_bytes()))),
                )),
                b"forever" => Box::pin(futures::stream::unfold((), move |()| async move {
                    tokio::time::sleep(Duration::from_millis(20)).await;
                    Some((Ok(named(b"tick")), ()))
                })),
                b"half" => {
                    let two = [Ok(named(b"one")), Err(Status::new(Code::DataLoss, "in the middle"))];
                    Box::pin(futures::stream::iter(two))
                }
                b"sum" => {
                    let mut count = 1;
                    while input.message().await?.is_some() {
                        count += 1;
                    }
                    Box::pin(futures::stream::once(async move { Ok(named(count.to_string().as_bytes())) }))
                }
                _ => {
                    let head = futures::stream::iter([Ok(first)]);
                    Box::pin(head.chain(input).map(move |message| Ok(named(&message?))))
                }
            };
            Ok(Response::new(Noted(output, ended, name)))
        })
    }
}

async fn pod(name: &'static str) -> (SocketAddr, Arc<Mutex<Vec<&'static str>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let ended = Arc::<Mutex<Vec<&'static str>>>::default();
    let echo = Echo { name, ended: Arc::clone(&ended) };
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let echo = echo.clone();
            let service = tower::service_fn(move |request: http::Request<hyper::body::Incoming>| {
                let echo = echo.clone();
                async move {
                    let mut grpc = tonic::server::Grpc::new(Raw);
                    let request = request.map(|body| {
                        tonic::body::Body::new(body.map_err(|e| Status::internal(e.to_string())))
                    });
                    Ok::<_, std::convert::Infallible>(grpc.streaming(echo, request).await)
                }
            });
            tokio::spawn(async move {
                let builder = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
                let _ =
                    builder.serve_connection(TokioIo::new(stream), TowerToHyperService::new(service)).await;
            });
        }
    });
    (address, ended)
}

struct Calls {
    _proxy: sandbox_router::proxy::Proxy,
    _port: Reserved,
    ended: Arc<Mutex<Vec<&'static str>>>,
    channel: Channel,
}

async fn calls() -> Calls {
    let (baseline, _) = pod("baseline").await;
    let (fork_pod, ended) = pod("fork").await;
    let (proxy, port) = (proxy(), Reserved::new());
    let mut route = cart(port.port, &[baseline]);
    route.set(key("k1"), fork("pr-1", fork_pod));
    proxy.apply(table([route])).await;
    let channel =
        Channel::from_shared(format!("http://127.0.0.1:{}", port.port)).unwrap().connect().await.unwrap();
    Calls { _proxy: proxy, _port: port, ended, channel }
}

fn keyed<T>(message: T, member: &str) -> Request<T> {
    let mut request = Request::new(message);
    request.metadata_mut().insert("baggage", member.parse().unwrap());
    request
}

fn path() -> http::uri::PathAndQuery {
    http::uri::PathAndQuery::from_static("/shop.Cart/Call")
}

impl Calls {
    async fn grpc(&self) -> Grpc<Channel> {
        let mut grpc = Grpc::new(self.channel.clone());
        grpc.ready().await.unwrap();
        grpc
    }

    async fn unary(&self, message: &'static str, member: &str) -> Result<Response<Bytes>, Status> {
        self.grpc().await.unary(keyed(message.into(), member), path(), Raw).await
    }

    async fn many(&self, message: &'static str) -> Result<Streaming<Bytes>, Status> {
        let request = keyed(message.into(), "sd-routing-key=k1");
        Ok(self.grpc().await.server_streaming(request, path(), Raw).await?.into_inner())
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn f11_unary_calls_reach_baseline_and_fork() {
    let calls = calls().await;
    for (member, pod) in
        [("sd-routing-key=k1", "fork hi"), ("sd-routing-key=k2", "baseline hi"), ("a=b", "baseline hi")]
    {
        let answer = calls.unary("hi", member).await.unwrap();
        assert_eq!(answer.get_ref(), pod);
        let route = answer.metadata().get("x-sandbox-route").unwrap().to_str().unwrap();
        assert_eq!(route.starts_with("fork"), pod.starts_with("fork"), "{route}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn f11_all_kinds_of_streams_reach_the_fork() {
    let calls = calls().await;
    // The server streams.
    let counted = calls.many("count").await.unwrap().map(Result::unwrap).collect::<Vec<_>>().await;
    assert_eq!((counted.len(), counted[499].as_ref()), (500, &b"fork 499"[..]));
    // The client streams.
    let messages =
        futures::stream::iter(std::iter::once("sum").chain((0..999).map(|_| "x")).map(Bytes::from));
    let request = keyed(messages, "sd-routing-key=k1");
    let sum = calls.grpc().await.client_streaming(request, path(), Raw).await.unwrap();
    assert_eq!(sum.get_ref(), "fork 1000");
    // Both stream, and take turns.
    let (send, receive) = tokio::sync::mpsc::unbounded_channel::<Bytes>();
    let asked = futures::stream::unfold(receive, |mut it| async move { Some((it.recv().await?, it)) });
    send.send("0".into()).unwrap();
    let request = keyed(asked, "sd-routing-key=k1");
    let mut answers = calls.grpc().await.streaming(request, path(), Raw).await.unwrap().into_inner();
    for at in 0..100 {
        assert_eq!(answers.message().await.unwrap().unwrap(), format!("fork {at}"));
        send.send((at + 1).to_string().into()).unwrap();
    }
    drop(send);
    assert_eq!(answers.message().await.unwrap().unwrap(), "fork 100");
    assert!(answers.message().await.unwrap().is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn f11_status_and_message_of_a_failure_arrive() {
    let calls = calls().await;
    let status = calls.unary("fail", "sd-routing-key=k1").await.unwrap_err();
    assert_eq!((status.code(), status.message()), (Code::FailedPrecondition, "no, and ünïcode"));
    let mut half = calls.many("half").await.unwrap();
    assert_eq!(half.message().await.unwrap().unwrap(), "fork one");
    let status = half.message().await.unwrap_err();
    assert_eq!((status.code(), status.message()), (Code::DataLoss, "in the middle"));
}

#[tokio::test(flavor = "multi_thread")]
async fn f11_a_deadline_is_told_and_a_cancelled_call_ends_at_the_fork() {
    let calls = calls().await;
    let mut request = keyed(Bytes::from("deadline"), "sd-routing-key=k1");
    request.set_timeout(Duration::from_secs(45));
    let told = calls.grpc().await.unary(request, path(), Raw).await.unwrap();
    assert!(!told.get_ref().is_empty(), "grpc-timeout did not arrive");
    calls.ended.lock().unwrap().clear();
    let mut ticks = calls.many("forever").await.unwrap();
    for _ in 0..3 {
        assert_eq!(ticks.message().await.unwrap().unwrap(), "fork tick");
    }
    assert!(calls.ended.lock().unwrap().is_empty());
    drop(ticks);
    eventually("the fork's stream ends", || async { *calls.ended.lock().unwrap() == ["fork"] }).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_router_itself_says_is_a_status_of_grpc() {
    let (proxy, port) = (proxy(), Reserved::new());
    let mut route = cart(port.port, &[]);
    let conflict = sandbox_router::table::Unavailable::conflict("pr-1 and pr-2 both fork cart");
    route.set(key("k1"), sandbox_router::table::Target::Unavailable(Arc::new(conflict)));
    proxy.apply(table([route])).await;
    let channel =
        Channel::from_shared(format!("http://127.0.0.1:{}", port.port)).unwrap().connect().await.unwrap();
    let mut grpc = Grpc::new(channel);
    grpc.ready().await.unwrap();
    let request = keyed(Bytes::from("hi"), "sd-routing-key=k1");
    let status = grpc.unary(request, path(), Raw).await.unwrap_err();
    assert_eq!((status.code(), status.message()), (Code::Unavailable, "pr-1 and pr-2 both fork cart"));
    assert_eq!(status.metadata().get("x-sandbox-error").unwrap(), "conflict");
}
