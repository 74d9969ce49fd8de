//! Who is asked to go, and when it is over.

use serde_json::{Value, json};

use super::*;
use crate::cli::tree::build_forest;

fn object(kind: &str, name: &str, owner: Option<&str>) -> DynamicObject {
    let owners = owner.map(|kind| json!([{"apiVersion": "v1", "kind": kind, "name": name, "uid": "1"}]));
    let metadata =
        json!({"name": name, "namespace": "default", "ownerReferences": owners.unwrap_or(Value::Null)});
    serde_json::from_value(json!({"apiVersion": "v1", "kind": kind, "metadata": metadata})).unwrap()
}

fn everything() -> Vec<DynamicObject> {
    vec![
        object("WorkspaceTemplate", "demo", None),
        object("WorkspaceTemplateApply", "demo", Some("CAPTCluster")),
        object("WorkspaceTemplateApply", "alone", None),
        object("CAPTCluster", "demo", Some("Cluster")),
        object("Cluster", "demo", None),
        object("CAPTIdentity", "me", None),
    ]
}

fn kinds(objects: &[DynamicObject], goals: &[WaitTarget]) -> Vec<String> {
    deletable_objects(objects, goals)
        .iter()
        .map(|it| format!("{} {}", ObjectView(it).kind(), it.name_any()))
        .collect()
}

#[test]
fn owners_are_asked_and_what_they_own_goes_with_them() {
    assert_eq!(kinds(&everything(), &[]), ["Cluster demo", "WorkspaceTemplateApply alone"]);
}

#[test]
fn templates_go_when_no_workspace_can_need_them() {
    let objects: Vec<DynamicObject> =
        everything().into_iter().filter(|it| ObjectView(it).kind() != "WorkspaceTemplateApply").collect();
    assert_eq!(kinds(&objects, &[]), ["Cluster demo", "WorkspaceTemplate demo"]);
}

#[test]
fn only_what_is_named_goes_and_nobody_is_asked_twice() {
    let goal = |kind: &str, name: &str| WaitTarget {
        kind: kind.to_owned(),
        namespace: "default".to_owned(),
        name: name.to_owned(),
    };
    let goals = [goal("CAPTCluster", "demo"), goal("Cluster", "other")];
    let mut objects = everything();
    assert_eq!(kinds(&objects, &goals), ["CAPTCluster demo"], "it is named, though somebody owns it");
    let gone = serde_json::from_value(json!("2026-01-01T00:00:00Z")).unwrap();
    objects[3].metadata.deletion_timestamp = Some(gone);
    assert!(kinds(&objects, &goals).is_empty());
}

#[test]
fn it_is_over_when_nothing_is_there_and_stuck_when_nobody_tries_again() {
    assert_eq!(deletion_readiness(&[]), TargetReadiness::Ready);
    assert_eq!(
        deletion_readiness(&build_forest(&[object("CAPTIdentity", "me", None)], "")),
        TargetReadiness::Ready,
        "it destroys nothing"
    );
    assert_eq!(deletion_readiness(&build_forest(&everything(), "")), TargetReadiness::Pending);
    let mut failed = object("WorkspaceTemplateApply", "demo", None);
    failed.data["status"] = json!({
        "run": {"id": "1", "operation": "Destroy", "phase": "Failed"},
        "lastError": {"class": "Terminal", "message": "DependencyViolation"},
    });
    assert_eq!(
        deletion_readiness(&build_forest(std::slice::from_ref(&failed), "")),
        TargetReadiness::Pending,
        "it was not asked yet"
    );
    failed.metadata.deletion_timestamp = Some(serde_json::from_value(json!("2026-01-01T00:00:00Z")).unwrap());
    let said = deletion_readiness(&build_forest(&[failed], ""));
    assert_eq!(
        said,
        TargetReadiness::Stuck(vec!["WorkspaceTemplateApply default/demo: DependencyViolation".to_owned()])
    );
}
