//! Virtual targets: the baseline answers, labelled with the name of a sandbox.

use sandbox_router::table::Target;
use serde_json::{Value, json};

use super::harness::{Pod, Reserved, ask, cart, curl, get, key, proxy, table};

const KEY: (&str, &str) = ("baggage", "sd-routing-key=k1");

#[tokio::test(flavor = "multi_thread")]
async fn the_baseline_answers_and_the_request_is_counted_as_the_sandboxes() {
    let (proxy, pod, port) = (proxy(), Pod::start("baseline").await, Reserved::new());
    let mut route = cart(port.port, &[pod.address]);
    route.set_override(key("k1"), Target::new_virtual("shop", "pr-1"));
    proxy.apply(table([route])).await;
    for (headers, expected) in [(&[KEY][..], "virtual/shop/pr-1"), (&[], "baseline")] {
        let (status, answer, body) = ask(port.address(), get("/", headers)).await;
        assert_eq!((status.as_u16(), answer["x-sandbox-route"].to_str().unwrap()), (200, expected));
        assert_eq!(serde_json::from_str::<Value>(&body).unwrap()["pod"], "baseline");
    }
    assert_eq!(pod.seen(), 2);
    let admin = format!("http://{}", proxy.admin().unwrap());
    let metrics = curl(&[&format!("{admin}/metrics")]).await;
    for line in [
        "router_requests_total{service=\"shop/cart:80\",route=\"baseline\"} 1",
        "router_requests_total{service=\"shop/cart:80\",route=\"virtual\"} 1",
        "router_unknown_key_total{service=\"shop/cart:80\"} 0",
    ] {
        assert!(metrics.lines().any(|own| own == line), "{line} is not in\n{metrics}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn it_is_told_who_answers_and_why() {
    let (proxy, pod, port) = (proxy(), Pod::start("baseline").await, Reserved::new());
    let mut route = cart(port.port, &[pod.address]);
    route.set_override(key("k1"), Target::new_virtual("shop", "pr-1"));
    proxy.apply(table([route])).await;
    let admin = format!("http://{}", proxy.admin().unwrap());
    let question = format!("{admin}/explain?service=shop/cart:80&baggage=sd-routing-key%3Dk1");
    let told: Value = serde_json::from_str(&curl(&[&question]).await).unwrap();
    assert_eq!((&told["route"], &told["to"]), (&json!("virtual/shop/pr-1"), &json!([pod.address])));
    assert_eq!(told["why"], "the key k1 in baggage is known here, and the baseline answers");
    let routes: Value = serde_json::from_str(&curl(&[&format!("{admin}/debug/routes")]).await).unwrap();
    assert_eq!(routes["routes"][0]["overrides"]["k1"], json!({"virtual": "virtual/shop/pr-1"}));
}

/// What is dead among the baseline's pods is passed over under the key too, and their turns are shared.
#[tokio::test(flavor = "multi_thread")]
async fn a_pod_that_takes_no_connection_is_passed_over_as_it_is_without_a_key() {
    let (proxy, pod, port) = (proxy(), Pod::start("baseline").await, Reserved::new());
    let nobody = Reserved::new();
    let mut route = cart(port.port, &[pod.address, nobody.address()]);
    route.set_override(key("k1"), Target::new_virtual("shop", "pr-1"));
    proxy.apply(table([route])).await;
    for _ in 0..6 {
        assert_eq!(ask(port.address(), get("/", &[KEY])).await.0.as_u16(), 200);
    }
    assert_eq!(pod.seen(), 6);
}
