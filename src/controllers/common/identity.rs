//! Who may act as an identity, and who that is. Pure.

use std::{collections::BTreeMap, path::PathBuf, time::Duration};

use k8s_openapi::{ByteString, apimachinery::pkg::apis::meta::v1::LabelSelector};
use thiserror::Error;

use crate::{
    api::AllowedNamespaces,
    aws::{Hop, KeysError, Principal, Source, keys, parse_ini, session_name},
    model::identity::{CredentialSource, ValidatedIdentity},
};

/// Why nobody can act as an identity. No value of a Secret is repeated.
#[derive(Debug, Error)]
pub enum Refused {
    /// The Secret is not there.
    #[error("the Secret with its credentials does not exist; create it")]
    NoSecret,
    /// What is in it makes no sense.
    #[error(transparent)]
    Keys(#[from] KeysError),
}

/// Whether objects of a namespace may use an identity: nobody if nothing is said, everybody if nothing is asked.
pub fn is_allowed(
    allowed: Option<&AllowedNamespaces>,
    namespace: &str,
    labels: &BTreeMap<String, String>,
) -> bool {
    let Some(AllowedNamespaces { list, selector }) = allowed else { return false };
    match selector {
        None if list.is_empty() => true,
        None => list.iter().any(|it| it == namespace),
        Some(selector) => list.iter().any(|it| it == namespace) || matches(selector, labels),
    }
}

/// By the rules of Kubernetes. An operator that nobody knows matches nothing.
fn matches(selector: &LabelSelector, labels: &BTreeMap<String, String>) -> bool {
    let equal = selector.match_labels.iter().flatten().all(|(name, value)| labels.get(name) == Some(value));
    let all = selector.match_expressions.iter().flatten().all(|it| {
        let value = labels.get(&it.key);
        let among = value.is_some_and(|value| it.values.iter().flatten().any(|one| one == value));
        match it.operator.as_str() {
            "In" => among,
            "NotIn" => !among,
            "Exists" => value.is_some(),
            "DoesNotExist" => value.is_none(),
            _ => false,
        }
    });
    equal && all
}

/// The principal behind an identity, for objects of one namespace.
pub fn principal(
    identity: &str,
    namespace: &str,
    valid: &ValidatedIdentity,
    secret: Option<&BTreeMap<String, ByteString>>,
) -> Result<Principal, Refused> {
    let source = match &valid.source {
        CredentialSource::Default => Source::Default,
        CredentialSource::Secret(_) => {
            let data = secret.ok_or(Refused::NoSecret)?;
            static_keys(data)?
        }
        CredentialSource::WebIdentity { role, token_file } => {
            Source::WebIdentity { role_arn: role.to_string(), token_file: PathBuf::from(token_file) }
        }
    };
    let hop = |role: &crate::model::identity::ValidatedRole| Hop {
        role_arn: role.role.to_string(),
        external_id: role.external_id.clone(),
        duration: u64::try_from(role.duration_seconds).ok().map(Duration::from_secs),
        tags: role.tags.clone(),
    };
    Ok(Principal {
        source,
        hops: valid.roles.iter().map(hop).collect(),
        session_name: session_name(identity, namespace),
    })
}

/// Of a Secret: a credentials file, or its members one by one.
fn static_keys(data: &BTreeMap<String, ByteString>) -> Result<Source, KeysError> {
    let text = |name: &str| data.get(name).map(|value| String::from_utf8_lossy(&value.0).into_owned());
    match text("credentials") {
        Some(file) => parse_ini(&file),
        None => keys(
            &text("accessKeyID").unwrap_or_default(),
            &text("secretAccessKey").unwrap_or_default(),
            text("sessionToken").as_deref(),
        ),
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelectorRequirement;

    use super::*;

    fn labels(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    fn selector(operator: &str, values: &[&str]) -> AllowedNamespaces {
        let requirement = LabelSelectorRequirement {
            key: "team".to_owned(),
            operator: operator.to_owned(),
            values: Some(values.iter().map(|it| (*it).to_owned()).collect()),
        };
        let selector =
            LabelSelector { match_expressions: Some(vec![requirement]), ..LabelSelector::default() };
        AllowedNamespaces { list: Vec::new(), selector: Some(selector) }
    }

    #[test]
    fn nobody_unless_said_everybody_if_nothing_is_asked() {
        assert!(!is_allowed(None, "a", &labels(&[])));
        assert!(is_allowed(Some(&AllowedNamespaces::default()), "a", &labels(&[])));
        let only = AllowedNamespaces { list: vec!["a".to_owned()], selector: None };
        assert!(is_allowed(Some(&only), "a", &labels(&[])));
        assert!(!is_allowed(Some(&only), "b", &labels(&[])));
    }

    #[test]
    fn selectors_follow_kubernetes() {
        let blue = labels(&[("team", "blue")]);
        for (operator, values, with, without) in [
            ("In", &["blue", "red"][..], true, false),
            ("In", &["red"][..], false, false),
            ("NotIn", &["blue"][..], false, true),
            ("Exists", &[][..], true, false),
            ("DoesNotExist", &[][..], false, true),
            ("Sometimes", &[][..], false, false),
        ] {
            let allowed = selector(operator, values);
            assert_eq!(is_allowed(Some(&allowed), "n", &blue), with, "{operator}");
            assert_eq!(is_allowed(Some(&allowed), "n", &labels(&[])), without, "{operator}");
        }
    }
}
