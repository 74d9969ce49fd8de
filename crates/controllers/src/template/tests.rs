//! The steps of a template without an API server and without terraform.

use capt_kinds::api::{WorkspaceTemplate, conditions::types, names::TEMPLATE_FINALIZER};
use capt_kube::k8s::conditions::find;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::json;

use super::{
    decide::{TemplateDecision, decide},
    dereference::TemplateUsers,
    events::validity_event,
    status::observed,
    validate::TemplateValidity,
};

fn now() -> Timestamp {
    "2026-11-17T06:00:00Z".parse().unwrap()
}

fn template(held: bool, deleting: bool) -> WorkspaceTemplate {
    let mut object: WorkspaceTemplate = serde_json::from_value(json!({
        "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta1", "kind": "WorkspaceTemplate",
        "metadata": {"name": "net", "namespace": "team", "generation": 3},
        "spec": {"template": {"spec": {"forProvider": {"source": "Inline", "module": "# nothing"}}}},
    }))
    .unwrap();
    object.metadata.finalizers = held.then(|| vec![TEMPLATE_FINALIZER.to_owned()]);
    object.metadata.deletion_timestamp = deleting.then(|| Time(now()));
    object
}

fn users(names: &[&str]) -> TemplateUsers {
    TemplateUsers(names.iter().map(|it| (*it).to_owned()).collect())
}

#[test]
fn a_template_is_held_as_long_as_a_workspace_uses_it() {
    use TemplateDecision::{AddFinalizer, RemoveFinalizer, Report};
    // Held, deleting, used.
    let table = [
        ((false, false, false), Report),
        ((false, false, true), AddFinalizer),
        ((true, false, true), Report),
        ((true, false, false), RemoveFinalizer),
        ((true, true, true), Report),
        ((true, true, false), RemoveFinalizer),
        ((false, true, true), Report),
        ((false, true, false), Report),
    ];
    for ((held, deleting, used), expected) in table {
        let all = users(if used { &["team/net-apply"] } else { &[] });
        assert_eq!(decide(&template(held, deleting), &all), expected, "{held} {deleting} {used}");
    }
}

#[test]
fn the_status_says_what_was_found_and_keeps_it_while_terraform_looks() {
    let valid = TemplateValidity::Valid("terraform finds nothing wrong".to_owned());
    let invalid = TemplateValidity::Invalid("no such argument".to_owned());
    let mut object = template(true, false);
    for (validity, status, message) in [
        (Some(&valid), "True", "terraform finds nothing wrong"),
        (Some(&invalid), "False", "no such argument"),
        (None, "False", "no such argument"),
    ] {
        let new = observed(&object, validity, &users(&[]), now());
        let condition = find(&new.conditions, types::VALID).unwrap();
        assert_eq!((condition.status.as_str(), condition.message.as_str()), (status, message));
        assert_eq!(new.observed_generation, Some(3));
        assert!(find(&new.conditions, types::DELETING).is_none());
        object.status = Some(new);
    }
}

#[test]
fn a_deleted_template_names_its_users() {
    let new = observed(&template(true, true), None, &users(&["a/x", "b/y"]), now());
    assert_eq!(find(&new.conditions, types::DELETING).unwrap().message, "in use by a/x, b/y");
    assert!(find(&new.conditions, types::VALID).is_none(), "nothing is known yet");
}

#[test]
fn only_an_invalid_template_is_an_event() {
    assert_eq!(validity_event(None), None);
    assert_eq!(validity_event(Some(&TemplateValidity::Valid(String::new()))), None);
    let event = validity_event(Some(&TemplateValidity::Invalid("why".to_owned()))).unwrap();
    assert_eq!((event.reason, event.note.as_str()), ("TemplateInvalid", "why"));
}
