//! A pattern of the CRDs and the newtype that parses the same text agree on every string.

use capt::{
    api::schema,
    model::{
        Parse,
        text::{
            AccessPolicyArn, ClusterName, FileName, KeyArn, Namespace, ObjectName, PodRoleArn, PrincipalArn,
            Region, RoleArn, SelectorLabelValue, SelectorNamespace, SubnetId, Zone,
        },
    },
};
use proptest::{prelude::*, sample::Index, string::string_regex};
use regex::Regex;

/// Strings that match, strings that nearly match, and strings of the same letters.
fn texts(pattern: &str) -> impl Strategy<Value = String> {
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

fn agree<T: Parse>(pattern: &str) {
    let regex = Regex::new(pattern).unwrap();
    proptest!(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(300) }, |(text in texts(pattern))| {
        prop_assert_eq!(T::parse(&text).is_ok(), regex.is_match(&text), "{:?} and {}", text, pattern);
    });
}

#[test]
fn patterns_and_newtypes_accept_the_same_strings() {
    agree::<Region>(schema::REGION);
    agree::<Zone>(schema::ZONE);
    agree::<ClusterName>(schema::CLUSTER_NAME);
    agree::<SelectorNamespace>(schema::SELECTOR_NAMESPACE);
    agree::<SelectorLabelValue>(schema::SELECTOR_LABEL);
    agree::<SubnetId>(schema::SUBNET_ID);
    agree::<RoleArn>(schema::ROLE_ARN);
    agree::<PodRoleArn>(schema::POD_ROLE_ARN);
    agree::<PrincipalArn>(schema::PRINCIPAL_ARN);
    agree::<AccessPolicyArn>(schema::ACCESS_POLICY_ARN);
    agree::<KeyArn>(schema::KEY_ARN);
    agree::<ObjectName>(schema::DNS_SUBDOMAIN);
    agree::<Namespace>(schema::DNS_LABEL);
    agree::<FileName>(schema::FILE_NAME);
}
