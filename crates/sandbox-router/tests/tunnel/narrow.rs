//! A transport with tiny buffers, as a port-forward may have: both sides are nearly always blocked in a write.

use std::{
    future::Future,
    io,
    pin::Pin,
    sync::{Arc, Mutex},
    time::Duration,
};

use bytes::Bytes;
use futures::stream;
use http::Request;
use http_body_util::StreamBody;
use hyper::body::Frame;
use sandbox_router::tunnel::{
    BoxIo, TunnelTimeouts,
    agent::{Agent, GatewayDialer},
    gateway::{Gateway, SessionPhase},
};
use tokio::{io::DuplexStream, task::JoinSet};
use tokio_util::sync::CancellationToken;

use super::{
    app::{App, MIB, count},
    rig::{Name, PORT, People, cart, config, quick},
};

/// Hands out one end of a pipe, once.
struct Pipe(Mutex<Option<DuplexStream>>);

impl GatewayDialer for Pipe {
    fn dial(&self) -> Pin<Box<dyn Future<Output = io::Result<BoxIo>> + Send + '_>> {
        let end = self.0.lock().unwrap().take();
        Box::pin(async move {
            end.map(|it| Box::new(it) as BoxIo).ok_or_else(|| io::ErrorKind::ConnectionRefused.into())
        })
    }

    fn name(&self) -> String {
        "a pipe".to_owned()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn f15_as_much_both_ways_comes_to_its_end_over_a_line_that_holds_a_kilobyte() {
    let app = App::start("cart").await;
    let people = Arc::new(People::default());
    people.allow("ann");
    // Signs of life cross the traffic all the time.
    let times = TunnelTimeouts { ping_interval: Duration::from_millis(1), ..quick() };
    let gateway = Gateway::new(people, times.clone());
    let (near, far) = tokio::io::duplex(1024);
    tokio::spawn(Arc::clone(&gateway).accept(far, CancellationToken::new()));
    let dial = Arc::new(Pipe(Mutex::new(Some(near))));
    let config = config(&times, "ann-1", &[format!("{PORT}={}", app.to_local())]);
    let agent = Agent::new(config, dial, Arc::new(Name("ann".to_owned())));
    tokio::spawn(async move { agent.run(CancellationToken::new()).await });
    let mut changes = gateway.changes();
    while gateway.session(&cart()).is_none_or(|it| it.phase != SessionPhase::Connected) {
        changes.changed().await.unwrap();
    }
    let mut both = JoinSet::new();
    for _ in 0..8 {
        let gateway = Arc::clone(&gateway);
        both.spawn(async move {
            let piece = Bytes::from(vec![5; 16 * 1024]);
            let pieces = (0..64).map(move |_| Ok::<_, io::Error>(Frame::data(piece.clone())));
            let body = StreamBody::new(stream::iter(pieces));
            let request = Request::post("http://cart/echo").body(body).unwrap();
            let answer = gateway.request(&cart(), PORT, request).await.unwrap();
            assert_eq!(count(answer.into_body()).await, MIB);
        });
    }
    let all = async {
        while let Some(done) = both.join_next().await {
            done.unwrap();
        }
    };
    tokio::time::timeout(super::rig::PATIENCE, all).await.expect("both sides wait for each other");
    assert_eq!(gateway.session(&cart()).unwrap().epoch, 1, "it took more than one connection");
}
