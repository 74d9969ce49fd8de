use rstest::rstest;
use sandbox_router::table::{Local, When};
use serde_json::Value;

use super::*;

fn local_of(routes: &Routes) -> std::sync::Arc<Local> {
    match routes.table.route("shop", "cart", 80).unwrap().target("pr-1-key").unwrap() {
        Target::Local(local) => local.clone(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_local_workload_answers_under_its_sandboxes_key() {
    let mut shop = Shop::new(&["cart"]);
    shop.sandbox("pr-1", &[], true);
    shop.local("pr-1", "cart", &json!({"override": {"requireHeader": "SD-Override: true"}}));
    let local = local_of(&shop.routes());
    assert_eq!((local.namespace(), local.workload(), local.port()), ("shop", "cart-local", 8080));
    let gateway = local.gateway().unwrap();
    assert_eq!((gateway.name.as_str(), gateway.address), ("router-0", "10.9.0.1".parse().unwrap()));
    let When::Header(name, value) = local.counts_when() else { panic!("{:?}", local.counts_when()) };
    assert_eq!((name.as_str(), value.to_str().unwrap()), ("sd-override", "true"));
}

#[rstest]
#[case(json!({}), false, "fail")]
#[case(json!({"disconnectPolicy": "Baseline"}), false, "baseline")]
#[case(json!({"disconnectPolicy": "Fork"}), true, "fork")]
#[case::a_fork_that_does_not_exist(json!({"disconnectPolicy": "Fork"}), false, "fail")]
#[case::what_falls_through_goes_to_the_fork(json!({"override": {"exceptStatus": [404]}}), true, "fork")]
#[case(json!({"override": {"exceptStatus": [404]}}), false, "fail")]
fn what_answers_otherwise_is_what_the_policy_says(
    #[case] spec: Value,
    #[case] forked: bool,
    #[case] expected: &str,
) {
    let mut shop = Shop::new(&["cart"]);
    shop.sandbox("pr-1", if forked { &["cart"] } else { &[] }, true);
    shop.local("pr-1", "cart", &spec);
    let local = local_of(&shop.routes());
    let found = match local.fallback() {
        Otherwise::Fail => "fail",
        Otherwise::Baseline => "baseline",
        Otherwise::Fork(backend) => {
            assert_eq!(backend.addresses(), ["10.1.0.1:8080".parse().unwrap()]);
            "fork"
        }
    };
    assert_eq!(found, expected);
}

#[test]
fn only_the_mapped_ports_are_local() {
    let mut shop = Shop::new(&["cart"]);
    shop.sandbox("pr-1", &[], true);
    shop.local("pr-1", "cart", &json!({"mappings": [{"port": 9090, "toLocal": "localhost:1"}]}));
    assert!(shop.routes().table.route("shop", "cart", 80).is_none());
}

#[test]
fn a_local_workload_of_another_sandbox_or_namespace_is_somebody_elses() {
    for change in [0, 1] {
        let mut shop = Shop::new(&["cart"]);
        shop.sandbox("pr-1", &[], true);
        let local = shop.local("pr-1", "cart", &json!({}));
        if change == 0 {
            local.spec.sandbox_ref.name = "pr-2".into();
        } else {
            local.metadata.namespace = Some("other".into());
        }
        assert!(shop.routes().table.routes().is_empty());
    }
}

#[test]
fn a_session_that_moves_to_another_router_is_another_revision() {
    let mut shop = Shop::new(&["cart"]);
    shop.sandbox("pr-1", &[], true);
    shop.local("pr-1", "cart", &json!({}));
    let before = shop.routes().revisions["shop"].clone();
    let session = shop.locals[0].status.as_mut().unwrap().session.as_mut().unwrap();
    session.last_heartbeat_time = serde_json::from_value(json!("2026-11-17T05:00:00Z")).unwrap();
    assert_eq!(shop.routes().revisions["shop"], before);
    shop.locals[0].status.as_mut().unwrap().session.as_mut().unwrap().gateway = Some("router-1".into());
    assert_ne!(shop.routes().revisions["shop"], before);
}
