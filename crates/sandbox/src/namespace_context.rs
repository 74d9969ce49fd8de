//! The objects in the namespace of a baseline that affect its forks.

use std::collections::BTreeMap;

use k8s_openapi::api::{
    core::v1::{PersistentVolumeClaim, Service},
    networking::v1::NetworkPolicy,
    policy::v1::PodDisruptionBudget,
};
use kube::ResourceExt as _;

use crate::labels::{Labels, selects};

/// The objects in the namespace of a baseline that affect its forks.
#[derive(Debug, Clone, Copy, Default)]
pub struct NamespaceContext<'a> {
    /// The Services.
    pub services: &'a [Service],
    /// The disruption budgets.
    pub budgets: &'a [PodDisruptionBudget],
    /// The network policies.
    pub policies: &'a [NetworkPolicy],
    /// The persistent volume claims.
    pub claims: &'a [PersistentVolumeClaim],
    /// Provisioners by storage class name.
    pub provisioners: Option<&'a BTreeMap<String, String>>,
}

/// Network policies that select only the baseline's or only the fork's pods.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PolicyDifference {
    /// Those that select only the baseline's.
    pub lost: Vec<String>,
    /// Those that select only the fork's.
    pub gained: Vec<String>,
}

impl PolicyDifference {
    /// A sentence for an event; `None` if there is no difference.
    pub fn describe(&self) -> Option<String> {
        let part = |names: &[String], what: &str| {
            (!names.is_empty()).then(|| format!("{} {what}", names.join(", ")))
        };
        let lost = part(
            &self.lost,
            "no longer apply to the fork's pods; keep the labels they select with preservedLabels",
        );
        let gained = part(&self.gained, "apply to the fork's pods and not to the baseline's");
        let parts: Vec<_> = lost.into_iter().chain(gained).collect();
        (!parts.is_empty()).then(|| format!("network policies: {}", parts.join("; ")))
    }
}

/// Compares the network policies that select the baseline's and the fork's pods.
pub fn policy_difference(baseline: &Labels, fork: &Labels, policies: &[NetworkPolicy]) -> PolicyDifference {
    let mut difference = PolicyDifference::default();
    for policy in policies {
        // A missing selector selects every pod, like an empty one.
        let selector = policy.spec.as_ref().and_then(|it| it.pod_selector.clone()).unwrap_or_default();
        match (selects(&selector, baseline), selects(&selector, fork)) {
            (true, false) => difference.lost.push(policy.name_any()),
            (false, true) => difference.gained.push(policy.name_any()),
            _ => {}
        }
    }
    difference.lost.sort();
    difference.gained.sort();
    difference
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn labels(pairs: &[(&str, &str)]) -> Labels {
        pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    }

    fn policy(name: &str, selector: &serde_json::Value) -> NetworkPolicy {
        serde_json::from_value(json!({"metadata": {"name": name}, "spec": {"podSelector": selector}}))
            .unwrap()
    }

    #[test]
    fn policies_that_select_only_one_of_both_pods_are_named() {
        let policies = [
            policy("everybody", &json!({})),
            policy("carts", &json!({"matchLabels": {"app": "cart"}})),
            policy(
                "forks",
                &json!({"matchExpressions": [{"key": "sandbox.capt.x-k8s.io/fork", "operator": "Exists"}]}),
            ),
            policy("others", &json!({"matchLabels": {"app": "web"}})),
        ];
        let (baseline, fork) =
            (labels(&[("app", "cart")]), labels(&[("sandbox.capt.x-k8s.io/fork", "cart-pr-1-aaaa")]));
        let difference = policy_difference(&baseline, &fork, &policies);
        assert_eq!(difference, PolicyDifference { lost: vec!["carts".into()], gained: vec!["forks".into()] });
        let words = difference.describe().unwrap();
        assert!(words.contains("carts no longer") && words.contains("forks apply"), "{words}");
        assert_eq!(policy_difference(&baseline, &baseline, &policies).describe(), None);
    }
}
