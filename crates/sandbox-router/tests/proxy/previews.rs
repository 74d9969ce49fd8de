//! The listener that routes by `Host`.

use sandbox_router::table::{Preview, RouteTable, ServicePort};
use serde_json::Value;

use super::harness::{Pod, Reserved, ask, cart, fork, get, key, proxy};

#[tokio::test(flavor = "multi_thread")]
async fn a_preview_leads_to_the_fork_and_gives_the_request_its_key() {
    let (baseline, fork_pod) = (Pod::start("baseline").await, Pod::start("fork").await);
    let (proxy, port) = (proxy(), Reserved::new());
    let mut builder = RouteTable::builder();
    let route = builder.add(cart(port.port, &[baseline.address]));
    route.set_override(key("k1"), fork("pr-1", fork_pod.address));
    let preview = Preview::new(ServicePort::new("shop", "cart", 80), key("k1"));
    builder.preview("web--pr-1--shop.preview.example.com", preview);
    proxy.apply(builder.build()).await;
    let front = proxy.host_listener().unwrap();
    let hosted = |host: &str| {
        let mut request = get("/", &[("baggage", "user=7")]);
        request.headers_mut().insert("host", host.parse().unwrap());
        request
    };
    let (status, headers, body) = ask(front, hosted("web--pr-1--shop.preview.example.com")).await;
    assert_eq!((status.as_u16(), &headers["x-sandbox-route"]), (200, &"fork/shop/pr-1".parse().unwrap()));
    let told: Value = serde_json::from_str(&body).unwrap();
    let headers = told["headers"].as_array().unwrap();
    assert!(headers.contains(&serde_json::json!(["baggage", "user=7,sd-routing-key=k1"])), "{body}");
    assert!(headers.iter().any(|header| header[0] == "traceparent"), "{body}");
    // The service's own name works too, and gives no key.
    let (_, headers, body) = ask(front, hosted("cart.shop.svc.cluster.local:80")).await;
    assert_eq!(headers["x-sandbox-route"], "baseline");
    assert!(!body.contains("sd-routing-key"), "{body}");
    let (status, headers, body) = ask(front, hosted("nobody.example.com")).await;
    assert_eq!((status.as_u16(), &headers["x-sandbox-error"]), (404, &"no-route".parse().unwrap()), "{body}");
}
