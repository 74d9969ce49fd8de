use super::*;
use crate::condition::ConditionStatus;

fn router(name: &str, ready: bool, revision: Option<&str>) -> RouterObservation {
    RouterObservation {
        namespace: "shop".into(),
        name: name.into(),
        ready,
        revision: revision.map(str::to_owned),
    }
}

fn shop() -> Shop {
    let mut shop = Shop::new(&["cart", "web"]);
    shop.take_over("cart", 20_001);
    shop.sandbox("pr-1", &["cart"], true);
    shop
}

/// One whose traffic does not come to the router, with this annotation at its Service.
fn not_taken(word: Option<&str>) -> Shop {
    let mut shop = Shop::new(&["cart", "web"]);
    shop.services[0].metadata.annotations = word.map(annotated);
    shop.sandbox("pr-1", &["cart"], true);
    shop
}

fn annotated(word: &str) -> BTreeMap<String, String> {
    [(capt_kinds::sandbox::names::ROUTING_ANNOTATION.to_owned(), word.to_owned())].into()
}

/// What is said if every router has the newest table.
fn up_to_date(shop: &Shop) -> (ConditionStatus, &'static str, String) {
    let routes = shop.routes();
    let seen = [router("a", true, Some(&routes.revisions["shop"]))];
    let found = programming_status(&routes.owners[&owner(OwnerKind::Sandbox, "pr-1")], &routes, &seen, None)
        .condition;
    (found.status, found.reason, found.message)
}

fn ask(
    routes: &Routes,
    seen: &[RouterObservation],
    before: Option<&str>,
) -> (ConditionStatus, &'static str, String) {
    let own = &routes.owners[&owner(OwnerKind::Sandbox, "pr-1")];
    let answer = programming_status(own, routes, seen, before);
    assert_eq!(answer.digest.is_some(), answer.condition.status == ConditionStatus::True);
    (answer.condition.status, answer.condition.reason, answer.routers)
}

#[test]
fn routes_are_programmed_when_every_ready_router_has_them() {
    let routes = shop().routes();
    let now = routes.revisions["shop"].clone();
    let (has, lacks) = (router("a", true, Some(&now)), router("b", true, Some("older")));
    assert_eq!(
        ask(&routes, std::slice::from_ref(&has), None),
        (ConditionStatus::True, "Programmed", "1/1".into())
    );
    assert_eq!(
        ask(&routes, &[has.clone(), lacks.clone()], None),
        (ConditionStatus::False, "RoutersBehind", "1/2".into())
    );
    let starting = RouterObservation { ready: false, ..lacks };
    assert_eq!(ask(&routes, &[has, starting], None), (ConditionStatus::True, "Programmed", "1/1".into()));
    assert_eq!(ask(&routes, &[router("a", true, None)], None).1, "RoutersBehind");
    assert_eq!(ask(&routes, &[], None).1, "NoRouters");
    let elsewhere = RouterObservation { namespace: "other".into(), ..router("a", true, Some(&now)) };
    assert_eq!(ask(&routes, &[elsewhere], None).1, "NoRouters");
}

#[test]
fn routes_of_others_take_nothing_away() {
    let mut shop = shop();
    let before = shop.routes();
    let digest = before.owners[&owner(OwnerKind::Sandbox, "pr-1")].digest.clone();
    let behind = [router("a", true, Some(&before.revisions["shop"]))];
    shop.sandbox("pr-2", &["web"], true);
    let after = shop.routes();
    assert_ne!(after.revisions["shop"], before.revisions["shop"]);
    assert_eq!(ask(&after, &behind, Some(&digest)).0, ConditionStatus::True, "its own routes did not change");
    assert_eq!(ask(&after, &behind, None).0, ConditionStatus::False);
    // A change of its own does count.
    let at = shop.slice_of("cart-pr-1");
    shop.slices[at].endpoints.clear();
    assert_eq!(ask(&shop.routes(), &behind, Some(&digest)).0, ConditionStatus::False);
}

#[test]
fn a_router_with_an_older_table_in_which_the_routes_are_the_same_has_them() {
    let mut shop = shop();
    let mut history = TableHistory::default();
    let first = shop.routes();
    let old = [router("a", true, Some(&first.revisions["shop"]))];
    for number in 0..10 {
        history = history.with(&shop.routes());
        shop.sandbox(&format!("other-{number}"), &["web"], true);
    }
    let with =
        |shop: &Shop, history: &TableHistory| Routes { history: history.clone().into(), ..shop.routes() };
    assert_eq!(ask(&with(&shop, &history), &old, None), (ConditionStatus::True, "Programmed", "1/1".into()));
    assert_eq!(ask(&shop.routes(), &old, None).0, ConditionStatus::False, "no earlier change is remembered");
    // A table in which they are others does not count, and neither does one that nobody remembers.
    let at = shop.slice_of("cart-pr-1");
    shop.slices[at].endpoints.clear();
    assert_eq!(ask(&with(&shop, &history), &old, None).1, "RoutersBehind");
    for number in 0..100 {
        shop.sandbox(&format!("more-{number}"), &["web"], true);
        history = history.with(&shop.routes());
    }
    assert!(!history.had_routes(
        "shop",
        &first.revisions["shop"],
        first.owners[&owner(OwnerKind::Sandbox, "pr-1")].namespace_digests["shop"]
    ));
}

#[test]
fn f13_a_service_that_nobody_annotated_is_told_with_the_remedy() {
    let (status, reason, message) = up_to_date(&not_taken(None));
    assert_eq!((status, reason), (ConditionStatus::False, "NotRouted"));
    assert!(
        message.contains("kubectl -n shop annotate service cart sandbox.capt.x-k8s.io/routing=enabled"),
        "{message}"
    );
    assert_eq!(up_to_date(&not_taken(Some("disabled"))).1, "NotRouted");
}

#[test]
fn callers_who_go_to_the_router_by_themselves_need_no_annotation() {
    let mut shop = not_taken(None);
    shop.sandboxes[0].spec.endpoints =
        serde_json::from_value(json!([{"name": "cart", "target": "http://cart.shop.svc"}])).unwrap();
    assert_eq!(up_to_date(&shop).1, "Programmed", "visitors come by the host of the endpoint");
    let mut shop = not_taken(None);
    let spec = json!({"match": {"label": {"key": "feature", "value": "*"}}, "routing": {"mode": "Explicit"}});
    shop.group("g", &spec);
    let routes = shop.routes();
    assert!(routes.owners[&owner(OwnerKind::RouteGroup, "g")].unrouted.is_empty());
    assert_eq!(up_to_date(&shop).1, "Programmed", "and so do its members need none");
    shop.groups[0].spec.routing.mode = capt_kinds::sandbox::RoutingMode::Router;
    assert_eq!(up_to_date(&shop).1, "NotRouted");
    assert_eq!(shop.routes().owners[&owner(OwnerKind::RouteGroup, "g")].unrouted.len(), 1);
}

#[test]
fn a_service_whose_traffic_does_not_come_yet_is_waited_for() {
    let mut shop = not_taken(Some("enabled"));
    assert_eq!(up_to_date(&shop).1, "RoutersBehind");
    shop.take_over("cart", 20_001);
    assert_eq!(up_to_date(&shop).0, ConditionStatus::True);
}

#[test]
fn a_namespace_may_ask_for_all_its_services_and_a_service_may_refuse() {
    let mut shop = not_taken(None);
    shop.namespaces[0].metadata.annotations = Some(annotated("enabled"));
    assert_eq!(up_to_date(&shop).1, "RoutersBehind");
    shop.services[0].metadata.annotations = Some(annotated("while-active"));
    assert_eq!(up_to_date(&shop).1, "RoutersBehind");
    shop.services[0].metadata.annotations = Some(annotated("disabled"));
    assert_eq!(up_to_date(&shop).1, "NotRouted");
}

#[test]
fn a_service_that_no_router_can_stand_before_is_told_and_not_waited_for() {
    let mut shop = not_taken(None);
    shop.namespaces[0].metadata.annotations = Some(annotated("enabled"));
    let ports = shop.services[0].spec.as_mut().unwrap().ports.as_mut().unwrap();
    ports.push(serde_json::from_value(json!({"name": "dns", "port": 53, "protocol": "UDP"})).unwrap());
    let (_, reason, message) = up_to_date(&shop);
    assert_eq!(reason, "NotRouted");
    assert!(message.ends_with("a router takes only TCP ports"), "{message}");
}

#[test]
fn who_took_a_service_back_is_named() {
    let mut shop = not_taken(Some("enabled"));
    shop.service("cart-sbxbase-aaaa", &json!({capt_kinds::sandbox::names::BASE_OF_LABEL: "cart"}), None);
    assert_eq!(up_to_date(&shop).1, "RoutersBehind");
    let routes = shop.routes();
    assert_eq!(ask(&routes, &[], None).1, "RouterBypassed", "it was given back because none is ready");
    let by = (capt_kinds::sandbox::names::REVERTED_BY_ANNOTATION.to_owned(), "argocd-controller".to_owned());
    shop.services.last_mut().unwrap().metadata.annotations = Some([by].into());
    let (_, reason, message) = up_to_date(&shop);
    assert_eq!(reason, "ServiceReverted");
    assert!(message.starts_with("argocd-controller reverted shop/cart"), "{message}");
}

#[test]
fn a_port_that_speaks_something_else_carries_no_key() {
    let mut shop = shop();
    let speak = |shop: &mut Shop, at: usize, word: &str| {
        shop.services[0].spec.as_mut().unwrap().ports.as_mut().unwrap()[at].app_protocol = Some(word.into());
    };
    speak(&mut shop, 0, "tls");
    assert_eq!(up_to_date(&shop).1, "L7Unavailable");
    // One port that can be looked into is enough; the other one is told.
    let ports = shop.services[0].spec.as_mut().unwrap().ports.as_mut().unwrap();
    ports.push(serde_json::from_value(json!({"name": "more", "port": 81, "targetPort": 20002})).unwrap());
    let service = &mut shop.sandboxes[0].status.as_mut().unwrap().forks[0].services[0];
    service.ports.push(serde_json::from_value(json!({"port": 81, "targetPort": 8081})).unwrap());
    let (status, _, message) = up_to_date(&shop);
    assert_eq!(status, ConditionStatus::True);
    assert!(message.contains("shop/cart:80 is forwarded"), "{message}");
}

#[test]
fn nothing_to_route_is_programmed_and_a_key_in_conflict_never_is() {
    let mut shop = Shop::new(&["cart"]);
    shop.sandbox("pr-1", &[], true);
    assert_eq!(ask(&shop.routes(), &[], None), (ConditionStatus::True, "None", "0/0".into()));
    shop.sandbox("older", &["cart"], true);
    for sandbox in &mut shop.sandboxes {
        sandbox.spec.routing_key = Some("same".into());
    }
    assert_eq!(ask(&shop.routes(), &[], None).1, "RoutingKeyConflict");
}
