//! The operator's service account with the RBAC rules of `deploy/standalone`, which the embedded API enforces.

use embedded_kube::{fault_injection::RequestRecord, request::User};
use serde_json::Value;

use super::rbac::{AccessRequest, Grant, collect_grants, compare};

const MANIFESTS: [&str; 6] = [
    include_str!("../../deploy/base/namespace.yaml"),
    include_str!("../../deploy/base/service-account.yaml"),
    include_str!("../../deploy/base/cluster-role.yaml"),
    include_str!("../../deploy/base/sandbox-role.yaml"),
    include_str!("../../deploy/base/lease-role.yaml"),
    include_str!("../../deploy/standalone/cluster-role.yaml"),
];
const NAMESPACE: &str = "capt-system";
const NAME: &str = "capt";
/// User agent of the operator in the request log.
pub(crate) const AGENT: &str = "capt-operator";

/// Service account, roles and bindings.
pub(crate) fn objects() -> Vec<Value> {
    MANIFESTS.iter().flat_map(|text| serde_saphyr::from_multiple::<Value>(text).unwrap()).collect()
}

/// The user of the service account.
pub(crate) fn user() -> User {
    let groups = ["system:serviceaccounts", "system:serviceaccounts:capt-system", "system:authenticated"];
    User {
        name: format!("system:serviceaccount:{NAMESPACE}:{NAME}"),
        groups: groups.map(str::to_owned).into(),
        ..User::default()
    }
}

/// Asserts that the rules allow every request of the operator.
#[track_caller]
pub(crate) fn assert_requests_allowed(requests: &[RequestRecord]) {
    let ours: Vec<AccessRequest> =
        requests.iter().filter(|it| it.agent == AGENT).filter_map(AccessRequest::from_logged).collect();
    assert!(!ours.is_empty(), "the log of requests is empty, so it proves nothing");
    let granted: Vec<Grant> = collect_grants(&objects(), NAMESPACE, NAME);
    let refused: Vec<String> = compare(&granted, &ours).refused.iter().map(ToString::to_string).collect();
    assert!(refused.is_empty(), "no rule of deploy/ allows {refused:#?}");
}
