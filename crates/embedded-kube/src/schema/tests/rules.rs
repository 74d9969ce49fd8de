//! CEL rules: results, texts, positions, transition rules and compile errors.

use pretty_assertions::assert_eq;
use rstest::rstest;
use serde_json::{Value, json};

use super::*;

fn spec() -> Value {
    json!({
        "type": "object",
        "properties": {
            "n": {"type": "integer"}, "m": {"type": "integer"}, "d": {"type": "number"}, "s": {"type": "string"},
            "b": {"type": "boolean"}, "x-prop": {"type": "string"}, "namespace": {"type": "string"},
            "when": {"type": "string", "format": "date-time"}, "span": {"type": "string", "format": "duration"},
            "ios": {"x-kubernetes-int-or-string": true},
            "list": {"type": "array", "items": {"type": "string"}},
            "map": {"type": "object", "additionalProperties": {"type": "string"}},
            "nest": {"type": "object", "properties": {"deep": {"type": "string"}}},
            "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
            "keyed": {
                "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"],
                "items": {"type": "object", "required": ["k"], "properties": {"k": {"type": "string"}, "v": {"type": "integer"}}},
            },
        },
    })
}

#[expect(clippy::needless_pass_by_value, reason = "cases are written as values")]
fn with_rule(rule: Value) -> Value {
    let mut spec = spec();
    spec["x-kubernetes-validations"] = json!([rule]);
    json!({"type": "object", "properties": {"spec": spec}})
}

#[expect(clippy::needless_pass_by_value, reason = "cases are written as values")]
fn verdict(rule: &str, value: Value) -> Vec<String> {
    let schema = with_rule(json!({"rule": rule}));
    let root = Schema::parse(&schema);
    let faults = CompiledSchema::rule_errors(&root, "p");
    assert_eq!(faults, [], "{rule}");
    CompiledSchema::new_unchecked(root)
        .validate(&json!({"spec": value}), None)
        .iter()
        .map(ToString::to_string)
        .collect()
}

#[rstest]
#[case("self.n > 1", json!({"n": 2}))]
#[case("has(self.n) ? self.n == 2 : true", json!({}))]
#[case("!has(self.nest) || has(self.nest.deep)", json!({"nest": {"deep": "x"}}))]
#[case("self.d < 2.5", json!({"d": 2}))]
#[case("self.x__dash__prop == 'a' && self.__namespace__ == 'b'", json!({"x-prop": "a", "namespace": "b"}))]
#[case("self.list.all(x, x.startsWith('a'))", json!({"list": ["a", "ab"]}))]
#[case("self.list.exists(x, x == 'b') && self.list.exists_one(x, x == 'b')", json!({"list": ["a", "b"]}))]
#[case("self.list.map(x, size(x)).sum() == 3", json!({"list": ["a", "bb"]}))]
#[case("self.map.all(k, self.map[k] == k)", json!({"map": {"a-b.c/d": "a-b.c/d"}}))]
#[case("'a' in self.map && !('b' in self.map)", json!({"map": {"a": ""}}))]
#[case("self.when > timestamp('2020-01-01T00:00:00Z')", json!({"when": "2026-01-01T00:00:00Z"}))]
#[case("self.span < duration('2h')", json!({"span": "1h30m"}))]
#[case("type(self.ios) == int ? self.ios > 3 : self.ios == '50%'", json!({"ios": 4}))]
#[case("type(self.ios) == string && self.ios.matches('^[0-9]+%$')", json!({"ios": "50%"}))]
#[case("quantity('1Gi').isGreaterThan(quantity('500Mi'))", json!({}))]
#[case("isURL(self.s) && url(self.s).getHostname() == 'example.com'", json!({"s": "https://example.com:80/a"}))]
#[case("ip(self.s).family() == 4 && cidr('10.0.0.0/8').containsIP(self.s)", json!({"s": "10.1.2.3"}))]
#[case("self.s.find('[0-9]+') == '12'", json!({"s": "ab12"}))]
#[case("!format.dns1123Label().validate(self.s).hasValue()", json!({"s": "good-name"}))]
#[case("cel.bind(x, self.n + 1, x * x == 9)", json!({"n": 2}))]
#[case("self.keyed.filter(e, e.v > 1).size() == 1", json!({"keyed": [{"k": "a", "v": 1}, {"k": "b", "v": 2}]}))]
#[case("self.list == ['a', 'b']", json!({"list": ["a", "b"]}))]
#[case("self.n in [1, 2, 3] && self.n + self.m == 5", json!({"n": 2, "m": 3}))]
fn a_rule_that_holds_says_nothing(#[case] rule: &str, #[case] value: Value) {
    assert_eq!(verdict(rule, value), Vec::<String>::new());
}

#[rstest]
#[case("self.n > 1", json!({"n": 1}), "spec: Invalid value: failed rule: self.n > 1")]
#[case("self.n > 1", json!({}), "spec: Invalid value: \"object\": no such key: n evaluating rule: self.n > 1")]
#[case("self.list[3] == 'x'", json!({"list": ["a"]}), "spec: Invalid value: \"object\": index out of bounds: 3 evaluating rule: self.list[3] == 'x'")]
#[case("self.n / self.m == 1", json!({"n": 1, "m": 0}), "spec: Invalid value: \"object\": division by zero evaluating rule: self.n / self.m == 1")]
fn a_broken_rule_is_told(#[case] rule: &str, #[case] value: Value, #[case] expected: &str) {
    assert_eq!(verdict(rule, value), [expected]);
}

#[expect(clippy::needless_pass_by_value, reason = "cases are written as values")]
fn errors(rule: Value, value: Value, old: Option<Value>) -> Vec<String> {
    let compiled = CompiledSchema::new_unchecked(Schema::parse(&with_rule(rule)));
    let old = old.map(|old| json!({"spec": old}));
    compiled.validate(&json!({"spec": value}), old.as_ref()).iter().map(ToString::to_string).collect()
}

#[rstest]
#[case(json!({"rule": "false", "message": " no "}), "spec: Invalid value: no")]
#[case(json!({"rule": "false", "messageExpression": "'n is ' + string(self.n)"}), "spec: Invalid value: n is 7")]
#[case(json!({"rule": "false", "message": "plain", "messageExpression": "string(self.n / 0)"}), "spec: Invalid value: plain")]
#[case(json!({"rule": "false", "message": "m", "reason": "FieldValueForbidden"}), "spec: Forbidden: m")]
#[case(json!({"rule": "false", "message": "m", "reason": "FieldValueRequired", "fieldPath": ".nest.deep"}), "spec.nest.deep: Required value: m")]
#[case(json!({"rule": "false", "message": "m", "reason": "FieldValueDuplicate"}), "spec: Duplicate value")]
#[case(json!({"rule": "false", "message": "m", "fieldPath": ".map['a']"}), "spec.map[a]: Invalid value: m")]
fn messages_reasons_and_places_are_the_authors(#[case] rule: Value, #[case] expected: &str) {
    assert_eq!(errors(rule, json!({"n": 7}), None), [expected]);
}

#[test]
fn a_scalar_shows_its_value() {
    let schema = json!({"type": "object", "properties": {"spec": {"type": "integer", "x-kubernetes-validations": [{"rule": "self > 5"}]}}});
    let found = CompiledSchema::new(&schema).unwrap().validate(&json!({"spec": 3}), None);
    assert_eq!(found[0].to_string(), "spec: Invalid value: 3: failed rule: self > 5");
}

#[test]
fn transitions_are_judged_where_there_is_an_old_value() {
    let rule = || json!({"rule": "self.s == oldSelf.s", "message": "s is immutable"});
    assert_eq!(errors(rule(), json!({"s": "a"}), None), Vec::<String>::new());
    assert_eq!(errors(rule(), json!({"s": "a"}), Some(json!({"s": "a"}))), Vec::<String>::new());
    assert_eq!(
        errors(rule(), json!({"s": "b"}), Some(json!({"s": "a"}))),
        ["spec: Invalid value: s is immutable"]
    );
    let optional = || json!({"rule": "!oldSelf.hasValue() || oldSelf.value().s == self.s", "optionalOldSelf": true, "message": "m"});
    assert_eq!(errors(optional(), json!({"s": "a"}), None), Vec::<String>::new());
    assert_eq!(errors(optional(), json!({"s": "b"}), Some(json!({"s": "a"}))), ["spec: Invalid value: m"]);
}

#[test]
fn items_of_a_keyed_list_are_compared_with_those_of_the_same_key() {
    let mut schema = with_rule(json!({"rule": "true"}));
    schema["properties"]["spec"]["properties"]["keyed"]["items"]["x-kubernetes-validations"] =
        json!([{"rule": "self.v >= oldSelf.v", "message": "never less"}]);
    let compiled = CompiledSchema::new(&schema).unwrap();
    let old = json!({"spec": {"keyed": [{"k": "a", "v": 5}, {"k": "b", "v": 5}]}});
    let new = json!({"spec": {"keyed": [{"k": "b", "v": 4}, {"k": "c", "v": 0}, {"k": "a", "v": 6}]}});
    let found: Vec<String> = compiled.validate(&new, Some(&old)).iter().map(ToString::to_string).collect();
    assert_eq!(found, ["spec.keyed[0]: Invalid value: never less"]);
}

#[test]
fn a_rule_that_was_broken_before_is_let_through_while_nothing_changes() {
    let rule = || json!({"rule": "self.n > 5", "message": "m"});
    assert_eq!(errors(rule(), json!({"n": 1}), Some(json!({"n": 1}))), Vec::<String>::new());
    assert_eq!(errors(rule(), json!({"n": 2}), Some(json!({"n": 1}))), ["spec: Invalid value: m"]);
}

#[test]
fn the_root_sees_its_type_and_its_names() {
    let rules = json!([{"rule": "self.metadata.name.startsWith('a') && self.kind == 'Foo'", "message": "m"}]);
    let compiled =
        CompiledSchema::new(&json!({"type": "object", "x-kubernetes-validations": rules})).unwrap();
    let object = |name: &str| json!({"apiVersion": "e/v1", "kind": "Foo", "metadata": {"name": name}});
    assert_eq!(compiled.validate(&object("abc"), None), []);
    assert_eq!(compiled.validate(&object("xyz"), None)[0].to_string(), "<nil>: Invalid value: m");
}

#[test]
fn rules_are_not_asked_about_an_object_of_the_wrong_shape() {
    let found = errors(json!({"rule": "self.n > 1"}), json!({"n": "x"}), None);
    assert_eq!(found[1], NOT_CHECKED);
}

fn compile_error(rule: Value) -> Vec<String> {
    let root = Schema::parse(&with_rule(rule));
    CompiledSchema::rule_errors(&root, "p")
        .iter()
        .map(|error| format!("{} # {}", error.field, error.detail))
        .collect()
}

const PLACE: &str = "p.properties[spec].x-kubernetes-validations[0]";

#[rstest]
#[case("self.gone == 1", "ERROR: <input>:1:5: undefined field 'gone'\n | self.gone == 1\n | ....^")]
#[case(
    "other > 1",
    "ERROR: <input>:1:1: undeclared reference to 'other' (in container '')\n | other > 1\n | ^"
)]
#[case(
    "self.n == 'x'",
    "ERROR: <input>:1:8: found no matching overload for '_==_' applied to '(int, string)'\n | self.n == 'x'\n | .......^"
)]
#[case(
    "fancy(self.n)",
    "ERROR: <input>:1:6: undeclared reference to 'fancy' (in container '')\n | fancy(self.n)\n | .....^"
)]
#[case(
    "self.free.anything == 1",
    "ERROR: <input>:1:10: undefined field 'anything'\n | self.free.anything == 1\n | .........^"
)]
#[case(
    "self.list.all(x, x.foo)",
    "ERROR: <input>:1:19: type 'string' does not support field selection\n | self.list.all(x, x.foo)\n | ..................^"
)]
#[case(
    "self.keyed.all(x, x.z == 1)",
    "ERROR: <input>:1:20: undefined field 'z'\n | self.keyed.all(x, x.z == 1)\n | ...................^"
)]
fn a_rule_that_does_not_fit_the_schema_does_not_compile(#[case] rule: &str, #[case] expected: &str) {
    assert_eq!(
        compile_error(json!({"rule": rule})),
        [format!("{PLACE}.rule # compilation failed: {expected}")]
    );
}

#[test]
fn syntax_results_and_the_past_are_checked_too() {
    let found = compile_error(json!({"rule": "self.n >"}));
    assert!(
        found[0].starts_with(&format!("{PLACE}.rule # compilation failed: ERROR: <input>:1:")),
        "{found:?}"
    );
    assert_eq!(
        compile_error(json!({"rule": "self.n"})),
        [format!("{PLACE}.rule # cel expression must evaluate to a bool")]
    );
    assert_eq!(
        compile_error(json!({"rule": "true", "messageExpression": "self.n"})),
        [format!("{PLACE}.messageExpression # messageExpression must evaluate to a string")]
    );
    assert_eq!(
        compile_error(json!({"rule": "true", "optionalOldSelf": true})),
        [format!("{PLACE}.optionalOldSelf # may not be set if oldSelf is not used in rule")]
    );
    let mut schema = with_rule(json!({"rule": "true"}));
    schema["properties"]["spec"]["properties"]["list"]["items"]["x-kubernetes-validations"] =
        json!([{"rule": "self == oldSelf"}]);
    let found = CompiledSchema::rule_errors(&Schema::parse(&schema), "p");
    let expected = "oldSelf cannot be used on the uncorrelatable portion of the schema within p.properties[spec].properties[list]";
    assert_eq!(found[0].detail, expected);
}

#[test]
fn no_rule_takes_forever() {
    let long: Vec<String> = (0..5_000).map(|index| index.to_string()).collect();
    let rule = "self.list.all(a, self.list.all(b, self.list.all(c, a + b + c != 'x')))";
    let found = verdict(rule, json!({"list": long}));
    assert_eq!(
        found,
        [
            "spec: Invalid value: \"object\": validation failed due to running out of cost budget, no further validation rules will be run"
        ]
    );
}

/// Nested `cel.bind`s, each doubling its value.
fn doubled(first: &str, twice: &str, last: &str) -> String {
    (0..30).fold(last.to_owned(), |body, _| format!("cel.bind(x, {twice}, {body})")).replacen(twice, first, 1)
}

#[rstest]
#[case::text(doubled("self.s + self.s", "x + x", "x != ''"))]
#[case::list(doubled("[self.s, self.s]", "x + x", "x != []"))]
#[case::nested(doubled("[self.s, self.s]", "[x, x]", "x != []"))]
#[case::map(doubled("{'a': self.s}", "{'a': x, 'b': x}", "x != {}"))]
#[case::swallowed(doubled("self.s + self.s", "x + x", "x != ''") + " || true")]
#[case::replace(doubled("self.s + self.s", "x.replace('a', x)", "x != ''"))]
#[case::join(doubled("[self.s, self.s]", "[x.join(x.join()), x.join(x.join())]", "x != []"))]
#[case::format(doubled("self.s + self.s", "'%s%s'.format([x, x])", "x != ''"))]
#[case::quote(doubled("self.s + '\"\"'", "strings.quote(x)", "x != ''"))]
#[case::collected("[1,2,3,4,5,6,7,8].all(a, self.list.map(b, self.list.map(c, self.list)) != [])".to_owned())]
fn no_rule_fills_the_memory(#[case] rule: String) {
    let list: Vec<String> = (0..200).map(|index| index.to_string()).collect();
    let found = verdict(&rule, json!({"s": "aaaaaaaaaa", "list": list}));
    assert_eq!(found.len(), 1);
    assert!(found[0].contains("running out of cost budget"), "{found:?}");
}

#[rstest]
#[case("self.s.replace('a', 'bb') == 'bbc' && self.s.replace('', '-', 1) == '-ac'")]
#[case("self.list.join('-') == 'a-b' && self.list.join() == 'ab'")]
#[case("'%s %d %.2f'.format([self.s, 3, 1.5]) == 'ac 3 1.50'")]
#[case("self.list.map(x, x + x).filter(x, x != 'aa') == ['bb'] && {'k': self.list}.k.size() == 2")]
#[case("optional.of(self.s).optMap(x, x + x).optMap(x, x.replace('c', x)).value() == 'aacacaacac'")]
#[case("optional.of(1).optMap(x, x + 1).optFlatMap(y, optional.of(3).optMap(x, x + y)).value() == 5")]
#[case("!optional.none().optMap(x, x + 1).optMap(x, x + 1).hasValue()")]
fn what_is_watched_comes_to_the_same(#[case] rule: &str) {
    assert_eq!(verdict(rule, json!({"s": "ac", "list": ["a", "b"]})), [] as [String; 0]);
}

#[rstest]
#[case(format!("self.s{} != ''", " + 'a'".repeat(120)))]
#[case(format!("{}self.s{} != ''", "'a'.replace('b', ".repeat(40), ")".repeat(40)))]
#[case(format!("optional.of(self.n){}.hasValue()", ".optMap(x, x + 1)".repeat(100)))]
fn a_deep_rule_has_stack_enough(#[case] rule: String) {
    assert_eq!(verdict(&rule, json!({"s": "a", "n": 1})), [] as [String; 0]);
}

#[test]
fn all_rules_of_a_schema_are_compiled_on_one_stack() {
    let mut schema = with_rule(json!({"rule": "self.n > 1", "messageExpression": "'no'"}));
    schema["properties"]["other"] =
        json!({"type": "string", "default": "a", "x-kubernetes-validations": [{"rule": "self != ''"}]});
    let root = Schema::parse(&schema);
    let started = |work: &dyn Fn()| {
        let before = blocking::STARTED.get();
        work();
        blocking::STARTED.get() - before
    };
    assert_eq!(started(&|| drop(CompiledSchema::rule_errors(&root, "p"))), 1);
    assert_eq!(started(&|| drop(CompiledSchema::schema_errors(&root, "p"))), 1);
    assert_eq!(started(&|| drop(CelRules::compile(&Schema::parse(&spec()), true))), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_long_rule_holds_nobody_up_and_ends() {
    use std::sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    };
    let list: Vec<String> = (0..600).map(|index| format!("{index}{}", "x".repeat(500))).collect();
    // Few steps, each of which copies the whole list.
    let schema = with_rule(json!({"rule": "self.list.all(a, self.list.all(b, size(self.list) > 3))"}));
    let compiled = CompiledSchema::new_unchecked(Schema::parse(&schema));
    let work = tokio::spawn(async move {
        let others = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&others);
        drop(tokio::spawn(async move { seen.store(true, Ordering::SeqCst) }));
        let found = compiled.validate(&json!({"spec": {"list": list}}), None);
        (found, others.load(Ordering::SeqCst))
    });
    let (found, others) = work.await.unwrap();
    // Stopped by the budget, which is CPU time.
    assert!(found[0].to_string().contains("running out of cost budget"), "{found:?}");
    assert!(others);
}

#[rstest]
#[case("(".repeat(50_000))]
#[case(format!("{}true{}", "(".repeat(2_000), ")".repeat(2_000)))]
#[case("!".repeat(5_000) + "true")]
#[case(format!("true{}", " && true".repeat(5_000)))]
#[case(format!("1{} == 1", "+1".repeat(5_000)))]
#[case("self.".repeat(10_000))]
#[case("\u{0}\u{fffd}ä🦀".to_owned())]
fn no_rule_breaks_the_compiler(#[case] rule: String) {
    let _ = compile_error(json!({"rule": rule}));
}
