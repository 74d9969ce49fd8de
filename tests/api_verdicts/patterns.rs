//! A pattern of the CRDs and the newtype that parses the same text agree on every string.

use capt_kinds::api::schema;
use capt_model::model::{
    Parse,
    newtypes::{
        AccessPolicyArn, ClusterName, FileName, KeyArn, Namespace, ObjectName, PodRoleArn, PrincipalArn,
        Region, RoleArn, SelectorLabelValue, SelectorNamespace, SubnetId, Zone,
    },
};
use proptest::{prelude::*, sample::Index, string::string_regex};
use regex::Regex;

/// Strings that match, strings that nearly match, and strings of the same letters.
fn candidate_strings(pattern: &str) -> impl Strategy<Value = String> {
    let good = string_regex(pattern.trim_start_matches('^').trim_end_matches('$')).unwrap();
    let near = (good, any::<Index>(), "[-a-zA-Z0-9:/*?._ \u{e4}\n]{0,2}").prop_map(|(text, at, change)| {
        let letters: Vec<char> = text.chars().collect();
        let at = at.index(letters.len() + 1);
        let (before, after) = letters.split_at(at);
        before.iter().copied().chain(change.chars()).chain(after.iter().copied().skip(1)).collect()
    });
    let good = string_regex(pattern.trim_start_matches('^').trim_end_matches('$')).unwrap();
    prop_oneof![good, near, "[-a-z0-9:/*?.]{0,20}"]
}

fn assert_pattern_agrees_with_parser<T: Parse>(pattern: &str) {
    let regex = Regex::new(pattern).unwrap();
    proptest!(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(300) }, |(text in candidate_strings(pattern))| {
        prop_assert_eq!(T::parse(&text).is_ok(), regex.is_match(&text), "{:?} and {}", text, pattern);
    });
}

#[test]
fn patterns_and_newtypes_accept_the_same_strings() {
    assert_pattern_agrees_with_parser::<Region>(schema::REGION);
    assert_pattern_agrees_with_parser::<Zone>(schema::ZONE);
    assert_pattern_agrees_with_parser::<ClusterName>(schema::CLUSTER_NAME);
    assert_pattern_agrees_with_parser::<SelectorNamespace>(schema::SELECTOR_NAMESPACE);
    assert_pattern_agrees_with_parser::<SelectorLabelValue>(schema::SELECTOR_LABEL);
    assert_pattern_agrees_with_parser::<SubnetId>(schema::SUBNET_ID);
    assert_pattern_agrees_with_parser::<RoleArn>(schema::ROLE_ARN);
    assert_pattern_agrees_with_parser::<PodRoleArn>(schema::POD_ROLE_ARN);
    assert_pattern_agrees_with_parser::<PrincipalArn>(schema::PRINCIPAL_ARN);
    assert_pattern_agrees_with_parser::<AccessPolicyArn>(schema::ACCESS_POLICY_ARN);
    assert_pattern_agrees_with_parser::<KeyArn>(schema::KEY_ARN);
    assert_pattern_agrees_with_parser::<ObjectName>(schema::DNS_SUBDOMAIN);
    assert_pattern_agrees_with_parser::<Namespace>(schema::DNS_LABEL);
    assert_pattern_agrees_with_parser::<FileName>(schema::FILE_NAME);
}
