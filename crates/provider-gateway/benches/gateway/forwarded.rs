//! Overhead of a forwarded call: the same call to the same kind of process, directly and through the gateway.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http2::{self, SendRequest};
use hyper_util::rt::{TokioExecutor, TokioIo};
use provider_gateway::{
    plugin::{LaunchSpec, ProviderProcess},
    wire::{grpc::frame, protobuf::put_bytes},
};
use tokio::net::UnixStream;

use super::{AWS, Gateway};
use crate::support::{Bench, package, provider_env};

/// A function of the provider: it needs neither AWS nor a configuration, and is never answered from memory.
const PATH: &str = "/tfplugin5.Provider/CallFunction";
const TIMES: usize = 1000;

fn question() -> Bytes {
    let arn = "arn:aws:iam::123456789012:role/a";
    let mut value = vec![0xd9, u8::try_from(arn.len()).unwrap()];
    value.extend_from_slice(arn.as_bytes());
    let mut argument = Vec::new();
    put_bytes(&mut argument, 1, &value);
    let mut message = Vec::new();
    put_bytes(&mut message, 1, b"arn_parse");
    put_bytes(&mut message, 2, &argument);
    frame(&message)
}

/// As terraform has one.
struct Client(SendRequest<Full<Bytes>>);

impl Client {
    async fn to(socket: &str) -> Self {
        let stream = TokioIo::new(UnixStream::connect(socket).await.unwrap());
        let (client, connection) = http2::Builder::new(TokioExecutor::new()).handshake(stream).await.unwrap();
        tokio::spawn(connection);
        Self(client)
    }

    async fn call(&mut self, body: Bytes) -> usize {
        let request = Request::post(format!("http://localhost{PATH}"))
            .header("content-type", "application/grpc")
            .header("te", "trailers")
            .body(Full::new(body))
            .unwrap();
        let response = self.0.send_request(request).await.unwrap();
        response.into_body().collect().await.unwrap().to_bytes().len()
    }
}

fn median(mut all: Vec<Duration>) -> Duration {
    all.sort();
    all[all.len() / 2]
}

pub(crate) async fn measure(bench: &Bench, gateway: &Gateway) {
    let workspace = bench.workspace("forwarded", "");
    let registered = gateway.client.register(Gateway::register(&workspace)).await.unwrap();
    let mut through = Client::to(registered.reattach[AWS]["Addr"]["String"].as_str().unwrap()).await;
    let sockets = bench.dir.path().join("direct");
    std::fs::create_dir(&sockets).unwrap();
    let read = bench.gateway.read_package(&package()).await.unwrap();
    let launch = LaunchSpec {
        program: read.program,
        checksum: read.sha256,
        packages: Arc::default(),
        env: provider_env(),
        socket_dir: sockets,
        exec_wrapper: Vec::new(),
    };
    let direct = ProviderProcess::start(&launch).await.unwrap();
    let mut times = (Vec::new(), Vec::new());
    // In turns, so that whatever else the machine does happens to both.
    for round in 0..TIMES + 100 {
        let begun = Instant::now();
        let answer = direct.call(PATH, question()).await.unwrap();
        let one = begun.elapsed();
        let begun = Instant::now();
        let length = through.call(question()).await;
        let other = begun.elapsed();
        assert!(length > 20 && length == answer.body.len(), "{length} bytes, and {}", answer.body.len());
        if round >= 100 {
            times.0.push(one);
            times.1.push(other);
        }
    }
    let (direct, through) = (median(times.0), median(times.1));
    let text = |time: Duration| format!("{:.2} ms", time.as_secs_f64() * 1e3);
    let more = through.saturating_sub(direct);
    println!(
        "| one call, straight to the provider and through the gateway | {} | {} | +{} |",
        text(direct),
        text(through),
        text(more)
    );
    gateway.client.release(&registered.run).await.unwrap();
}
