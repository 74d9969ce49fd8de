use super::*;
use crate::mesh::{HttpRouteListing, MeshPlan};

fn by_feature() -> serde_json::Value {
    json!({"match": {"label": {"key": "feature", "value": "cart-*"}}, "routingKey": "group-key"})
}

fn name(routes: &Routes, key: &str) -> Option<String> {
    let target = routes.table.route("shop", "cart", 80)?.target(key)?;
    Some(target.name().to_str().unwrap().to_owned())
}

/// Two sandboxes of one group: the first one forks some services, the second one has `cart` as a virtual workload.
fn two(forks: &[&str], ready: bool) -> Shop {
    let mut shop = Shop::new(&["cart"]);
    shop.sandbox("a", forks, ready);
    shop.sandbox("b", &[], true);
    shop.virtual_of("b", "cart");
    shop.group("g", &by_feature());
    shop
}

#[test]
fn a_virtual_workload_makes_its_key_known_and_leads_to_the_baseline() {
    let routes = two(&[], true).routes();
    let target = routes.table.route("shop", "cart", 80).unwrap().target("b-key").unwrap();
    assert_eq!(target.kind(), TargetKind::Virtual);
    assert!(target.backend().is_none(), "it has no pods of its own");
    for key in ["b-key", "group-key"] {
        assert_eq!(name(&routes, key).as_deref(), Some("virtual/shop/b"));
    }
    assert_eq!(name(&routes, "a-key"), None);
    assert_eq!(routes.owners[&owner(OwnerKind::Sandbox, "b")].routes, 1);
}

#[test]
fn a_fork_of_the_same_group_wins_and_is_no_conflict() {
    let routes = two(&["cart"], true).routes();
    assert_eq!(name(&routes, "group-key").as_deref(), Some("fork/shop/a"));
    assert_eq!(name(&routes, "b-key").as_deref(), Some("virtual/shop/b"), "its own key is its own");
    assert!(routes.owners[&owner(OwnerKind::RouteGroup, "g")].conflicts.is_empty());
}

#[test]
fn a_local_workload_of_the_same_group_wins_too() {
    let mut shop = two(&[], true);
    shop.local("a", "cart", &json!({}));
    let routes = shop.routes();
    assert_eq!(name(&routes, "group-key").as_deref(), Some("local/shop/cart-local"));
    assert!(routes.owners[&owner(OwnerKind::RouteGroup, "g")].conflicts.is_empty());
}

#[test]
fn two_virtual_workloads_are_no_conflict_and_the_first_by_name_is_told() {
    let mut shop = two(&[], true);
    shop.virtual_of("a", "cart");
    let routes = shop.routes();
    assert_eq!(name(&routes, "group-key").as_deref(), Some("virtual/shop/a"));
    assert_eq!(name(&routes, "b-key").as_deref(), Some("virtual/shop/b"));
    assert!(routes.owners[&owner(OwnerKind::RouteGroup, "g")].conflicts.is_empty());
}

#[test]
fn two_forks_are_in_conflict_and_a_virtual_workload_has_no_part_in_it() {
    let mut shop = two(&["cart"], true);
    shop.sandbox("c", &["cart"], true);
    let routes = shop.routes();
    assert_eq!(name(&routes, "group-key").as_deref(), Some("conflict"));
    assert_eq!(
        routes.owners[&owner(OwnerKind::RouteGroup, "g")].conflicts[0].sandboxes,
        ["shop/a", "shop/c"]
    );
}

#[test]
fn a_fork_that_is_not_ready_fails_unless_the_group_leaves_it_out() {
    let mut shop = two(&["cart"], false);
    assert_eq!(name(&shop.routes(), "group-key").as_deref(), Some("fork/shop/a"), "nobody is misled");
    shop.groups[0].spec.routing.unready_policy = UnreadyPolicy::Baseline;
    assert_eq!(name(&shop.routes(), "group-key").as_deref(), Some("virtual/shop/b"));
}

#[test]
fn a_fork_of_the_same_sandbox_hides_what_is_virtual() {
    let mut shop = Shop::new(&["cart"]);
    shop.sandbox("pr-1", &["cart"], true);
    shop.virtual_of("pr-1", "cart");
    assert_eq!(name(&shop.routes(), "pr-1-key").as_deref(), Some("fork/shop/pr-1"));
}

#[test]
fn consumers_of_queues_keep_the_messages_of_a_virtual_workload() {
    let routes = two(&[], true).routes();
    assert_eq!(routes.table.all_rules().count(), 0);
}

#[test]
fn a_mesh_needs_no_route_for_it() {
    let mut shop = two(&[], true);
    shop.groups[0].spec.routing.mode = capt_kinds::sandbox::RoutingMode::GatewayApi;
    let seen = HttpRouteListing::Listed(std::sync::Arc::default());
    let plan = MeshPlan::new(&shop.routes(), &[&shop.groups[0]], &[], seen, None);
    assert_eq!(plan.desired().count(), 0);
    assert!(plan.routes_owner(&owner(OwnerKind::RouteGroup, "g")));
}

#[test]
fn a_virtual_workload_that_left_the_spec_leaves_the_table() {
    let mut shop = two(&[], true);
    shop.sandboxes[1].spec.virtuals.clear();
    assert!(shop.routes().table.routes().is_empty());
}
