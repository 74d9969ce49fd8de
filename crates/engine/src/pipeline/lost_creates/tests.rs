//! Tests of the lookups.

use super::*;

fn value(json: Value) -> ResourceValue {
    ResourceValue::from_json(json)
}

fn change(kind: &str, planned: Value) -> RecordedChange {
    RecordedChange {
        call: 7,
        since: "2026-01-01T00:00:00Z".parse().unwrap(),
        kind: kind.to_owned(),
        schema_version: Some(0),
        prior: value(Value::Null),
        planned: value(planned),
        outcome: provider_gateway::replay::ChangeOutcome::Unknown,
    }
}

fn vpc() -> RecordedChange {
    change("aws_vpc", json!({"tags_all": {"Name": "demo", WORKSPACE_TAG: "default/demo/1a2b3c4d"}}))
}

fn data(ids: &[&str]) -> Vec<DataSourceValue> {
    vec![DataSourceValue { name: "capt_lookup_7".to_owned(), attributes: json!({ "ids": ids }) }]
}

#[test]
fn objects_with_names_of_their_own_are_found_by_them() {
    let id = |kind, planned| match Lookup::of(kind, &value(planned)) {
        Lookup::Id(id) => id,
        other => format!("{other:?}"),
    };
    assert_eq!(id("aws_iam_role", json!({"name": "r"})), "r");
    assert_eq!(id("aws_iam_role_policy_attachment", json!({"role": "r", "policy_arn": "arn"})), "r/arn");
    assert_eq!(id("aws_eks_addon", json!({"cluster_name": "c", "addon_name": "coredns"})), "c:coredns");
    assert_eq!(
        id("aws_route", json!({"route_table_id": "rtb-1", "destination_cidr_block": "0.0.0.0/0"})),
        "rtb-1_0.0.0.0/0"
    );
    assert_eq!(
        id(
            "aws_eks_access_policy_association",
            json!({"cluster_name": "c", "principal_arn": "p", "policy_arn": "a"})
        ),
        "c#p#a"
    );
    // A name that the provider is to choose is not known.
    assert_eq!(id("aws_iam_role", json!({"name_prefix": "r"})), "Impossible");
}

#[test]
fn what_has_neither_name_nor_tags_cannot_be_found() {
    assert_eq!(Lookup::of("aws_eip", &value(json!({"domain": "vpc"}))), Lookup::Impossible);
    assert_eq!(Lookup::of("aws_lb", &value(json!({"tags": {"a": "b"}}))), Lookup::Impossible);
}

#[test]
fn only_the_tag_of_the_workspace_proves_that_an_object_is_ours() {
    let found = |change: &RecordedChange, ids: &[&str], known: &[String], workspace| {
        found_by_tags(change, &data(ids), (known, workspace)).unwrap()
    };
    let one = Found::One("vpc-1".to_owned());
    let unclear = |ids: &[&str]| Found::Unclear(ids.iter().map(|id| (*id).to_owned()).collect());
    assert_eq!(found(&vpc(), &["vpc-1"], &[], "default/demo"), one);
    assert_eq!(found(&vpc(), &[], &[], "default/demo"), Found::Nothing);
    assert_eq!(found(&vpc(), &["vpc-1"], &["vpc-1".to_owned()], "default/demo"), Found::Nothing);
    assert_eq!(found(&vpc(), &["vpc-1", "vpc-2"], &[], "default/demo"), unclear(&["vpc-1", "vpc-2"]));
    assert_eq!(found(&vpc(), &["vpc-1"], &[], "default/dem"), unclear(&["vpc-1"]));
    let untagged = change("aws_vpc", json!({"tags_all": {"Name": "demo"}}));
    assert_eq!(found(&untagged, &["vpc-1"], &[], "default/demo"), unclear(&["vpc-1"]));
}

#[test]
fn a_lookup_asks_for_all_tags_and_is_escaped() {
    let key = change("aws_kms_key", json!({"tags": {"a": "${b}"}}));
    let role = change("aws_iam_role", json!({"name": "r"}));
    let file = lookup_file([&vpc(), &key, &role].into_iter()).unwrap();
    let text: Value = serde_json::from_slice(&file.bytes).unwrap();
    assert_eq!(
        text["data"]["aws_vpcs"]["capt_lookup_7"]["tags"],
        json!({"Name": "demo", WORKSPACE_TAG: "default/demo/1a2b3c4d"})
    );
    let tagged = &text["data"]["aws_resourcegroupstaggingapi_resources"]["capt_lookup_7"];
    assert_eq!(tagged["resource_type_filters"], json!(["kms:key"]));
    assert_eq!(tagged["tag_filter"], json!([{"key": "a", "values": ["$${b}"]}]));
    assert!(lookup_file([&role].into_iter()).is_none());
}

#[test]
fn an_imported_object_with_other_tags_or_another_key_is_not_ours() {
    let planned = value(json!({"tags": {"a": "b"}}));
    assert!(is_same(&planned, &value(json!({"tags": {"a": "b", "c": "d"}}))));
    assert!(!is_same(&planned, &value(json!({"tags": {"a": "x"}}))));
    let alias = value(json!({"name": "alias/x", "target_key_id": "k"}));
    assert!(is_same(&alias, &value(json!({"name": "alias/x", "target_key_id": "k"}))));
    assert!(!is_same(&alias, &value(json!({"name": "alias/x", "target_key_id": "other"}))));
}
