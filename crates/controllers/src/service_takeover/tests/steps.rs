use std::{collections::BTreeSet, time::Duration};

use capt_kinds::sandbox::names;
use k8s_openapi::api::core::v1::Service;
use kube::ResourceExt as _;
use sandbox::service::takeover_blocker;
use serde_json::{Value, json};

use super::super::{
    build::{self, RevertHistory},
    decide::{ATTEMPTS, REVERT_RESET, ROUTER_GRACE_PERIOD, RestoreReason, TakeoverStep, decide},
    dereference::TakeoverInputs,
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

fn facts(service: Service) -> TakeoverInputs {
    let listening = build::allocate_listeners(&service, &BTreeSet::new()).into_values().collect();
    let mut keeper = build::base_service(&service, &RevertHistory::default());
    keeper.spec.as_mut().unwrap().cluster_ip = Some("10.0.0.2".into());
    let pods = addresses(&["10.1.0.1", "10.1.0.2"]);
    TakeoverInputs {
        service,
        is_requested: true,
        base_service: Some(keeper),
        endpoints: pods.clone(),
        base_endpoints: pods,
        router_ports: vec![listening],
        ..TakeoverInputs::default()
    }
}

fn announced(mut service: Service) -> Service {
    let ports = build::allocate_listeners(&service, &BTreeSet::new());
    service.annotations_mut().insert(names::LISTEN_ANNOTATION.into(), json!(ports).to_string());
    service
}

fn taken() -> Service {
    let service = announced(cart());
    patched(&service, &build::takeover_patch(&service, &build::announced_listeners(&service)))
}

#[test]
fn a_service_is_taken_over_step_by_step() {
    let mut facts = facts(cart());
    facts.base_service = None;
    let routers = std::mem::take(&mut facts.router_ports);
    assert_eq!(decide(&facts), TakeoverStep::Wait("no router is ready", ROUTER_GRACE_PERIOD));
    facts.router_ports = vec![BTreeSet::new()];
    let TakeoverStep::ApplyBaseService(mut keeper) = decide(&facts) else { panic!("{:?}", decide(&facts)) };
    assert_eq!(keeper.spec.as_ref().unwrap().selector, facts.service.spec.as_ref().unwrap().selector);
    keeper.spec.as_mut().unwrap().cluster_ip = Some("10.0.0.2".into());
    facts.base_service = Some(*keeper);
    let TakeoverStep::AnnounceListeners(ports) = decide(&facts) else { panic!("{:?}", decide(&facts)) };
    assert_eq!(ports.len(), 2);
    facts.service = announced(cart());
    facts.base_endpoints = addresses(&["10.1.0.1"]);
    assert!(matches!(decide(&facts), TakeoverStep::Wait("the base Service has different endpoints", _)));
    facts.base_endpoints = facts.endpoints.clone();
    assert!(matches!(decide(&facts), TakeoverStep::Wait("not all routers listen yet", _)));
    facts.router_ports = vec![routers[0].clone(), BTreeSet::new()];
    assert!(matches!(decide(&facts), TakeoverStep::Wait("not all routers listen yet", _)));
    facts.router_ports = routers;
    assert!(matches!(decide(&facts), TakeoverStep::TakeOver(_)));
}

#[test]
fn one_patch_changes_selector_and_target_ports_and_nothing_else() {
    let (before, after) = (announced(cart()), taken());
    let spec = after.spec.clone().unwrap();
    assert_eq!(spec.selector, Some(build::router_selector()));
    let mut same = spec.clone();
    same.selector = before.spec.as_ref().unwrap().selector.clone();
    for (port, old) in
        same.ports.iter_mut().flatten().zip(before.spec.as_ref().unwrap().ports.iter().flatten())
    {
        assert_ne!(port.target_port, old.target_port);
        port.target_port = old.target_port.clone();
    }
    assert_eq!(Some(same), before.spec);
    assert_eq!(
        build::takeover_patch(&before, &build::announced_listeners(&before))["metadata"]["resourceVersion"],
        "7"
    );
}

#[test]
fn a_service_is_given_back_as_it_was_to_the_byte() {
    let taken = taken();
    let TakeoverStep::Restore(patch, RestoreReason::NotRequested) =
        decide(&TakeoverInputs { is_requested: false, ..facts(taken.clone()) })
    else {
        panic!("not given back")
    };
    let back = patched(&taken, &patch);
    let text = |it: &Service| serde_json::to_string(&it.spec).unwrap();
    assert_eq!(text(&back), text(&cart()));
    assert_eq!(back.annotations(), cart().annotations());
    // Then the rest goes.
    let left = TakeoverInputs { is_requested: false, ..facts(back) };
    assert!(matches!(decide(&left), TakeoverStep::DeleteBaseService(_)));
    assert_eq!(decide(&TakeoverInputs { base_service: None, ..left }), TakeoverStep::Idle);
}

#[test]
fn without_a_router_a_service_is_given_back_after_a_while() {
    let with = facts(taken());
    assert_eq!(decide(&with), TakeoverStep::Idle);
    let at = |seconds: u64| TakeoverInputs {
        without_router: Some(Duration::from_secs(seconds)),
        router_ports: vec![],
        ..with.clone()
    };
    assert_eq!(decide(&at(1)), TakeoverStep::Wait("no router is ready", Duration::from_secs(4)));
    assert!(matches!(decide(&at(5)), TakeoverStep::Restore(_, RestoreReason::NoRouter)));
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
        let TakeoverStep::YieldToRevert(keeper, patch) = decide(&facts) else {
            panic!("{:?}", decide(&facts))
        };
        let by = "argocd-controller".to_owned();
        assert_eq!(build::read_reverts(Some(&keeper)), RevertHistory { count, by, at: Some(facts.now) });
        let back = patched(&service, &patch);
        assert_eq!(back.spec, cart().spec);
        // It waits longer each time before it begins again.
        let again = |since: u64| TakeoverInputs {
            service: back.clone(),
            base_service: Some(*keeper.clone()),
            since_revert: Some(Duration::from_secs(since)),
            ..facts.clone()
        };
        assert!(matches!(
            decide(&again(2_u64.pow(count) - 1)),
            TakeoverStep::Wait("backing off after a revert", _)
        ));
        assert!(matches!(decide(&again(2_u64.pow(count))), TakeoverStep::AnnounceListeners(_)));
        facts.base_service = Some(*keeper);
    }
    let TakeoverStep::GiveUp(keeper, _) = decide(&facts) else { panic!("{:?}", decide(&facts)) };
    facts.base_service = Some(*keeper);
    facts.service = cart();
    assert_eq!(decide(&facts), TakeoverStep::Idle);
}

#[test]
fn what_somebody_did_long_ago_is_forgotten_while_the_service_is_held() {
    let mut held = facts(taken());
    let reverts = RevertHistory { count: 2, by: "helm".to_owned(), at: Some(held.now) };
    let mut keeper = held.base_service.take().unwrap();
    keeper.metadata.annotations = build::base_service(&held.service, &reverts).metadata.annotations;
    held.base_service = Some(keeper);
    assert_eq!(decide(&held), TakeoverStep::Idle, "it was a moment ago");
    held.now = held.now.checked_add(REVERT_RESET).unwrap();
    let TakeoverStep::ApplyBaseService(keeper) = decide(&held) else { panic!("{:?}", decide(&held)) };
    assert_eq!(build::read_reverts(Some(&keeper)), RevertHistory::default());
    // One that was left alone stays so: to begin again would be to fight for ever.
    let left = RevertHistory { count: ATTEMPTS + 1, ..reverts };
    let mut alone = facts(cart());
    alone.base_service = Some(build::base_service(&alone.service, &left));
    alone.now = held.now;
    assert_eq!(decide(&alone), TakeoverStep::Idle);
}

#[test]
fn a_client_that_merges_label_by_label_gets_its_own_service_back() {
    // What kubectl apply, Helm and Argo CD make of it: their labels beside ours, their target ports.
    let merged =
        json!({"spec": {"selector": {"app": "cart", "tier": "web"}, "ports": cart().spec.unwrap().ports}});
    let service = patched(&taken(), &merged);
    assert_eq!(service.spec.as_ref().unwrap().selector.as_ref().unwrap().len(), 3);
    let TakeoverStep::YieldToRevert(keeper, patch) = decide(&facts(service.clone())) else {
        panic!("not noticed")
    };
    assert_eq!(keeper.spec.unwrap().selector, cart().spec.unwrap().selector);
    assert_eq!(patched(&service, &patch).spec, cart().spec);
    // One whose owner changed the selector in the same breath.
    let other = patched(&taken(), &json!({"spec": {"selector": {"app": "cart-2"}}}));
    assert_eq!(build::owner_intent(&other).selector, [("app".to_owned(), "cart-2".to_owned())].into());
}

#[test]
fn a_target_port_alone_is_taken_back_too() {
    let mut service = taken();
    service.spec.as_mut().unwrap().ports.as_mut().unwrap()[0].target_port =
        serde_json::from_value(json!("web")).unwrap();
    let TakeoverStep::YieldToRevert(_, patch) = decide(&facts(service.clone())) else {
        panic!("not noticed")
    };
    assert_eq!(patched(&service, &patch).spec, cart().spec);
}

#[test]
fn what_its_owner_changes_meanwhile_is_what_it_is_given_back_as() {
    let mut service = taken();
    let spec = service.spec.as_mut().unwrap();
    let ports = spec.ports.as_mut().unwrap();
    ports.push(serde_json::from_value(json!({"name": "more", "port": 81, "targetPort": 8181})).unwrap());
    ports.remove(1);
    let meant = build::owner_intent(&service);
    assert_eq!(meant.selector, cart().spec.unwrap().selector.unwrap());
    let targets = meant.ports.iter().map(|it| json!(it.target_port)).collect::<Vec<_>>();
    assert_eq!(targets, [json!("web"), json!(8181)]);
    // The new port has no listener yet: it begins anew, with the new ports.
    assert!(matches!(decide(&facts(service)), TakeoverStep::YieldToRevert(..)));
}

#[test]
fn a_keeper_that_somebody_removed_is_made_again_at_once() {
    let without = TakeoverInputs { base_service: None, ..facts(taken()) };
    let TakeoverStep::ApplyBaseService(keeper) = decide(&without) else { panic!("{:?}", decide(&without)) };
    assert_eq!(keeper.spec.as_ref().unwrap().selector, cart().spec.unwrap().selector);
}

#[test]
fn ports_of_routers_are_never_given_twice() {
    let first = build::allocate_listeners(&cart(), &BTreeSet::new());
    let used = first.values().copied().collect::<BTreeSet<_>>();
    assert_eq!(used.len(), 2);
    let second = build::allocate_listeners(&cart(), &used);
    assert!(second.values().all(|it| !used.contains(it)), "{second:?} and {used:?}");
    assert_eq!(build::allocate_listeners(&cart(), &BTreeSet::new()), first);
}

#[test]
fn services_that_no_router_can_stand_before_are_left_alone() {
    let with = |change: Value| {
        let why = takeover_blocker(&patched(&cart(), &json!({ "spec": change })));
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
    assert_eq!(takeover_blocker(&taken()), None, "one that was taken over can be kept");
}

#[test]
fn the_name_of_a_keeper_fits_whatever_the_name_of_its_service() {
    let mut service = cart();
    assert!(build::base_service_name(&service).starts_with("cart-sbxbase-"));
    service.metadata.name = Some("a".repeat(63));
    assert_eq!(build::base_service_name(&service).len(), 63);
}
