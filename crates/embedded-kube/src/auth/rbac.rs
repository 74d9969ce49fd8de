//! Role-based access control (RBAC) over the stored roles and bindings.
//!
//! The parsed policy is cached. A request compares the store's revision; only if that has changed are the revisions of
//! the RBAC objects compared with those the policy was built from.

mod policy;

use std::sync::Arc;

use parking_lot::RwLock;

pub use self::policy::{BindingSource, Policy, PolicyRule};
use super::{ObjectReader, SYSTEM_MASTERS};
use crate::{
    request::User,
    status_error::{GroupResource, StatusError, go_quote},
};

/// Attributes of a request for authorization.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Attributes {
    /// Verb; for a path the method in lower case.
    pub verb: String,
    /// API group.
    pub group: String,
    /// Plural.
    pub resource: String,
    /// Subresource.
    pub subresource: String,
    /// Namespace.
    pub namespace: String,
    /// Name.
    pub name: String,
    /// Path of a non-resource request.
    pub path: Option<String>,
}

impl Attributes {
    /// Attributes of a non-resource request.
    pub fn for_path(method: &str, path: &str) -> Self {
        Self { verb: method.to_ascii_lowercase(), path: Some(path.to_owned()), ..Self::default() }
    }

    /// The 403 error of kube-apiserver.
    pub fn forbidden(&self, user: &User, reason: &str) -> StatusError {
        let who = go_quote(&user.name);
        let text = match &self.path {
            Some(path) => format!("User {who} cannot {} path {}", self.verb, go_quote(path)),
            None => {
                let resource = match self.subresource.as_str() {
                    "" => self.resource.clone(),
                    subresource => format!("{}/{subresource}", self.resource),
                };
                let place = match self.namespace.as_str() {
                    "" => "at the cluster scope".to_owned(),
                    namespace => format!("in the namespace {}", go_quote(namespace)),
                };
                let (resource, group) = (go_quote(&resource), go_quote(&self.group));
                format!("User {who} cannot {} resource {resource} in API group {group} {place}", self.verb)
            }
        };
        let text = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
        let text = if reason.is_empty() { text } else { format!("{text}: {reason}") };
        StatusError::forbidden(&GroupResource::new(&self.group, &self.resource), &self.name, &text)
    }
}

/// Decision of the authorizer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AuthorizationDecision {
    /// Allowed, with the reason.
    Allowed(String),
    /// No rule allows it; contains the errors found on the way, if any.
    NoOpinion(String),
}

/// Rules of one user in one namespace, and the errors found on the way.
#[derive(Debug, Default)]
pub struct ResolvedRules {
    /// The rules.
    pub rules: Vec<PolicyRule>,
    /// Bindings to missing roles.
    pub errors: Vec<String>,
}

/// Authorizes requests with the stored policy.
pub struct Authorizer {
    objects: Arc<dyn ObjectReader>,
    cache: RwLock<CachedPolicy>,
}

#[derive(Default)]
struct CachedPolicy {
    revision: u64,
    source_revisions: Vec<(Arc<str>, u64)>,
    policy: Arc<Policy>,
}

const PREFIXES: [&str; 4] = [
    "rbac.authorization.k8s.io/roles/",
    "rbac.authorization.k8s.io/rolebindings/",
    "rbac.authorization.k8s.io/clusterroles/",
    "rbac.authorization.k8s.io/clusterrolebindings/",
];

impl Authorizer {
    pub fn new(objects: Arc<dyn ObjectReader>) -> Self {
        Self { objects, cache: RwLock::default() }
    }

    /// Decides whether the user is allowed to perform the request.
    pub fn decide(&self, user: &User, attributes: &Attributes) -> AuthorizationDecision {
        if user.groups.iter().any(|group| group == SYSTEM_MASTERS) {
            return AuthorizationDecision::Allowed(String::new());
        }
        let policy = self.current_policy();
        let mut faults = Vec::new();
        let mut allowed = None;
        policy.visit_bindings(user, &attributes.namespace, |source| match source {
            BindingSource::Rules(rules, why) => {
                if rules.iter().any(|rule| rule.allows(attributes)) {
                    allowed = Some(format!("RBAC: allowed by {why}"));
                    return false;
                }
                true
            }
            BindingSource::MissingRole(fault) => {
                faults.push(fault);
                true
            }
        });
        match allowed {
            Some(why) => AuthorizationDecision::Allowed(why),
            None => AuthorizationDecision::NoOpinion(aggregate_errors(faults)),
        }
    }

    /// All rules that apply to the user in a namespace.
    pub fn resolve_rules(&self, user: &User, namespace: &str) -> ResolvedRules {
        let mut granted = ResolvedRules::default();
        self.current_policy().visit_bindings(user, namespace, |source| {
            match source {
                BindingSource::Rules(rules, _) => granted.rules.extend(rules.iter().cloned()),
                BindingSource::MissingRole(fault) => granted.errors.push(fault),
            }
            true
        });
        granted
    }

    fn current_policy(&self) -> Arc<Policy> {
        let revision = self.objects.revision();
        {
            let kept = self.cache.read();
            if kept.revision == revision {
                return Arc::clone(&kept.policy);
            }
        }
        let found: Vec<_> = PREFIXES.iter().flat_map(|prefix| self.objects.list(prefix)).collect();
        let mut kept = self.cache.write();
        let same = found.len() == kept.source_revisions.len()
            && found.iter().zip(&kept.source_revisions).all(|(new, old)| new.0 == old.0 && new.1 == old.1);
        if !same {
            let parsed = found.iter().map(|(key, _, document)| (key.as_ref(), document.value()));
            kept.policy = Arc::new(Policy::from_objects(parsed));
            kept.source_revisions = found.into_iter().map(|(key, revision, _)| (key, revision)).collect();
        }
        kept.revision = revision;
        Arc::clone(&kept.policy)
    }
}

/// Joins several errors as kube-apiserver does.
fn aggregate_errors(mut faults: Vec<String>) -> String {
    faults.dedup();
    match faults.as_slice() {
        [] => String::new(),
        [one] => format!("RBAC: {one}"),
        many => format!("RBAC: [{}]", many.join(", ")),
    }
}

#[cfg(test)]
mod tests;
