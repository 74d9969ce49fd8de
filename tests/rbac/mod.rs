//! A model of RBAC authorization, and the comparison of rules with the requests that were made.
//!
//! Contract: pure. [`allowed`] answers for one request. [`grants`] reads roles and bindings; [`compare`] holds them
//! against requests, and tells which requests nothing allows and which permissions nobody used. Paths that are no
//! resources (`/version`, discovery) are left out: every authenticated user may ask for them.

#![allow(clippy::panic, reason = "a manifest that cannot be read fails the test")]

use std::{collections::BTreeSet, fmt};

use embedded_kube::fault_injection::RequestRecord;
use k8s_openapi::api::rbac::v1::{PolicyRule, RoleRef, Subject};
use serde::de::DeserializeOwned;
use serde_json::Value;

#[cfg(test)]
mod tests;

/// One request for a resource.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct AccessRequest {
    pub(crate) verb: String,
    /// Empty for core.
    pub(crate) group: String,
    pub(crate) resource: String,
    /// Empty for the object itself.
    pub(crate) subresource: String,
    /// Empty for all namespaces and for what is in none.
    pub(crate) namespace: String,
    /// Empty for collections.
    pub(crate) name: String,
}

impl AccessRequest {
    /// What the log says of it; nothing for a path that is no resource.
    pub(crate) fn from_logged(logged: &RequestRecord) -> Option<Self> {
        Some(Self {
            verb: logged.verb?.name().to_owned(),
            group: logged.group.clone(),
            resource: logged.resource.clone(),
            subresource: logged.subresource.clone(),
            namespace: logged.namespace.clone(),
            name: logged.name.clone(),
        })
    }

    fn full_resource(&self) -> String {
        resource_with_subresource(&self.resource, &self.subresource)
    }
}

impl fmt::Display for AccessRequest {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{} {}", self.verb, resource_dot_group(&self.full_resource(), &self.group))?;
        if self.namespace.is_empty() { Ok(()) } else { write!(out, " in {}", self.namespace) }
    }
}

/// Rules, and where they hold.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Grant {
    /// Name of the role.
    pub(crate) role: String,
    /// The one namespace; everywhere if there is none.
    pub(crate) namespace: Option<String>,
    pub(crate) rules: Vec<PolicyRule>,
}

/// One verb on one resource, as a role gives it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Permission {
    pub(crate) role: String,
    pub(crate) verb: String,
    pub(crate) group: String,
    /// With its subresource: `captclusters/status`.
    pub(crate) resource: String,
}

impl fmt::Display for Permission {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}: {} {}", self.role, self.verb, resource_dot_group(&self.resource, &self.group))
    }
}

/// Where rules and requests differ.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct RbacComparison {
    /// Nothing allows these. Each once, whatever the object's name.
    pub(crate) refused: BTreeSet<AccessRequest>,
    /// Permissions without a request.
    pub(crate) unused: BTreeSet<Permission>,
}

/// Whether the rules allow this on every object of the resource.
pub(crate) fn is_allowed(
    rules: &[PolicyRule],
    verb: &str,
    group: &str,
    resource: &str,
    subresource: &str,
) -> bool {
    let asked = AccessRequest {
        verb: verb.to_owned(),
        group: group.to_owned(),
        resource: resource.to_owned(),
        subresource: subresource.to_owned(),
        ..AccessRequest::default()
    };
    rules.iter().any(|rule| rule_allows(rule, &asked))
}

/// Holds what was granted against what was asked for.
pub(crate) fn compare<'a>(
    grants: &[Grant],
    requests: impl IntoIterator<Item = &'a AccessRequest>,
) -> RbacComparison {
    let distinct: BTreeSet<&AccessRequest> = requests.into_iter().collect();
    let mut compared =
        RbacComparison { unused: grants.iter().flat_map(permissions).collect(), ..RbacComparison::default() };
    for asked in distinct {
        let mut any = false;
        for grant in grants.iter().filter(|grant| applies_to(grant, asked)) {
            for rule in grant.rules.iter().filter(|rule| rule_allows(rule, asked)) {
                any = true;
                compared.unused.retain(|it| it.role != grant.role || !permission_covers(it, rule, asked));
            }
        }
        if !any {
            compared.refused.insert(AccessRequest { name: String::new(), ..asked.clone() });
        }
    }
    compared
}

/// What the roles among these objects give to a service account through the bindings among them.
pub(crate) fn collect_grants(objects: &[Value], namespace: &str, account: &str) -> Vec<Grant> {
    let is_ours = |subject: &Subject| {
        subject.kind == "ServiceAccount"
            && subject.name == account
            && subject.namespace.as_deref() == Some(namespace)
    };
    let bound = objects.iter().filter(|it| it["kind"] == "ClusterRoleBinding" || it["kind"] == "RoleBinding");
    let mut found = Vec::new();
    for binding in bound {
        if !parse_field::<Vec<Subject>>(binding, "subjects").iter().any(is_ours) {
            continue;
        }
        let to: RoleRef = parse_field(binding, "roleRef");
        let place = binding["metadata"]["namespace"].as_str().map(str::to_owned);
        let is_it = |role: &&Value| {
            role["kind"] == *to.kind
                && role["metadata"]["name"] == *to.name
                && (to.kind == "ClusterRole" || role["metadata"]["namespace"].as_str() == place.as_deref())
        };
        let role = objects.iter().find(is_it).unwrap_or_else(|| panic!("no {} {}", to.kind, to.name));
        found.push(Grant { role: to.name, namespace: place, rules: parse_field(role, "rules") });
    }
    found
}

fn parse_field<T: DeserializeOwned>(object: &Value, name: &str) -> T {
    serde_json::from_value(object[name].clone()).unwrap_or_else(|error| panic!("{name}: {error}: {object}"))
}

/// Whether a grant holds where this was asked for.
fn applies_to(grant: &Grant, asked: &AccessRequest) -> bool {
    grant.namespace.as_ref().is_none_or(|namespace| *namespace == asked.namespace)
}

fn rule_allows(rule: &PolicyRule, asked: &AccessRequest) -> bool {
    let lists =
        |list: Option<&Vec<String>>, text: &str| list.into_iter().flatten().any(|it| it == "*" || it == text);
    let every = format!("*/{}", asked.subresource);
    let resources = rule.resources.as_ref();
    let names = rule.resource_names.as_ref().filter(|names| !names.is_empty());
    rule.verbs.iter().any(|verb| verb == "*" || *verb == asked.verb)
        && lists(rule.api_groups.as_ref(), &asked.group)
        && (lists(resources, &asked.full_resource())
            || !asked.subresource.is_empty() && lists(resources, &every))
        && names.is_none_or(|names| names.contains(&asked.name))
}

/// Every verb on every resource. `*/finalizers` is left out: admission asks for it, and no request has that form.
fn permissions(grant: &Grant) -> BTreeSet<Permission> {
    let mut all = BTreeSet::new();
    for rule in &grant.rules {
        for group in rule.api_groups.iter().flatten() {
            for resource in rule.resources.iter().flatten().filter(|it| !it.ends_with("/finalizers")) {
                for verb in &rule.verbs {
                    all.insert(Permission {
                        role: grant.role.clone(),
                        verb: verb.clone(),
                        group: group.clone(),
                        resource: resource.clone(),
                    });
                }
            }
        }
    }
    all
}

/// Whether this permission is what let the request through, by a rule that covers it.
fn permission_covers(permission: &Permission, rule: &PolicyRule, asked: &AccessRequest) -> bool {
    let single = PolicyRule {
        api_groups: Some(vec![permission.group.clone()]),
        resources: Some(vec![permission.resource.clone()]),
        verbs: vec![permission.verb.clone()],
        resource_names: rule.resource_names.clone(),
        ..PolicyRule::default()
    };
    rule_allows(&single, asked)
}

fn resource_with_subresource(resource: &str, subresource: &str) -> String {
    if subresource.is_empty() { resource.to_owned() } else { format!("{resource}/{subresource}") }
}

/// `captclusters.infrastructure.cluster.x-k8s.io/status`
fn resource_dot_group(resource: &str, group: &str) -> String {
    let (plural, rest) = resource.split_once('/').map_or((resource, ""), |(plural, rest)| (plural, rest));
    let slash = if rest.is_empty() { "" } else { "/" };
    let dot = if group.is_empty() { "" } else { "." };
    format!("{plural}{dot}{group}{slash}{rest}")
}
