use super::*;
use crate::condition::Status;

fn router(name: &str, ready: bool, revision: Option<&str>) -> RouterSeen {
    RouterSeen { namespace: "shop".into(), name: name.into(), ready, revision: revision.map(str::to_owned) }
}

fn shop() -> Shop {
    let mut shop = Shop::new(&["cart", "web"]);
    shop.sandbox("pr-1", &["cart"], true);
    shop
}

fn ask(routes: &Routes, seen: &[RouterSeen], before: Option<&str>) -> (Status, &'static str, String) {
    let own = &routes.owners[&owner(Kind::Sandbox, "pr-1")];
    let answer = programmed(own, routes, seen, before);
    assert_eq!(answer.digest.is_some(), answer.finding.status == Status::True);
    (answer.finding.status, answer.finding.reason, answer.routers)
}

#[test]
fn routes_are_programmed_when_every_ready_router_has_them() {
    let routes = shop().routes();
    let now = routes.revisions["shop"].clone();
    let (has, lacks) = (router("a", true, Some(&now)), router("b", true, Some("older")));
    assert_eq!(ask(&routes, std::slice::from_ref(&has), None), (Status::True, "Programmed", "1/1".into()));
    assert_eq!(
        ask(&routes, &[has.clone(), lacks.clone()], None),
        (Status::False, "RoutersBehind", "1/2".into())
    );
    let starting = RouterSeen { ready: false, ..lacks };
    assert_eq!(ask(&routes, &[has, starting], None), (Status::True, "Programmed", "1/1".into()));
    assert_eq!(ask(&routes, &[router("a", true, None)], None).1, "RoutersBehind");
    assert_eq!(ask(&routes, &[], None).1, "NoRouters");
    let elsewhere = RouterSeen { namespace: "other".into(), ..router("a", true, Some(&now)) };
    assert_eq!(ask(&routes, &[elsewhere], None).1, "NoRouters");
}

#[test]
fn routes_of_others_take_nothing_away() {
    let mut shop = shop();
    let before = shop.routes();
    let digest = before.owners[&owner(Kind::Sandbox, "pr-1")].digest.clone();
    let behind = [router("a", true, Some(&before.revisions["shop"]))];
    shop.sandbox("pr-2", &["web"], true);
    let after = shop.routes();
    assert_ne!(after.revisions["shop"], before.revisions["shop"]);
    assert_eq!(ask(&after, &behind, Some(&digest)).0, Status::True, "its own routes did not change");
    assert_eq!(ask(&after, &behind, None).0, Status::False);
    // A change of its own does count.
    let at = shop.slice_of("cart-pr-1");
    shop.slices[at].endpoints.clear();
    assert_eq!(ask(&shop.routes(), &behind, Some(&digest)).0, Status::False);
}

#[test]
fn a_service_whose_traffic_does_not_come_yet_is_waited_for() {
    let mut shop = shop();
    shop.services[0].metadata.annotations =
        Some([(crate::api::names::ROUTING_ANNOTATION.to_owned(), "enabled".to_owned())].into());
    let routes = shop.routes();
    let all = [router("a", true, Some(&routes.revisions["shop"]))];
    assert_eq!(ask(&routes, &all, None).1, "RoutersBehind");
    shop.take_over("cart", 20_001);
    let routes = shop.routes();
    let all = [router("a", true, Some(&routes.revisions["shop"]))];
    assert_eq!(ask(&routes, &all, None).0, Status::True);
}

#[test]
fn a_namespace_may_ask_for_all_its_services_and_a_service_may_refuse() {
    let mut shop = shop();
    let enabled =
        |word: &str| Some([(crate::api::names::ROUTING_ANNOTATION.to_owned(), word.to_owned())].into());
    shop.namespaces[0].metadata.annotations = enabled("enabled");
    assert_eq!(shop.routes().owners[&owner(Kind::Sandbox, "pr-1")].waiting, ["shop/cart"]);
    shop.services[0].metadata.annotations = enabled("while-active");
    assert_eq!(shop.routes().owners[&owner(Kind::Sandbox, "pr-1")].waiting, ["shop/cart"]);
    shop.services[0].metadata.annotations = enabled("disabled");
    assert!(shop.routes().owners[&owner(Kind::Sandbox, "pr-1")].waiting.is_empty());
}

#[test]
fn nothing_to_route_is_programmed_and_a_key_in_conflict_never_is() {
    let mut shop = Shop::new(&["cart"]);
    shop.sandbox("pr-1", &[], true);
    assert_eq!(ask(&shop.routes(), &[], None), (Status::True, "None", "0/0".into()));
    shop.sandbox("older", &["cart"], true);
    for sandbox in &mut shop.sandboxes {
        sandbox.spec.routing_key = Some("same".into());
    }
    assert_eq!(ask(&shop.routes(), &[], None).1, "RoutingKeyConflict");
}
