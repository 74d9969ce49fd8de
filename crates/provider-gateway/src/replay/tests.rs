//! Replay as a function: entries and a state in, a state out.

use base64::{Engine as _, prelude::BASE64_STANDARD};
use serde_json::{Value, json};

use super::*;
use crate::{
    journal::{ChangeStage, JournalEntry},
    wire::protobuf::put_bytes,
};

const PROVIDER: &str = r#"provider["registry.terraform.io/hashicorp/aws"]"#;

fn dynamic(value: &Value) -> String {
    let mut message = Vec::new();
    put_bytes(&mut message, 2, value.to_string().as_bytes());
    BASE64_STANDARD.encode(message)
}

fn entry(call: u64, stage: ChangeStage, kind: &str, values: [&Value; 3]) -> JournalEntry {
    let [prior, planned, new] = values.map(dynamic);
    JournalEntry {
        order: call,
        time: "2026-01-01T00:00:00Z".parse().unwrap(),
        run: "r1".to_owned(),
        workspace: "default/demo".to_owned(),
        call,
        method: "ApplyResourceChange".to_owned(),
        kind: kind.to_owned(),
        stage,
        prior,
        planned,
        new,
        private: "cHJpdmF0ZQ==".to_owned(),
        failed: false,
        schema_version: Some(1),
    }
}

/// Start and end of a change.
fn finished(call: u64, kind: &str, values: [&Value; 3]) -> Vec<JournalEntry> {
    [ChangeStage::Begun, ChangeStage::Done].map(|stage| entry(call, stage, kind, values)).into()
}

fn subnet(id: &str, cidr: &str) -> (Value, Value) {
    (json!({"cidr": cidr}), json!({"cidr": cidr, "id": id}))
}

fn state(resources: &Value) -> StateDocument {
    let text = json!({"version": 4, "serial": 4, "lineage": "l", "outputs": {}, "resources": resources});
    StateDocument::parse(text.to_string().as_bytes()).unwrap()
}

fn one_vpc(attributes: &Value) -> Value {
    json!([{"mode": "managed", "type": "aws_vpc", "name": "this", "provider": PROVIDER,
        "instances": [{"schema_version": 1, "attributes": attributes}]}])
}

fn replay(entries: &[JournalEntry], state: &mut StateDocument) -> Replay {
    replay_known(recorded_changes(entries, "default/demo"), state).unwrap()
}

fn planned(address: &str, value: &Value) -> PlannedCreate {
    PlannedCreate {
        address: InstanceAddress::parse(address).unwrap(),
        text: address.to_owned(),
        provider: PROVIDER.to_owned(),
        value: ResourceValue::from_json(value.clone()),
    }
}

fn ids(state: &StateDocument) -> Vec<(String, String)> {
    state
        .objects()
        .map(|object| (object.address.name.clone(), object.value.text("id").unwrap_or_default().to_owned()))
        .collect()
}

fn written(state: &StateDocument) -> Value {
    serde_json::from_slice(&state.next_version().unwrap()).unwrap()
}

#[test]
fn a_finished_creation_is_written_at_the_address_that_plans_it_again() {
    let (plan_a, new_a) = subnet("subnet-a", "10.0.0.0/24");
    let (plan_b, new_b) = subnet("subnet-b", "10.0.1.0/24");
    let entries = [
        finished(1, "aws_subnet", [&Value::Null, &plan_a, &new_a]),
        finished(2, "aws_subnet", [&Value::Null, &plan_b, &new_b]),
    ]
    .concat();
    let mut state = StateDocument::empty("1.11.4", "l").unwrap();
    let left = replay(&entries, &mut state);
    assert_eq!((left.missing.len(), left.unknown.len(), left.changed), (2, 0, false));
    let plan = [planned("aws_subnet.private[\"b\"]", &plan_b), planned("aws_subnet.private[\"a\"]", &plan_a)];
    for assignment in assign(&left.missing, &plan) {
        let change = left.missing.iter().find(|change| change.call == assignment.call).unwrap();
        state.insert(&change.new_object(&assignment).unwrap()).unwrap();
    }
    let text = written(&state);
    assert_eq!((&text["serial"], &text["lineage"]), (&json!(1), &json!("l")));
    let resource = &text["resources"][0];
    assert_eq!((&resource["type"], &resource["provider"]), (&json!("aws_subnet"), &json!(PROVIDER)));
    assert_eq!(
        resource["instances"][0],
        json!({"index_key": "a", "schema_version": 1, "attributes": new_a, "sensitive_attributes": [],
            "private": "cHJpdmF0ZQ=="})
    );
    assert_eq!(resource["instances"][1]["index_key"], "b");
    // The next replay finds both in the state.
    let left = replay(&entries, &mut state);
    assert_eq!((left.missing.len(), left.settled.len()), (0, 2));
}

#[test]
fn objects_with_equal_values_are_not_guessed() {
    let value = json!({"domain": "vpc"});
    let new = json!({"domain": "vpc", "id": "eip-1"});
    let mut state = StateDocument::empty("1.11.4", "l").unwrap();
    let left = replay(&finished(1, "aws_eip", [&Value::Null, &value, &new]), &mut state);
    let plan = [planned("aws_eip.nat[0]", &value), planned("aws_eip.nat[1]", &value)];
    assert_eq!(assign(&left.missing, &plan), []);
    assert_eq!(assign(&left.missing, &plan[..1]).len(), 1);
    assert_eq!(assign(&left.missing, &[planned("aws_vpc.this", &value)]), []);
}

#[test]
fn equal_values_decide_before_compatible_ones() {
    let known = json!({"table": "rtb-a"});
    let mut state = StateDocument::empty("1.11.4", "l").unwrap();
    let left = replay(&finished(1, "aws_route", [&Value::Null, &known, &json!({"id": "r"})]), &mut state);
    let mut open = planned("aws_route.nat[\"b\"]", &known);
    open.value = ResourceValue::decode_msgpack(b"\x81\xa5table\xd4\x00\x00").unwrap();
    let both = [open.clone(), planned("aws_route.nat[\"a\"]", &known)];
    assert_eq!(assign(&left.missing, &both)[0].text, "aws_route.nat[\"a\"]");
    assert_eq!(assign(&left.missing, &[open])[0].text, "aws_route.nat[\"b\"]");
}

#[test]
fn an_update_is_replayed_on_the_object_that_it_began_with_only() {
    let (old, new) = (json!({"id": "vpc-1", "dns": false}), json!({"id": "vpc-1", "dns": true}));
    let entries = finished(1, "aws_vpc", [&old, &new, &new]);
    let mut before = state(&one_vpc(&old));
    assert!(replay(&entries, &mut before).changed);
    assert_eq!(written(&before)["resources"][0]["instances"][0]["attributes"], new);
    assert_eq!(written(&before)["serial"], 5);
    let newer = json!({"id": "vpc-1", "dns": true, "tags": {}});
    for attributes in [new, newer] {
        let mut after = state(&one_vpc(&attributes));
        assert!(!replay(&entries, &mut after).changed);
    }
}

#[test]
fn a_deletion_is_replayed_unless_it_failed() {
    let old = json!({"id": "vpc-1"});
    let mut entries = finished(1, "aws_vpc", [&old, &Value::Null, &Value::Null]);
    let mut before = state(&one_vpc(&old));
    assert!(replay(&entries, &mut before).changed);
    assert_eq!(ids(&before), []);
    entries[1].failed = true;
    entries[1].new = dynamic(&old);
    let mut before = state(&one_vpc(&old));
    assert!(!replay(&entries, &mut before).changed);
    assert_eq!(ids(&before).len(), 1);
}

#[test]
fn what_was_created_and_deleted_again_is_not_missing() {
    let new = json!({"id": "vpc-1"});
    let entries = [
        finished(1, "aws_vpc", [&Value::Null, &json!({}), &new]),
        finished(2, "aws_vpc", [&new, &Value::Null, &Value::Null]),
    ]
    .concat();
    let left = replay(&entries, &mut StateDocument::empty("1.11.4", "l").unwrap());
    assert_eq!((left.missing.len(), left.settled.len()), (0, 2));
}

#[test]
fn a_creation_without_an_answer_is_unknown_and_a_failed_one_without_an_object_made_nothing() {
    let plan = json!({"cidr": "10.0.0.0/16"});
    let begun = vec![entry(1, ChangeStage::Begun, "aws_vpc", [&Value::Null, &plan, &Value::Null])];
    let mut lost = begun.clone();
    lost.push(entry(1, ChangeStage::Lost, "aws_vpc", [&Value::Null, &plan, &Value::Null]));
    for entries in [begun, lost] {
        let left = replay(&entries, &mut StateDocument::empty("1.11.4", "l").unwrap());
        assert_eq!((left.unknown.len(), left.settled.len()), (1, 0));
    }
    let mut failed = finished(1, "aws_vpc", [&Value::Null, &plan, &Value::Null]);
    failed[1].failed = true;
    let left = replay(&failed, &mut StateDocument::empty("1.11.4", "l").unwrap());
    assert_eq!((left.missing.len(), left.settled.len()), (0, 1));
}

#[test]
fn a_creation_that_failed_half_way_is_tainted() {
    let mut entries = finished(1, "aws_vpc", [&Value::Null, &json!({}), &json!({"id": "vpc-1"})]);
    entries[1].failed = true;
    let left = replay(&entries, &mut StateDocument::empty("1.11.4", "l").unwrap());
    let assignment = &assign(&left.missing, &[planned("aws_vpc.this", &json!({}))])[0];
    assert!(left.missing[0].new_object(assignment).unwrap().is_tainted);
}

#[test]
fn an_object_in_the_way_becomes_deposed() {
    let mut document = state(&one_vpc(&json!({"id": "vpc-1"})));
    let entries = finished(1, "aws_vpc", [&Value::Null, &json!({}), &json!({"id": "vpc-2"})]);
    let left = replay(&entries, &mut document);
    let assignment = &assign(&left.missing, &[planned("aws_vpc.this", &json!({}))])[0];
    document.insert(&left.missing[0].new_object(assignment).unwrap()).unwrap();
    let instances = &written(&document)["resources"][0]["instances"];
    assert_eq!(
        (&instances[0]["deposed"], &instances[0]["attributes"]["id"]),
        (&json!("00000001"), &json!("vpc-1"))
    );
    assert_eq!(instances[1]["attributes"]["id"], "vpc-2");
    assert!(instances[1].get("deposed").is_none());
}

#[test]
fn entries_of_other_workspaces_and_imports_are_left_alone() {
    let mut entries = finished(1, "aws_vpc", [&Value::Null, &json!({}), &json!({"id": "vpc-1"})]);
    for entry in &mut entries {
        entry.workspace = "default/other".to_owned();
    }
    let mut import = entry(2, ChangeStage::Done, "aws_vpc", [&Value::Null; 3]);
    import.method = "ImportResourceState".to_owned();
    entries.push(import);
    assert_eq!(recorded_changes(&entries, "default/demo"), []);
}

#[test]
fn numbers_and_unknown_fields_of_other_objects_stay_as_they_are() {
    let text = r#"{"version":4,"serial":4,"lineage":"l","x":1.50,"resources":[{"mode":"managed","type":"a","name":"b",
        "provider":"p","y":12345678901234567890123,"instances":[{"attributes":{"id":"1","n":1.10},"z":0.10}]}]}"#;
    let document = StateDocument::parse(text.as_bytes()).unwrap();
    let bytes = document.next_version().unwrap();
    let text = String::from_utf8(bytes).unwrap();
    for part in ["1.50", "12345678901234567890123", "1.10", "0.10"] {
        assert!(text.contains(part), "{part} in {text}");
    }
    assert!(StateDocument::parse(b"{\"version\":4,\"serial\":4,\"lin").is_none());
}

#[test]
fn a_state_contains_what_was_created_changed_and_deleted_before_it_was_written() {
    let (plan_a, new_a) = subnet("subnet-a", "10.0.0.0/24");
    let (plan_b, new_b) = subnet("subnet-b", "10.0.1.0/24");
    let (old, new) = (json!({"id": "vpc-1", "dns": false}), json!({"id": "vpc-1", "dns": true}));
    let gone = json!({"id": "eip-1"});
    let entries = [
        finished(1, "aws_subnet", [&Value::Null, &plan_a, &new_a]),
        finished(2, "aws_subnet", [&Value::Null, &plan_b, &new_b]),
        vec![entry(3, ChangeStage::Begun, "aws_subnet", [&Value::Null, &plan_a, &Value::Null])],
        finished(4, "aws_vpc", [&old, &new, &new]),
        finished(5, "aws_eip", [&gone, &Value::Null, &Value::Null]),
    ]
    .concat();
    let changes = recorded_changes(&entries, "default/demo");
    let calls_in =
        |resources: &Value| contained_calls(&changes, &state(resources)).into_iter().collect::<Vec<_>>();
    let of = |kind: &str, attributes: &Value| {
        json!({"mode": "managed", "type": kind, "name": "this", "provider": PROVIDER,
            "instances": [{"schema_version": 1, "attributes": attributes}]})
    };
    assert_eq!(calls_in(&json!([of("aws_vpc", &old), of("aws_eip", &gone)])), Vec::<u64>::new());
    assert_eq!(calls_in(&json!([of("aws_vpc", &new), of("aws_eip", &gone)])), [4]);
    // Terraform may have changed the subnet since.
    let changed_since = json!({"id": "subnet-a", "cidr": "10.0.0.0/24", "tags": {}});
    assert_eq!(calls_in(&json!([of("aws_vpc", &new), of("aws_subnet", &changed_since)])), [1, 4, 5]);
}
