//! gRPC with its four kinds of calls, to the baseline and to a fork.

use std::sync::Arc;

use bytes::Bytes;
use tonic::{Code, client::Grpc};

use super::{
    grpc_calls::{GrpcCalls, Raw, channel, keyed, path, pod},
    harness::{Reserved, cart, fork, key, proxy, table},
};

struct GrpcFixture {
    _proxy: sandbox_router::proxy::Proxy,
    _port: Reserved,
    to: [GrpcCalls; 2],
}

/// A baseline and a fork, with calls to each.
async fn grpc_fixture() -> GrpcFixture {
    let (baseline, to_baseline) = pod("baseline").await;
    let (fork_pod, to_fork) = pod("fork").await;
    let (proxy, port) = (proxy(), Reserved::new());
    let mut route = cart(port.port, &[baseline]);
    route.set_override(key("k1"), fork("pr-1", fork_pod));
    proxy.apply(table([route])).await;
    let channel = channel(port.port).await;
    let to = [("a=b", "baseline", to_baseline), ("sd-routing-key=k1", "fork", to_fork)];
    let to = to.map(|(baggage, name, ended)| GrpcCalls { channel: channel.clone(), baggage, name, ended });
    GrpcFixture { _proxy: proxy, _port: port, to }
}

#[tokio::test(flavor = "multi_thread")]
async fn f11_unary_calls_reach_baseline_and_fork() {
    let world = grpc_fixture().await;
    for calls in world.to {
        let answer = calls.unary("hi").await.unwrap();
        assert_eq!(answer.get_ref(), &format!("{} hi", calls.name));
        let route = answer.metadata().get("x-sandbox-route").unwrap().to_str().unwrap();
        assert!(route.starts_with(calls.name), "{route}");
        let unknown = GrpcCalls { baggage: "sd-routing-key=k2", ..calls };
        assert_eq!(unknown.unary("hi").await.unwrap().get_ref(), "baseline hi");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn f11_all_kinds_of_streams_reach_baseline_and_fork() {
    for calls in grpc_fixture().await.to {
        calls.stream().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn f11_status_and_message_of_a_failure_arrive() {
    for calls in grpc_fixture().await.to {
        calls.fail().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn f11_a_deadline_is_told_and_a_cancelled_call_ends_at_the_pod() {
    for calls in grpc_fixture().await.to {
        calls.give_up().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_router_itself_says_is_a_status_of_grpc() {
    let (proxy, port) = (proxy(), Reserved::new());
    let mut route = cart(port.port, &[]);
    let conflict = sandbox_router::table::UnavailableTarget::conflict("pr-1 and pr-2 both fork cart");
    route.set_override(key("k1"), sandbox_router::table::Target::Unavailable(Arc::new(conflict)));
    proxy.apply(table([route])).await;
    let mut grpc = Grpc::new(channel(port.port).await);
    grpc.ready().await.unwrap();
    let request = keyed(Bytes::from("hi"), "sd-routing-key=k1");
    let status = grpc.unary(request, path(), Raw).await.unwrap_err();
    assert_eq!((status.code(), status.message()), (Code::Unavailable, "pr-1 and pr-2 both fork cart"));
    assert_eq!(status.metadata().get("x-sandbox-error").unwrap(), "conflict");
}
