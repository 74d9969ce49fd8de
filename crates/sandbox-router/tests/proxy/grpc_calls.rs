//! gRPC with tonic on both sides: a service, and the checks that all calls to it must pass.

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

use super::harness::eventually;

/// Messages are bytes: what they mean is no matter here.
#[derive(Default, Clone)]
pub(crate) struct Raw;

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

/// The names of servers, one for each call that has ended.
pub(crate) type Ended = Arc<Mutex<Vec<&'static str>>>;

/// A service whose calls all have streams on both sides, as every call of gRPC has on the wire.
#[derive(Clone)]
struct Echo {
    name: &'static str,
    ended: Ended,
}

type Messages = Pin<Box<dyn Stream<Item = Result<Bytes, Status>> + Send>>;

/// Notes when a call's stream is dropped.
struct EndRecorder(Messages, Ended, &'static str);

impl Stream for EndRecorder {
    type Item = Result<Bytes, Status>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.0.as_mut().poll_next(cx)
    }
}

impl Drop for EndRecorder {
    fn drop(&mut self) {
        self.1.lock().unwrap().push(self.2);
    }
}

impl tonic::server::StreamingService<Bytes> for Echo {
    type Response = Bytes;
    type ResponseStream = EndRecorder;
    type Future = BoxFuture<'static, Result<Response<EndRecorder>, Status>>;

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
            Ok(Response::new(EndRecorder(output, ended, name)))
        })
    }
}

/// A server of this name, and the names of those of its calls that have ended.
pub(crate) async fn pod(name: &'static str) -> (SocketAddr, Ended) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let ended = Ended::default();
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

/// Calls to one server through a router.
pub(crate) struct GrpcCalls {
    pub(crate) channel: Channel,
    /// What leads there.
    pub(crate) baggage: &'static str,
    /// Who is to answer.
    pub(crate) name: &'static str,
    pub(crate) ended: Ended,
}

/// A call with a member of baggage.
pub(crate) fn keyed<T>(message: T, member: &str) -> Request<T> {
    let mut request = Request::new(message);
    request.metadata_mut().insert("baggage", member.parse().unwrap());
    request
}

pub(crate) fn path() -> http::uri::PathAndQuery {
    http::uri::PathAndQuery::from_static("/shop.Cart/Call")
}

/// A connection to a port of a router.
pub(crate) async fn channel(port: u16) -> Channel {
    Channel::from_shared(format!("http://127.0.0.1:{port}")).unwrap().connect().await.unwrap()
}

impl GrpcCalls {
    async fn grpc(&self) -> Grpc<Channel> {
        let mut grpc = Grpc::new(self.channel.clone());
        grpc.ready().await.unwrap();
        grpc
    }

    pub(crate) async fn unary(&self, message: &'static str) -> Result<Response<Bytes>, Status> {
        self.grpc().await.unary(keyed(message.into(), self.baggage), path(), Raw).await
    }

    async fn many(&self, message: &'static str) -> Result<Streaming<Bytes>, Status> {
        let request = keyed(message.into(), self.baggage);
        Ok(self.grpc().await.server_streaming(request, path(), Raw).await?.into_inner())
    }

    /// The server streams, the client streams, and both stream and take turns.
    pub(crate) async fn stream(&self) {
        let name = self.name;
        let counted = self.many("count").await.unwrap().map(Result::unwrap).collect::<Vec<_>>().await;
        assert_eq!((counted.len(), &counted[499]), (500, &Bytes::from(format!("{name} 499"))));
        let messages =
            futures::stream::iter(std::iter::once("sum").chain((0..999).map(|_| "x")).map(Bytes::from));
        let request = keyed(messages, self.baggage);
        let sum = self.grpc().await.client_streaming(request, path(), Raw).await.unwrap();
        assert_eq!(sum.get_ref(), &format!("{name} 1000"));
        let (send, receive) = tokio::sync::mpsc::unbounded_channel::<Bytes>();
        let asked = futures::stream::unfold(receive, |mut it| async move { Some((it.recv().await?, it)) });
        send.send("0".into()).unwrap();
        let request = keyed(asked, self.baggage);
        let mut answers = self.grpc().await.streaming(request, path(), Raw).await.unwrap().into_inner();
        for at in 0..100 {
            assert_eq!(answers.message().await.unwrap().unwrap(), format!("{name} {at}"));
            send.send((at + 1).to_string().into()).unwrap();
        }
        drop(send);
        assert_eq!(answers.message().await.unwrap().unwrap(), format!("{name} 100"));
        assert!(answers.message().await.unwrap().is_none());
    }

    /// Status and message of a failure arrive, at once and in the middle of a stream.
    pub(crate) async fn fail(&self) {
        let status = self.unary("fail").await.unwrap_err();
        assert_eq!((status.code(), status.message()), (Code::FailedPrecondition, "no, and ünïcode"));
        let mut half = self.many("half").await.unwrap();
        assert_eq!(half.message().await.unwrap().unwrap(), format!("{} one", self.name));
        let status = half.message().await.unwrap_err();
        assert_eq!((status.code(), status.message()), (Code::DataLoss, "in the middle"));
    }

    /// Deadlines are propagated, and a cancelled call ends at the server.
    pub(crate) async fn give_up(&self) {
        let mut request = keyed(Bytes::from("deadline"), self.baggage);
        request.set_timeout(Duration::from_mins(5));
        let told = self.grpc().await.unary(request, path(), Raw).await.unwrap();
        assert!(!told.get_ref().is_empty(), "grpc-timeout did not arrive");
        // Ends are recorded slightly later.
        eventually("the calls before have ended", || async { self.has_ended() }).await;
        self.ended.lock().unwrap().clear();
        let mut ticks = self.many("forever").await.unwrap();
        for _ in 0..3 {
            assert_eq!(ticks.message().await.unwrap().unwrap(), format!("{} tick", self.name));
        }
        assert!(!self.has_ended());
        drop(ticks);
        eventually("the server's stream ends", || async { self.has_ended() }).await;
    }

    fn has_ended(&self) -> bool {
        self.ended.lock().unwrap().contains(&self.name)
    }
}
