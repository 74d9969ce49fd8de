//! Labels and selectors.

use std::{collections::BTreeMap, str::Chars};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement};

/// Labels of an object.
pub type Labels = BTreeMap<String, String>;

/// Matches a glob: `*` is any run of characters, `?` exactly one. Used by Fargate selectors and by the match of a group.
pub fn glob_matches(pattern: &str, text: &str) -> bool {
    let (mut pattern, mut text) = (pattern.chars(), text.chars());
    // Backtracking position: where to resume when the run of the last star grows by one.
    let mut star: Option<(Chars<'_>, Chars<'_>)> = None;
    loop {
        match (pattern.clone().next(), text.clone().next()) {
            (None, None) => return true,
            (Some('*'), _) => {
                pattern.next();
                star = Some((pattern.clone(), text.clone()));
            }
            (Some(one), Some(other)) if one == '?' || one == other => {
                pattern.next();
                text.next();
            }
            _ => {
                let Some((after, run)) = &mut star else { return false };
                if run.next().is_none() {
                    return false;
                }
                (pattern, text) = (after.clone(), run.clone());
            }
        }
    }
}

/// Compiles a regular expression for label keys. Unicode is off, because keys are ASCII and Unicode classes such as `\w` exceed
/// the size limit.
pub(crate) fn compile_key_regex(text: &str) -> Result<regex::bytes::Regex, regex::Error> {
    regex::bytes::RegexBuilder::new(text).unicode(false).size_limit(1 << 18).build()
}

/// Whether `labels` contain all of `wanted`. An empty selector selects nothing, as for a Service.
pub fn has_all(wanted: &Labels, labels: &Labels) -> bool {
    !wanted.is_empty() && wanted.iter().all(|(key, value)| labels.get(key) == Some(value))
}

/// Whether a label selector selects these labels. An empty one selects everything.
pub fn selects(selector: &LabelSelector, labels: &Labels) -> bool {
    let exact = selector.match_labels.iter().flatten();
    let expressions = selector.match_expressions.iter().flatten();
    exact.into_iter().all(|(key, value)| labels.get(key) == Some(value))
        && expressions.into_iter().all(|one| requirement_holds(one, labels))
}

fn requirement_holds(expression: &LabelSelectorRequirement, labels: &Labels) -> bool {
    let value = labels.get(&expression.key);
    let among = |value: &String| expression.values.iter().flatten().any(|it| it == value);
    match expression.operator.as_str() {
        "In" => value.is_some_and(among),
        "NotIn" => !value.is_some_and(among),
        "Exists" => value.is_some(),
        "DoesNotExist" => value.is_none(),
        // The API server accepts no other operator.
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    fn labels(pairs: &[(&str, &str)]) -> Labels {
        pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    }

    #[rstest]
    #[case("cart", "cart", true)]
    #[case("", "", true)]
    #[case("", "a", false)]
    #[case("*", "", true)]
    #[case("*", "anything", true)]
    #[case("cart-*", "cart-v2", true)]
    #[case("cart-*", "cart-", true)]
    #[case("cart-*", "cart", false)]
    #[case("*-v2", "cart-v2", true)]
    #[case("c*t*2", "cart-v2", true)]
    #[case("?", "a", true)]
    #[case("?", "", false)]
    #[case("?", "ab", false)]
    #[case("cart-v?", "cart-v2", true)]
    #[case("*a*b", "xaxbx", false)]
    #[case("**", "x", true)]
    #[case("*?", "", false)]
    #[case("*?", "x", true)]
    #[case("a.c", "abc", false)]
    #[case("[ab]", "a", false)]
    #[case("A", "a", false)]
    fn a_glob_matches_like_eks(#[case] pattern: &str, #[case] text: &str, #[case] expected: bool) {
        assert_eq!(glob_matches(pattern, text), expected);
    }

    #[rstest]
    #[case(json!({}), true)]
    #[case(json!({"matchLabels": {"app": "cart"}}), true)]
    #[case(json!({"matchLabels": {"app": "cart", "tier": "web"}}), false)]
    #[case(json!({"matchExpressions": [{"key": "app", "operator": "In", "values": ["cart", "x"]}]}), true)]
    #[case(json!({"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["cart"]}]}), false)]
    #[case(json!({"matchExpressions": [{"key": "tier", "operator": "NotIn", "values": ["web"]}]}), true)]
    #[case(json!({"matchExpressions": [{"key": "tier", "operator": "Exists"}]}), false)]
    #[case(json!({"matchExpressions": [{"key": "tier", "operator": "DoesNotExist"}]}), true)]
    #[case(json!({"matchExpressions": [{"key": "app", "operator": "Gt", "values": ["1"]}]}), false)]
    fn a_selector_selects_as_the_api_server_does(
        #[case] selector: serde_json::Value,
        #[case] expected: bool,
    ) {
        let selector: LabelSelector = serde_json::from_value(selector).unwrap();
        assert_eq!(selects(&selector, &labels(&[("app", "cart")])), expected);
    }

    #[test]
    fn a_service_without_a_selector_selects_nothing() {
        let pod = labels(&[("app", "cart"), ("tier", "web")]);
        assert!(!has_all(&Labels::new(), &pod));
        assert!(has_all(&labels(&[("app", "cart")]), &pod));
        assert!(!has_all(&labels(&[("app", "cart"), ("x", "y")]), &pod));
    }
}
