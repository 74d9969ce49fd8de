use rstest::rstest;
use serde_json::Value;

use super::*;

fn by_feature() -> Value {
    json!({"match": {"label": {"key": "feature", "value": "cart-*"}}, "routingKey": "group-key"})
}

fn error(routes: &Routes, service: &str, key: &str) -> Option<String> {
    match routes.table.route("shop", service, 80)?.target(key)? {
        Target::Unavailable(why) => Some(why.error().to_str().unwrap().to_owned()),
        Target::Backend(_) | Target::Local(_) | Target::Virtual(_) => None,
    }
}

#[test]
fn a_groups_key_leads_to_the_forks_of_all_its_sandboxes() {
    let mut shop = Shop::new(&["cart", "web"]);
    shop.sandbox("a", &["cart"], true);
    shop.sandbox("b", &["web"], true);
    shop.group("g", &by_feature());
    let routes = shop.routes();
    for (service, sandbox) in [("cart", "a"), ("web", "b")] {
        let target = routes.table.route("shop", service, 80).unwrap().target("group-key").unwrap();
        assert_eq!(target.name().to_str().unwrap(), format!("fork/shop/{sandbox}"));
    }
    let own = &routes.owners[&owner(OwnerKind::RouteGroup, "g")];
    assert_eq!((own.members.join(" "), own.routes), ("shop/a shop/b".to_owned(), 2));
}

#[test]
fn f9_a_conflict_harms_only_the_baseline_in_conflict_under_the_groups_key() {
    let mut shop = Shop::new(&["cart", "web"]);
    shop.sandbox("a", &["cart"], true);
    shop.sandbox("b", &["cart", "web"], true);
    shop.group("g", &by_feature());
    let routes = shop.routes();
    assert_eq!(error(&routes, "cart", "group-key").as_deref(), Some("conflict"));
    assert_eq!(error(&routes, "web", "group-key"), None);
    for key in ["a-key", "b-key"] {
        assert_eq!(error(&routes, "cart", key), None, "{key} is untouched");
        assert!(routes.table.route("shop", "cart", 80).unwrap().target(key).is_some());
    }
    let own = &routes.owners[&owner(OwnerKind::RouteGroup, "g")];
    let expected =
        Conflict { baseline: "shop/cart".into(), sandboxes: vec!["shop/a".into(), "shop/b".into()] };
    assert_eq!(own.conflicts, [expected]);
}

#[test]
fn f9_a_member_that_is_not_ready_leaves_the_others_alone() {
    let mut shop = Shop::new(&["cart", "web"]);
    shop.sandbox("a", &["cart"], false);
    shop.sandbox("b", &["web"], true);
    shop.group("g", &by_feature());
    let routes = shop.routes();
    assert_eq!(error(&routes, "cart", "group-key").as_deref(), Some("unready"));
    assert!(routes.table.route("shop", "web", 80).unwrap().target("group-key").unwrap().backend().is_some());
}

#[test]
fn a_group_may_leave_unready_forks_to_the_baseline() {
    let mut shop = Shop::new(&["cart"]);
    shop.sandbox("a", &["cart"], false);
    let mut spec = by_feature();
    spec["routing"] = json!({"unreadyPolicy": "Baseline"});
    shop.group("g", &spec);
    let routes = shop.routes();
    let cart = routes.table.route("shop", "cart", 80).unwrap();
    assert!(cart.target("group-key").is_none());
    assert_eq!(error(&routes, "cart", "a-key").as_deref(), Some("unready"), "the sandbox's own key fails");
    assert_eq!(routes.owners[&owner(OwnerKind::RouteGroup, "g")].unready_ports, ["shop/cart:80"]);
}

#[rstest]
#[case(json!({"label": {"key": "feature", "value": "cart-v2"}}), true)]
#[case(json!({"label": {"key": "feature", "value": "cart-v?"}}), true)]
#[case(json!({"label": {"key": "feature", "value": "cart"}}), false)]
#[case(json!({"label": {"key": "team", "value": "*"}}), false)]
#[case(json!({"any": [{"label": {"key": "team", "value": "x"}}, {"label": {"key": "feature", "value": "*"}}]}), true)]
#[case(json!({"all": [{"label": {"key": "team", "value": "x"}}, {"label": {"key": "feature", "value": "*"}}]}), false)]
#[case(json!({"all": [{"any": [{"label": {"key": "feature", "value": "a"}}, {"label": {"key": "feature", "value": "cart*"}}]}]}), true)]
#[case(json!({"any": [{"all": [{"label": {"key": "feature", "value": "cart*"}}, {"label": {"key": "team", "value": "*"}}]}]}), false)]
#[case::a_bad_match_that_is_older_than_the_rule(json!({}), false)]
#[case::two_at_once(json!({"label": {"key": "feature", "value": "*"}, "any": [{"label": {"key": "feature", "value": "*"}}]}), false)]
#[case::all_of_nothing(json!({"all": []}), false)]
fn a_match_says_who_belongs(#[case] matches: Value, #[case] expected: bool) {
    let mut shop = Shop::new(&["cart"]);
    shop.sandbox("a", &["cart"], true);
    shop.group("g", &json!({"match": matches}));
    let found = !shop.routes().owners[&owner(OwnerKind::RouteGroup, "g")].members.is_empty();
    assert_eq!(found, expected);
}

#[rstest]
#[case(json!({"from": "Same"}), "shop/a")]
#[case(json!({"from": "All"}), "other/b shop/a third/c")]
#[case(json!({"from": "Selector", "selector": {"matchLabels": {"env": "dev"}}}), "other/b shop/a")]
#[case(json!({"from": "Selector", "selector": {}}), "other/b shop/a")]
fn namespaces_are_the_groups_own_all_or_those_with_labels(#[case] namespaces: Value, #[case] expected: &str) {
    let mut shop = Shop::new(&["cart"]);
    for (name, namespace) in [("a", "shop"), ("b", "other"), ("c", "third")] {
        shop.sandbox(name, &["cart"], true);
        shop.sandboxes.last_mut().unwrap().metadata.namespace = Some(namespace.into());
    }
    // The third namespace is not known: nobody can say what its labels are. Its Sandbox grants the membership itself.
    let allows = json!({"capt.x-k8s.io/allow-references-from": "shop"});
    let other = json!({"metadata": {"name": "other", "labels": {"env": "dev"}, "annotations": allows}});
    shop.namespaces.push(serde_json::from_value(other).unwrap());
    shop.sandboxes[2].metadata.annotations = serde_json::from_value(allows).unwrap();
    let mut spec = by_feature();
    spec["namespaces"] = namespaces;
    shop.group("g", &spec);
    assert_eq!(shop.routes().owners[&owner(OwnerKind::RouteGroup, "g")].members.join(" "), expected);
}

#[rstest]
#[case::not_granted("", "shop/a")]
#[case::granted_to_somebody_else("bank", "shop/a")]
#[case::granted("bank, shop", "other/b shop/a")]
#[case::granted_to_all("*", "other/b shop/a")]
fn m6_a_sandbox_of_another_namespace_is_a_member_only_where_that_is_granted(
    #[case] list: &str,
    #[case] expected: &str,
) {
    for of_namespace in [true, false] {
        let mut shop = Shop::new(&["cart"]);
        shop.sandbox("a", &["cart"], true);
        shop.sandbox("b", &["cart"], true);
        shop.sandboxes[1].metadata.namespace = Some("other".into());
        let annotations = json!({"capt.x-k8s.io/allow-references-from": list});
        let mut other = json!({"metadata": {"name": "other", "labels": {"env": "dev"}}});
        if of_namespace {
            other["metadata"]["annotations"] = annotations;
        } else {
            shop.sandboxes[1].metadata.annotations = serde_json::from_value(annotations).unwrap();
        }
        shop.namespaces.push(serde_json::from_value(other).unwrap());
        for (name, from) in
            [("all", json!({"from": "All"})), ("some", json!({"from": "Selector", "selector": {}}))]
        {
            let mut spec = by_feature();
            spec["namespaces"] = from;
            spec["routingKey"] = json!(name);
            shop.group(name, &spec);
        }
        let routes = shop.routes();
        let members = |name: &str| routes.owners[&owner(OwnerKind::RouteGroup, name)].members.join(" ");
        assert_eq!((members("all"), members("some")), (expected.into(), expected.into()), "{of_namespace}");
    }
}

#[test]
fn a_groups_headers_and_parameter_are_looked_at_where_it_has_routes() {
    let mut shop = Shop::new(&["cart", "web"]);
    shop.sandbox("a", &["cart"], true);
    shop.sandbox("b", &["web"], true);
    shop.sandboxes[1].metadata.labels = None;
    let mut spec = by_feature();
    spec["routing"] = json!({"customHeaders": ["x-tenant"], "queryParam": "sd-routing-key"});
    shop.group("g", &spec);
    let routes = shop.routes();
    let places = |service: &str| {
        let places = routes.table.route("shop", service, 80).unwrap().extra_key_sources();
        (places.headers.len(), places.queries.len())
    };
    assert_eq!((places("cart"), places("web")), ((1, 1), (0, 0)));
}

#[test]
fn a_group_without_sandboxes_has_no_routes_and_no_trouble() {
    let mut shop = Shop::new(&["cart"]);
    shop.group("g", &by_feature());
    let routes = shop.routes();
    let own = &routes.owners[&owner(OwnerKind::RouteGroup, "g")];
    assert_eq!((own.routes, own.members.len(), own.conflicts.len()), (0, 0, 0));
}

#[test]
fn forks_behind_one_service_are_in_conflict_too() {
    let mut shop = Shop::new(&["cart", "worker"]);
    shop.sandbox("a", &["cart"], true);
    shop.sandbox("b", &["worker"], true);
    // Both workloads are behind the Service of the first.
    shop.sandboxes[1].status.as_mut().unwrap().forks[0].services[0].from = "cart".into();
    shop.group("g", &by_feature());
    let routes = shop.routes();
    assert_eq!(error(&routes, "cart", "group-key").as_deref(), Some("conflict"));
    assert_eq!(routes.owners[&owner(OwnerKind::RouteGroup, "g")].conflicts.len(), 2);
}
