use rstest::rstest;
use sandbox_router::table::{FallThrough, LocalTarget, ResponseCondition};
use serde_json::Value;

use super::*;

fn local_of(routes: &Routes) -> std::sync::Arc<LocalTarget> {
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
    let ResponseCondition::Header(name, value) = local.response_condition() else {
        panic!("{:?}", local.response_condition())
    };
    assert_eq!((name.as_str(), value.to_str().unwrap()), ("sd-override", "true"));
}

#[rstest]
#[case(json!({}), "none", DisconnectedPolicy::Fail, "baseline")]
#[case(json!({"disconnectPolicy": "Baseline"}), "none", DisconnectedPolicy::Baseline, "baseline")]
#[case(json!({"disconnectPolicy": "Fork"}), "ready", DisconnectedPolicy::Before, "fork")]
#[case(json!({"disconnectPolicy": "Fork"}), "unready", DisconnectedPolicy::Before, "unready")]
#[case::a_fork_that_does_not_exist(json!({"disconnectPolicy": "Fork"}), "none", DisconnectedPolicy::Fail, "baseline")]
#[case(json!({"override": {"exceptStatus": [404]}}), "none", DisconnectedPolicy::Fail, "baseline")]
#[case::what_falls_through_is_no_policy(json!({"override": {"exceptStatus": [404]}}), "ready", DisconnectedPolicy::Fail, "fork")]
#[case(json!({"override": {"exceptStatus": [404]}, "disconnectPolicy": "Baseline"}), "ready", DisconnectedPolicy::Baseline, "fork")]
#[case(json!({"override": {"exceptStatus": [404]}}), "unready", DisconnectedPolicy::Fail, "unready")]
fn what_answers_otherwise_is_what_the_policy_says(
    #[case] spec: Value,
    #[case] fork: &str,
    #[case] otherwise: DisconnectedPolicy,
    #[case] before: &str,
) {
    let mut shop = Shop::new(&["cart"]);
    shop.sandbox("pr-1", if fork == "none" { &[] } else { &["cart"] }, fork == "ready");
    shop.local("pr-1", "cart", &spec);
    let local = local_of(&shop.routes());
    assert_eq!(local.disconnected_policy(), otherwise);
    let found = match local.fall_through() {
        FallThrough::Baseline => "baseline",
        FallThrough::Unavailable(why) => why.error().to_str().unwrap(),
        FallThrough::Fork(backend) => {
            assert_eq!(backend.addresses(), ["10.1.0.1:8080".parse().unwrap()]);
            "fork"
        }
    };
    assert_eq!(found, before);
}

#[test]
fn a_group_that_prefers_the_baseline_to_an_unready_fork_does_so_behind_a_local_process_too() {
    let mut shop = Shop::new(&["cart"]);
    shop.sandbox("pr-1", &["cart"], false);
    shop.local("pr-1", "cart", &json!({"override": {"exceptStatus": [404]}}));
    let spec = json!({"match": {"label": {"key": "feature", "value": "cart-v2"}},
                      "routing": {"unreadyPolicy": "Baseline"}});
    shop.group("all", &spec).spec.routing_key = Some("all-key".to_owned());
    let routes = shop.routes();
    let route = routes.table.route("shop", "cart", 80).unwrap();
    let Some(Target::Local(local)) = route.target("all-key") else { panic!("{:?}", route.target("all-key")) };
    assert!(matches!(local.fall_through(), FallThrough::Baseline), "{local:?}");
    assert!(matches!(local_of(&routes).fall_through(), FallThrough::Unavailable(_)));
}

#[test]
fn of_two_for_one_baseline_the_older_answers_in_whichever_order_they_are_seen() {
    let mut shop = Shop::new(&["cart"]);
    shop.sandbox("pr-1", &[], true);
    for (name, born) in [("young", "2026-11-17T06:00:00Z"), ("old", "2026-11-17T05:00:00Z")] {
        let local = shop.local("pr-1", "cart", &json!({}));
        local.metadata.name = Some(name.to_owned());
        local.metadata.creation_timestamp = serde_json::from_value(json!(born)).unwrap();
    }
    assert_eq!(local_of(&shop.routes()).workload(), "old");
    shop.locals.reverse();
    assert_eq!(local_of(&shop.routes()).workload(), "old");
}

#[test]
fn one_that_says_nothing_of_the_fork_beside_it_answers_nobody() {
    let mut shop = Shop::new(&["cart"]);
    shop.sandbox("pr-1", &["cart"], true);
    shop.local("pr-1", "cart", &json!({}));
    let routes = shop.routes();
    let target = routes.table.route("shop", "cart", 80).unwrap().target("pr-1-key").unwrap();
    assert!(matches!(target, Target::Backend(_)), "{target:?}");
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
fn a_session_that_is_over_leads_to_no_router() {
    let mut shop = Shop::new(&["cart"]);
    shop.sandbox("pr-1", &[], true);
    shop.local("pr-1", "cart", &json!({"disconnectPolicy": "Baseline"}));
    let mut said = |status: &str, reason: &str| {
        let connected = &mut shop.locals[0].status.as_mut().unwrap().conditions[0];
        (connected.status, connected.reason) = (status.to_owned(), reason.to_owned());
        local_of(&shop.routes()).gateway().map(|it| it.name.clone())
    };
    assert_eq!(said("False", "Reconnecting").as_deref(), Some("router-0"));
    assert_eq!(said("False", "NotConnected"), None);
    assert_eq!(said("True", "Connected").as_deref(), Some("router-0"));
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
