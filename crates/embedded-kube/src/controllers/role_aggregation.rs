//! Cluster roles that are made of others: their rules are those of all roles that the aggregation rule selects.

use serde_json::{Value, json};

use super::{
    api::{Api, PatchKind, Trouble, object},
    run::{Change, Controller, Next},
    selector::Selector,
    view,
};
use crate::{
    object::{Meta, at},
    store::Store,
};

const API_VERSION: &str = "rbac.authorization.k8s.io/v1";
const PREFIX: &str = "rbac.authorization.k8s.io/clusterroles/";
const MANAGER: &str = "clusterrole-aggregation-controller";

/// See the module.
pub struct Roles {
    /// For writing.
    pub api: Api,
    /// For reading.
    pub store: Store,
}

impl Controller for Roles {
    /// There is one key: any role may be part of any other.
    type Key = ();
    const NAME: &'static str = MANAGER;
    const PREFIXES: &'static [&'static str] = &[PREFIX];

    fn wake(&self, _: &Change<'_>) -> Vec<()> {
        vec![()]
    }

    async fn reconcile(&self, (): &()) -> Result<Next<()>, Trouble> {
        let all = view::list(&self.store, PREFIX);
        let mut outcome = Ok(Next::default());
        for role in all.iter().filter(|role| at(role, &["aggregationRule"]).is_some_and(Value::is_object)) {
            let rules = aggregated(role, &all);
            let present =
                at(role, &["rules"]).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
            if present == rules.as_slice() {
                continue;
            }
            let path = object(API_VERSION, "", "clusterroles", role.name());
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

/// The rules of all selected roles, by the order of selectors and then of names, each once.
fn aggregated(role: &Value, all: &[Value]) -> Vec<Value> {
    let selectors = at(role, &["aggregationRule", "clusterRoleSelectors"]).and_then(Value::as_array);
    let mut rules = Vec::new();
    for selector in selectors.into_iter().flatten() {
        let Some(selector) = Selector::of(selector) else { continue };
        let parts = all.iter().filter(|part| part.name() != role.name() && selector.matches(part));
        for rule in parts.filter_map(|part| at(part, &["rules"])?.as_array()).flatten() {
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
        assert_eq!(aggregated(&whole, &roles), [json!({"verbs": ["list"]}), json!({"verbs": ["get"]})]);
    }
}
