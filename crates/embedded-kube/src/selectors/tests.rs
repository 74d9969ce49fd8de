use pretty_assertions::assert_eq;
use rstest::rstest;
use serde_json::{Value, json};

use super::*;
use crate::kinds;

const NO_OPERATOR: &str = "in, notin, =, ==, !=, gt, lt";
const VALUE: &str = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";

#[rstest]
#[case("a!!b", &format!("unable to parse requirement: found '!', expected: {NO_OPERATOR}"))]
#[case("a in b", "unable to parse requirement: found 'b' expected: '('")]
#[case("a in (b", "unable to parse requirement: found '', expected: ',' or ')'")]
#[case("a in (b,c", "unable to parse requirement: found '', expected: ',' or ')'")]
#[case(",a", "found ',', expected: !, identifier, or 'end of string'")]
#[case("a,", "found '', expected: identifier after ','")]
#[case("a=b c", "found 'c', expected: ',' or 'end of string'")]
#[case("!a=b", "found '=', expected: ',' or 'end of string'")]
#[case("a=!b", "unable to parse requirement: found '!', expected: identifier")]
#[case("a b", &format!("unable to parse requirement: found 'b', expected: {NO_OPERATOR}"))]
#[case(
    "a>x",
    "unable to parse requirement: values[0]: Invalid value: \"x\": for 'Gt', 'Lt' operators, the value must be an integer"
)]
#[case("a=-b", &format!("unable to parse requirement: values[0][a]: Invalid value: \"-b\": {VALUE}"))]
#[case(
    "-a=b",
    "unable to parse requirement: <nil>: Invalid value: \"-a\": name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)]
#[case("a=b,,c", "found ',', expected: identifier after ','")]
#[case("a (b)", &format!("unable to parse requirement: found '(', expected: {NO_OPERATOR}"))]
#[case("a==b=c", "found '=', expected: ',' or 'end of string'")]
#[case("x in (=)", "unable to parse requirement: found '=', expected: ',', ')' or identifier")]
#[case("a notin", "unable to parse requirement: found '' expected: '('")]
#[case(")", "found ')', expected: !, identifier, or 'end of string'")]
#[case("!", "unable to parse requirement: found '', expected: identifier")]
#[case("a=b/c", &format!("unable to parse requirement: values[0][a]: Invalid value: \"b/c\": {VALUE}"))]
fn a_malformed_label_selector_is_refused_in_the_real_servers_words(#[case] text: &str, #[case] why: &str) {
    let failure = LabelSelector::parse(text).unwrap_err();
    assert_eq!((failure.code(), failure.message()), (400, why));
}

#[rstest]
#[case("", json!({}), true)]
#[case("app=web", json!({"app": "web"}), true)]
#[case("app==web", json!({"app": "db"}), false)]
#[case("app=", json!({"app": ""}), true)]
#[case("app!=web", json!({}), true)]
#[case("app!=web", json!({"app": "web"}), false)]
#[case("app in (web, db)", json!({"app": "db"}), true)]
#[case("app in (,a)", json!({"app": ""}), true)]
#[case("app in ()", json!({"app": "x"}), false)]
#[case("app notin (web)", json!({"app": "web"}), false)]
#[case("app notin (web)", json!({}), true)]
#[case("app", json!({"app": "x"}), true)]
#[case("!app", json!({"app": "x"}), false)]
#[case("!app", json!(null), true)]
#[case("n>3", json!({"n": "10"}), true)]
#[case("n<3", json!({"n": "10"}), false)]
#[case("n>3", json!({"n": "many"}), false)]
#[case("in in (notin, in)", json!({"in": "in"}), true)]
#[case("a=b,c=d", json!({"a": "b", "c": "e"}), false)]
fn a_label_selector_matches_labels(#[case] text: &str, #[case] labels: Value, #[case] expected: bool) {
    let selector = LabelSelector::parse(text).unwrap();
    assert_eq!(selector.matches(labels.as_object()), expected);
}

#[test]
fn a_selector_object_has_a_text_form_that_means_the_same() {
    let object = json!({
        "matchLabels": {"tier": "db", "app": "x"},
        "matchExpressions": [
            {"key": "zone", "operator": "NotIn", "values": ["b", "a"]},
            {"key": "gone", "operator": "DoesNotExist"},
            {"key": "here", "operator": "Exists"},
        ],
    });
    let selector = LabelSelector::from_value(Some(&object)).unwrap();
    assert_eq!(selector.to_string(), "app=x,!gone,here,tier=db,zone notin (a,b)");
    assert_eq!(LabelSelector::parse(&selector.to_string()).unwrap().to_string(), selector.to_string());
}

#[test]
fn no_selector_object_matches_nothing_and_an_empty_one_everything() {
    assert!(!LabelSelector::from_value(None).unwrap().matches(None));
    assert!(LabelSelector::from_value(Some(&json!({}))).unwrap().matches(None));
    assert_eq!(
        LabelSelector::from_value(Some(&json!({"matchExpressions": [{"key": "a", "operator": "in"}]})))
            .unwrap_err(),
        "\"in\" is not a valid label selector operator"
    );
}

fn resource(kind: &str) -> crate::registry::Resource {
    kinds::resources().into_iter().find(|one| one.kind == kind).unwrap()
}

#[rstest]
#[case("Secret", "a", "invalid selector: 'a'; can't understand 'a'")]
#[case("Secret", "a=b", "field label not supported: a")]
#[case("Secret", "metadata.name=a,b", "invalid selector: 'metadata.name=a,b'; can't understand 'b'")]
#[case("Secret", r"metadata.name=a\b", r"invalid field selector: invalid escape sequence: \b")]
#[case("Secret", r"metadata.name=a\", r"invalid field selector: invalid escape sequence: \")]
#[case("Secret", "metadata.name=a=b", "invalid field selector: unescaped character in value: 61")]
#[case("Secret", "=x", "field label not supported: ")]
#[case("Namespace", "metadata.namespace=x", "field label not supported: metadata.namespace")]
#[case(
    "ConfigMap",
    "status.replicas=1",
    "\"status.replicas\" is not a known field selector: only \"metadata.name\", \"metadata.namespace\""
)]
fn a_bad_field_selector_is_refused_in_the_real_servers_words(
    #[case] kind: &str,
    #[case] text: &str,
    #[case] why: &str,
) {
    let failure = FieldSelector::parse(text, &resource(kind)).unwrap_err();
    assert_eq!((failure.code(), failure.message()), (400, why));
}

#[rstest]
#[case("Secret", "type=Opaque", json!({"type": "Opaque"}), true)]
#[case("Secret", "type!=Opaque", json!({"type": "Opaque"}), false)]
#[case("Node", "spec.unschedulable=false", json!({}), true)]
#[case("Pod", "spec.host=n", json!({"spec": {"nodeName": "n"}}), true)]
#[case("Pod", "status.phase!=Running,spec.nodeName=", json!({"status": {"phase": "Pending"}}), true)]
#[case("Event", "source=me", json!({"reportingComponent": "me"}), true)]
#[case("CustomResourceDefinition", "metadata.namespace=x", json!({}), false)]
#[case("Secret", r"metadata.name=a\,b", json!({"metadata": {"name": "a,b"}}), true)]
fn a_field_selector_matches_objects(
    #[case] kind: &str,
    #[case] text: &str,
    #[case] object: Value,
    #[case] expected: bool,
) {
    assert_eq!(FieldSelector::parse(text, &resource(kind)).unwrap().matches(&object), expected);
}

#[test]
fn events_of_both_groups_are_selected_in_their_stored_form() {
    let newer = kinds::resources().into_iter().find(|one| one.id.group == "events.k8s.io").unwrap();
    let selector = FieldSelector::parse("regarding.name=x,reportingController=c", &newer).unwrap();
    assert!(selector.matches(&json!({"involvedObject": {"name": "x"}, "reportingComponent": "c"})));
    assert!(selector.matches(&json!({"regarding": {"name": "x"}, "reportingController": "c"})));
}
