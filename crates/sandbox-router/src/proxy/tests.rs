//! The pure parts. What needs sockets is in `tests/`.

use std::sync::Arc;

use http::{HeaderMap, HeaderName, HeaderValue, Uri};
use rstest::rstest;

use super::{
    explain,
    headers::{add_forwarded_for, inject_key, strip_hop_by_hop, wants_upgrade},
    metrics,
    routing::{RequestParts, Responder, RoutingDecision, decide},
};
use crate::table::{
    Backend, BaselineWorkload, Destination, PortMapping, Preview, ResponderKind, Route, RouteTable,
    RoutingKey, RoutingRule, ServicePort, Target, UnavailableTarget,
};

fn headers(lines: &[(&'static str, &str)]) -> HeaderMap {
    let mut all = HeaderMap::new();
    for (name, value) in lines {
        all.append(*name, HeaderValue::from_str(value).unwrap());
    }
    all
}

fn lines(headers: &HeaderMap) -> Vec<(String, String)> {
    let mut all = headers
        .iter()
        .map(|(name, value)| (name.to_string(), value.to_str().unwrap().to_owned()))
        .collect::<Vec<_>>();
    all.sort();
    all
}

fn key(text: &str) -> RoutingKey {
    RoutingKey::parse(text).unwrap()
}

fn table() -> RouteTable {
    let mut builder = RouteTable::builder();
    let baseline = Backend::baseline([([10, 0, 0, 1], 80).into()]);
    let cart = builder.add(Route::new(ServicePort::new("shop", "cart", 80), baseline));
    let fork = Backend::fork("shop", "pr-1", [([10, 0, 0, 2], 80).into()]);
    cart.set_override(key("k1"), Target::Backend(fork));
    cart.set_override(key("k2"), Target::Unavailable(Arc::new(UnavailableTarget::conflict("pr-1 and pr-2"))));
    cart.add_key_header(HeaderName::from_static("x-tenant"));
    let web = builder.add(Route::new(ServicePort::new("shop", "web", 80), Backend::baseline([])));
    web.set_override(key("k3"), Target::Backend(Backend::fork("shop", "pr-3", [])));
    builder.preview("web--pr-1.example.com", Preview::new(ServicePort::new("shop", "cart", 80), key("k1")));
    let workload =
        BaselineWorkload { kind: "Deployment".into(), namespace: "shop".into(), name: "cart".into() };
    let destinations = vec![Destination { host: "cart-pr-1".into(), port: 80 }];
    let mappings = vec![PortMapping { workload_port: 8080, destinations }];
    builder.rule(workload, RoutingRule { routing_key: key("k1"), sandbox: "pr-1".into(), mappings });
    builder.build()
}

fn decided(lines: &[(&'static str, &str)]) -> RoutingDecision {
    let (table, uri) = (table(), Uri::from_static("/"));
    let route = table.route_by_host("cart.shop").unwrap();
    decide(&RequestParts::from_uri(&headers(lines), &uri), &table, route)
}

#[rstest]
#[case::no_key(&[], "baseline", false)]
#[case::known(&[("baggage", "sd-routing-key=k1")], "fork/shop/pr-1", false)]
#[case::conflict(&[("baggage", "sd-routing-key=k2")], "conflict", false)]
#[case::of_another_service(&[("baggage", "sd-routing-key=k3")], "baseline", false)]
#[case::unknown(&[("baggage", "sd-routing-key=k4")], "baseline", true)]
#[case::custom_header(&[("x-tenant", "k1")], "fork/shop/pr-1", false)]
#[case::preview(&[("host", "web--pr-1.example.com")], "fork/shop/pr-1", false)]
#[case::preview_comes_last(&[("host", "web--pr-1.example.com"), ("x-tenant", "k4")], "baseline", true)]
fn a_request_is_answered_by(
    #[case] lines: &[(&'static str, &str)],
    #[case] name: &str,
    #[case] unknown: bool,
) {
    let decision = decided(lines);
    let own = match &decision.responder {
        Responder::Baseline(backend) => backend.name().clone(),
        Responder::Override(target) => target.name().clone(),
    };
    assert_eq!((own.to_str().unwrap(), decision.is_unknown_key), (name, unknown));
}

#[test]
fn only_requests_to_a_preview_are_given_its_key() {
    let of = |lines| decided(lines).injected_key.map(|key| key.as_str().to_owned());
    assert_eq!(of(&[("host", "web--pr-1.example.com")]).as_deref(), Some("k1"));
    assert_eq!(of(&[("host", "web--pr-1.example.com"), ("baggage", "sd-sandbox=k4")]), None);
    assert_eq!(of(&[("baggage", "sd-routing-key=k1")]), None);
}

#[rstest]
#[case(&[("connection", "keep-alive"), ("keep-alive", "timeout=5"), ("a", "b")], false, &[("a", "b")])]
#[case(&[("connection", "x-mine, close"), ("x-mine", "1"), ("host", "h")], false, &[("host", "h")])]
// A request that names them must not lose them: others decide by them.
#[case(&[("connection", "host, content-length"), ("host", "h"), ("content-length", "3")], false,
    &[("content-length", "3"), ("host", "h")])]
#[case(&[("te", "trailers, deflate;q=0.5")], false, &[("te", "trailers")])]
#[case(&[("te", "deflate")], false, &[])]
#[case(&[("proxy-connection", "close"), ("transfer-encoding", "chunked")], false, &[])]
#[case(&[("connection", "Upgrade"), ("upgrade", "websocket")], true,
    &[("connection", "upgrade"), ("upgrade", "websocket")])]
#[case(&[("connection", "Upgrade, HTTP2-Settings"), ("upgrade", "h2c"), ("http2-settings", "x")], false, &[])]
fn what_is_for_the_neighbour_alone_is_taken_out(
    #[case] before: &[(&'static str, &str)],
    #[case] keep_upgrade: bool,
    #[case] after: &[(&'static str, &str)],
) {
    let mut all = headers(before);
    strip_hop_by_hop(&mut all, keep_upgrade);
    assert_eq!(lines(&all), lines(&headers(after)));
}

#[rstest]
#[case(&[("connection", "keep-alive, Upgrade"), ("upgrade", "websocket")], true)]
#[case(&[("connection", "Upgrade"), ("upgrade", "H2C")], false)]
#[case(&[("connection", "keep-alive"), ("upgrade", "websocket")], false)]
#[case(&[("connection", "upgrade")], false)]
fn an_upgrade_needs_both_headers(#[case] lines: &[(&'static str, &str)], #[case] wants: bool) {
    assert_eq!(wants_upgrade(&headers(lines)), wants);
}

#[test]
fn the_callers_address_comes_last() {
    let peer = HeaderValue::from_static("10.0.0.9");
    let mut alone = HeaderMap::new();
    add_forwarded_for(&mut alone, &peer);
    assert_eq!(lines(&alone), [("x-forwarded-for".to_owned(), "10.0.0.9".to_owned())]);
    let mut more = headers(&[("x-forwarded-for", "1.1.1.1"), ("x-forwarded-for", "2.2.2.2, 3.3.3.3")]);
    add_forwarded_for(&mut more, &peer);
    let all = "1.1.1.1, 2.2.2.2, 3.3.3.3, 10.0.0.9".to_owned();
    assert_eq!(lines(&more), [("x-forwarded-for".to_owned(), all)]);
}

#[test]
fn a_preview_merges_its_key_and_replaces_nothing() {
    let mut all = headers(&[
        ("baggage", "user=7"),
        ("baggage", "tier=gold;p=1"),
        ("tracestate", "congo=t61"),
        ("traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"),
    ]);
    inject_key(&mut all, &key("k1"));
    assert_eq!(all["baggage"], "user=7,tier=gold;p=1,sd-routing-key=k1");
    assert_eq!(all["tracestate"], "sd-routing-key=k1,congo=t61");
    assert_eq!(all["traceparent"], "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01");
}

#[test]
fn a_preview_makes_a_traceparent_where_there_is_none() {
    let made = || {
        let mut all = HeaderMap::new();
        inject_key(&mut all, &key("k1"));
        assert_eq!((&all["baggage"], &all["tracestate"]), (&all["tracestate"], &all["baggage"]));
        all["traceparent"].to_str().unwrap().to_owned()
    };
    let (one, other) = (made(), made());
    assert_ne!(one, other);
    let parts = one.split('-').map(str::len).collect::<Vec<_>>();
    assert_eq!(parts, [2, 32, 16, 2], "{one}");
    assert!(one.bytes().all(|byte| byte == b'-' || byte.is_ascii_hexdigit()), "{one}");
}

#[test]
fn a_tracestate_keeps_32_members_at_most() {
    let many = (0..32).map(|at| format!("v{at}=x")).collect::<Vec<_>>().join(",");
    let mut all = headers(&[("tracestate", &many)]);
    inject_key(&mut all, &key("k1"));
    let state = all["tracestate"].to_str().unwrap();
    assert_eq!(state.split(',').count(), 32);
    assert!(state.starts_with("sd-routing-key=k1,v0=x,") && state.ends_with("v30=x"), "{state}");
}

#[rstest]
#[case("service=cart.shop&baggage=sd-routing-key%3Dk1", "fork/shop/pr-1", "in baggage has a route here")]
#[case(
    "service=shop/cart:80&tracestate=sd-routing-key%3Dk4",
    "baseline",
    "the key k4 in tracestate is unknown"
)]
#[case("service=shop/cart&x-tenant=k3", "baseline", "overrides other services")]
#[case("service=cart.shop.svc&port=80", "baseline", "the request has no routing key")]
#[case("service=cart.shop&host=web--pr-1.example.com", "fork/shop/pr-1", "the host of a preview")]
#[case("service=cart.shop&baggage=sd-routing-key=k2", "conflict", "has a route here")]
fn explanations_name_the_route_and_the_reason(#[case] query: &str, #[case] route: &str, #[case] why: &str) {
    let told = explain::explain(&table(), query).unwrap();
    assert_eq!(told["route"], route, "{told}");
    assert!(told["why"].as_str().unwrap().contains(why), "{told}");
}

#[rstest]
#[case("", "missing parameter `service`")]
#[case("service=gone.shop", "no route for service")]
#[case("service=cart.shop&port=81", "no route for service")]
#[case("service=cart.shop&path=%20", "path")]
#[case("service=cart.shop&a%20b=c", "is not a valid header")]
fn a_bad_question_is_told_what_is_wrong_with_it(#[case] query: &str, #[case] message: &str) {
    let told = explain::explain(&table(), query).unwrap_err();
    assert!(told.contains(message), "{told}");
}

#[rstest]
#[case("", 1)]
#[case("baselineKind=Deployment&baselineNamespace=shop&baselineName=cart", 1)]
#[case("baselineKind=Deployment&baselineNamespace=shop&baselineName=cart&destinationSandboxName=pr-1", 1)]
#[case("routingKey=k1", 1)]
#[case("routingKey=k2", 0)]
#[case("baselineName=web", 0)]
#[case("destinationSandboxName=pr-2", 0)]
fn queue_consumers_are_told_which_keys_are_whose(#[case] query: &str, #[case] count: usize) {
    let rules = explain::rules_json(&table(), query);
    let rules = rules["routingRules"].as_array().unwrap();
    assert_eq!(rules.len(), count);
    if let Some(rule) = rules.first() {
        assert_eq!(rule["routingKey"], "k1");
        assert_eq!(rule["baseline"]["name"], "cart");
        assert_eq!(rule["destinationSandbox"]["name"], "pr-1");
        assert_eq!(rule["mappings"][0]["destinations"][0]["host"], "cart-pr-1");
    }
}

#[test]
fn figures_have_services_and_routes_and_no_keys() {
    let table = table();
    let meter = table.route_by_host("cart.shop").unwrap().metrics();
    meter.record_request(ResponderKind::Fork, std::time::Duration::from_micros(700));
    meter.record_unknown_key();
    let text = metrics::render_routes(&table, (1, 2), 3);
    for line in [
        "router_requests_total{service=\"shop/cart:80\",route=\"fork\"} 1",
        "router_requests_total{service=\"shop/cart:80\",route=\"baseline\"} 0",
        "router_unknown_key_total{service=\"shop/cart:80\"} 1",
        "router_request_duration_seconds_bucket{service=\"shop/cart:80\",le=\"0.0005\"} 0",
        "router_request_duration_seconds_bucket{service=\"shop/cart:80\",le=\"0.001\"} 1",
        "router_request_duration_seconds_bucket{service=\"shop/cart:80\",le=\"+Inf\"} 1",
        "router_request_duration_seconds_count{service=\"shop/cart:80\"} 1",
        "router_table_entries 3",
        "router_connections 3",
    ] {
        assert!(text.lines().any(|own| own == line), "{line} is not in:\n{text}");
    }
    assert!(!text.contains("k1"), "{text}");
}
