//! API approval: CRDs in protected groups need an annotation.

use serde_json::Value;

use super::status::CrdCondition;
use crate::{
    object::str_at,
    status_error::{FieldError, go_quote},
};

const ANNOTATION: &str = "api-approved.kubernetes.io";
const APPROVAL_HINT: &str = "see https://github.com/kubernetes/enhancements/pull/1111";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ApprovalState {
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

fn approval_annotation(crd: &Value) -> &str {
    str_at(crd, &["metadata", "annotations", ANNOTATION])
}

fn parse_approval(crd: &Value) -> (ApprovalState, String) {
    let given = approval_annotation(crd);
    let is_url = given.split_once("://").is_some_and(|(scheme, rest)| {
        !scheme.is_empty()
            && scheme.bytes().all(|byte| byte.is_ascii_alphanumeric())
            && !rest.is_empty()
            && !rest.starts_with('/')
    });
    let name = go_quote(ANNOTATION);
    if given.is_empty() {
        (
            ApprovalState::Missing,
            format!("protected groups must have approval annotation {name}, {APPROVAL_HINT}"),
        )
    } else if given.starts_with("unapproved") {
        (ApprovalState::Bypassed, format!("not approved: {}", go_quote(given)))
    } else if is_url {
        (ApprovalState::Approved, format!("approved in {given}"))
    } else {
        let what = "with either a URL or a reason starting with \"unapproved\"";
        (
            ApprovalState::Invalid,
            format!("protected groups must have approval annotation {name} {what}, {APPROVAL_HINT}"),
        )
    }
}

/// Rejects a CRD in a protected group without a valid annotation, unless its approval state is unchanged.
pub fn validate_approval(crd: &Value, old: Option<&Value>) -> Option<FieldError> {
    if !is_protected(str_at(crd, &["spec", "group"])) {
        return None;
    }
    let (state, why) = parse_approval(crd);
    if old.is_some_and(|old| parse_approval(old).0 == state) {
        return None;
    }
    let field = format!("metadata.annotations[{ANNOTATION}]");
    match state {
        ApprovalState::Invalid => Some(FieldError::invalid(field, approval_annotation(crd), why)),
        ApprovalState::Missing => Some(FieldError::required(field, why)),
        ApprovalState::Approved | ApprovalState::Bypassed => None,
    }
}

/// The `KubernetesAPIApprovalPolicyConformant` condition of a CRD in a protected group.
pub fn approval_condition(crd: &Value) -> Option<CrdCondition> {
    if !is_protected(str_at(crd, &["spec", "group"])) {
        return None;
    }
    let (state, message) = parse_approval(crd);
    let (status, reason) = match state {
        ApprovalState::Invalid => ("False", "InvalidAnnotation"),
        ApprovalState::Missing => ("False", "MissingAnnotation"),
        ApprovalState::Approved => ("True", "ApprovedAnnotation"),
        ApprovalState::Bypassed => ("False", "UnapprovedAnnotation"),
    };
    Some(CrdCondition { kind: "KubernetesAPIApprovalPolicyConformant", status, reason, message })
}
