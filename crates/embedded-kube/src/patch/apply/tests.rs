#![expect(clippy::needless_pass_by_value, reason = "literals read better as they are")]

use jiff::Timestamp;
use pretty_assertions::assert_eq;
use proptest::prelude::*;
use rstest::rstest;
use serde_json::json;

use super::{
    super::{arbitrary, managed_fields_update::update_managed_fields, test_shapes},
    *,
};

fn at_second(second: i64) -> Timestamp {
    Timestamp::from_second(1_700_000_000 + second).unwrap()
}

fn by(manager: &str, second: i64) -> WriteContext<'_> {
    WriteContext {
        manager,
        api_version: "v1",
        kind: "Work",
        subresource: "",
        reset_fields: &["status"],
        replicas_path: "spec.replicas",
        now: at_second(second),
    }
}

fn work(spec: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "Work", "metadata": {"name": "x"}, "spec": spec})
}

fn applied(live: Option<&Value>, spec: Value, manager: &str, force: bool) -> ApiResult<Value> {
    apply(live, &work(spec), &test_shapes::workload(), &by(manager, 0), force)
}

fn owned_by(object: &Value, manager: &str) -> Value {
    let entries = object["metadata"]["managedFields"].as_array().cloned().unwrap_or_default();
    let mine = entries.into_iter().find(|entry| entry["manager"] == manager);
    mine.map_or(Value::Null, |mut entry| entry["fieldsV1"].take())
}

#[test]
fn a_first_apply_owns_what_it_names_and_nothing_of_the_metadata_that_is_nobodys() {
    let object = applied(None, json!({"replicas": 1, "tags": ["a"]}), "one", false).unwrap();
    assert_eq!(
        object["metadata"]["managedFields"],
        json!([{
            "manager": "one", "operation": "Apply", "apiVersion": "v1", "time": "2023-11-14T22:13:20Z",
            "fieldsType": "FieldsV1", "fieldsV1": {"f:spec": {"f:replicas": {}, "f:tags": {"v:\"a\"": {}}}}
        }])
    );
}

#[test]
fn another_value_is_a_conflict_that_names_the_manager() {
    let live = applied(None, json!({"replicas": 1}), "one", false).unwrap();
    let refused = applied(Some(&live), json!({"replicas": 2}), "two", false).unwrap_err();
    assert_eq!(
        refused.status(),
        json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": "Apply failed with 1 conflict: conflict with \"one\": .spec.replicas",
            "reason": "Conflict",
            "details": {"causes": [{
                "reason": "FieldManagerConflict", "message": "conflict with \"one\"", "field": ".spec.replicas"
            }]},
            "code": 409
        })
    );
    let forced = applied(Some(&live), json!({"replicas": 2}), "two", true).unwrap();
    assert_eq!(forced["spec"]["replicas"], 2);
    assert_eq!(owned_by(&forced, "one"), Value::Null);
}

#[test]
fn several_conflicts_are_listed_by_manager() {
    let live = applied(None, json!({"replicas": 1, "paused": true}), "one", false).unwrap();
    let mut changed = live.clone();
    changed["spec"]["order"] = json!(["a"]);
    update_managed_fields(Some(&live), &mut changed, &test_shapes::workload(), &by("two", 0)).unwrap();
    let wanted = json!({"replicas": 2, "paused": false, "order": ["b"]});
    let refused = applied(Some(&changed), wanted, "three", false).unwrap_err();
    assert_eq!(
        refused.message(),
        "Apply failed with 3 conflicts: conflicts with \"one\":\n- .spec.paused\n- .spec.replicas\nconflicts with \"two\" using v1:\n- .spec.order"
    );
}

#[test]
fn the_same_value_is_shared_and_goes_only_with_its_last_owner() {
    let one = applied(None, json!({"replicas": 1, "paused": true}), "one", false).unwrap();
    let both = applied(Some(&one), json!({"replicas": 1}), "two", false).unwrap();
    assert_eq!(owned_by(&both, "two"), json!({"f:spec": {"f:replicas": {}}}));
    let without = applied(Some(&both), json!({"paused": true}), "one", false).unwrap();
    assert_eq!(without["spec"], json!({"replicas": 1, "paused": true}));
    let gone = applied(Some(&without), json!({}), "two", false).unwrap();
    assert_eq!(gone["spec"], json!({"paused": true}));
}

#[test]
fn items_of_keyed_lists_go_when_nobody_applies_them() {
    let container = |name: &str| json!({"name": name, "image": "i"});
    let two = json!({"containers": [container("a"), container("b")]});
    let live = applied(None, two, "one", false).unwrap();
    let live =
        applied(Some(&live), json!({"containers": [{"name": "b", "args": ["x"]}]}), "two", false).unwrap();
    let live = applied(Some(&live), json!({}), "one", false).unwrap();
    assert_eq!(live["spec"]["containers"], json!([{"name": "b", "args": ["x"]}]));
}

#[test]
fn items_keep_the_order_of_both_lists() {
    let live = applied(None, json!({"tags": ["a", "b", "c", "d"]}), "one", false).unwrap();
    let mixed = applied(Some(&live), json!({"tags": ["d", "x", "b"]}), "two", false).unwrap();
    assert_eq!(mixed["spec"]["tags"], json!(["a", "c", "d", "x", "b"]));
}

#[test]
fn what_was_there_before_the_first_apply_has_an_owner_then() {
    let live = work(json!({"replicas": 1, "paused": true}));
    let refused = applied(Some(&live), json!({"replicas": 2}), "one", false).unwrap_err();
    assert_eq!(
        refused.message(),
        "Apply failed with 1 conflict: conflict with \"before-first-apply\" using v1: .spec.replicas"
    );
    let agreed = applied(Some(&live), json!({"replicas": 1}), "one", false).unwrap();
    assert_eq!(
        owned_by(&agreed, "before-first-apply"),
        json!({"f:spec": {".": {}, "f:paused": {}, "f:replicas": {}}})
    );
}

#[test]
fn an_apply_that_changes_nothing_keeps_its_time() {
    let config = work(json!({"replicas": 1}));
    let first = apply(None, &config, &test_shapes::workload(), &by("one", 0), false).unwrap();
    let again = apply(Some(&first), &config, &test_shapes::workload(), &by("one", 60), false).unwrap();
    assert_eq!(first, again);
}

#[test]
fn a_status_has_owners_of_its_own() {
    let shape = test_shapes::workload();
    let live = applied(None, json!({"replicas": 1}), "one", false).unwrap();
    let mut new = live.clone();
    new["status"] = json!({"ready": 1});
    new["spec"]["replicas"] = json!(7);
    let writer = WriteContext { subresource: "status", reset_fields: &["spec"], ..by("two", 0) };
    update_managed_fields(Some(&live), &mut new, &shape, &writer).unwrap();
    assert_eq!(owned_by(&new, "two"), json!({"f:status": {".": {}, "f:ready": {}}}));
    assert_eq!(owned_by(&new, "one"), json!({"f:spec": {"f:replicas": {}}}));
    assert_eq!(new["metadata"]["managedFields"][1]["subresource"], "status");
}

#[test]
fn an_update_takes_what_it_changes() {
    let live = applied(None, json!({"replicas": 1, "paused": true}), "one", false).unwrap();
    let mut new = live.clone();
    new["spec"] = json!({"replicas": 2, "tags": ["a"]});
    update_managed_fields(Some(&live), &mut new, &test_shapes::workload(), &by("two", 5)).unwrap();
    assert_eq!(owned_by(&new, "one"), Value::Null);
    assert_eq!(
        owned_by(&new, "two"),
        json!({"f:spec": {"f:replicas": {}, "f:tags": {".": {}, "v:\"a\"": {}}}})
    );
}

#[rstest]
#[case(json!([{}]), 0)]
#[case(json!([]), 1)]
#[case(Value::Null, 1)]
#[case(json!([{"manager": "broken"}]), 1)]
fn a_client_can_ask_to_forget_owners_but_not_lose_them_by_chance(#[case] given: Value, #[case] left: usize) {
    let live = applied(None, json!({"replicas": 1}), "one", false).unwrap();
    let mut new = live.clone();
    new["metadata"]["managedFields"] = given;
    update_managed_fields(Some(&live), &mut new, &test_shapes::workload(), &by("two", 0)).unwrap();
    let entries = new["metadata"].get("managedFields").and_then(Value::as_array).map_or(0, Vec::len);
    assert_eq!(entries, left);
    let mut later = new.clone();
    later["spec"]["replicas"] = json!(3);
    update_managed_fields(Some(&new), &mut later, &test_shapes::workload(), &by("two", 0)).unwrap();
    assert_eq!(later["metadata"].get("managedFields").is_some(), left > 0);
}

#[test]
fn only_so_many_updaters_are_kept_apart() {
    let shape = test_shapes::workload();
    let mut live = work(json!({"replicas": 0}));
    update_managed_fields(None, &mut live, &shape, &by("writer-00", 0)).unwrap();
    for turn in 1..13_i64 {
        let mut new = live.clone();
        new["data"][format!("key-{turn:02}")] = json!("v");
        update_managed_fields(Some(&live), &mut new, &shape, &by(&format!("writer-{turn:02}"), turn))
            .unwrap();
        live = new;
    }
    let entries = live["metadata"]["managedFields"].as_array().unwrap();
    let managers: Vec<&str> = entries.iter().filter_map(|entry| entry["manager"].as_str()).collect();
    assert_eq!(managers.len(), 10);
    assert_eq!(managers[..2], ["ancient-changes", "writer-04"]);
    assert_eq!(
        owned_by(&live, "ancient-changes"),
        json!({"f:data": {".": {}, "f:key-01": {}, "f:key-02": {}, "f:key-03": {}}, "f:spec": {".": {}, "f:replicas": {}}})
    );
}

#[test]
fn a_list_that_becomes_atomic_is_owned_as_one_piece_from_then_on() {
    let live = applied(None, json!({"tags": ["a", "b"]}), "one", false).unwrap();
    let shape = test_shapes::structure(&[
        ("apiVersion", test_shapes::string()),
        ("kind", test_shapes::string()),
        ("metadata", test_shapes::object_meta()),
        (
            "spec",
            test_shapes::structure(&[
                ("tags", test_shapes::atomic(test_shapes::string())),
                ("paused", test_shapes::any()),
            ]),
        ),
    ]);
    let mut new = live.clone();
    new["spec"]["paused"] = json!(true);
    update_managed_fields(Some(&live), &mut new, &shape, &by("two", 0)).unwrap();
    assert_eq!(owned_by(&new, "one"), json!({"f:spec": {"f:tags": {}}}));
}

/// Texts recorded from a real server.
#[rstest]
#[case(json!({"replicas": "x"}), ".spec.replicas: expected numeric (int or float), got string")]
#[case(json!({"replicas": true}), ".spec.replicas: expected numeric (int or float), got bool")]
#[case(json!({"paused": "x"}), ".spec.paused: expected boolean, got &{x}")]
#[case(json!({"selector": "x"}), ".spec.selector: expected map, got &{x}")]
#[case(json!({"selector": {"matchLabels": {"a": 1}}}), ".spec.selector.matchLabels.a: expected string, got &value.valueUnstructured{Value:1}")]
#[case(json!({"nope": 1}), ".spec.nope: field not declared in schema")]
#[case(json!({"paused": 3, "replicas": "x"}), "errors:\n  .spec.paused: expected boolean, got &{3}\n  .spec.replicas: expected numeric (int or float), got string")]
#[case(json!({"template": {"spec": {"containers": [{"name": "a"}, {"name": "a"}]}}}), ".spec.template.spec.containers: duplicate entries for key [name=\"a\"]")]
#[case(json!({"template": {"spec": {"containers": "x"}}}), ".spec.template.spec.containers: expected list, got &{x}")]
#[case(json!({"template": {"spec": {"containers": ["x"]}}}), ".spec.template.spec.containers: element 0: associative list with keys may not have non-map elements")]
#[case(json!({"template": {"spec": {"containers": [null]}}}), ".spec.template.spec.containers: element 0: associative list with keys may not have a null element")]
#[case(json!({"template": {"spec": {"containers": [{"name": "a", "resources": {"limits": {"cpu": {"a": 1}}}}]}}}), ".spec.template.spec.containers[name=\"a\"].resources.limits.cpu: expected any scalar, got &{map[a:1]}")]
#[case(json!({"strategy": {"type": [1, "a"]}}), ".spec.strategy.type: expected string, got &value.valueUnstructured{Value:[]interface {}{1, \"a\"}}")]
#[case(json!({"strategy": {"type": {"b": true, "a": null}}}), ".spec.strategy.type: expected string, got &value.valueUnstructured{Value:map[string]interface {}{\"a\":interface {}(nil), \"b\":true}}")]
fn a_config_that_does_not_fit_is_refused_in_the_servers_words(#[case] spec: Value, #[case] text: &str) {
    let refused = deployment_applied(&deployment(spec)).unwrap_err();
    let full =
        format!("failed to create typed patch object (default/wrong; apps/v1, Kind=Deployment): {text}");
    assert_eq!((refused.code(), refused.reason(), refused.message()), (500, "", full.as_str()));
}

fn deployment(spec: Value) -> Value {
    let metadata = json!({"name": "wrong", "namespace": "default"});
    json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": spec})
}

fn deployment_applied(config: &Value) -> ApiResult<Value> {
    let shape = crate::types::shape_of("apps", "v1", "Deployment").unwrap();
    let writer = WriteContext { api_version: "apps/v1", kind: "Deployment", ..by("one", 0) };
    apply(None, config, &shape, &writer, false)
}

#[rstest]
#[case(json!({"apiVersion": "apps/v1", "kind": "Pod"}), 400, "invalid object type: apps/v1, Kind=Pod")]
#[case(json!({"apiVersion": "v1", "kind": "Deployment"}), 400, "invalid object type: /v1, Kind=Deployment")]
#[case(json!({}), 400, "invalid object type: /, Kind=")]
#[case(json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"managedFields": []}}), 400, "metadata.managedFields must be nil")]
#[case(json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": "x"}), 500, "failed to create typed patch object (/; apps/v1, Kind=Deployment): .metadata: expected map, got &{x}")]
#[case(
    json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "x"}, "spec": {"strategy": {"rollingUpdate": {"maxSurge": {"a": 1}}}}}),
    500,
    "failed to convert new object (/x; apps/v1, Kind=Deployment) to proper version: unable to convert unstructured object to apps/v1, Kind=Deployment: json: cannot unmarshal object into Go value of type int32"
)]
fn a_config_of_something_else_is_refused(#[case] config: Value, #[case] code: u16, #[case] text: &str) {
    let refused = deployment_applied(&config).unwrap_err();
    assert_eq!((refused.code(), refused.message()), (code, text));
}

#[test]
fn a_container_without_a_name_is_told_apart_by_its_default() {
    let config = deployment(json!({"template": {"spec": {"containers": [{"image": "a"}]}}}));
    assert!(deployment_applied(&config).is_ok());
}

#[test]
fn a_list_of_thousands_of_items_is_tracked_in_little_time() {
    let shape = test_shapes::workload();
    let containers: Vec<Value> =
        (0..5000).map(|number| json!({"name": format!("c{number}"), "image": "i"})).collect();
    let mut live = work(json!({"containers": containers}));
    update_managed_fields(None, &mut live, &shape, &by("one", 0)).unwrap();
    let mut new = live.clone();
    new["spec"]["containers"][2500]["image"] = json!("j");
    update_managed_fields(Some(&live), &mut new, &shape, &by("two", 0)).unwrap();
    let merged = apply(Some(&new), &live_config(&new), &shape, &by("three", 0), false).unwrap();
    assert_eq!(owned_by(&merged, "two")["f:spec"]["f:containers"].as_object().map(Map::len), Some(1));
}

fn live_config(object: &Value) -> Value {
    work(object["spec"].clone())
}

/// Any value as the body of an object of our shape.
fn body() -> impl Strategy<Value = Value> {
    (arbitrary::value(), arbitrary::value(), arbitrary::value()).prop_map(|(spec, metadata, data)| {
        json!({"apiVersion": "v1", "kind": "Work", "metadata": metadata, "spec": spec, "data": data})
    })
}

/// Valid specs.
fn spec() -> impl Strategy<Value = Value> {
    let word = || prop_oneof![Just("a"), Just("b"), Just("c"), Just("d")];
    let tags = prop::collection::btree_set(word(), 0..4).prop_map(|tags| json!(tags));
    let containers =
        prop::collection::btree_map(word(), prop::option::of(word()), 0..4).prop_map(|containers| {
            let item = |(name, image): (&str, Option<&str>)| match image {
                Some(image) => json!({"name": name, "image": image}),
                None => json!({"name": name}),
            };
            Value::Array(containers.into_iter().map(item).collect())
        });
    let order = prop::collection::vec(word(), 0..3).prop_map(|order| json!(order));
    let extra = prop::collection::btree_map(word(), word(), 0..3).prop_map(|extra| json!(extra));
    let replicas = (0..3).prop_map(|count| json!(count));
    (
        prop::option::of(tags),
        prop::option::of(containers),
        prop::option::of(order),
        prop::option::of(extra),
        prop::option::of(replicas),
    )
        .prop_map(|(tags, containers, order, extra, replicas)| {
            let fields = [
                ("tags", tags),
                ("containers", containers),
                ("order", order),
                ("extra", extra),
                ("replicas", replicas),
            ];
            let given = fields.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?)));
            Value::Object(given.collect())
        })
}

proptest! {
    #[test]
    fn nothing_panics(live in body(), config in body(), force in any::<bool>()) {
        let shape = test_shapes::workload();
        let _either = apply(Some(&live), &config, &shape, &by("one", 0), force);
        let _first = apply(None, &config, &shape, &by("one", 0), force);
        let mut new = config;
        prop_assert!(update_managed_fields(Some(&live), &mut new, &shape, &by("two", 0)).is_ok());
        prop_assert!(update_managed_fields(None, &mut new, &shape, &by("two", 0)).is_ok());
    }

    #[test]
    fn applying_again_changes_nothing(first in spec(), second in spec()) {
        let live = applied(None, first, "one", true).unwrap();
        let once = applied(Some(&live), second.clone(), "two", true).unwrap();
        let twice = applied(Some(&once), second, "two", false).unwrap();
        prop_assert_eq!(once, twice);
    }

    #[test]
    fn applied_values_are_there_and_what_two_apply_is_equal(first in spec(), second in spec()) {
        let live = applied(None, first.clone(), "one", true).unwrap();
        let Ok(live) = applied(Some(&live), second.clone(), "two", false) else { return Ok(()) };
        // Without a conflict both managers keep their values.
        for (manager, wanted) in [("one", first), ("two", second)] {
            let again = applied(Some(&live), wanted, manager, false);
            prop_assert!(again.is_ok());
        }
    }

    #[test]
    fn whoever_takes_everything_back_leaves_what_was_before(mut first in spec(), second in spec()) {
        // A manager that applies an empty spec owns the spec itself: excluded here.
        first["replicas"] = json!(1);
        let live = applied(None, first, "one", true).unwrap();
        let Ok(both) = applied(Some(&live), second, "two", false) else { return Ok(()) };
        let alone = applied(Some(&both), json!({}), "two", false).unwrap();
        prop_assert_eq!(owned_by(&alone, "one"), owned_by(&live, "one"));
        let left = owned_by(&alone, "two");
        let is_empty = left.get("f:spec").is_none_or(|spec| spec.as_object().is_some_and(Map::is_empty));
        prop_assert!(is_empty, "{}", left);
    }
}
