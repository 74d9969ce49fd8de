//! Expected results are those of kube-apiserver.

#![expect(clippy::needless_pass_by_value, reason = "literals read better as they are")]

use proptest::prelude::*;
use rstest::rstest;
use serde_json::{Value, json};

use super::strategic_merge;
use crate::patch::{arbitrary, test_shapes};

fn spec(object: Value, patch: Value) -> Value {
    let (object, patch) = (json!({"spec": object}), json!({"spec": patch}));
    let mut merged =
        strategic_merge(&object, patch.to_string().as_bytes(), &test_shapes::workload()).unwrap();
    merged["spec"].take()
}

#[rstest]
#[case::scalars_and_new_fields(json!({"replicas": 1}), json!({"replicas": 2, "paused": true}), json!({"replicas": 2, "paused": true}))]
#[case::null_deletes(json!({"replicas": 1, "paused": true}), json!({"paused": null, "order": null}), json!({"replicas": 1}))]
#[case::maps_merge(json!({"strategy": {"type": "a", "rollingUpdate": {"max": 1}}}), json!({"strategy": {"rollingUpdate": {"max": 2}}}), json!({"strategy": {"type": "a", "rollingUpdate": {"max": 2}}}))]
#[case::maps_are_replaced(json!({"strategy": {"type": "a", "rollingUpdate": {"max": 1}}}), json!({"strategy": {"$patch": "replace", "type": "b"}}), json!({"strategy": {"type": "b"}}))]
#[case::maps_are_deleted(json!({"strategy": {"type": "a"}}), json!({"strategy": {"$patch": "delete"}}), json!({"strategy": {}}))]
#[case::keys_are_retained(json!({"strategy": {"type": "a", "rollingUpdate": {"max": 1}}}), json!({"strategy": {"$retainKeys": ["type"], "type": "b"}}), json!({"strategy": {"type": "b"}}))]
#[case::atomic_lists_are_replaced(json!({"order": ["a", "b"]}), json!({"order": ["c"]}), json!({"order": ["c"]}))]
#[case::scalar_lists_merge(json!({"tags": ["a", "b"]}), json!({"tags": ["c", "b"]}), json!({"tags": ["c", "a", "b"]}))]
#[case::scalars_are_deleted_from_lists(json!({"tags": ["a", "b", "c"]}), json!({"$deleteFromPrimitiveList/tags": ["b"]}), json!({"tags": ["a", "c"]}))]
#[case::items_merge_by_key(
    json!({"containers": [{"name": "a", "image": "1"}, {"name": "b", "image": "1"}]}),
    json!({"containers": [{"name": "b", "image": "2"}, {"name": "c", "image": "3"}]}),
    json!({"containers": [{"name": "a", "image": "1"}, {"name": "b", "image": "2"}, {"name": "c", "image": "3"}]})
)]
#[case::items_are_deleted(
    json!({"containers": [{"name": "a"}, {"name": "b"}]}),
    json!({"containers": [{"name": "a", "$patch": "delete"}]}),
    json!({"containers": [{"name": "b"}]})
)]
#[case::lists_are_replaced(
    json!({"containers": [{"name": "a"}, {"name": "b"}]}),
    json!({"containers": [{"$patch": "replace"}, {"name": "c"}]}),
    json!({"containers": [{"name": "c"}]})
)]
#[case::order_is_set(
    json!({"containers": [{"name": "a"}, {"name": "b"}, {"name": "x"}]}),
    json!({"$setElementOrder/containers": [{"name": "b"}, {"name": "c"}, {"name": "a"}], "containers": [{"name": "c"}]}),
    json!({"containers": [{"name": "b"}, {"name": "c"}, {"name": "a"}, {"name": "x"}]})
)]
#[case::order_alone_reorders(
    json!({"tags": ["a", "b", "c"]}),
    json!({"$setElementOrder/tags": ["c", "a"]}),
    json!({"tags": ["b", "c", "a"]})
)]
#[case::new_lists_lose_directives_and_nulls(
    json!({}),
    json!({"containers": [{"name": "a", "$patch": "delete"}, {"name": "b", "image": null}]}),
    json!({"containers": [{"name": "b"}]})
)]
#[case::nested_lists_merge(
    json!({"containers": [{"name": "a", "env": [{"name": "X", "value": "1"}]}]}),
    json!({"containers": [{"name": "a", "env": [{"name": "Y", "value": "2"}]}]}),
    json!({"containers": [{"name": "a", "env": [{"name": "Y", "value": "2"}, {"name": "X", "value": "1"}]}]})
)]
fn merges(#[case] object: Value, #[case] patch: Value, #[case] merged: Value) {
    assert_eq!(spec(object, patch), merged);
}

#[rstest]
#[case(
    r#"{"spec":{"containers":[{"image":"x"}]}}"#,
    500,
    "map: map[image:x] does not contain declared merge key: name"
)]
#[case(
    r#"{"spec":{"containers":[{"$patch":"delete"}]}}"#,
    500,
    "map: map[$patch:delete] does not contain declared merge key: name"
)]
#[case(r#"{"spec":{"containers":["x"]}}"#, 500, "list element types are not identical: [[map[name:a]] [x]]")]
#[case(
    r#"{"spec":{"strategy":{"$patch":"dance"}}}"#,
    500,
    "unknown patch type: dance in map: map[$patch:dance]"
)]
#[case(r#"{"spec":{"strategy":{"$retainKeys":"type"}}}"#, 400, "invalid patch format of retainKeys")]
#[case(
    r#"{"spec":{"strategy":{"$retainKeys":["type"],"rollingUpdate":{"max":1}}}}"#,
    400,
    "invalid patch format of retainKeys"
)]
#[case(r#"{"spec":{"$deleteFromPrimitiveList":["a"]}}"#, 400, "invalid patch format of primitive list")]
#[case(r#"{"spec":{"$setElementOrder":["a"]}}"#, 400, "invalid patch format of setElementOrder list")]
#[case(
    r#"{"spec":{"$setElementOrder/containers":[{"name":"b"}],"containers":[{"name":"c"}]}}"#,
    500,
    "The order in patch list:\n[map[name:c]]\n doesn't match $setElementOrder list:\n[map[name:b]]\n"
)]
#[case(r"{", 400, "unexpected end of JSON input")]
#[case(r"[]", 400, "json: cannot unmarshal array into Go value of type map[string]interface {}")]
fn refusals_have_the_servers_words(#[case] patch: &str, #[case] code: u16, #[case] text: &str) {
    let object = json!({"spec": {"containers": [{"name": "a"}], "strategy": {"type": "a"}, "tags": ["a"]}});
    let refused = strategic_merge(&object, patch.as_bytes(), &test_shapes::workload()).unwrap_err();
    assert_eq!((refused.code(), refused.message()), (code, text));
}

#[test]
fn lists_of_lists_cannot_merge() {
    let object = json!({"spec": {"tags": [["a"]]}});
    let patch = br#"{"spec":{"tags":[["b"]]}}"#;
    let refused = strategic_merge(&object, patch, &test_shapes::workload()).unwrap_err();
    assert_eq!(refused.code(), 422);
}

proptest! {
    #[test]
    fn no_patch_panics(object in arbitrary::object(), patch in arbitrary::object()) {
        let shape = test_shapes::structure(&[
            ("list", test_shapes::keyed(test_shapes::workload(), &["name"])), ("set", test_shapes::set(test_shapes::string())),
            ("map", test_shapes::strings()), ("spec", test_shapes::workload()), ("metadata", test_shapes::object_meta()),
        ]);
        let _either = strategic_merge(&object, patch.to_string().as_bytes(), &shape);
    }
}
