//! Groups of the Kubernetes community need an approval, told by an annotation.

use serde_json::Value;

use super::status::Condition;
use crate::{
    failure::{FieldError, quoted},
    object::text,
};

const ANNOTATION: &str = "api-approved.kubernetes.io";
const SEE: &str = "see https://github.com/kubernetes/enhancements/pull/1111";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Approval {
    Invalid,
    Approved,
    Bypassed,
    Missing,
}

fn is_protected(group: &str) -> bool {
    ["k8s.io", "kubernetes.io"]
        .iter()
        .any(|root| group.strip_suffix(root).is_some_and(|rest| rest.is_empty() || rest.ends_with('.')))
}

fn annotation(crd: &Value) -> &str {
    text(crd, &["metadata", "annotations", ANNOTATION])
}

fn approval(crd: &Value) -> (Approval, String) {
    let given = annotation(crd);
    let is_url = given.split_once("://").is_some_and(|(scheme, rest)| {
        !scheme.is_empty()
            && scheme.bytes().all(|byte| byte.is_ascii_alphanumeric())
            && !rest.is_empty()
            && !rest.starts_with('/')
    });
    let name = quoted(ANNOTATION);
    if given.is_empty() {
        (Approval::Missing, format!("protected groups must have approval annotation {name}, {SEE}"))
    } else if given.starts_with("unapproved") {
        (Approval::Bypassed, format!("not approved: {}", quoted(given)))
    } else if is_url {
        (Approval::Approved, format!("approved in {given}"))
    } else {
        let what = "with either a URL or a reason starting with \"unapproved\"";
        (Approval::Invalid, format!("protected groups must have approval annotation {name} {what}, {SEE}"))
    }
}

/// Refuses a CRD in a protected group without a word about its approval, unless it was so before.
pub fn check(crd: &Value, old: Option<&Value>) -> Option<FieldError> {
    if !is_protected(text(crd, &["spec", "group"])) {
        return None;
    }
    let (state, why) = approval(crd);
    if old.is_some_and(|old| approval(old).0 == state) {
        return None;
    }
    let field = format!("metadata.annotations[{ANNOTATION}]");
    match state {
        Approval::Invalid => Some(FieldError::invalid(field, annotation(crd), why)),
        Approval::Missing => Some(FieldError::required(field, why)),
        Approval::Approved | Approval::Bypassed => None,
    }
}

/// The condition of a CRD in a protected group.
pub fn condition(crd: &Value) -> Option<Condition> {
    if !is_protected(text(crd, &["spec", "group"])) {
        return None;
    }
    let (state, message) = approval(crd);
    let (status, reason) = match state {
        Approval::Invalid => ("False", "InvalidAnnotation"),
        Approval::Missing => ("False", "MissingAnnotation"),
        Approval::Approved => ("True", "ApprovedAnnotation"),
        Approval::Bypassed => ("False", "UnapprovedAnnotation"),
    };
    Some(Condition { kind: "KubernetesAPIApprovalPolicyConformant", status, reason, message })
}
