mod fixture;
mod groups;
mod locals;
mod programmed;
mod properties;
mod virtuals;

use sandbox_router::table::{BaselineWorkload, DisconnectedPolicy, ResponderKind as TargetKind, Target};
use serde_json::json;

use self::fixture::Shop;
use super::*;

fn owner(kind: OwnerKind, name: &str) -> RouteOwner {
    RouteOwner { namespace: "shop".into(), name: name.into(), kind }
}

#[test]
fn a_sandboxes_key_leads_to_its_fork_and_nowhere_else() {
    let mut shop = Shop::new(&["cart", "web"]);
    shop.sandbox("pr-1", &["cart"], true);
    let routes = shop.routes();
    let cart = routes.table.route("shop", "cart", 80).unwrap();
    let target = cart.target("pr-1-key").unwrap();
    assert_eq!((target.kind(), target.name().to_str().unwrap()), (TargetKind::Fork, "fork/shop/pr-1"));
    assert_eq!(target.backend().unwrap().addresses(), ["10.1.0.1:8080".parse().unwrap()]);
    assert_eq!(cart.baseline().addresses(), ["10.0.0.1:8080".parse().unwrap()]);
    assert!(cart.target("other").is_none());
    assert!(routes.table.route("shop", "web", 80).is_none(), "nobody overrides web");
    let own = &routes.owners[&owner(OwnerKind::Sandbox, "pr-1")];
    assert_eq!((own.key.as_str(), own.routes), ("pr-1-key", 1));
}

#[test]
fn a_key_that_nobody_chose_is_made_from_the_uid() {
    let mut shop = Shop::new(&["cart"]);
    shop.sandbox("pr-1", &["cart"], true);
    shop.sandboxes[0].spec.routing_key = Some(String::new());
    let key = crate::digest::routing_key("uid-pr-1");
    assert!(shop.routes().table.route("shop", "cart", 80).unwrap().target(&key).is_some());
}

#[test]
fn a_fork_without_a_ready_pod_fails_loudly() {
    let mut shop = Shop::new(&["cart"]);
    shop.sandbox("pr-1", &["cart"], false);
    shop.sandboxes[0].status.as_mut().unwrap().forks[0].message = "ImagePullBackOff: x".into();
    let routes = shop.routes();
    let Some(Target::Unavailable(why)) = routes.table.route("shop", "cart", 80).unwrap().target("pr-1-key")
    else {
        panic!("somebody answers")
    };
    assert_eq!((why.error().to_str().unwrap(), why.name().to_str().unwrap()), ("unready", "fork/shop/pr-1"));
    assert!(why.message().contains("ImagePullBackOff"), "{}", why.message());
    assert_eq!(routes.owners[&owner(OwnerKind::Sandbox, "pr-1")].unready_ports, ["shop/cart:80"]);
}

#[test]
fn a_port_that_the_fork_lacks_fails_loudly_too() {
    let mut shop = Shop::new(&["cart"]);
    shop.sandbox("pr-1", &["cart"], true);
    let service = &mut shop.sandboxes[0].status.as_mut().unwrap().forks[0].services[0];
    service.missing_ports = vec![service.ports.remove(0).port];
    let routes = shop.routes();
    let Some(Target::Unavailable(why)) = routes.table.route("shop", "cart", 80).unwrap().target("pr-1-key")
    else {
        panic!("somebody answers")
    };
    assert!(why.message().contains("no container with this port"), "{}", why.message());
}

#[test]
fn a_sandbox_that_goes_takes_its_routes_with_it() {
    let mut shop = Shop::new(&["cart"]);
    shop.sandbox("pr-1", &["cart"], true);
    shop.sandboxes[0].metadata.deletion_timestamp = shop.sandboxes[0].metadata.creation_timestamp.clone();
    assert!(shop.routes().table.route("shop", "cart", 80).is_none());
}

#[test]
fn a_fork_that_left_the_spec_leaves_the_table() {
    let mut shop = Shop::new(&["cart"]);
    shop.sandbox("pr-1", &["cart"], true);
    shop.sandboxes[0].spec.forks.clear();
    assert!(shop.routes().table.route("shop", "cart", 80).is_none());
}

#[test]
fn b5_of_two_objects_with_one_key_the_older_has_it() {
    let mut shop = Shop::new(&["cart", "web"]);
    shop.sandbox("young", &["cart"], true);
    shop.sandbox("old", &["web"], true);
    for (at, time) in ["2026-11-17T06:00:00Z", "2026-11-17T05:00:00Z"].iter().enumerate() {
        shop.sandboxes[at].spec.routing_key = Some("same".into());
        shop.sandboxes[at].metadata.creation_timestamp = serde_json::from_value(json!(time)).unwrap();
    }
    let routes = shop.routes();
    assert!(routes.table.route("shop", "web", 80).unwrap().target("same").is_some());
    assert!(routes.table.route("shop", "cart", 80).is_none());
    let young = &routes.owners[&owner(OwnerKind::Sandbox, "young")];
    assert_eq!(young.key_holder, Some(owner(OwnerKind::Sandbox, "old")));
    assert_eq!(routes.owners[&owner(OwnerKind::Sandbox, "old")].key_holder, None);
    // The same age: by name, whoever comes first in the list.
    shop.sandboxes[0].metadata.creation_timestamp = shop.sandboxes[1].metadata.creation_timestamp.clone();
    assert_eq!(
        shop.routes().owners[&owner(OwnerKind::Sandbox, "young")].key_holder,
        Some(owner(OwnerKind::Sandbox, "old"))
    );
    // The younger has it when the older goes.
    shop.sandboxes[1].metadata.deletion_timestamp = shop.sandboxes[1].metadata.creation_timestamp.clone();
    assert_eq!(shop.routes().owners[&owner(OwnerKind::Sandbox, "young")].key_holder, None);
}

#[test]
fn a_service_that_was_taken_over_has_its_baseline_behind_the_keeper() {
    let mut shop = Shop::new(&["cart"]);
    shop.take_over("cart", 20_001);
    let routes = shop.routes();
    let cart = routes.table.route("shop", "cart", 80).unwrap();
    assert_eq!(cart.listener(), Some(20_001));
    assert_eq!(cart.baseline().addresses(), ["10.0.0.1:8080".parse().unwrap()], "and never the routers");
    // The routers' addresses are there a moment before the Service says that it was taken over.
    let listen =
        (capt_kinds::sandbox::names::LISTEN_ANNOTATION.to_owned(), json!({"80": 20_001}).to_string());
    let said = shop.services[0].metadata.annotations.replace([listen].into());
    let early = shop.routes();
    assert_eq!(
        early.table.route_at_port(20_001).unwrap().baseline().addresses(),
        ["10.0.0.1:8080".parse().unwrap()]
    );
    shop.services[0].metadata.annotations = said;
    shop.services.retain(|it| !crate::service::is_managed(it));
    let routes = shop.routes();
    let cart = routes.table.route("shop", "cart", 80).unwrap();
    assert_eq!(cart.baseline().addresses(), [], "a router must not send requests to itself");
}

#[test]
fn routers_listen_before_the_traffic_comes() {
    let mut shop = Shop::new(&["cart"]);
    let listen = json!({"80": 20_001}).to_string();
    shop.services[0].metadata.annotations =
        Some([(capt_kinds::sandbox::names::LISTEN_ANNOTATION.to_owned(), listen)].into());
    let routes = shop.routes();
    assert_eq!(routes.table.route_at_port(20_001).unwrap().service().name(), "cart");
    assert_ne!(routes.revisions["shop"], Shop::new(&["cart"]).routes().revisions["shop"]);
}

#[test]
fn endpoints_become_hosts_that_give_the_key() {
    let mut shop = Shop::new(&["cart", "web"]);
    shop.sandbox("pr-1", &["cart"], true);
    shop.sandboxes[0].spec.endpoints = serde_json::from_value(json!([
        {"name": "web", "target": "http://web.shop.svc"}, {"name": "gone", "target": "http://gone.shop.svc"}
    ]))
    .unwrap();
    let routes = shop.routes();
    let (preview, route) = routes.table.preview_by_host("web--pr-1--shop.preview.example.com").unwrap();
    assert_eq!((preview.key().as_str(), route.service().name()), ("pr-1-key", "web"));
    let own = &routes.owners[&owner(OwnerKind::Sandbox, "pr-1")];
    assert_eq!(own.hosts["web"], "web--pr-1--shop.preview.example.com");
    assert_eq!(own.missing_targets, ["gone"]);
    let without_domain = super::build_routes(&RouteObjects { domain: None, ..shop.objects() });
    assert_eq!(without_domain.revisions, routes.revisions, "an operator need not know the routers' domain");
}

#[test]
fn consumers_of_queues_are_told_whose_messages_are_whose() {
    let mut shop = Shop::new(&["cart"]);
    shop.sandbox("pr-1", &["cart"], true);
    let routes = shop.routes();
    let of = BaselineWorkload { kind: "Deployment".into(), namespace: "shop".into(), name: "cart".into() };
    let rules = routes.table.rules(&of);
    assert_eq!(rules.len(), 1);
    assert_eq!((rules[0].routing_key.as_str(), rules[0].sandbox.as_str()), ("pr-1-key", "pr-1"));
    assert_eq!(rules[0].mappings[0].workload_port, 8080);
    assert_eq!(rules[0].mappings[0].destinations[0].host, "cart-pr-1.shop.svc");
}

#[test]
fn a_router_has_the_routes_of_its_namespace_and_the_same_revision_for_it() {
    let mut shop = Shop::new(&["cart"]);
    shop.sandbox("pr-1", &["cart"], true);
    let all = shop.routes();
    let of = |scope| build_routes(&RouteObjects { scope: Some(scope), ..shop.objects() });
    let (here, there) = (of("shop"), of("other"));
    assert_eq!(here.revisions["shop"], all.revisions["shop"]);
    assert_eq!((here.table.routes().len(), there.table.routes().len()), (1, 0));
    assert_eq!(
        here.owners[&owner(OwnerKind::Sandbox, "pr-1")].digest,
        all.owners[&owner(OwnerKind::Sandbox, "pr-1")].digest
    );
}

#[test]
fn another_pod_is_no_other_revision_and_the_last_one_is() {
    let mut shop = Shop::new(&["cart"]);
    shop.sandbox("pr-1", &["cart"], true);
    let before = shop.routes().revisions["shop"].clone();
    let at = shop.slice_of("cart-pr-1");
    shop.slices[at].endpoints[0].addresses = vec!["10.1.0.99".into()];
    assert_eq!(shop.routes().revisions["shop"], before);
    shop.slices[at].endpoints.clear();
    assert_ne!(shop.routes().revisions["shop"], before);
}

#[test]
fn everything_that_requests_depend_on_is_another_revision() {
    let shop = || {
        let mut shop = Shop::new(&["cart", "web"]);
        shop.sandbox("pr-1", &["cart"], true);
        let spec = json!({"match": {"label": {"key": "feature", "value": "*"}}, "routingKey": "group-key"});
        shop.group("g", &spec);
        shop
    };
    let revision = |change: &dyn Fn(&mut Shop)| {
        let mut shop = shop();
        change(&mut shop);
        shop.routes().revisions["shop"].clone()
    };
    let local = |of: &'static str, spec: serde_json::Value| {
        move |shop: &mut Shop| drop(shop.local("pr-1", of, &spec).clone())
    };
    let mapped = |word: &str| json!([{"port": 8080, "toLocal": "localhost:3000", "appProtocol": word}]);
    let all = [
        revision(&|_| {}),
        revision(&|shop| shop.groups[0].spec.routing.custom_headers = vec!["x-tenant".into()]),
        revision(&|shop| shop.groups[0].spec.routing.query_param = Some("key".into())),
        revision(&|shop| {
            shop.services[0].spec.as_mut().unwrap().ports.as_mut().unwrap()[0].app_protocol =
                Some("grpc".into());
        }),
        revision(&local("web", json!({}))),
        revision(&local("web", json!({"disconnectPolicy": "Baseline"}))),
        revision(&local("cart", json!({"disconnectPolicy": "Fork"}))),
        revision(&local("web", json!({"mappings": mapped("grpc")}))),
    ];
    let different: BTreeSet<_> = all.iter().collect();
    assert_eq!(different.len(), all.len(), "{all:?}");
}

#[test]
fn a_service_that_its_owner_has_back_is_what_its_owner_makes_of_it() {
    let mut shop = Shop::new(&["cart"]);
    shop.sandbox("pr-1", &["cart"], true);
    let baseline = |shop: &Shop| {
        shop.routes().table.route("shop", "cart", 80).unwrap().baseline().addresses()[0].to_string()
    };
    shop.service(
        "cart-sbxbase-aaaa",
        &json!({capt_kinds::sandbox::names::BASE_OF_LABEL: "cart"}),
        Some("10.7.0.1"),
    );
    let keeper = shop.services.last_mut().unwrap().spec.as_mut().unwrap();
    keeper.selector = Some([("app".to_owned(), "cart".to_owned())].into());
    assert_eq!(baseline(&shop), "10.7.0.1:8080", "its own endpoints may still be the routers");
    shop.services[0].spec.as_mut().unwrap().selector = Some([("app".to_owned(), "cart-2".to_owned())].into());
    assert_eq!(baseline(&shop), "10.0.0.1:8080", "the keeper keeps what it was");
}

#[test]
fn a_sandbox_of_another_cluster_has_no_routes_here() {
    let mut shop = Shop::new(&["cart"]);
    shop.sandbox("pr-1", &["cart"], true);
    shop.sandboxes[0].spec.cluster_ref = Some(capt_kinds::sandbox::ClusterRef { name: "dev-eu".into() });
    assert!(shop.routes().table.routes().is_empty());
    shop.sandboxes[0].spec.cluster_ref = None;
    assert_eq!(shop.routes().table.routes().len(), 1, "its likeness has them there");
}
