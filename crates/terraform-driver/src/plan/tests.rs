use pretty_assertions::assert_eq;
use proptest::prelude::*;
use rstest::rstest;
use serde_json::{Value, json};

use super::*;

fn change(address: &str, resource_type: &str, actions: &[&str]) -> Value {
    json!({
        "address": address, "mode": "managed", "type": resource_type, "name": "x",
        "provider_name": "registry.terraform.io/hashicorp/aws",
        "change": {"actions": actions, "before": {"a": 1}, "after": {"a": 2},
                   "after_unknown": {}, "before_sensitive": {}, "after_sensitive": {}}
    })
}

fn plan(changes: &[Value]) -> Value {
    json!({"format_version": "1.2", "terraform_version": "1.11.4", "resource_changes": changes,
           "errored": false, "applyable": true, "complete": true})
}

fn hash() -> PlanHash {
    PlanHash::new(&[0xab; 32])
}

fn parse(json: &Value) -> DetailedPlan {
    DetailedPlan::parse(json.to_string().as_bytes()).unwrap()
}

fn summary(json: &Value) -> PlanSummary {
    parse(json).summary(hash())
}

#[test]
fn every_action_is_counted_by_its_name() {
    let mut tainted = change("aws_subnet.f", "aws_subnet", &["create", "delete"]);
    tainted["action_reason"] = json!("replace_because_tainted");
    let mut imported = change("aws_vpc.g", "aws_vpc", &["no-op"]);
    imported["change"]["importing"] = json!({"id": "vpc-1"});
    let mut data = change("data.aws_region.h", "aws_region", &["read"]);
    data["mode"] = json!("data");
    let summary = summary(&plan(&[
        change("aws_vpc.a", "aws_vpc", &["no-op"]),
        change("aws_vpc.b", "aws_vpc", &["create"]),
        change("aws_vpc.c", "aws_vpc", &["update"]),
        change("aws_vpc.d", "aws_vpc", &["delete"]),
        change("aws_vpc.e", "aws_vpc", &["delete", "create"]),
        tainted,
        imported,
        data,
        change("aws_vpc.i", "aws_vpc", &["forget"]),
    ]));
    assert_eq!(
        summary.counts,
        ChangeCounts { add: 1, change: 1, replace: 2, destroy: 1, import: 1, forget: 1, drift: 0 }
    );
    assert_eq!(summary.counts.operations(), 7);
    assert_eq!(
        summary.counts.to_string(),
        "1 to add, 1 to change, 2 to replace, 1 to destroy, 1 to import, 1 to forget"
    );
    let lines: Vec<_> =
        summary.changes.iter().map(|c| format!("{} {}", c.action.sign(), c.address)).collect();
    assert_eq!(
        lines,
        [
            "-/+ aws_subnet.f",
            "+ aws_vpc.b",
            "~ aws_vpc.c",
            "- aws_vpc.d",
            "-/+ aws_vpc.e",
            "  aws_vpc.g",
            ". aws_vpc.i",
            "<= data.aws_region.h",
        ]
    );
    assert_eq!(summary.existing, 7);
    assert!(!summary.is_empty());
}

#[test]
fn a_plan_without_changes_is_empty() {
    let mut json = plan(&[change("aws_vpc.a", "aws_vpc", &["no-op"])]);
    assert!(summary(&json).is_empty());
    json["output_changes"] = json!({"o": {"actions": ["update"], "before": 1, "after": 2, "after_unknown": false, "before_sensitive": false, "after_sensitive": false}});
    assert!(!summary(&json).is_empty(), "a changed output is a change");
}

#[test]
fn drift_and_outputs_are_listed() {
    let mut json = plan(&[]);
    json["resource_drift"] = json!([change("aws_vpc.a", "aws_vpc", &["update"])]);
    json["output_changes"] = json!({
        "plain": {"actions": ["create"], "before": null, "after": "x", "after_unknown": false, "before_sensitive": false, "after_sensitive": false},
        "secret": {"actions": ["update"], "before": "canary", "after": "canary2", "after_unknown": false, "before_sensitive": true, "after_sensitive": true},
        "same": {"actions": ["no-op"], "before": 1, "after": 1},
    });
    let summary = summary(&json);
    assert_eq!(summary.counts.drift, 1);
    assert_eq!(summary.drift[0].address, "aws_vpc.a");
    assert_eq!(summary.outputs.keys().collect::<Vec<_>>(), ["plain", "secret"]);
    assert!(summary.outputs["secret"].sensitive && !summary.outputs["plain"].sensitive);
    assert!(!serde_json::to_string(&summary).unwrap().contains("canary"));
}

#[test]
fn attributes_show_what_differs_and_hide_what_is_sensitive() {
    let mut json = change("aws_db.a", "aws_db", &["delete", "create"]);
    json["change"] = json!({
        "actions": ["delete", "create"],
        "before": {"same": 1, "name": "old", "gone": true, "password": "canary", "nested": [{"a": 1, "token": "canary"}], "arn": "x"},
        "after":  {"same": 1, "name": "new", "gone": null, "password": "canary2", "nested": [{"a": 2, "token": "canary"}]},
        "after_unknown": {"arn": true, "nested": [{}]},
        "before_sensitive": {"password": true, "nested": [{"token": true}]},
        "after_sensitive": {"password": true, "nested": [{"token": true}]},
        "replace_paths": [["name"], ["nested", 0]],
    });
    let summary = summary(&plan(&[json]));
    let shown: Vec<_> = summary.changes[0]
        .attributes
        .iter()
        .map(|a| {
            let text = |side: &Option<DisplayValue>| {
                side.as_ref().map_or_else(|| "-".to_owned(), ToString::to_string)
            };
            format!("{} {} {} {}", a.path, text(&a.before), text(&a.after), a.forces_replacement)
        })
        .collect();
    assert_eq!(
        shown,
        [
            "arn \"x\" (known after apply) false",
            "gone true - false",
            "name \"old\" \"new\" true",
            "nested[0].a 1 2 true",
            "password (sensitive value) (sensitive value) false",
        ]
    );
}

#[test]
fn the_parsed_plan_cannot_be_printed() {
    let mut json = change("a.b", "a", &["create"]);
    json["change"]["after"] = json!({"password": "canary"});
    assert!(!format!("{:?}", parse(&plan(&[json]))).contains("canary"));
}

#[test]
fn what_is_not_a_plan_is_refused() {
    assert!(matches!(DetailedPlan::parse(b"{}"), Err(PlanError::NotPlan(_))));
    assert!(matches!(DetailedPlan::parse(b"Error: no"), Err(PlanError::NotPlan(_))));
    assert!(matches!(DetailedPlan::parse(br#"{"format_version":"2.0"}"#), Err(PlanError::Format { .. })));
    assert!(matches!(
        DetailedPlan::parse(br#"{"format_version":"1.2","errored":true}"#),
        Err(PlanError::Errored)
    ));
    for missing in ["address", "type", "change"] {
        let mut json = change("aws_vpc.a", "aws_vpc", &["delete"]);
        json.as_object_mut().unwrap().remove(missing);
        let text = plan(&[json]).to_string();
        assert!(
            matches!(DetailedPlan::parse(text.as_bytes()), Err(PlanError::NotPlan(_))),
            "without {missing}"
        );
    }
}

// === guard ===

fn judge(changes: &[Value], intent: PlanIntent, approval: Option<&str>) -> GuardVerdict {
    check_plan(&summary(&plan(changes)), &GuardPolicy::default(), intent, approval)
}

#[rstest]
#[case(&["delete"])]
#[case(&["delete", "create"])]
#[case(&["create", "delete"])]
#[case(&["forget"])]
#[case(&["create", "forget"])]
#[case(&["obliterate"])]
#[case(&[])]
fn the_loss_of_a_protected_object_is_refused(#[case] actions: &[&str]) {
    for protected in PROTECTED_TYPES {
        let address = format!("module.m[0].{protected}.this");
        let verdict = judge(&[change(&address, protected, actions)], PlanIntent::Change, None);
        let GuardVerdict::Refused { reasons } = verdict else { panic!("{protected} {actions:?}") };
        assert!(reasons[0].to_string().starts_with(&address), "{}", reasons[0]);
    }
}

#[rstest]
#[case("aws_eks_cluster", &["update"])]
#[case("aws_eks_cluster", &["create"])]
#[case("aws_eks_cluster", &["no-op"])]
#[case("aws_eks_fargate_profile", &["delete", "create"])]
#[case("aws_route", &["delete"])]
fn harmless_changes_pass(#[case] resource_type: &str, #[case] actions: &[&str]) {
    assert_eq!(judge(&[change("x.y", resource_type, actions)], PlanIntent::Change, None), GuardVerdict::Pass);
}

#[test]
fn a_data_source_of_a_protected_type_is_no_loss() {
    let mut data = change("data.aws_vpc.a", "aws_vpc", &["delete"]);
    data["mode"] = json!("data");
    assert_eq!(judge(&[data], PlanIntent::Change, None), GuardVerdict::Pass);
}

#[test]
fn only_the_very_plan_that_was_approved_passes() {
    let changes = [change("aws_vpc.a", "aws_vpc", &["delete"])];
    let hash = summary(&plan(&changes)).hash;
    for approval in [hash.as_str(), &format!(" {} ", hash.as_str())] {
        assert!(matches!(judge(&changes, PlanIntent::Change, Some(approval)), GuardVerdict::Approved { .. }));
    }
    for approval in ["", hash.short(), &hash.as_str()[..63], "yes", "000000000000"] {
        assert!(!judge(&changes, PlanIntent::Change, Some(approval)).is_allowed(), "{approval:?}");
    }
    let other = PlanHash::new(&[0xac; 32]);
    assert!(!judge(&changes, PlanIntent::Change, Some(other.as_str())).is_allowed());
}

#[test]
fn a_protected_object_that_vanished_is_not_made_anew_unasked() {
    let mut json = plan(&[change("aws_vpc.a", "aws_vpc", &["create"])]);
    json["resource_drift"] = json!([change("aws_vpc.a", "aws_vpc", &["delete"])]);
    let summary = summary(&json);
    let verdict = check_plan(&summary, &GuardPolicy::default(), PlanIntent::Change, None);
    let GuardVerdict::Refused { reasons } = verdict else { panic!("{verdict:?}") };
    assert_eq!(reasons, [GuardReason::DeletedOutside { address: "aws_vpc.a".to_owned() }]);
    assert!(
        check_plan(&summary, &GuardPolicy::default(), PlanIntent::Change, Some(hash().as_str())).is_allowed()
    );
}

#[test]
fn an_explicit_destroy_passes_and_says_what_it_takes() {
    let verdict = judge(&[change("aws_vpc.a", "aws_vpc", &["delete"])], PlanIntent::Destroy, None);
    let GuardVerdict::Approved { reasons } = verdict else { panic!() };
    assert_eq!(reasons.len(), 1);
}

#[test]
fn losing_too_large_a_share_is_refused() {
    let mut changes: Vec<_> =
        (0..8).map(|i| change(&format!("aws_route.r{i}"), "aws_route", &["no-op"])).collect();
    changes.push(change("aws_route.x", "aws_route", &["delete"]));
    changes.push(change("aws_route.y", "aws_route", &["delete"]));
    let summary = summary(&plan(&changes));
    let with = |limit| GuardPolicy { max_lost_percent: limit, ..GuardPolicy::default() };
    assert_eq!(check_plan(&summary, &with(Some(20)), PlanIntent::Change, None), GuardVerdict::Pass);
    assert_eq!(check_plan(&summary, &with(None), PlanIntent::Change, None), GuardVerdict::Pass);
    let GuardVerdict::Refused { reasons } = check_plan(&summary, &with(Some(19)), PlanIntent::Change, None)
    else {
        panic!()
    };
    assert_eq!(reasons, [GuardReason::TooManyLost { lost: 2, existing: 10, limit: 19 }]);
}

// === properties ===

fn any_actions() -> impl Strategy<Value = Vec<String>> {
    let word = prop::sample::select(vec![
        "no-op", "create", "read", "update", "delete", "forget", "", "DELETE", "new",
    ]);
    proptest::collection::vec(word.prop_map(str::to_owned), 0..4)
}

fn any_type() -> impl Strategy<Value = String> {
    let known =
        prop::sample::select([PROTECTED_TYPES, &["aws_route", "aws_eks_addon", "null_resource"]].concat());
    prop_oneof![4 => known.prop_map(str::to_owned), 1 => "[a-z_]{1,12}"]
}

fn any_change() -> impl Strategy<Value = Value> {
    let mode = prop::sample::select(vec!["managed", "data", "", "ephemeral"]);
    (any_actions(), any_type(), mode, "[a-z.\\[\\]0-9\"]{1,20}", any_json(), prop::option::of("[a-f0-9]{8}"))
        .prop_map(|(actions, resource_type, mode, address, after, deposed)| {
            json!({"address": address, "mode": mode, "type": resource_type, "deposed": deposed,
                   "change": {"actions": actions, "before": null, "after": after}})
        })
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i32>().prop_map(Value::from),
        "[a-z]{0,6}".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            proptest::collection::btree_map("[a-d]", inner, 0..4).prop_map(|map| json!(map)),
        ]
    })
}

/// The obvious rule, written another way than the guard's.
fn harms(change: &Value) -> bool {
    let actions: Vec<_> =
        change["change"]["actions"].as_array().unwrap().iter().map(|a| a.as_str().unwrap()).collect();
    let safe = [&["no-op"][..], &["read"], &["create"], &["update"]].contains(&&actions[..]);
    let protected = PROTECTED_TYPES.contains(&change["type"].as_str().unwrap());
    change["mode"] != "data" && protected && !safe
}

const CANARY: &str = "canary";

/// A value and a mask for it; whatever the mask covers is made of canaries.
fn masked() -> impl Strategy<Value = (Value, Value)> {
    (any_json(), proptest::collection::vec(any::<bool>(), 64)).prop_map(|(value, coins)| {
        let mut coins = coins.into_iter().cycle();
        mask(value, &mut coins)
    })
}

fn mask(value: Value, coins: &mut impl Iterator<Item = bool>) -> (Value, Value) {
    if coins.next().unwrap() && coins.next().unwrap() {
        return (poison(value), Value::Bool(true));
    }
    match value {
        Value::Array(items) => {
            let (values, masks): (Vec<_>, Vec<_>) = items.into_iter().map(|item| mask(item, coins)).unzip();
            (Value::from(values), Value::from(masks))
        }
        Value::Object(map) => {
            let pairs = map.into_iter().map(|(key, item)| (key, mask(item, coins)));
            let (values, masks): (Vec<_>, Vec<_>) =
                pairs.map(|(key, (value, mask))| ((key.clone(), value), (key, mask))).unzip();
            let masks = masks.into_iter().filter(|(_, mask)| *mask != Value::Bool(false));
            (Value::Object(values.into_iter().collect()), Value::Object(masks.collect()))
        }
        scalar => (scalar, Value::Bool(false)),
    }
}

fn poison(value: Value) -> Value {
    match value {
        Value::Array(items) => items.into_iter().map(poison).collect(),
        Value::Object(map) => map.into_iter().map(|(key, item)| (key, poison(item))).collect(),
        _ => Value::from(CANARY),
    }
}

proptest! {
    #[test]
    fn no_harmful_plan_escapes_the_guard(changes in proptest::collection::vec(any_change(), 0..12), approval in prop::option::of("[a-f0-9]{0,16}")) {
        let verdict = judge(&changes, PlanIntent::Change, approval.as_deref());
        prop_assert_eq!(verdict.is_allowed(), !changes.iter().any(harms));
    }

    #[test]
    fn no_sensitive_value_is_ever_shown((before, before_mask) in masked(), (after, after_mask) in masked(), unknown in any_json()) {
        let json = json!({"address": "a.b", "mode": "managed", "type": "a", "change": {
            "actions": ["update"], "before": before, "after": after, "after_unknown": unknown,
            "before_sensitive": before_mask, "after_sensitive": after_mask}});
        let summary = summary(&plan(&[json]));
        let printed = format!("{} {summary:?} {}", serde_json::to_string(&summary).unwrap(),
            summary.changes[0].attributes.iter().flat_map(|a| [&a.before, &a.after]).flatten().map(ToString::to_string).collect::<String>());
        prop_assert!(!printed.contains(CANARY), "{}", printed);
    }
}
