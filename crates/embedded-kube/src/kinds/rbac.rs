//! Roles and bindings.

use serde_json::{Value, json};

use super::{
    columns::{age, created_at, name},
    common::{complain, fill, has, items_mut, label_selector, list, subdomain_name},
};
use crate::{
    failure::FieldError,
    object::{at_mut, path_segment, text},
    registry::{Part, Rules},
    selectors::LabelSelector,
};

const GROUP: &str = "rbac.authorization.k8s.io";

/// A Role, or a `ClusterRole`.
pub struct Role {
    pub namespaced: bool,
}

impl Rules for Role {
    fn default(&self, _role: &mut Value) {}

    fn prepare_create(&self, role: &mut Value) {
        empty_to_null(role);
    }

    fn prepare_update(&self, _part: Part, role: &mut Value, _old: &Value) {
        empty_to_null(role);
    }

    fn check(&self, role: &Value) -> Vec<FieldError> {
        let mut out = Vec::new();
        for (index, rule) in list(role, &["rules"]).iter().enumerate() {
            check_rule(&mut out, &format!("rules[{index}]"), rule, self.namespaced);
        }
        if has(role, &["aggregationRule"]) {
            let field = "aggregationRule.clusterRoleSelectors";
            let selectors = list(role, &["aggregationRule", "clusterRoleSelectors"]);
            if selectors.is_empty() {
                let detail = "at least one clusterRoleSelector required if aggregationRule is non-nil";
                out.push(FieldError::required(field, detail));
            }
            for (index, selector) in selectors.iter().enumerate() {
                let field = format!("{field}[{index}]");
                label_selector(&mut out, &field, selector);
                if LabelSelector::of(Some(selector)).is_err() {
                    out.push(FieldError::invalid(&field, Value::Null, "invalid label selector."));
                }
            }
        }
        out
    }

    fn check_update(&self, _part: Part, role: &Value, _old: &Value) -> Vec<FieldError> {
        self.check(role)
    }

    fn check_name(&self, name: &str, _prefix: bool) -> Vec<String> {
        path_segment(name)
    }

    fn is_new_generation(&self, _role: &Value, _old: &Value) -> bool {
        false
    }

    fn cells(&self, role: &Value, _now: jiff::Timestamp) -> Option<Vec<Value>> {
        Some(vec![name(role), created_at(role)])
    }
}

/// The real store does not tell an empty list of rules from none.
fn empty_to_null(role: &mut Value) {
    if list(role, &["rules"]).is_empty()
        && let Some(rules) = at_mut(role, &["rules"])
    {
        *rules = Value::Null;
    }
}

fn check_rule(out: &mut Vec<FieldError>, field: &str, rule: &Value, namespaced: bool) {
    let is_empty = |key: &str| list(rule, &[key]).is_empty();
    if is_empty("verbs") {
        out.push(FieldError::required(format!("{field}.verbs"), "verbs must contain at least one value"));
    }
    if !is_empty("nonResourceURLs") {
        let field = format!("{field}.nonResourceURLs");
        let urls = rule.get("nonResourceURLs").cloned().unwrap_or_default();
        if namespaced {
            let detail = "namespaced rules cannot apply to non-resource URLs";
            out.push(FieldError::invalid(&field, urls.clone(), detail));
        }
        if ["apiGroups", "resources", "resourceNames"].iter().any(|key| !is_empty(key)) {
            let detail = "rules cannot apply to both regular resources and non-resource URLs";
            out.push(FieldError::invalid(&field, urls, detail));
        }
        return;
    }
    if is_empty("apiGroups") {
        let detail = "resource rules must supply at least one api group";
        out.push(FieldError::required(format!("{field}.apiGroups"), detail));
    }
    if is_empty("resources") {
        let detail = "resource rules must supply at least one resource";
        out.push(FieldError::required(format!("{field}.resources"), detail));
    }
}

/// A `RoleBinding`, or a `ClusterRoleBinding`.
pub struct Binding {
    pub namespaced: bool,
}

impl Rules for Binding {
    fn default(&self, binding: &mut Value) {
        if let Some(role) = binding.get_mut("roleRef")
            && text(role, &["apiGroup"]).is_empty()
        {
            // The field is always there, so that filling a gap would leave it empty.
            role["apiGroup"] = GROUP.into();
        }
        for subject in items_mut(binding, "subjects") {
            if matches!(text(subject, &["kind"]), "User" | "Group") {
                fill(subject, "apiGroup", GROUP);
            }
        }
    }

    fn check(&self, binding: &Value) -> Vec<FieldError> {
        let mut out = Vec::new();
        let group = text(binding, &["roleRef", "apiGroup"]);
        if group != GROUP {
            out.push(FieldError::not_supported("roleRef.apiGroup", group, &[GROUP]));
        }
        let kinds: &[&str] = if self.namespaced { &["Role", "ClusterRole"] } else { &["ClusterRole"] };
        let kind = text(binding, &["roleRef", "kind"]);
        if !kinds.contains(&kind) {
            out.push(FieldError::not_supported("roleRef.kind", kind, kinds));
        }
        match text(binding, &["roleRef", "name"]) {
            "" => out.push(FieldError::required("roleRef.name", "")),
            name => complain(&mut out, "roleRef.name", name, path_segment(name)),
        }
        for (index, subject) in list(binding, &["subjects"]).iter().enumerate() {
            check_subject(&mut out, &format!("subjects[{index}]"), subject, self.namespaced);
        }
        out
    }

    fn check_update(&self, _part: Part, binding: &Value, old: &Value) -> Vec<FieldError> {
        let mut out = self.check(binding);
        if binding.get("roleRef") != old.get("roleRef") {
            let part = |key: &str| text(binding, &["roleRef", key]);
            let shown = json!({"APIGroup": part("apiGroup"), "Kind": part("kind"), "Name": part("name")});
            out.push(FieldError::invalid("roleRef", shown, "cannot change roleRef"));
        }
        out
    }

    fn check_name(&self, name: &str, _prefix: bool) -> Vec<String> {
        path_segment(name)
    }

    fn is_new_generation(&self, _binding: &Value, _old: &Value) -> bool {
        false
    }

    fn cells(&self, binding: &Value, now: jiff::Timestamp) -> Option<Vec<Value>> {
        let role = format!("{}/{}", text(binding, &["roleRef", "kind"]), text(binding, &["roleRef", "name"]));
        let of_kind = |kind: &str| {
            let subjects = list(binding, &["subjects"]).iter();
            let names: Vec<String> = subjects
                .filter(|subject| text(subject, &["kind"]) == kind)
                .map(|subject| match (kind, text(subject, &["namespace"])) {
                    ("ServiceAccount", namespace) => format!("{namespace}/{}", text(subject, &["name"])),
                    _ => text(subject, &["name"]).to_owned(),
                })
                .collect();
            Value::String(names.join(", "))
        };
        let (users, groups, accounts) = (of_kind("User"), of_kind("Group"), of_kind("ServiceAccount"));
        Some(vec![name(binding), role.into(), age(binding, now), users, groups, accounts])
    }
}

fn check_subject(out: &mut Vec<FieldError>, field: &str, subject: &Value, namespaced: bool) {
    let name = text(subject, &["name"]);
    if name.is_empty() {
        out.push(FieldError::required(format!("{field}.name"), ""));
    }
    let group = text(subject, &["apiGroup"]);
    match text(subject, &["kind"]) {
        "ServiceAccount" => {
            if !name.is_empty() {
                complain(out, &format!("{field}.name"), name, subdomain_name(name, false));
            }
            if !group.is_empty() {
                out.push(FieldError::not_supported(format!("{field}.apiGroup"), group, &[""]));
            }
            if !namespaced && text(subject, &["namespace"]).is_empty() {
                out.push(FieldError::required(format!("{field}.namespace"), ""));
            }
        }
        "User" | "Group" => {
            if group != GROUP {
                out.push(FieldError::not_supported(format!("{field}.apiGroup"), group, &[GROUP]));
            }
        }
        other => out.push(FieldError::not_supported(
            format!("{field}.kind"),
            other,
            &["ServiceAccount", "User", "Group"],
        )),
    }
}
