use std::{collections::BTreeSet, time::Duration};

use k8s_openapi::api::core::v1::Service;
use kube::ResourceExt as _;
use sandbox::{api::names, service::why_not};
use serde_json::{Value, json};

use super::super::{
    build::{self, Reverts},
    decide::{ATTEMPTS, PATIENCE, QUIET, Step, Why, decide},
    facts::Facts,
};

fn cart() -> Service {
    serde_json::from_value(json!({
        "metadata": {"name": "cart", "namespace": "shop", "uid": "u1", "resourceVersion": "7",
            "annotations": {names::ROUTING_ANNOTATION: "enabled"}},
        "spec": {
            "clusterIP": "10.0.0.1", "selector": {"app": "cart", "tier": "web"},
            "ports": [
                {"name": "http", "port": 80, "protocol": "TCP", "targetPort": "web"},
                {"name": "grpc", "port": 9090, "protocol": "TCP", "targetPort": 9090, "nodePort": 30001}
            ]
        }
    }))
    .unwrap()
}

/// What a merge patch makes of an object.
fn patched(service: &Service, patch: &Value) -> Service {
    fn merge(into: &mut Value, patch: &Value) {
        let Value::Object(fields) = patch else { return *into = patch.clone() };
        if !into.is_object() {
            *into = json!({});
        }
        for (name, value) in fields {
            if value.is_null() {
                into.as_object_mut().unwrap().shift_remove(name);
            } else {
                merge(&mut into[name], value);
            }
        }
    }
    let mut whole = serde_json::to_value(service).unwrap();
    merge(&mut whole, patch);
    serde_json::from_value(whole).unwrap()
}

fn addresses(all: &[&str]) -> BTreeSet<String> {
    all.iter().map(|it| (*it).to_owned()).collect()
}

fn facts(service: Service) -> Facts {
    let listening = build::listeners(&service, &BTreeSet::new()).into_values().collect();
    let mut keeper = build::keeper(&service, &Reverts::default());
    keeper.spec.as_mut().unwrap().cluster_ip = Some("10.0.0.2".into());
    let pods = addresses(&["10.1.0.1", "10.1.0.2"]);
    Facts {
        service,
        wanted: true,
        keeper: Some(keeper),
        own: pods.clone(),
        kept: pods,
        routers: vec![listening],
        ..Facts::default()
    }
}

fn announced(mut service: Service) -> Service {
    let ports = build::listeners(&service, &BTreeSet::new());
    service.annotations_mut().insert(names::LISTEN_ANNOTATION.into(), json!(ports).to_string());
    service
}

fn taken() -> Service {
    let service = announced(cart());
    patched(&service, &build::take(&service, &build::announced(&service)))
}

#[test]
fn a_service_is_taken_over_step_by_step() {
    let mut facts = facts(cart());
    facts.keeper = None;
    let routers = std::mem::take(&mut facts.routers);
    assert_eq!(decide(&facts), Step::Wait("no router is ready", PATIENCE));
    facts.routers = vec![BTreeSet::new()];
    let Step::Keep(mut keeper) = decide(&facts) else { panic!("{:?}", decide(&facts)) };
    assert_eq!(keeper.spec.as_ref().unwrap().selector, facts.service.spec.as_ref().unwrap().selector);
    keeper.spec.as_mut().unwrap().cluster_ip = Some("10.0.0.2".into());
    facts.keeper = Some(*keeper);
    let Step::Announce(ports) = decide(&facts) else { panic!("{:?}", decide(&facts)) };
    assert_eq!(ports.len(), 2);
    facts.service = announced(cart());
    facts.kept = addresses(&["10.1.0.1"]);
    assert!(matches!(decide(&facts), Step::Wait("the keeper has other endpoints", _)));
    facts.kept = facts.own.clone();
    assert!(matches!(decide(&facts), Step::Wait("not every router listens", _)));
    facts.routers = vec![routers[0].clone(), BTreeSet::new()];
    assert!(matches!(decide(&facts), Step::Wait("not every router listens", _)));
    facts.routers = routers;
    assert!(matches!(decide(&facts), Step::Take(_)));
}

#[test]
fn one_patch_changes_selector_and_target_ports_and_nothing_else() {
    let (before, after) = (announced(cart()), taken());
    let spec = after.spec.clone().unwrap();
    assert_eq!(spec.selector, Some(build::routers()));
    let mut same = spec.clone();
    same.selector = before.spec.as_ref().unwrap().selector.clone();
    for (port, old) in
        same.ports.iter_mut().flatten().zip(before.spec.as_ref().unwrap().ports.iter().flatten())
    {
        assert_ne!(port.target_port, old.target_port);
        port.target_port = old.target_port.clone();
    }
    assert_eq!(Some(same), before.spec);
    assert_eq!(build::take(&before, &build::announced(&before))["metadata"]["resourceVersion"], "7");
}

#[test]
fn a_service_is_given_back_as_it_was_to_the_byte() {
    let taken = taken();
    let Step::Restore(patch, Why::Unwanted) = decide(&Facts { wanted: false, ..facts(taken.clone()) }) else {
        panic!("not given back")
    };
    let back = patched(&taken, &patch);
    let text = |it: &Service| serde_json::to_string(&it.spec).unwrap();
    assert_eq!(text(&back), text(&cart()));
    assert_eq!(back.annotations(), cart().annotations());
    // Then the rest goes.
    let left = Facts { wanted: false, ..facts(back) };
    assert!(matches!(decide(&left), Step::Forget(_)));
    assert_eq!(decide(&Facts { keeper: None, ..left }), Step::Nothing);
}

#[test]
fn without_a_router_a_service_is_given_back_after_a_while() {
    let with = facts(taken());
    assert_eq!(decide(&with), Step::Nothing);
    let at = |seconds: u64| Facts {
        without_router: Some(Duration::from_secs(seconds)),
        routers: vec![],
        ..with.clone()
    };
    assert_eq!(decide(&at(1)), Step::Wait("no router is ready", Duration::from_secs(4)));
    assert!(matches!(decide(&at(5)), Step::Restore(_, Why::NoRouter)));
}

#[test]
fn a_service_that_was_taken_back_is_taken_over_three_times_more_and_then_left_alone() {
    let mut service = taken();
    service.spec = cart().spec;
    service.metadata.managed_fields = serde_json::from_value(json!([
        {"manager": "capt", "time": "2026-11-17T05:00:00Z", "fieldsV1": {"f:spec": {"f:ports": {}}}},
        {"manager": "argocd-controller", "time": "2026-11-17T05:00:01Z", "fieldsV1": {"f:spec": {"f:selector": {}}}},
        {"manager": "kubectl", "time": "2026-11-17T05:00:02Z", "fieldsV1": {"f:metadata": {}}},
        {"manager": "helm", "time": "2026-11-17T05:00:01Z",
            "fieldsV1": {"f:spec": {"f:ports": {"k:{\"port\":80}": {"f:targetPort": {}}}}}},
    ]))
    .unwrap();
    let mut facts = facts(service.clone());
    for count in 1..=ATTEMPTS {
        let Step::Reverted(keeper, patch) = decide(&facts) else { panic!("{:?}", decide(&facts)) };
        let by = "argocd-controller".to_owned();
        assert_eq!(build::reverts(Some(&keeper)), Reverts { count, by, at: Some(facts.now) });
        let back = patched(&service, &patch);
        assert_eq!(back.spec, cart().spec);
        // It waits longer each time before it begins again.
        let again = |since: u64| Facts {
            service: back.clone(),
            keeper: Some(*keeper.clone()),
            since_revert: Some(Duration::from_secs(since)),
            ..facts.clone()
        };
        assert!(matches!(decide(&again(2_u64.pow(count) - 1)), Step::Wait("somebody took it back", _)));
        assert!(matches!(decide(&again(2_u64.pow(count))), Step::Announce(_)));
        facts.keeper = Some(*keeper);
    }
    let Step::GiveUp(keeper, _) = decide(&facts) else { panic!("{:?}", decide(&facts)) };
    facts.keeper = Some(*keeper);
    facts.service = cart();
    assert_eq!(decide(&facts), Step::Nothing);
}

#[test]
fn what_somebody_did_long_ago_is_forgotten_while_the_service_is_held() {
    let mut held = facts(taken());
    let reverts = Reverts { count: 2, by: "helm".to_owned(), at: Some(held.now) };
    let mut keeper = held.keeper.take().unwrap();
    keeper.metadata.annotations = build::keeper(&held.service, &reverts).metadata.annotations;
    held.keeper = Some(keeper);
    assert_eq!(decide(&held), Step::Nothing, "it was a moment ago");
    held.now = held.now.checked_add(QUIET).unwrap();
    let Step::Keep(keeper) = decide(&held) else { panic!("{:?}", decide(&held)) };
    assert_eq!(build::reverts(Some(&keeper)), Reverts::default());
    // One that was left alone stays so: to begin again would be to fight for ever.
    let left = Reverts { count: ATTEMPTS + 1, ..reverts };
    let mut alone = facts(cart());
    alone.keeper = Some(build::keeper(&alone.service, &left));
    alone.now = held.now;
    assert_eq!(decide(&alone), Step::Nothing);
}

#[test]
fn a_client_that_merges_label_by_label_gets_its_own_service_back() {
    // What kubectl apply, Helm and Argo CD make of it: their labels beside ours, their target ports.
    let merged =
        json!({"spec": {"selector": {"app": "cart", "tier": "web"}, "ports": cart().spec.unwrap().ports}});
    let service = patched(&taken(), &merged);
    assert_eq!(service.spec.as_ref().unwrap().selector.as_ref().unwrap().len(), 3);
    let Step::Reverted(keeper, patch) = decide(&facts(service.clone())) else { panic!("not noticed") };
    assert_eq!(keeper.spec.unwrap().selector, cart().spec.unwrap().selector);
    assert_eq!(patched(&service, &patch).spec, cart().spec);
    // One whose owner changed the selector in the same breath.
    let other = patched(&taken(), &json!({"spec": {"selector": {"app": "cart-2"}}}));
    assert_eq!(build::meant(&other).selector, [("app".to_owned(), "cart-2".to_owned())].into());
}

#[test]
fn a_target_port_alone_is_taken_back_too() {
    let mut service = taken();
    service.spec.as_mut().unwrap().ports.as_mut().unwrap()[0].target_port =
        serde_json::from_value(json!("web")).unwrap();
    let Step::Reverted(_, patch) = decide(&facts(service.clone())) else { panic!("not noticed") };
    assert_eq!(patched(&service, &patch).spec, cart().spec);
}

#[test]
fn what_its_owner_changes_meanwhile_is_what_it_is_given_back_as() {
    let mut service = taken();
    let spec = service.spec.as_mut().unwrap();
    let ports = spec.ports.as_mut().unwrap();
    ports.push(serde_json::from_value(json!({"name": "more", "port": 81, "targetPort": 8181})).unwrap());
    ports.remove(1);
    let meant = build::meant(&service);
    assert_eq!(meant.selector, cart().spec.unwrap().selector.unwrap());
    let targets = meant.ports.iter().map(|it| json!(it.target_port)).collect::<Vec<_>>();
    assert_eq!(targets, [json!("web"), json!(8181)]);
    // The new port has no listener yet: it begins anew, with the new ports.
    assert!(matches!(decide(&facts(service)), Step::Reverted(..)));
}

#[test]
fn a_keeper_that_somebody_removed_is_made_again_at_once() {
    let without = Facts { keeper: None, ..facts(taken()) };
    let Step::Keep(keeper) = decide(&without) else { panic!("{:?}", decide(&without)) };
    assert_eq!(keeper.spec.as_ref().unwrap().selector, cart().spec.unwrap().selector);
}

#[test]
fn ports_of_routers_are_never_given_twice() {
    let first = build::listeners(&cart(), &BTreeSet::new());
    let used = first.values().copied().collect::<BTreeSet<_>>();
    assert_eq!(used.len(), 2);
    let second = build::listeners(&cart(), &used);
    assert!(second.values().all(|it| !used.contains(it)), "{second:?} and {used:?}");
    assert_eq!(build::listeners(&cart(), &BTreeSet::new()), first);
}

#[test]
fn services_that_no_router_can_stand_before_are_left_alone() {
    let with = |change: Value| {
        let why = why_not(&patched(&cart(), &json!({ "spec": change })));
        why.map(|it| it.split(' ').take(3).collect::<Vec<_>>().join(" "))
    };
    assert_eq!(with(json!({})), None);
    assert_eq!(with(json!({"clusterIP": "None"})).as_deref(), Some("it is headless:"));
    assert_eq!(with(json!({"type": "ExternalName"})).as_deref(), Some("it is an"));
    assert_eq!(with(json!({"selector": null})).as_deref(), Some("it has no"));
    let udp = json!({"ports": [{"port": 53, "protocol": "UDP"}]});
    assert_eq!(with(udp).as_deref(), Some("a router takes"));
    let unready = json!({"publishNotReadyAddresses": true});
    assert_eq!(with(unready).as_deref(), Some("it publishes addresses"));
    let routers = json!({"selector": {names::ROUTER_LABEL: "router"}});
    assert_eq!(with(routers).as_deref(), Some("it is the"));
    assert_eq!(why_not(&taken()), None, "one that was taken over can be kept");
}

#[test]
fn the_name_of_a_keeper_fits_whatever_the_name_of_its_service() {
    let mut service = cart();
    assert!(build::keeper_name(&service).starts_with("cart-sbxbase-"));
    service.metadata.name = Some("a".repeat(63));
    assert_eq!(build::keeper_name(&service).len(), 63);
}
