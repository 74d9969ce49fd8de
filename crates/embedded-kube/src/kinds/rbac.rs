//! RBAC roles and bindings.

use serde_json::{Value, json};

use super::{
    columns::{age_cell, created_at_cell, name_cell},
    common::{
        has_path, items_mut, list_at, push_invalid, set_default, validate_label_selector,
        validate_subdomain_name,
    },
};
use crate::{
    object::{get_path_mut, path_segment, str_at},
    registry::{ObjectPart, ResourceStrategy},
    selectors::LabelSelector,
    status_error::FieldError,
};

const GROUP: &str = "rbac.authorization.k8s.io";

/// Strategy of Role and `ClusterRole`.
pub struct RoleStrategy {
    pub namespaced: bool,
}

impl ResourceStrategy for RoleStrategy {
    fn set_defaults(&self, _role: &mut Value) {}

    fn prepare_create(&self, role: &mut Value) {
        empty_to_null(role);
    }

    fn prepare_update(&self, _part: ObjectPart, role: &mut Value, _old: &Value) {
        empty_to_null(role);
    }

    fn validate(&self, role: &Value) -> Vec<FieldError> {
        let mut out = Vec::new();
        for (index, rule) in list_at(role, &["rules"]).iter().enumerate() {
            validate_rule(&mut out, &format!("rules[{index}]"), rule, self.namespaced);
        }
        if has_path(role, &["aggregationRule"]) {
            let field = "aggregationRule.clusterRoleSelectors";
            let selectors = list_at(role, &["aggregationRule", "clusterRoleSelectors"]);
            if selectors.is_empty() {
                let detail = "at least one clusterRoleSelector required if aggregationRule is non-nil";
                out.push(FieldError::required(field, detail));
            }
            for (index, selector) in selectors.iter().enumerate() {
                let field = format!("{field}[{index}]");
                validate_label_selector(&mut out, &field, selector);
                if LabelSelector::from_value(Some(selector)).is_err() {
                    out.push(FieldError::invalid(&field, Value::Null, "invalid label selector."));
                }
            }
        }
        out
    }

    fn validate_update(&self, _part: ObjectPart, role: &Value, _old: &Value) -> Vec<FieldError> {
        self.validate(role)
    }

    fn validate_name(&self, name: &str, _prefix: bool) -> Vec<String> {
        path_segment(name)
    }

    fn bumps_generation(&self, _role: &Value, _old: &Value) -> bool {
        false
    }

    fn cells(&self, role: &Value, _now: jiff::Timestamp) -> Option<Vec<Value>> {
        Some(vec![name_cell(role), created_at_cell(role)])
    }
}

/// kube-apiserver's storage does not distinguish an empty list of rules from none.
fn empty_to_null(role: &mut Value) {
    if list_at(role, &["rules"]).is_empty()
        && let Some(rules) = get_path_mut(role, &["rules"])
    {
        *rules = Value::Null;
    }
}

fn validate_rule(out: &mut Vec<FieldError>, field: &str, rule: &Value, namespaced: bool) {
    let is_empty = |key: &str| list_at(rule, &[key]).is_empty();
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

/// Strategy of `RoleBinding` and `ClusterRoleBinding`.
pub struct RoleBindingStrategy {
    pub namespaced: bool,
}

impl ResourceStrategy for RoleBindingStrategy {
    fn set_defaults(&self, binding: &mut Value) {
        if let Some(role) = binding.get_mut("roleRef")
            && str_at(role, &["apiGroup"]).is_empty()
        {
            // The field is always present, so a default would not replace the empty value.
            role["apiGroup"] = GROUP.into();
        }
        for subject in items_mut(binding, "subjects") {
            if matches!(str_at(subject, &["kind"]), "User" | "Group") {
                set_default(subject, "apiGroup", GROUP);
            }
        }
    }

    fn validate(&self, binding: &Value) -> Vec<FieldError> {
        let mut out = Vec::new();
        let group = str_at(binding, &["roleRef", "apiGroup"]);
        if group != GROUP {
            out.push(FieldError::not_supported("roleRef.apiGroup", group, &[GROUP]));
        }
        let kinds: &[&str] = if self.namespaced { &["Role", "ClusterRole"] } else { &["ClusterRole"] };
        let kind = str_at(binding, &["roleRef", "kind"]);
        if !kinds.contains(&kind) {
            out.push(FieldError::not_supported("roleRef.kind", kind, kinds));
        }
        match str_at(binding, &["roleRef", "name"]) {
            "" => out.push(FieldError::required("roleRef.name", "")),
            name => push_invalid(&mut out, "roleRef.name", name, path_segment(name)),
        }
        for (index, subject) in list_at(binding, &["subjects"]).iter().enumerate() {
            validate_subject(&mut out, &format!("subjects[{index}]"), subject, self.namespaced);
        }
        out
    }

    fn validate_update(&self, _part: ObjectPart, binding: &Value, old: &Value) -> Vec<FieldError> {
        let mut out = self.validate(binding);
        if binding.get("roleRef") != old.get("roleRef") {
            let part = |key: &str| str_at(binding, &["roleRef", key]);
            let shown = json!({"APIGroup": part("apiGroup"), "Kind": part("kind"), "Name": part("name")});
            out.push(FieldError::invalid("roleRef", shown, "cannot change roleRef"));
        }
        out
    }

    fn validate_name(&self, name: &str, _prefix: bool) -> Vec<String> {
        path_segment(name)
    }

    fn bumps_generation(&self, _binding: &Value, _old: &Value) -> bool {
        false
    }

    fn cells(&self, binding: &Value, now: jiff::Timestamp) -> Option<Vec<Value>> {
        let role =
            format!("{}/{}", str_at(binding, &["roleRef", "kind"]), str_at(binding, &["roleRef", "name"]));
        let of_kind = |kind: &str| {
            let subjects = list_at(binding, &["subjects"]).iter();
            let names: Vec<String> = subjects
                .filter(|subject| str_at(subject, &["kind"]) == kind)
                .map(|subject| match (kind, str_at(subject, &["namespace"])) {
                    ("ServiceAccount", namespace) => format!("{namespace}/{}", str_at(subject, &["name"])),
                    _ => str_at(subject, &["name"]).to_owned(),
                })
                .collect();
            Value::String(names.join(", "))
        };
        let (users, groups, accounts) = (of_kind("User"), of_kind("Group"), of_kind("ServiceAccount"));
        Some(vec![name_cell(binding), role.into(), age_cell(binding, now), users, groups, accounts])
    }
}

fn validate_subject(out: &mut Vec<FieldError>, field: &str, subject: &Value, namespaced: bool) {
    let name = str_at(subject, &["name"]);
    if name.is_empty() {
        out.push(FieldError::required(format!("{field}.name"), ""));
    }
    let group = str_at(subject, &["apiGroup"]);
    match str_at(subject, &["kind"]) {
        "ServiceAccount" => {
            if !name.is_empty() {
                push_invalid(out, &format!("{field}.name"), name, validate_subdomain_name(name, false));
            }
            if !group.is_empty() {
                out.push(FieldError::not_supported(format!("{field}.apiGroup"), group, &[""]));
            }
            if !namespaced && str_at(subject, &["namespace"]).is_empty() {
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
