use std::collections::BTreeSet;

use serde_json::json;

use super::{
    decide::{GcDecision, OwnerState, decide},
    dependency_graph::{DependencyGraph, GcTask, GraphEffects},
    ownership::{ObjectIdentity, ObjectOwnership, OwnerRef},
};
use crate::controllers::api_client::Propagation;

fn object(namespace: &str, name: &str, owners: &[OwnerRef]) -> ObjectOwnership {
    ObjectOwnership {
        identity: ObjectIdentity {
            kind: "ConfigMap".to_owned(),
            api_version: "v1".to_owned(),
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            uid: format!("uid-{name}"),
        },
        resource_version: "1".to_owned(),
        owners: owners.to_vec(),
        is_terminating: false,
        has_foreground_finalizer: false,
        has_orphan_finalizer: false,
    }
}

fn owner(name: &str, is_blocking: bool) -> OwnerRef {
    OwnerRef {
        api_version: "v1".to_owned(),
        kind: "ConfigMap".to_owned(),
        name: name.to_owned(),
        uid: format!("uid-{name}"),
        is_blocking,
        is_controller: false,
    }
}

fn deletes(names: &[&str]) -> BTreeSet<GcTask> {
    names.iter().map(|name| GcTask::Delete(format!("uid-{name}"))).collect()
}

fn nothing() -> GraphEffects {
    GraphEffects::default()
}

#[test]
fn an_object_with_a_known_owner_causes_no_work_until_the_owner_is_gone() {
    let mut graph = DependencyGraph::default();
    assert_eq!(graph.observe(&object("a", "owner", &[])), nothing());
    assert_eq!(graph.observe(&object("a", "child", &[owner("owner", true)])), nothing());
    assert_eq!(graph.remove("uid-owner").tasks, deletes(&["child"]));
}

#[test]
fn an_owner_that_nobody_has_seen_is_asked_for_and_its_absence_dooms_its_dependents() {
    let mut graph = DependencyGraph::default();
    let effects = graph.observe(&object("a", "child", &[owner("ghost", false)]));
    assert_eq!(effects.tasks, deletes(&["ghost"]));
    let ghost = graph.snapshot("uid-ghost").unwrap();
    assert!(ghost.is_virtual);
    assert_eq!(ghost.identity.namespace, "a");
    assert_eq!(graph.mark_absent(&ghost.identity).tasks, deletes(&["child"]));
    assert_eq!(graph.snapshot("uid-ghost"), None);
}

#[test]
fn an_owner_that_is_seen_later_ends_the_doubt() {
    let mut graph = DependencyGraph::default();
    graph.observe(&object("a", "child", &[owner("late", false)]));
    assert_eq!(graph.observe(&object("a", "late", &[])), nothing());
    assert!(!graph.snapshot("uid-late").unwrap().is_virtual);
}

#[test]
fn an_owner_in_another_namespace_is_reported_whoever_comes_first() {
    let mut graph = DependencyGraph::default();
    graph.observe(&object("a", "owner", &[]));
    let effects = graph.observe(&object("b", "child", &[owner("owner", false)]));
    assert_eq!(effects.tasks, deletes(&["child"]));
    assert_eq!(effects.invalid_references.len(), 1);

    let mut graph = DependencyGraph::default();
    graph.observe(&object("b", "child", &[owner("owner", false)]));
    let effects = graph.observe(&object("a", "owner", &[]));
    assert_eq!(effects.tasks, deletes(&["child"]));
    assert_eq!(effects.invalid_references.first().unwrap().dependent.namespace, "b");
}

#[test]
fn an_absent_claim_does_not_remove_an_owner_that_was_seen_elsewhere() {
    let mut graph = DependencyGraph::default();
    graph.observe(&object("a", "owner", &[]));
    graph.observe(&object("b", "child", &[owner("owner", false)]));
    let claim = owner("owner", false).identity_in("b");
    assert_eq!(graph.mark_absent(&claim).tasks, deletes(&["child"]));
    assert!(graph.snapshot("uid-owner").is_some());
}

#[test]
fn claims_of_a_virtual_owner_are_tried_one_after_the_other() {
    let mut graph = DependencyGraph::default();
    graph.observe(&object("a", "first", &[owner("ghost", false)]));
    graph.observe(&object("b", "second", &[owner("ghost", false)]));
    let claim = graph.snapshot("uid-ghost").unwrap().identity;
    assert_eq!(claim.namespace, "a");
    let effects = graph.mark_absent(&claim);
    assert!(effects.needs_retry);
    assert_eq!(effects.tasks, deletes(&["first"]));
    let claim = graph.snapshot("uid-ghost").unwrap().identity;
    assert_eq!(claim.namespace, "b");
    assert_eq!(graph.mark_absent(&claim).tasks, deletes(&["second"]));
    graph.remove("uid-first");
    graph.remove("uid-second");
    assert_eq!(graph.snapshot("uid-ghost"), None);
}

#[test]
fn a_foreground_owner_wakes_its_dependents_and_is_woken_when_they_go() {
    let mut graph = DependencyGraph::default();
    graph.observe(&object("a", "owner", &[]));
    graph.observe(&object("a", "child", &[owner("owner", true)]));
    let mut going = object("a", "owner", &[]);
    going.is_terminating = true;
    going.has_foreground_finalizer = true;
    assert_eq!(graph.observe(&going).tasks, deletes(&["owner", "child"]));
    assert_eq!(graph.observe(&going), nothing(), "the same state again is no news");
    let item = graph.snapshot("uid-owner").unwrap();
    assert!(item.is_foreground && item.dependents.iter().all(|child| child.is_blocking));
    assert_eq!(graph.remove("uid-child").tasks, deletes(&["owner"]));
    assert_eq!(graph.snapshot("uid-owner").unwrap().dependents, []);
}

#[test]
fn a_reference_that_stops_blocking_wakes_the_owner() {
    let mut graph = DependencyGraph::default();
    graph.observe(&object("a", "owner", &[]));
    graph.observe(&object("a", "child", &[owner("owner", true)]));
    let effects = graph.observe(&object("a", "child", &[owner("owner", false)]));
    assert_eq!(effects.tasks, deletes(&["owner"]));
    let effects = graph.observe(&object("a", "child", &[]));
    assert_eq!(effects, nothing());
    assert_eq!(graph.snapshot("uid-owner").unwrap().dependents, []);
}

#[test]
fn an_orphaning_owner_is_work_of_its_own_kind_and_comes_once() {
    let mut graph = DependencyGraph::default();
    graph.observe(&object("a", "owner", &[]));
    let mut going = object("a", "owner", &[]);
    going.is_terminating = true;
    going.has_orphan_finalizer = true;
    let work = BTreeSet::from([GcTask::Orphan("uid-owner".to_owned())]);
    assert_eq!(graph.observe(&going).tasks, work);
    assert_eq!(graph.observe(&going), nothing());
}

#[test]
fn a_virtual_owner_that_nobody_refers_to_any_more_is_forgotten() {
    let mut graph = DependencyGraph::default();
    graph.observe(&object("a", "child", &[owner("ghost", false)]));
    graph.remove("uid-child");
    assert_eq!(graph.snapshot("uid-ghost"), None);
}

#[test]
fn one_solid_owner_holds_an_object_and_the_other_references_go() {
    let mut graph = DependencyGraph::default();
    let facts = object("a", "child", &[]);
    graph.observe(&facts);
    let item = graph.snapshot("uid-child").unwrap();
    let solid = (owner("x", false), OwnerState::Solid);
    let dangling = (owner("y", false), OwnerState::Dangling);
    let waiting = (owner("z", false), OwnerState::WaitingForDependents);
    assert_eq!(decide(&facts, &item, &[]), GcDecision::Keep);
    assert_eq!(decide(&facts, &item, std::slice::from_ref(&solid)), GcDecision::Keep);
    let gone = GcDecision::RemoveOwners(vec!["uid-y".to_owned(), "uid-z".to_owned()]);
    assert_eq!(decide(&facts, &item, &[solid, dangling.clone(), waiting.clone()]), gone);
    let deleted = GcDecision::Delete { propagation: Propagation::Background, unblock: false };
    assert_eq!(decide(&facts, &item, &[dangling, waiting]), deleted);
}

#[test]
fn an_object_between_a_waiting_owner_and_its_own_dependents_goes_in_the_foreground() {
    let mut graph = DependencyGraph::default();
    let facts = object("a", "middle", &[]);
    graph.observe(&facts);
    graph.observe(&object("a", "leaf", &[owner("middle", true)]));
    let owners = [(owner("top", true), OwnerState::WaitingForDependents)];
    let foreground = |unblock| GcDecision::Delete { propagation: Propagation::Foreground, unblock };
    assert_eq!(decide(&facts, &graph.snapshot("uid-middle").unwrap(), &owners), foreground(false));

    let mut circle = object("a", "leaf", &[owner("middle", true)]);
    circle.is_terminating = true;
    circle.has_foreground_finalizer = true;
    graph.observe(&circle);
    assert_eq!(decide(&facts, &graph.snapshot("uid-middle").unwrap(), &owners), foreground(true));
}

#[test]
fn a_finalizer_that_is_already_there_decides_how_an_object_goes() {
    let mut graph = DependencyGraph::default();
    let mut facts = object("a", "child", &[]);
    graph.observe(&facts);
    let item = graph.snapshot("uid-child").unwrap();
    let owners = [(owner("gone", false), OwnerState::Dangling)];
    facts.has_foreground_finalizer = true;
    assert_eq!(
        decide(&facts, &item, &owners),
        GcDecision::Delete { propagation: Propagation::Foreground, unblock: false }
    );
    facts.has_orphan_finalizer = true;
    assert_eq!(
        decide(&facts, &item, &owners),
        GcDecision::Delete { propagation: Propagation::Orphan, unblock: false }
    );
}

#[test]
fn facts_are_read_from_metadata_alone() {
    let facts = ObjectOwnership::from_value(&json!({
        "apiVersion": "apps/v1", "kind": "ReplicaSet", "spec": {"replicas": 1},
        "metadata": {
            "name": "x", "namespace": "a", "uid": "1", "resourceVersion": "7", "deletionTimestamp": "2026-01-01T00:00:00Z",
            "finalizers": ["foregroundDeletion", "other"],
            "ownerReferences": [{"apiVersion": "apps/v1", "kind": "Deployment", "name": "d", "uid": "2", "blockOwnerDeletion": true}],
        },
    }))
    .unwrap();
    assert!(facts.is_terminating && facts.has_foreground_finalizer && !facts.has_orphan_finalizer);
    assert!(facts.owners.iter().all(|owner| owner.is_blocking && !owner.is_controller));
    assert_eq!(facts.identity.to_string(), "[apps/v1/ReplicaSet, namespace: a, name: x, uid: 1]");
    assert_eq!(ObjectOwnership::from_value(&json!({"metadata": {}})), None);
}
