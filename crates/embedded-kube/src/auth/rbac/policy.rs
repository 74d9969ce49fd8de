//! Roles and bindings, parsed, and which of them hold for whom. Pure.

use std::collections::BTreeMap;

use serde_json::Value;

use super::Attributes;
use crate::{
    failure::quoted,
    object::{Meta, at, text},
    request::User,
};

/// One rule of a role.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Rule {
    /// Verbs, or `*`.
    pub verbs: Vec<String>,
    /// API groups, or `*`.
    pub groups: Vec<String>,
    /// `pods`, `pods/status`, `*/scale`, `*`.
    pub resources: Vec<String>,
    /// Names; none means all.
    pub names: Vec<String>,
    /// Paths; `/healthz`, `/metrics/*`, `*`.
    pub urls: Vec<String>,
}

impl Rule {
    fn of(rule: &Value) -> Self {
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

    /// Whether this rule alone allows it.
    pub fn allows(&self, wanted: &Attributes) -> bool {
        if !has(&self.verbs, &wanted.verb) {
            return false;
        }
        match &wanted.path {
            Some(path) => self.urls.iter().any(|url| match url.strip_suffix('*') {
                Some(start) => path.starts_with(start),
                None => url == path,
            }),
            None => {
                has(&self.groups, &wanted.group)
                    && self.covers(wanted)
                    && (self.names.is_empty() || self.names.contains(&wanted.name))
            }
        }
    }

    fn covers(&self, wanted: &Attributes) -> bool {
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

fn has(list: &[String], wanted: &str) -> bool {
    list.iter().any(|one| one == "*" || one == wanted)
}

#[derive(Debug)]
struct Role {
    rules: Vec<Rule>,
    /// Labels that this role bears, and the selectors by which it takes up others.
    labels: BTreeMap<String, String>,
    aggregates: Vec<Value>,
}

#[derive(Debug)]
struct Binding {
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
    roles: BTreeMap<(String, String), Vec<Rule>>,
    cluster_roles: BTreeMap<String, Vec<Rule>>,
    bindings: Vec<Binding>,
    cluster_bindings: Vec<Binding>,
}

/// What a binding brings.
pub enum Source<'a> {
    /// Rules, and by which binding.
    Rules(&'a [Rule], String),
    /// A role that is not there.
    Missing(String),
}

impl Policy {
    /// From stored objects, each with its key.
    pub fn of<'a>(objects: impl IntoIterator<Item = (&'a str, Value)>) -> Self {
        let mut policy = Self::default();
        let mut cluster_roles = BTreeMap::new();
        for (key, object) in objects {
            match key.split('/').nth(1) {
                Some("roles") => {
                    let key = (object.namespace().to_owned(), object.name().to_owned());
                    policy.roles.insert(key, rules(&object));
                }
                Some("clusterroles") => {
                    cluster_roles.insert(object.name().to_owned(), role(&object));
                }
                Some("rolebindings") => policy.bindings.push(binding(&object)),
                Some("clusterrolebindings") => policy.cluster_bindings.push(binding(&object)),
                _ => {}
            }
        }
        policy.cluster_roles = cluster_roles
            .iter()
            .map(|(name, role)| (name.clone(), aggregated(role, &cluster_roles)))
            .collect();
        policy
    }

    /// Calls `visit` for each binding of the user that holds in a namespace (cluster-wide ones first) until it says
    /// no.
    pub fn visit(&self, user: &User, namespace: &str, mut visit: impl FnMut(Source<'_>) -> bool) {
        let local = self.bindings.iter().filter(|one| !namespace.is_empty() && one.namespace == namespace);
        for binding in self.cluster_bindings.iter().chain(local) {
            let Some(subject) = binding.subjects.iter().find(|one| one.is(user, &binding.namespace)) else {
                continue;
            };
            let rules = match binding.role_kind.as_str() {
                "ClusterRole" => self.cluster_roles.get(&binding.role),
                _ => self.roles.get(&(binding.namespace.clone(), binding.role.clone())),
            };
            let source = match rules {
                Some(rules) => Source::Rules(rules, binding.describe(subject)),
                None => Source::Missing(format!(
                    "{}.rbac.authorization.k8s.io {} not found",
                    binding.role_kind.to_ascii_lowercase(),
                    quoted(&binding.role)
                )),
            };
            if !visit(source) {
                return;
            }
        }
    }
}

impl Binding {
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
            quoted(&name),
            self.role_kind,
            quoted(&self.role),
            subject.kind,
            quoted(&whom)
        )
    }
}

impl Subject {
    fn is(&self, user: &User, namespace: &str) -> bool {
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

fn rules(object: &Value) -> Vec<Rule> {
    object.get("rules").and_then(Value::as_array).into_iter().flatten().map(Rule::of).collect()
}

fn role(object: &Value) -> Role {
    let labels = at(object, &["metadata", "labels"]).and_then(Value::as_object).into_iter().flatten();
    let selectors = at(object, &["aggregationRule", "clusterRoleSelectors"]).and_then(Value::as_array);
    Role {
        rules: rules(object),
        labels: labels.filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned()))).collect(),
        aggregates: selectors.cloned().unwrap_or_default(),
    }
}

fn binding(object: &Value) -> Binding {
    let subjects = object.get("subjects").and_then(Value::as_array).into_iter().flatten();
    Binding {
        name: object.name().to_owned(),
        namespace: object.namespace().to_owned(),
        role_kind: text(object, &["roleRef", "kind"]).to_owned(),
        role: text(object, &["roleRef", "name"]).to_owned(),
        subjects: subjects
            .map(|subject| Subject {
                kind: text(subject, &["kind"]).to_owned(),
                name: text(subject, &["name"]).to_owned(),
                namespace: text(subject, &["namespace"]).to_owned(),
            })
            .collect(),
    }
}

/// A role's own rules and those of the roles it takes up. Roles that aggregate may aggregate others that do; each is
/// taken up once.
fn aggregated(role: &Role, all: &BTreeMap<String, Role>) -> Vec<Rule> {
    let mut rules = role.rules.clone();
    let mut taken: Vec<&str> = Vec::new();
    let mut open: Vec<&Role> = vec![role];
    while let Some(next) = open.pop() {
        for (name, other) in all {
            let wanted = next.aggregates.iter().any(|selector| selects(selector, &other.labels));
            if wanted && !taken.contains(&name.as_str()) {
                taken.push(name);
                rules.extend(other.rules.iter().cloned());
                open.push(other);
            }
        }
    }
    rules
}

fn selects(selector: &Value, labels: &BTreeMap<String, String>) -> bool {
    let pairs = selector.get("matchLabels").and_then(Value::as_object).into_iter().flatten();
    let mut expressions = selector.get("matchExpressions").and_then(Value::as_array).into_iter().flatten();
    pairs.clone().all(|(key, value)| labels.get(key).map(String::as_str) == value.as_str())
        && expressions.all(|expression| holds(expression, labels))
        && (pairs.count() > 0 || selector.get("matchExpressions").is_some())
}

fn holds(expression: &Value, labels: &BTreeMap<String, String>) -> bool {
    let value = labels.get(text(expression, &["key"]));
    let listed = || {
        let values = expression.get("values").and_then(Value::as_array);
        values.into_iter().flatten().any(|one| one.as_str() == value.map(String::as_str))
    };
    match text(expression, &["operator"]) {
        "In" => value.is_some() && listed(),
        "NotIn" => value.is_none() || !listed(),
        "Exists" => value.is_some(),
        "DoesNotExist" => value.is_none(),
        _ => false,
    }
}
