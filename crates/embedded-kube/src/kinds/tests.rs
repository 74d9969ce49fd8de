//! Create and update responses recorded from a real server of version 1.36.3 (dry runs, one per line of
//! `recorded.jsonl`).

use std::collections::BTreeMap;

use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use super::*;
use crate::{
    object::{MetaAccessor, MetaAccessorMut, get_path, str_at},
    registry::ObjectPart,
    status_error::{FieldError, StatusError},
};

fn recorded() -> Vec<Value> {
    include_str!("tests/recorded.jsonl").lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn resource(case: &Value) -> Resource {
    let (group, kind) = (str_at(case, &["group"]), str_at(case, &["kind"]));
    resources().into_iter().find(|one| one.id.group == group && one.kind == kind).unwrap()
}

/// The kind-specific part of a create, without generic metadata.
fn create(resource: &Resource, object: &Value) -> Result<Value, Vec<FieldError>> {
    let mut object = object.clone();
    object["apiVersion"] = resource.api_version().into();
    object["kind"] = resource.kind.as_str().into();
    resource.strategy.set_defaults(&mut object);
    if resource.has_status {
        object.drop_field("status");
    }
    resource.strategy.prepare_create(&mut object);
    let errors = resource.strategy.validate(&object);
    if errors.is_empty() { Ok(object) } else { Err(errors) }
}

fn update(resource: &Resource, case: &Value) -> Result<Value, Vec<FieldError>> {
    let part = if str_at(case, &["part"]) == "status" { ObjectPart::Status } else { ObjectPart::Object };
    let (old, mut object) = (case["old"].clone(), case["update"].clone());
    resource.strategy.set_defaults(&mut object);
    resource.strategy.prepare_update(part, &mut object, &old);
    let errors = resource.strategy.validate_update(part, &object, &old);
    if !errors.is_empty() {
        return Err(errors);
    }
    if old.generation() > 0 && resource.strategy.bumps_generation(&object, &old) {
        object.set_meta("generation", old.generation() + 1);
    }
    Ok(object)
}

fn causes(errors: &[FieldError]) -> Value {
    let failure = StatusError::invalid("", "", "", errors);
    let mut causes: Vec<Vec<String>> = failure
        .details()
        .unwrap()
        .causes
        .iter()
        .map(|cause| {
            let message = cause.message.lines().next().unwrap_or_default();
            vec![cause.field.clone(), cause.reason.clone(), message.to_owned()]
        })
        .collect();
    causes.sort();
    json!(causes)
}

/// Replaces random names, addresses and ports with those of the recording.
fn with_choices_of(mut object: Value, expected: &Value, request: &Value) -> Value {
    let token = |object: &Value| {
        let volumes =
            common::list_at(object, &["spec", "volumes"]).iter().map(|one| str_at(one, &["name"]).to_owned());
        volumes.into_iter().find(|name| name.starts_with("kube-api-access-"))
    };
    if let (Some(mine), Some(theirs)) = (token(&object), token(expected)) {
        object = serde_json::from_str(&object.to_string().replace(&mine, &theirs)).unwrap();
    }
    if str_at(expected, &["kind"]) == "Service" {
        if get_path(request, &["spec", "clusterIP"]).is_none()
            && get_path(&object, &["spec", "clusterIP"]).is_some()
        {
            for key in ["clusterIP", "clusterIPs"] {
                object["spec"][key] = expected["spec"][key].clone();
            }
        }
        let ports = common::list_at(expected, &["spec", "ports"]).to_vec();
        for (mine, theirs) in common::items_mut(&mut object["spec"], "ports").zip(ports) {
            if mine.get("nodePort").is_some() && theirs.get("nodePort").is_some() {
                mine["nodePort"] = theirs["nodePort"].clone();
            }
        }
    }
    object
}

#[test]
fn objects_become_what_the_real_server_makes_of_them() {
    let mut wrong = Vec::new();
    for case in recorded() {
        let resource = resource(&case);
        let (request, outcome) = match case.get("create") {
            Some(object) => (object.clone(), create(&resource, object)),
            None => (case["update"].clone(), update(&resource, &case)),
        };
        let expected = &case["expect"];
        let found = match outcome {
            Ok(object) => json!({"object": with_choices_of(object, &expected["object"], &request)}),
            Err(errors) => json!({"code": 422, "causes": causes(&errors), "message": ""}),
        };
        if &found != expected {
            wrong.push(format!("{} {request}\nfound    {found}\nexpected {expected}\n", resource.kind));
        }
    }
    assert!(wrong.is_empty(), "{} differ:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn verbs_and_names_are_those_of_the_real_discovery() {
    let found: BTreeMap<String, (bool, usize, Vec<String>)> = resources()
        .into_iter()
        .map(|one| (one.group_resource().to_string(), (one.namespaced, one.verbs.len(), one.short_names)))
        .collect();
    assert_eq!(found.len(), 25);
    assert_eq!(found["namespaces"], (false, 7, vec!["ns".to_owned()]));
    assert_eq!(found["deployments.apps"], (true, 8, vec!["deploy".to_owned()]));
    assert_eq!(found["localsubjectaccessreviews.authorization.k8s.io"], (true, 1, vec![]));
    assert_eq!(
        found["customresourcedefinitions.apiextensions.k8s.io"],
        (false, 8, vec!["crd".to_owned(), "crds".to_owned()])
    );
}

#[test]
fn events_of_both_groups_are_one_object() {
    let newer = json!({"apiVersion": "events.k8s.io/v1", "kind": "Event", "note": "n", "regarding": {"name": "x"},
        "reportingController": "c", "deprecatedCount": 2});
    let core = json!({"apiVersion": "v1", "kind": "Event", "message": "n", "involvedObject": {"name": "x"},
        "reportingComponent": "c", "count": 2});
    let resource = resources().into_iter().find(|one| one.id.group == "events.k8s.io").unwrap();
    let mut event = newer.clone();
    resource.strategy.to_storage(&mut event).unwrap();
    assert_eq!(event, core);
    resource.strategy.from_storage(&mut event);
    assert_eq!(event, newer);
}

#[test]
fn names_follow_the_rules_of_their_kind() {
    let check = |kind: &str, name: &str, prefix: bool| {
        let resource = resources().into_iter().find(|one| one.kind == kind).unwrap();
        resource.strategy.validate_name(name, prefix).is_empty()
    };
    assert!(check("Secret", "a.b", false) && !check("Namespace", "a.b", false));
    assert!(check("Service", "1a", false) && !check("Service", "a.b", false));
    assert!(check("Role", "system:x", false) && !check("Role", "a/b", false));
    assert!(check("Secret", "a-", true) && !check("Secret", "a-", false));
}
