use std::{net::SocketAddr, sync::Arc};

use http::{HeaderName, HeaderValue, StatusCode};
use proptest::prelude::*;
use rstest::rstest;

use super::*;

fn address(port: u16) -> SocketAddr {
    ([10, 0, 0, 1], port).into()
}

fn key(text: &str) -> RoutingKey {
    RoutingKey::parse(text).unwrap()
}

fn fork(sandbox: &str, port: u16) -> Target {
    Target::Backend(Backend::fork("shop", sandbox, [address(port)]))
}

fn cart() -> Route {
    let baseline = Backend::baseline([address(1), address(2)]);
    Route::new(ServicePort::new("shop", "cart", 80), baseline).with_listener(20_001)
}

fn table(routes: impl IntoIterator<Item = Route>) -> RouteTable {
    let mut builder = RouteTable::builder();
    for route in routes {
        builder.add(route);
    }
    builder.build()
}

#[test]
fn a_key_that_nobody_knows_has_no_target() {
    let mut route = cart();
    route.set_override(key("k1"), fork("pr-1", 3));
    let table = table([route]);
    let route = table.route_at_port(20_001).unwrap();
    assert_eq!(route.target("k1").unwrap().name(), "fork/shop/pr-1");
    assert!(route.target("k2").is_none());
    assert!(table.route_at_port(20_002).is_none());
    assert_eq!(table.override_count(), 1);
}

#[test]
fn addresses_take_turns_and_each_one_is_tried() {
    let backend = Backend::baseline([address(2), address(1), address(2), address(3)]);
    let first = |_| backend.rotation().next().unwrap().port();
    assert_eq!((0..4).map(first).collect::<Vec<_>>(), [1, 2, 3, 1]);
    let mut all = backend.rotation().map(|it| it.port()).collect::<Vec<_>>();
    all.sort_unstable();
    assert_eq!(all, [1, 2, 3]);
    assert_eq!(Backend::baseline([]).rotation().count(), 0);
}

#[rstest]
#[case("cart.shop", Some(80))]
#[case("cart.shop:80", Some(80))]
#[case("cart.shop.svc:8080", Some(8080))]
#[case("cart.shop.svc.cluster.local", Some(80))]
#[case("cart.shop.svc.cluster.local.:80", Some(80))]
#[case("cart.shop:81", None)]
#[case("cart", None)]
#[case("cart.other", None)]
#[case("cart.shop.svcx", None)]
#[case("", None)]
fn a_service_is_found_by_the_names_that_it_has_in_a_cluster(#[case] host: &str, #[case] port: Option<u16>) {
    let other = Route::new(ServicePort::new("shop", "cart", 8080), Backend::baseline([]));
    let table = table([cart(), other]);
    assert_eq!(table.route_by_host(host).map(|route| route.service().port()), port);
}

#[test]
fn the_only_port_of_a_service_needs_no_number() {
    let only = Route::new(ServicePort::new("shop", "web", 3000), Backend::baseline([]));
    let table = table([only]);
    assert!(table.route_by_host("web.shop").is_some());
    assert!(table.route_by_host("web.shop:80").is_none());
}

#[test]
fn a_preview_gives_its_key_whatever_the_case_and_port_of_its_host() {
    let mut builder = RouteTable::builder();
    builder.add(cart());
    let preview = Preview::new(ServicePort::new("shop", "cart", 80), key("k1"));
    builder.preview("Web--pr-1--shop.preview.example.com", preview.clone());
    let gone = Preview::new(ServicePort::new("shop", "gone", 80), key("k1"));
    builder.preview("gone.preview.example.com", gone);
    let table = builder.build();
    let host = "web--PR-1--shop.preview.example.com:443";
    assert_eq!(table.preview_by_host(host).unwrap().0, &preview);
    assert!(table.preview_by_host("gone.preview.example.com").is_none());
    assert!(table.preview_by_host("web--pr-2--shop.preview.example.com").is_none());
}

#[test]
fn one_listener_has_one_route() {
    let later = Route::new(ServicePort::new("shop", "web", 80), Backend::baseline([])).with_listener(20_001);
    let table = table([later, cart()]);
    assert_eq!(table.route_at_port(20_001).unwrap().service().name(), "cart");
    assert!(table.route_by_host("web.shop").is_some());
}

#[test]
fn addresses_of_all_targets_are_known() {
    let mut route = cart();
    route.set_override(key("k1"), fork("pr-1", 3));
    route.set_override(key("k2"), Target::Unavailable(Arc::new(UnavailableTarget::conflict("two"))));
    assert_eq!(table([route]).addresses(), [address(1), address(2), address(3)].into());
}

/// Every way to make a table different from [`cart`] alone.
#[rstest]
#[case::listener(|route: Route| route.with_listener(20_009))]
#[case::protocol(|route: Route| route.with_protocol(AppProtocol::Tcp))]
#[case::header(|mut route: Route| { route.add_key_header(HeaderName::from_static("x-tenant")); route })]
#[case::query(|mut route: Route| { route.add_key_query("key"); route })]
#[case::fork(|mut route: Route| { route.set_override(key("k1"), fork("pr-1", 3)); route })]
#[case::other_address(|mut route: Route| { route.set_override(key("k1"), fork("pr-1", 4)); route })]
#[case::other_sandbox(|mut route: Route| { route.set_override(key("k1"), fork("pr-2", 3)); route })]
#[case::other_key(|mut route: Route| { route.set_override(key("k2"), fork("pr-1", 3)); route })]
#[case::virtual_of(|mut route: Route| { route.set_override(key("k1"), Target::new_virtual("shop", "pr-1")); route })]
#[case::conflict(|mut route: Route| {
    route.set_override(key("k1"), Target::Unavailable(Arc::new(UnavailableTarget::conflict("two")))); route
})]
#[case::unready(|mut route: Route| {
    route.set_override(key("k1"), Target::Unavailable(Arc::new(UnavailableTarget::unready("shop", "pr-1", "no pod")))); route
})]
#[case::local(|route: Route| with_local(route, |local| local))]
#[case::local_protocol(|route: Route| with_local(route, |local| local.with_protocol(AppProtocol::Grpc)))]
#[case::local_header(|route: Route| with_local(route, |local| {
    local.with_condition(ResponseCondition::Header(HeaderName::from_static("sd-override"), HeaderValue::from_static("true")))
}))]
#[case::local_codes(|route: Route| with_local(route, |local| {
    local.with_condition(ResponseCondition::ExceptStatus(vec![StatusCode::NOT_FOUND]))
}))]
#[case::local_baseline(|route: Route| with_local(route, |local| local.with_disconnected_policy(DisconnectedPolicy::Baseline)))]
#[case::local_fork(|route: Route| with_local(route, |local| {
    local.with_fall_through(FallThrough::Fork(Backend::fork("shop", "pr-1", [address(3)])))
}))]
#[case::local_gateway(|route: Route| with_local(route, |local| {
    local.with_gateway(SessionGateway { name: "router-0".to_owned(), address: [10, 0, 0, 9].into() })
}))]
fn every_part_of_a_route_is_in_the_revision(#[case] change: fn(Route) -> Route) {
    let changed = table([change(cart())]).revision();
    assert_ne!(changed, table([cart()]).revision());
    assert_eq!(changed, table([change(cart())]).revision());
}

fn with_local(mut route: Route, change: impl FnOnce(LocalTarget) -> LocalTarget) -> Route {
    let local = change(LocalTarget::new("shop", "cart-local", 8080));
    route.set_override(key("k1"), Target::Local(Arc::new(local)));
    route
}

#[test]
fn previews_and_rules_are_in_the_revision() {
    let mut previewed = RouteTable::builder();
    previewed.preview("a.example.com", Preview::new(ServicePort::new("shop", "cart", 80), key("k1")));
    let mut ruled = RouteTable::builder();
    let workload =
        BaselineWorkload { kind: "Deployment".into(), namespace: "shop".into(), name: "cart".into() };
    let rule = RoutingRule { routing_key: key("k1"), sandbox: "pr-1".into(), mappings: vec![] };
    ruled.rule(workload.clone(), rule.clone());
    let (previewed, ruled) = (previewed.build(), ruled.build());
    assert_eq!(ruled.rules(&workload), [rule]);
    let all = [previewed.revision(), ruled.revision(), RouteTable::builder().build().revision()];
    assert!(all[0] != all[1] && all[1] != all[2] && all[0] != all[2], "{all:?}");
}

#[test]
fn only_keys_are_keys() {
    assert!(RoutingKey::parse("k1").is_some());
    for text in ["", "K1", "k_1", "-k1", &"k".repeat(64)] {
        assert!(RoutingKey::parse(text).is_none(), "{text}");
    }
}

#[test]
fn a_revision_is_written_with_sixteen_digits() {
    assert_eq!(TableRevision(0xab).to_string(), "00000000000000ab");
}

proptest! {
    /// Watches deliver objects in any order; all routers and the controller must agree on the revision.
    #[test]
    fn the_order_of_parts_is_not_in_the_revision(order in Just((0..24_u16).collect::<Vec<_>>()).prop_shuffle()) {
        let made = |order: &[u16]| {
            let mut builder = RouteTable::builder();
            for at in order {
                let service = ServicePort::new("shop", &format!("s{}", at % 3), 80);
                let route = builder.entry(service.clone(), |service| {
                    Route::new(service, Backend::baseline([address(2), address(1)]))
                });
                route.set_override(key(&format!("k{at}")), fork(&format!("pr-{at}"), *at));
                let header = ["x-a", "x-b", "x-c", "x-d"][usize::from(at % 4)];
                route.add_key_header(HeaderName::from_static(header));
                route.add_key_query(header);
                builder.preview(&format!("{at}.example.com"), Preview::new(service, key(&format!("k{at}"))));
                let workload = BaselineWorkload { kind: "D".into(), namespace: "shop".into(), name: "s".into() };
                let routing_key = key(&format!("k{at}"));
                builder.rule(workload, RoutingRule { routing_key, sandbox: "pr".into(), mappings: vec![] });
            }
            builder.build()
        };
        let sorted = (0..24_u16).collect::<Vec<_>>();
        prop_assert_eq!(made(&order).revision(), made(&sorted).revision());
    }
}

#[test]
fn counters_go_from_table_to_table() {
    let old = table([cart()]);
    old.route_at_port(20_001)
        .unwrap()
        .metrics()
        .record_request(ResponderKind::Fork, std::time::Duration::from_millis(3));
    let new = table([cart(), Route::new(ServicePort::new("shop", "web", 80), Backend::baseline([]))]);
    new.inherit_metrics(&old);
    new.route_at_port(20_001).unwrap().metrics().record_unknown_key();
    let seen = old.route_at_port(20_001).unwrap().metrics().snapshot();
    assert_eq!((seen.requests[1], seen.unknown_keys), ((ResponderKind::Fork, 1), 1));
    // Within 5 ms, but not within 2.5.
    assert_eq!(&seen.cumulative[2..6], [0, 0, 1, 1]);
    assert_eq!(new.route_by_host("web.shop").unwrap().metrics().snapshot().unknown_keys, 0);
}
