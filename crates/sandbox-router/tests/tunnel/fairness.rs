//! Fairness: a stalled reader and a large transfer do not starve other requests.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use bytes::Bytes;
use futures::stream;
use http::Request;
use http_body_util::{BodyExt as _, StreamBody};
use hyper::body::Frame;
use sandbox_router::tunnel::{TunnelTimeouts, gateway::TunnelError};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    task::JoinSet,
};

use super::{
    app::{App, MIB, count, tcp_echo},
    harness::eventually,
    rig::{PORT, Rig, cart, get, quick},
};

/// How much is sent; a gibibyte is `TUNNEL_TRANSFER_MIB=1024` (`make soak-sandbox`).
#[expect(clippy::disallowed_methods, reason = "how much is the caller's choice")]
fn mebibytes() -> usize {
    std::env::var("TUNNEL_TRANSFER_MIB").ok().and_then(|it| it.parse().ok()).unwrap_or(64)
}

/// Nothing here takes as long as this, unless it has stopped.
const STUCK: Duration = Duration::from_mins(5);

#[tokio::test(flavor = "multi_thread")]
async fn f15_stalled_readers_and_a_large_transfer_leave_room_for_small_requests() {
    let (rig, app) = (Rig::start().await, App::start("cart").await);
    let _agent = rig.ann(&[format!("{PORT}={}", app.to_local())]).await;
    // More than one, so that their windows together are more than one stream's.
    let mut stalled = Vec::new();
    for _ in 0..8 {
        stalled.push(rig.get("/big/16").await.unwrap());
    }
    let large = {
        let gateway = Arc::clone(&rig.gateway);
        let path = format!("/big/{}", mebibytes());
        tokio::spawn(async move {
            let answer = gateway.request(&cart(), PORT, get(&path)).await.unwrap();
            count(answer.into_body()).await
        })
    };
    let mut clients = JoinSet::new();
    for _ in 0..50 {
        let gateway = Arc::clone(&rig.gateway);
        clients.spawn(async move {
            for _ in 0..20 {
                let answer = gateway.request(&cart(), PORT, get("/hello/x")).await.unwrap();
                assert!(answer.into_body().collect().await.unwrap().to_bytes().starts_with(b"cart"));
            }
        });
    }
    let small = async {
        while let Some(done) = clients.join_next().await {
            done.unwrap();
        }
    };
    tokio::time::timeout(STUCK, small).await.expect("small requests starve");
    let large = tokio::time::timeout(STUCK, large).await.expect("the large transfer starves");
    assert_eq!(large.unwrap(), mebibytes() * MIB);
    for answer in stalled {
        assert_eq!(count(answer.into_body()).await, 16 * MIB, "a stalled reader may still read");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn f15_as_much_both_ways_at_once_comes_to_its_end_over_bytes() {
    let (rig, echo) = (Rig::start().await, tcp_echo().await);
    let _agent = rig.ann(&[format!("{PORT}={echo}/tcp")]).await;
    let total = mebibytes() * MIB;
    let (mut read, mut write) = tokio::io::split(rig.gateway.connect(&cart(), PORT).await.unwrap());
    let sent = tokio::spawn(async move {
        let piece = vec![5; MIB];
        for _ in 0..total / MIB {
            write.write_all(&piece).await.unwrap();
        }
        write.shutdown().await.unwrap();
    });
    let received = async {
        let (mut received, mut piece) = (0, vec![0; MIB]);
        loop {
            match read.read(&mut piece).await.unwrap() {
                0 => return received,
                read => received += read,
            }
        }
    };
    let received = tokio::time::timeout(STUCK, received).await.expect("both sides wait for each other");
    assert_eq!(received, total);
    sent.await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn f15_as_much_both_ways_at_once_comes_to_its_end_over_http() {
    let (rig, app) = (Rig::start().await, App::start("cart").await);
    let _agent = rig.ann(&[format!("{PORT}={}", app.to_local())]).await;
    let mut both = JoinSet::new();
    for _ in 0..4 {
        let gateway = Arc::clone(&rig.gateway);
        both.spawn(async move {
            let piece = Bytes::from(vec![5; 64 * 1024]);
            let pieces = (0..mebibytes() * MIB / 4 / piece.len())
                .map(move |_| Ok::<_, std::io::Error>(Frame::data(piece.clone())));
            let body = StreamBody::new(stream::iter(pieces));
            let request = Request::post("http://cart/echo").body(body).unwrap();
            let answer = gateway.request(&cart(), PORT, request).await.unwrap();
            assert_eq!(count(answer.into_body()).await, mebibytes() * MIB / 4);
        });
    }
    let all = async {
        while let Some(done) = both.join_next().await {
            done.unwrap();
        }
    };
    tokio::time::timeout(STUCK, all).await.expect("both sides wait for each other");
}

#[tokio::test(flavor = "multi_thread")]
async fn more_requests_than_an_agent_serves_at_once_wait_their_turn() {
    let (rig, app) = (Rig::start().await, App::start("cart").await);
    let _agent = rig.ann(&[format!("{PORT}={}", app.to_local())]).await;
    let mut clients = JoinSet::new();
    for _ in 0..1000 {
        let gateway = Arc::clone(&rig.gateway);
        clients.spawn(async move {
            let answer = gateway.request(&cart(), PORT, get("/hello/x")).await.unwrap();
            answer.into_body().collect().await.unwrap();
        });
    }
    let all = async {
        while let Some(done) = clients.join_next().await {
            done.unwrap();
        }
    };
    tokio::time::timeout(STUCK, all).await.expect("they do not all have their turn");
}

#[tokio::test(flavor = "multi_thread")]
async fn more_requests_than_a_machine_takes_are_told_to_come_again_and_not_kept_for_ever() {
    let times = TunnelTimeouts { session_wait: Duration::from_millis(300), ..quick() };
    let (rig, app) = (Rig::with(times).await, App::start("cart").await);
    let _agent = rig.ann(&[format!("{PORT}={}", app.to_local())]).await;
    let mut hanging = JoinSet::new();
    for _ in 0..250 {
        let gateway = Arc::clone(&rig.gateway);
        // Who has no turn within the short time of waiting, on a busy machine, asks again.
        hanging.spawn(async move { while gateway.request(&cart(), PORT, get("/hang/x")).await.is_err() {} });
    }
    eventually("all hang", || async { app.state.hanging.load(Ordering::SeqCst) == 250 }).await;
    let failure = rig.get("/hello/x").await.unwrap_err();
    assert_eq!((failure.clone(), failure.status().as_u16()), (TunnelError::Busy, 503));
    assert!(failure.retry_after().is_some());
    drop(hanging);
    eventually("there is room again", || async { rig.get("/hello/x").await.is_ok() }).await;
}
