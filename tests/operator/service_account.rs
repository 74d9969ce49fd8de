//! The operator as the service account of `deploy/standalone`: what its rules do not allow is refused here, too.

use embedded_kube::{faults::Logged, request::User};
use serde_json::Value;

use super::rbac::{Asked, Grant, compare, grants};

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
/// How the operator's requests are known in the log.
pub(crate) const AGENT: &str = "capt-operator";

/// The account, and what it may.
pub(crate) fn objects() -> Vec<Value> {
    MANIFESTS.iter().flat_map(|text| serde_saphyr::from_multiple::<Value>(text).unwrap()).collect()
}

/// Who the operator is.
pub(crate) fn user() -> User {
    let groups = ["system:serviceaccounts", "system:serviceaccounts:capt-system", "system:authenticated"];
    User {
        name: format!("system:serviceaccount:{NAMESPACE}:{NAME}"),
        groups: groups.map(str::to_owned).into(),
        ..User::default()
    }
}

/// Fails if the operator asked for something that no rule allows.
#[track_caller]
pub(crate) fn judge(requests: &[Logged]) {
    let ours: Vec<Asked> = requests.iter().filter(|it| it.agent == AGENT).filter_map(Asked::of).collect();
    assert!(!ours.is_empty(), "the log of requests is empty, so it proves nothing");
    let granted: Vec<Grant> = grants(&objects(), NAMESPACE, NAME);
    let refused: Vec<String> = compare(&granted, &ours).refused.iter().map(ToString::to_string).collect();
    assert!(refused.is_empty(), "no rule of deploy/ allows {refused:#?}");
}
