//! `ClusterRole` aggregation: sets the rules of a role to those of all roles that its aggregation rule selects.

use serde_json::{Value, json};

use super::{
    api_client::{ApiClient, ControllerError, PatchKind, object_path},
    control_loop::{Controller, ObjectChange, ReconcileResult},
    selector::Selector,
    store_query,
};
use crate::{
    object::{MetaAccessor, get_path},
    store::Store,
};

const API_VERSION: &str = "rbac.authorization.k8s.io/v1";
const PREFIX: &str = "rbac.authorization.k8s.io/clusterroles/";
const MANAGER: &str = "clusterrole-aggregation-controller";

/// The cluster role aggregation controller.
pub struct RoleAggregation {
    /// API client for writes.
    pub api: ApiClient,
    /// Store to read from.
    pub store: Store,
}

impl Controller for RoleAggregation {
    /// A single key: any role may be part of any other.
    type Key = ();
    const NAME: &'static str = MANAGER;
    const PREFIXES: &'static [&'static str] = &[PREFIX];

    fn keys_for_change(&self, _: &ObjectChange<'_>) -> Vec<()> {
        vec![()]
    }

    async fn reconcile(&self, (): &()) -> Result<ReconcileResult<()>, ControllerError> {
        let all = store_query::list_objects(&self.store, PREFIX);
        let mut outcome = Ok(ReconcileResult::default());
        for role in
            all.iter().filter(|role| get_path(role, &["aggregationRule"]).is_some_and(Value::is_object))
        {
            let rules = aggregated_rules(role, &all);
            let present =
                get_path(role, &["rules"]).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
            if present == rules.as_slice() {
                continue;
            }
            let path = object_path(API_VERSION, "", "clusterroles", role.name());
            let path = format!("{path}?fieldManager={MANAGER}&force=true");
            let wished = json!({
                "apiVersion": API_VERSION, "kind": "ClusterRole", "metadata": {"name": role.name()}, "rules": rules,
            });
            match self.api.patch(&path, PatchKind::Apply, &wished).await {
                Err(trouble) if !trouble.is_not_found() => outcome = Err(trouble),
                _ => {}
            }
        }
        outcome
    }
}

/// Rules of all selected roles, ordered by selector and then by name, without duplicates.
fn aggregated_rules(role: &Value, all: &[Value]) -> Vec<Value> {
    let selectors = get_path(role, &["aggregationRule", "clusterRoleSelectors"]).and_then(Value::as_array);
    let mut rules = Vec::new();
    for selector in selectors.into_iter().flatten() {
        let Some(selector) = Selector::from_value(selector) else { continue };
        let parts = all.iter().filter(|part| part.name() != role.name() && selector.matches(part));
        for rule in parts.filter_map(|part| get_path(part, &["rules"])?.as_array()).flatten() {
            if !rules.contains(rule) {
                rules.push(rule.clone());
            }
        }
    }
    rules
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(name: &str, label: &str, verb: &str) -> Value {
        json!({"metadata": {"name": name, "labels": {"to": label}}, "rules": [{"verbs": [verb]}]})
    }

    #[test]
    fn rules_come_in_the_order_of_selectors_and_names_and_each_once() {
        let whole = json!({
            "metadata": {"name": "whole", "labels": {"to": "x"}}, "rules": [{"verbs": ["own"]}],
            "aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {"to": "y"}}, {"matchLabels": {"to": "x"}}]},
        });
        let roles = [
            part("a", "x", "get"),
            part("b", "y", "list"),
            part("c", "x", "list"),
            part("d", "z", "watch"),
            whole.clone(),
        ];
        assert_eq!(aggregated_rules(&whole, &roles), [json!({"verbs": ["list"]}), json!({"verbs": ["get"]})]);
    }
}
