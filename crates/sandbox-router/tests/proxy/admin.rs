//! Health, metrics and explanations.

use serde_json::Value;

use super::harness::{ShopFixture, ask, curl, get, proxy, table};

#[tokio::test(flavor = "multi_thread")]
async fn it_is_ready_when_it_has_a_table_and_not_before() {
    let proxy = proxy();
    let admin = proxy.admin().unwrap();
    assert_eq!(ask(admin, get("/livez", &[])).await.0.as_u16(), 200);
    let (status, _, body) = ask(admin, get("/readyz", &[])).await;
    assert_eq!((status.as_u16(), body.as_str()), (503, "waiting for: the first table\n"));
    let applied = proxy.apply(table([])).await;
    let (status, _, body) = ask(admin, get("/readyz", &[])).await;
    assert_eq!((status.as_u16(), body), (200, format!("ok\nrevision {}\n", applied.revision)));
    proxy.retire();
    assert_eq!(ask(admin, get("/readyz", &[])).await.0.as_u16(), 503);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_it_explains_is_what_it_does() {
    let shop = ShopFixture::open().await;
    let admin = format!("http://{}", shop.proxy.admin().unwrap());
    for member in ["sd-routing-key=k1", "sd-routing-key=k2", "other=1"] {
        let question = format!("{admin}/explain?service=shop/cart:80");
        let told = curl(&["-G", "--data-urlencode", &format!("baggage={member}"), &question]).await;
        let told: Value = serde_json::from_str(&told).unwrap();
        let done = ask(shop.port.address(), get("/", &[("baggage", member)])).await;
        assert_eq!(told["route"], done.1["x-sandbox-route"].to_str().unwrap(), "{told}");
    }
    let routes: Value = serde_json::from_str(&curl(&[&format!("{admin}/debug/routes")]).await).unwrap();
    assert_eq!(routes["revision"], shop.proxy.table().revision().to_string());
    assert_eq!(routes["routes"][0]["overrides"]["k1"]["backend"][0], "fork/shop/pr-1");
    let metrics = curl(&[&format!("{admin}/metrics")]).await;
    for line in [
        "router_requests_total{service=\"shop/cart:80\",route=\"baseline\"} 2",
        "router_requests_total{service=\"shop/cart:80\",route=\"fork\"} 1",
        "router_unknown_key_total{service=\"shop/cart:80\"} 1",
    ] {
        assert!(metrics.lines().any(|own| own == line), "{line} is not in\n{metrics}");
    }
    let rules = curl(&[&format!("{admin}/api/v1/workloads/routing-rules?baselineKind=Deployment")]).await;
    assert_eq!(serde_json::from_str::<Value>(&rules).unwrap()["routingRules"], serde_json::json!([]));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_name_of_the_route_can_be_left_out() {
    let settings = sandbox_router::proxy::ProxySettings { show_route: false, ..super::harness::settings() };
    let proxy = sandbox_router::proxy::Proxy::start(
        settings,
        std::sync::Arc::new(sandbox_router::local_transport::NoLocalTransport),
    );
    let shop = ShopFixture::with(proxy.unwrap()).await;
    let (_, headers, _) = ask(shop.port.address(), get("/", &[])).await;
    assert!(!headers.contains_key("x-sandbox-route"), "{headers:?}");
}
