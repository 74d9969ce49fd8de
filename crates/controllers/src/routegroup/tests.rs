use std::{sync::Arc, time::Duration};

use capt_dataplane::route_inputs;
use capt_kinds::sandbox::{
    Phase, RouteGroup, RouteGroupStatus, Sandbox,
    conditions::{reasons, types},
    names,
};
use capt_kube::k8s::EventSpec;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Namespace;
use kube::{Api, api::PostParams};
use sandbox::routes::{RouteObjects, RouteOwner, RouterObservation, build_routes};
use serde_json::{Value, json};

use super::{decide, dereference::dereference, events::diff_events, status, validate::accepted_condition};
use crate::{
    common::Settings,
    sandbox_common::route_snapshot::{RouteSnapshot, RouteSnapshotter},
    testing::{NAMESPACE, TestEnv},
};

/// What a reconcile does with a group.
#[derive(Debug)]
struct Reconciled {
    status: RouteGroupStatus,
    events: Vec<EventSpec>,
    requeue_after: Option<Duration>,
    is_expired: bool,
}

/// The pure steps, in the order of `reconcile`.
fn decide(group: &RouteGroup, snapshot: &RouteSnapshot, now: Timestamp) -> Reconciled {
    let routes = dereference(group, snapshot);
    let accepted = accepted_condition(group, &routes.own);
    let decision = decide::decide(group, &routes, now);
    let status = status::observed(group, (&routes, accepted), &decision, now);
    let before = group.status.clone().unwrap_or_default();
    let events = diff_events(&before, &status, decision.is_expiring());
    Reconciled { status, events, requeue_after: decision.requeue_after, is_expired: decision.is_expired() }
}

fn read<T: serde::de::DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).unwrap()
}

fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

fn now() -> Timestamp {
    at("2026-11-17T06:00:00Z")
}

fn group(spec: &Value) -> RouteGroup {
    let mut all =
        json!({"match": {"label": {"key": "feature", "value": "cart-*"}}, "routingKey": "group-key"});
    all.as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
    read(json!({
        "apiVersion": "sandbox.capt.x-k8s.io/v1alpha1", "kind": "RouteGroup",
        "metadata": {
            "name": "g", "namespace": "shop", "uid": "uid-g", "generation": 1, "creationTimestamp": "2026-11-17T05:00:00Z"
        },
        "spec": all
    }))
}

fn sandbox(name: &str, fork: &str) -> Sandbox {
    let services =
        json!([{"from": fork, "to": format!("{fork}-{name}"), "ports": [{"port": 80, "targetPort": 8080}]}]);
    read(json!({
        "apiVersion": "sandbox.capt.x-k8s.io/v1alpha1", "kind": "Sandbox",
        "metadata": {"name": name, "namespace": "shop", "uid": name, "generation": 1, "labels": {"feature": "cart-v2"}},
        "spec": {"forks": [{"forkOf": {"name": fork}}]},
        "status": {"phase": "Ready", "forks": [{"name": fork, "services": services}]}
    }))
}

/// Forks that have a pod.
fn endpoints(sandboxes: &[Sandbox]) -> (Vec<Value>, Vec<Value>) {
    let mut names: Vec<String> = vec!["cart".into(), "web".into()];
    for sandbox in sandboxes {
        names.extend(sandbox.status.iter().flat_map(|it| &it.forks).map(|it| it.services[0].to.clone()));
    }
    // Their traffic comes to the router.
    let ports = json!([{"name": "http", "port": 80, "targetPort": 8080}]);
    let original = json!({"selector": {"app": "a"}, "ports": ports}).to_string();
    let service = |name: &String| {
        json!({
            "metadata": {"name": name, "namespace": "shop", "annotations": {names::ORIGINAL_ANNOTATION: original}},
            "spec": {"ports": ports}
        })
    };
    let slice = |name: &String| {
        json!({
            "metadata": {"name": name, "namespace": "shop", "labels": {"kubernetes.io/service-name": name}},
            "addressType": "IPv4", "ports": [{"name": "http", "port": 8080}], "endpoints": [{"addresses": ["10.0.0.1"]}]
        })
    };
    (names.iter().map(service).collect(), names.iter().map(slice).collect())
}

fn sheet(group: &RouteGroup, sandboxes: &[Sandbox], is_behind: bool) -> RouteSnapshot {
    let (services, slices) = endpoints(sandboxes);
    let (services, slices): (Vec<_>, Vec<_>) =
        (services.into_iter().map(read).collect(), slices.into_iter().map(read).collect());
    let made = build_routes(&RouteObjects {
        sandboxes: sandboxes.iter().collect(),
        groups: vec![group],
        services: services.iter().collect(),
        slices: slices.iter().collect(),
        ..RouteObjects::default()
    });
    let revision = if is_behind { "older".to_owned() } else { made.revisions["shop"].clone() };
    let router = RouterObservation {
        namespace: "shop".into(),
        name: "router-0".into(),
        ready: true,
        revision: Some(revision),
    };
    let ready = sandboxes.iter().map(|it| format!("shop/{}", it.metadata.name.as_ref().unwrap())).collect();
    let generations = [(RouteOwner::group(group), group.metadata.generation.unwrap())].into();
    RouteSnapshot::from_parts(made, vec![router], ready, generations)
}

fn said(decided: &Reconciled, type_: &str) -> (String, String, String) {
    let it = decided.status.conditions.iter().find(|it| it.type_ == type_).unwrap();
    (it.status.clone(), it.reason.clone(), it.message.clone())
}

#[test]
fn a_group_whose_routes_are_everywhere_is_ready() {
    let (group, members) = (group(&json!({})), [sandbox("a", "cart"), sandbox("b", "web")]);
    let decided = decide(&group, &sheet(&group, &members, false), now());
    let status = &decided.status;
    assert_eq!(status.phase, Some(Phase::Ready), "{:?}", status.conditions);
    assert_eq!(status.conditions.len(), types::OF_ROUTE_GROUP.len());
    assert_eq!((status.routes, status.total_sandboxes, status.ready_sandboxes), (2, 2, 2));
    assert_eq!(status.programmed_routers.as_deref(), Some("1/1"));
    assert_eq!(status.routing_key.as_deref(), Some("group-key"));
    assert_eq!(
        decided.events.iter().map(|it| it.reason).collect::<Vec<_>>(),
        ["Accepted", "RoutesProgrammed"]
    );
    let mut seen = group.clone();
    seen.status = Some(status.clone());
    let again = decide(&seen, &sheet(&seen, &members, false), at("2026-11-17T07:00:00Z"));
    assert_eq!(&again.status, status, "a second look changes nothing");
    assert!(again.events.is_empty());
}

#[test]
fn routers_that_lag_are_waited_for_and_a_lag_for_others_sake_is_not() {
    let (group, members) = (group(&json!({})), [sandbox("a", "cart")]);
    let behind = decide(&group, &sheet(&group, &members, true), now());
    assert_eq!(said(&behind, types::ROUTES_PROGRAMMED).1, reasons::ROUTERS_BEHIND);
    assert_eq!(behind.status.phase, Some(Phase::Progressing));
    let mut programmed = group.clone();
    programmed.status = Some(decide(&group, &sheet(&group, &members, false), now()).status);
    let later = decide(&programmed, &sheet(&programmed, &members, true), now());
    assert_eq!(later.status.phase, Some(Phase::Ready));
}

#[test]
fn a_spec_that_is_not_in_the_table_yet_is_not_called_programmed() {
    let (mut group, members) = (group(&json!({})), [sandbox("a", "cart")]);
    let sheet = sheet(&group, &members, false);
    group.metadata.generation = Some(2);
    let decided = decide(&group, &sheet, now());
    assert_eq!(said(&decided, types::ROUTES_PROGRAMMED).0, "Unknown");
    assert_eq!(decided.requeue_after, Some(super::STALE_TABLE_REQUEUE));
}

#[test]
fn f9_a_conflict_names_both_sandboxes_and_is_told() {
    let (group, members) = (group(&json!({})), [sandbox("a", "cart"), sandbox("b", "cart")]);
    let decided = decide(&group, &sheet(&group, &members, false), now());
    let (status, reason, message) = said(&decided, types::RESOLVED);
    assert_eq!((status.as_str(), reason.as_str()), ("False", "Conflict"));
    assert!(message.contains("shop/a and shop/b") && message.contains("shop/cart"), "{message}");
    assert_eq!(decided.status.conflicts.len(), 1);
    assert!(decided.events.iter().any(|it| it.reason == "Conflict"));
}

#[test]
fn a_member_that_is_not_ready_is_named() {
    let (group, mut members) = (group(&json!({})), [sandbox("a", "cart")]);
    members[0].status.as_mut().unwrap().forks[0].services[0].to = "nowhere".into();
    let mut sheet = sheet(&group, &members, false);
    // The Service is there and nobody answers behind it.
    let made = build_routes(&RouteObjects {
        sandboxes: members.iter().collect(),
        groups: vec![&group],
        ..RouteObjects::default()
    });
    sheet.routers[0].revision = made.revisions.get("shop").cloned();
    sheet.routes = made;
    let decided = decide(&group, &sheet, now());
    assert_ne!(decided.status.phase, Some(Phase::Ready));
    let mut lax = group.clone();
    lax.spec.routing.unready_policy = capt_kinds::sandbox::UnreadyPolicy::Baseline;
    assert_eq!(decide(&lax, &sheet, now()).status.ready_sandboxes, 1);
}

#[test]
fn a_group_without_sandboxes_waits() {
    let group = group(&json!({}));
    let decided = decide(&group, &sheet(&group, &[], false), now());
    assert_eq!(decided.status.phase, Some(Phase::Pending));
    assert_eq!(said(&decided, types::RESOLVED).1, reasons::NO_MATCHED_SANDBOXES);
}

#[test]
fn a_bad_spec_fails_and_a_missing_service_is_waited_for() {
    let bad = group(&json!({"endpoints": [{"name": "web", "target": "ftp://x"}]}));
    let decided = decide(&bad, &sheet(&bad, &[sandbox("a", "cart")], false), now());
    assert_eq!(
        (decided.status.phase, said(&decided, types::ACCEPTED).1.as_str()),
        (Some(Phase::Failed), "InvalidTarget")
    );
    let early = group(&json!({"endpoints": [{"name": "web", "target": "http://gone.shop.svc"}]}));
    let decided = decide(&early, &sheet(&early, &[sandbox("a", "cart")], false), now());
    assert_eq!(
        (decided.status.phase, said(&decided, types::ACCEPTED).1.as_str()),
        (Some(Phase::Pending), "TargetNotFound")
    );
}

#[test]
fn f12_a_group_that_nobody_belongs_to_is_over_after_its_time_and_not_before() {
    let ttl = json!({"ttl": {"duration": "1h", "offsetFrom": "noMatchedSandboxes"}});
    let with = group(&ttl);
    let decided = decide(&with, &sheet(&with, &[sandbox("a", "cart")], false), now());
    assert_eq!((decided.status.scheduled_delete_time.clone(), decided.is_expired), (None, false));
    let mut without = with.clone();
    without.status = Some(decided.status);
    let left = decide(&without, &sheet(&without, &[], false), now());
    assert_eq!(left.status.unmatched_since.as_ref().unwrap().0, now());
    assert_eq!(left.status.scheduled_delete_time.as_ref().unwrap().0, at("2026-11-17T07:00:00Z"));
    assert_eq!(left.requeue_after, Some(Duration::from_mins(54)), "when a tenth is left");
    without.status = Some(left.status.clone());
    let late = decide(&without, &sheet(&without, &[], false), at("2026-11-17T07:00:00Z"));
    assert!(late.is_expired);
    let back = decide(&without, &sheet(&without, &[sandbox("a", "cart")], false), at("2026-11-17T06:59:59Z"));
    assert_eq!((back.is_expired, back.status.unmatched_since), (false, None));
}

/// The real controller and the real watches on the embedded API server.
#[tokio::test]
async fn a_groups_status_follows_sandboxes_and_routers() {
    let rig = TestEnv::start().await;
    let board = Arc::new(RouteSnapshotter::start(&rig.ctx));
    let stop = tokio_util::sync::CancellationToken::new();
    let _ends = stop.clone().drop_guard();
    tokio::spawn(super::run(Arc::clone(&rig.ctx), Arc::clone(&board), stop.cancelled_owned()));
    let spec = json!({"match": {"label": {"key": "feature", "value": "cart-*"}}, "routingKey": "group-key"});
    rig.create("RouteGroup", json!({"metadata": {"name": "g"}, "spec": spec})).await;
    let status = |value: &Value| read::<RouteGroupStatus>(value["status"].clone());
    let seen = rig.wait_until("RouteGroup", "g", |it| it["status"]["phase"] == "Pending").await;
    assert_eq!(status(&seen).total_sandboxes, 0);
    make_member(&rig).await;
    let seen = rig
        .wait_until("RouteGroup", "g", |it| {
            it["status"]["totalSandboxes"] == 1 && it["status"]["routes"] == 1
        })
        .await;
    let programmed =
        status(&seen).conditions.into_iter().find(|it| it.type_ == types::ROUTES_PROGRAMMED).unwrap();
    assert_eq!(programmed.reason, "NoRouters");
    make_router(&rig, &status(&seen).table_revision.unwrap()).await;
    let seen = rig.wait_until("RouteGroup", "g", |it| it["status"]["phase"] == "Ready").await;
    assert_eq!(status(&seen).programmed_routers.as_deref(), Some("1/1"));
    assert_eq!(board.latest_snapshot().unwrap().routers.len(), 1);
}

async fn make_member(rig: &TestEnv) {
    for name in ["cart", "cart-fork"] {
        let spec = json!({"ports": [{"name": "http", "port": 80, "targetPort": 8080}]});
        let annotations = json!({names::ORIGINAL_ANNOTATION: spec.to_string()});
        rig.create("Service", json!({"metadata": {"name": name, "annotations": annotations}, "spec": spec}))
            .await;
        let labels = json!({"kubernetes.io/service-name": name});
        rig.create("EndpointSlice", json!({
            "metadata": {"name": name, "labels": labels}, "addressType": "IPv4",
            "ports": [{"name": "http", "port": 8080}], "endpoints": [{"addresses": ["10.0.0.1"], "conditions": {"ready": true}}]
        }))
        .await;
    }
    let spec = json!({"forks": [{"forkOf": {"name": "cart"}}]});
    rig.create(
        "Sandbox",
        json!({"metadata": {"name": "a", "labels": {"feature": "cart-v2"},
        "annotations": {"capt.x-k8s.io/allow-references-from": "elsewhere"}}, "spec": spec}),
    )
    .await;
    let services = json!([{"from": "cart", "to": "cart-fork", "ports": [{"port": 80, "targetPort": 8080}]}]);
    rig.set_status(
        "Sandbox",
        "a",
        json!({"phase": "Ready", "forks": [{"name": "cart", "services": services}]}),
    )
    .await;
}

async fn make_router(rig: &TestEnv, revision: &str) {
    let labels = json!({"sandbox.capt.x-k8s.io/router": "router"});
    let annotations = json!({"sandbox.capt.x-k8s.io/table-revision": revision});
    rig.create("Lease", json!({"metadata": {"name": "r", "labels": labels, "annotations": annotations}}))
        .await;
    let spec = json!({"containers": [{"name": "router", "image": "capt"}]});
    rig.create("Pod", json!({"metadata": {"name": "r", "labels": labels}, "spec": spec})).await;
    rig.set_status("Pod", "r", json!({"conditions": [{"type": "Ready", "status": "True"}]})).await;
    assert_eq!(NAMESPACE, "team");
}

/// A group of another namespace has members here if they grant it, and a router here has its routes.
#[tokio::test]
async fn an_operator_of_one_namespace_has_the_revisions_of_its_routers() {
    let rig =
        TestEnv::start_with(Settings { namespace: Some(NAMESPACE.to_owned()), ..Settings::default() }).await;
    make_member(&rig).await;
    let spec = json!({"match": {"label": {"key": "feature", "value": "*"}}, "namespaces": {"from": "All"}});
    let client = rig.ctx.kube.client();
    let namespace: Namespace = read(json!({"metadata": {"name": "elsewhere"}}));
    Api::all(client.clone()).create(&PostParams::default(), &namespace).await.unwrap();
    let kind = json!({"apiVersion": "sandbox.capt.x-k8s.io/v1alpha1", "kind": "RouteGroup"});
    let mut group = json!({"metadata": {"name": "g"}, "spec": spec});
    group.as_object_mut().unwrap().extend(kind.as_object().unwrap().clone());
    let groups = Api::<RouteGroup>::namespaced(client.clone(), "elsewhere");
    groups.create(&PostParams::default(), &read(group)).await.unwrap();
    let (mut watches, _changes) = route_inputs::WatchSet::new(|error| panic!("{error}"));
    let router = route_inputs::RouteInputs::new(&mut watches, rig.ctx.kube.client(), None, Some(NAMESPACE));
    router.wait_ready().await.unwrap();
    let theirs = router.build_routes(route_inputs::TableScope { domain: None, namespace: Some(NAMESPACE) });
    let board = RouteSnapshotter::start(&rig.ctx);
    let mut told = board.subscribe();
    told.changed().await.unwrap();
    let ours = board.latest_snapshot().unwrap();
    assert_eq!(ours.routes.revisions.get(NAMESPACE), theirs.revisions.get(NAMESPACE));
    let group = theirs.owners.iter().find(|(it, _)| it.namespace == "elsewhere").unwrap().1;
    assert_eq!((group.members.len(), group.routes), (1, 1), "it has a route here");
}
