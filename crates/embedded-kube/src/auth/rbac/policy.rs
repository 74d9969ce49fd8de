//! Parsed roles and bindings, and how they apply to a user. Pure.

use std::collections::BTreeMap;

use serde_json::Value;

use super::Attributes;
use crate::{
    object::{MetaAccessor, get_path, str_at},
    request::User,
    status_error::go_quote,
};

/// One rule of a role.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PolicyRule {
    /// Verbs, or `*`.
    pub verbs: Vec<String>,
    /// API groups, or `*`.
    pub groups: Vec<String>,
    /// `pods`, `pods/status`, `*/scale`, `*`.
    pub resources: Vec<String>,
    /// Resource names; empty means all.
    pub names: Vec<String>,
    /// Paths; `/healthz`, `/metrics/*`, `*`.
    pub urls: Vec<String>,
}

impl PolicyRule {
    fn from_value(rule: &Value) -> Self {
        let list = |key: &str| {
            let list = rule.get(key).and_then(Value::as_array).into_iter().flatten();
            list.filter_map(Value::as_str).map(str::to_owned).collect()
        };
        Self {
            verbs: list("verbs"),
            groups: list("apiGroups"),
            resources: list("resources"),
            names: list("resourceNames"),
            urls: list("nonResourceURLs"),
        }
    }

    /// Whether this rule allows the request.
    pub fn allows(&self, wanted: &Attributes) -> bool {
        if !contains_or_wildcard(&self.verbs, &wanted.verb) {
            return false;
        }
        match &wanted.path {
            Some(path) => self.urls.iter().any(|url| match url.strip_suffix('*') {
                Some(start) => path.starts_with(start),
                None => url == path,
            }),
            None => {
                contains_or_wildcard(&self.groups, &wanted.group)
                    && self.covers_resource(wanted)
                    && (self.names.is_empty() || self.names.contains(&wanted.name))
            }
        }
    }

    fn covers_resource(&self, wanted: &Attributes) -> bool {
        self.resources.iter().any(|resource| {
            if resource == "*" {
                return true;
            }
            match (resource.split_once('/'), wanted.subresource.as_str()) {
                (None, "") => *resource == wanted.resource,
                (Some((plural, subresource)), wanted_subresource) => {
                    subresource == wanted_subresource && (plural == "*" || plural == wanted.resource)
                }
                (None, _) => false,
            }
        })
    }
}

fn contains_or_wildcard(list: &[String], wanted: &str) -> bool {
    list.iter().any(|one| one == "*" || one == wanted)
}

#[derive(Debug)]
struct PolicyRole {
    rules: Vec<PolicyRule>,
    /// Labels of this role, and the selectors of its aggregation rule.
    labels: BTreeMap<String, String>,
    aggregation_selectors: Vec<Value>,
}

#[derive(Debug)]
struct PolicyBinding {
    name: String,
    namespace: String,
    role_kind: String,
    role: String,
    subjects: Vec<Subject>,
}

#[derive(Debug)]
struct Subject {
    kind: String,
    name: String,
    namespace: String,
}

/// All roles and bindings.
#[derive(Debug, Default)]
pub struct Policy {
    roles: BTreeMap<(String, String), Vec<PolicyRule>>,
    cluster_roles: BTreeMap<String, Vec<PolicyRule>>,
    bindings: Vec<PolicyBinding>,
    cluster_bindings: Vec<PolicyBinding>,
}

/// Result of resolving a binding.
pub enum BindingSource<'a> {
    /// Rules of the role, and a description of the binding.
    Rules(&'a [PolicyRule], String),
    /// The referenced role does not exist.
    MissingRole(String),
}

impl Policy {
    /// Parses stored objects, given with their keys.
    pub fn from_objects<'a>(objects: impl IntoIterator<Item = (&'a str, Value)>) -> Self {
        let mut policy = Self::default();
        let mut cluster_roles = BTreeMap::new();
        for (key, object) in objects {
            match key.split('/').nth(1) {
                Some("roles") => {
                    let key = (object.namespace().to_owned(), object.name().to_owned());
                    policy.roles.insert(key, parse_rules(&object));
                }
                Some("clusterroles") => {
                    cluster_roles.insert(object.name().to_owned(), parse_role(&object));
                }
                Some("rolebindings") => policy.bindings.push(parse_binding(&object)),
                Some("clusterrolebindings") => policy.cluster_bindings.push(parse_binding(&object)),
                _ => {}
            }
        }
        policy.cluster_roles = cluster_roles
            .iter()
            .map(|(name, role)| (name.clone(), aggregated_rules(role, &cluster_roles)))
            .collect();
        policy
    }

    /// Calls `visit` for each binding that applies to the user in a namespace (cluster-wide bindings first) until it
    /// returns false.
    pub fn visit_bindings(
        &self,
        user: &User,
        namespace: &str,
        mut visit: impl FnMut(BindingSource<'_>) -> bool,
    ) {
        let local = self.bindings.iter().filter(|one| !namespace.is_empty() && one.namespace == namespace);
        for binding in self.cluster_bindings.iter().chain(local) {
            let Some(subject) = binding.subjects.iter().find(|one| one.matches(user, &binding.namespace))
            else {
                continue;
            };
            let rules = match binding.role_kind.as_str() {
                "ClusterRole" => self.cluster_roles.get(&binding.role),
                _ => self.roles.get(&(binding.namespace.clone(), binding.role.clone())),
            };
            let source = match rules {
                Some(rules) => BindingSource::Rules(rules, binding.describe(subject)),
                None => BindingSource::MissingRole(format!(
                    "{}.rbac.authorization.k8s.io {} not found",
                    binding.role_kind.to_ascii_lowercase(),
                    go_quote(&binding.role)
                )),
            };
            if !visit(source) {
                return;
            }
        }
    }
}

impl PolicyBinding {
    fn describe(&self, subject: &Subject) -> String {
        let (kind, name) = match self.namespace.as_str() {
            "" => ("ClusterRoleBinding", self.name.clone()),
            namespace => ("RoleBinding", format!("{}/{namespace}", self.name)),
        };
        let whom = match subject.kind.as_str() {
            "ServiceAccount" => {
                let namespace =
                    if subject.namespace.is_empty() { &self.namespace } else { &subject.namespace };
                format!("{}/{namespace}", subject.name)
            }
            _ => subject.name.clone(),
        };
        format!(
            "{kind} {} of {} {} to {} {}",
            go_quote(&name),
            self.role_kind,
            go_quote(&self.role),
            subject.kind,
            go_quote(&whom)
        )
    }
}

impl Subject {
    fn matches(&self, user: &User, namespace: &str) -> bool {
        match self.kind.as_str() {
            "User" => self.name == user.name,
            "Group" => user.groups.contains(&self.name),
            "ServiceAccount" => {
                let namespace = if self.namespace.is_empty() { namespace } else { &self.namespace };
                let mut parts = user.name.splitn(4, ':');
                parts.next() == Some("system")
                    && parts.next() == Some("serviceaccount")
                    && !namespace.is_empty()
                    && parts.next() == Some(namespace)
                    && parts.next() == Some(&self.name)
            }
            _ => false,
        }
    }
}

fn parse_rules(object: &Value) -> Vec<PolicyRule> {
    object.get("rules").and_then(Value::as_array).into_iter().flatten().map(PolicyRule::from_value).collect()
}

fn parse_role(object: &Value) -> PolicyRole {
    let labels = get_path(object, &["metadata", "labels"]).and_then(Value::as_object).into_iter().flatten();
    let selectors = get_path(object, &["aggregationRule", "clusterRoleSelectors"]).and_then(Value::as_array);
    PolicyRole {
        rules: parse_rules(object),
        labels: labels.filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned()))).collect(),
        aggregation_selectors: selectors.cloned().unwrap_or_default(),
    }
}

fn parse_binding(object: &Value) -> PolicyBinding {
    let subjects = object.get("subjects").and_then(Value::as_array).into_iter().flatten();
    PolicyBinding {
        name: object.name().to_owned(),
        namespace: object.namespace().to_owned(),
        role_kind: str_at(object, &["roleRef", "kind"]).to_owned(),
        role: str_at(object, &["roleRef", "name"]).to_owned(),
        subjects: subjects
            .map(|subject| Subject {
                kind: str_at(subject, &["kind"]).to_owned(),
                name: str_at(subject, &["name"]).to_owned(),
                namespace: str_at(subject, &["namespace"]).to_owned(),
            })
            .collect(),
    }
}

/// The rules of a role and of the roles that it aggregates. Aggregated roles may aggregate others; each role is
/// included once.
fn aggregated_rules(role: &PolicyRole, all: &BTreeMap<String, PolicyRole>) -> Vec<PolicyRule> {
    let mut rules = role.rules.clone();
    let mut taken: Vec<&str> = Vec::new();
    let mut open: Vec<&PolicyRole> = vec![role];
    while let Some(next) = open.pop() {
        for (name, other) in all {
            let wanted =
                next.aggregation_selectors.iter().any(|selector| selector_matches(selector, &other.labels));
            if wanted && !taken.contains(&name.as_str()) {
                taken.push(name);
                rules.extend(other.rules.iter().cloned());
                open.push(other);
            }
        }
    }
    rules
}

fn selector_matches(selector: &Value, labels: &BTreeMap<String, String>) -> bool {
    let pairs = selector.get("matchLabels").and_then(Value::as_object).into_iter().flatten();
    let mut expressions = selector.get("matchExpressions").and_then(Value::as_array).into_iter().flatten();
    pairs.clone().all(|(key, value)| labels.get(key).map(String::as_str) == value.as_str())
        && expressions.all(|expression| expression_matches(expression, labels))
        && (pairs.count() > 0 || selector.get("matchExpressions").is_some())
}

fn expression_matches(expression: &Value, labels: &BTreeMap<String, String>) -> bool {
    let value = labels.get(str_at(expression, &["key"]));
    let listed = || {
        let values = expression.get("values").and_then(Value::as_array);
        values.into_iter().flatten().any(|one| one.as_str() == value.map(String::as_str))
    };
    match str_at(expression, &["operator"]) {
        "In" => value.is_some() && listed(),
        "NotIn" => value.is_none() || !listed(),
        "Exists" => value.is_some(),
        "DoesNotExist" => value.is_none(),
        _ => false,
    }
}
