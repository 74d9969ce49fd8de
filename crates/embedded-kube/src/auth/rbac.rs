//! Role-based access control over the stored roles and bindings.
//!
//! The policy is parsed once and kept; a request looks at the store's revision, and only if that has moved are the
//! revisions of the RBAC objects compared with those the policy was made of.

mod policy;

use std::sync::Arc;

use parking_lot::RwLock;

pub use self::policy::{Policy, Rule, Source};
use super::{MASTERS, Objects};
use crate::{
    failure::{Failure, GroupResource, quoted},
    request::User,
};

/// What somebody wants to do, in the words of authorization.
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
    /// Path, if this is not about a resource.
    pub path: Option<String>,
}

impl Attributes {
    /// A request for a path that is no resource.
    pub fn of_path(method: &str, path: &str) -> Self {
        Self { verb: method.to_ascii_lowercase(), path: Some(path.to_owned()), ..Self::default() }
    }

    /// The real server's refusal.
    pub fn forbidden(&self, user: &User, reason: &str) -> Failure {
        let who = quoted(&user.name);
        let text = match &self.path {
            Some(path) => format!("User {who} cannot {} path {}", self.verb, quoted(path)),
            None => {
                let resource = match self.subresource.as_str() {
                    "" => self.resource.clone(),
                    subresource => format!("{}/{subresource}", self.resource),
                };
                let place = match self.namespace.as_str() {
                    "" => "at the cluster scope".to_owned(),
                    namespace => format!("in the namespace {}", quoted(namespace)),
                };
                let (resource, group) = (quoted(&resource), quoted(&self.group));
                format!("User {who} cannot {} resource {resource} in API group {group} {place}", self.verb)
            }
        };
        let text = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
        let text = if reason.is_empty() { text } else { format!("{text}: {reason}") };
        Failure::forbidden(&GroupResource::new(&self.group, &self.resource), &self.name, &text)
    }
}

/// The answer of the authorizer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// Yes, and why.
    Allowed(String),
    /// Nobody said yes; what went wrong on the way, if anything.
    NoOpinion(String),
}

/// Rules of one user in one place, with faults met on the way.
#[derive(Debug, Default)]
pub struct Granted {
    /// The rules.
    pub rules: Vec<Rule>,
    /// Bindings to roles that are not there.
    pub faults: Vec<String>,
}

/// Decides from what is stored.
pub struct Authorizer {
    objects: Arc<dyn Objects>,
    kept: RwLock<Kept>,
}

#[derive(Default)]
struct Kept {
    revision: u64,
    made_of: Vec<(Arc<str>, u64)>,
    policy: Arc<Policy>,
}

const PREFIXES: [&str; 4] = [
    "rbac.authorization.k8s.io/roles/",
    "rbac.authorization.k8s.io/rolebindings/",
    "rbac.authorization.k8s.io/clusterroles/",
    "rbac.authorization.k8s.io/clusterrolebindings/",
];

impl Authorizer {
    pub fn new(objects: Arc<dyn Objects>) -> Self {
        Self { objects, kept: RwLock::default() }
    }

    /// May the user do it?
    pub fn decide(&self, user: &User, attributes: &Attributes) -> Verdict {
        if user.groups.iter().any(|group| group == MASTERS) {
            return Verdict::Allowed(String::new());
        }
        let policy = self.policy();
        let mut faults = Vec::new();
        let mut allowed = None;
        policy.visit(user, &attributes.namespace, |source| match source {
            Source::Rules(rules, why) => {
                if rules.iter().any(|rule| rule.allows(attributes)) {
                    allowed = Some(format!("RBAC: allowed by {why}"));
                    return false;
                }
                true
            }
            Source::Missing(fault) => {
                faults.push(fault);
                true
            }
        });
        match allowed {
            Some(why) => Verdict::Allowed(why),
            None => Verdict::NoOpinion(aggregate(faults)),
        }
    }

    /// Every rule that holds for the user in a namespace.
    pub fn granted(&self, user: &User, namespace: &str) -> Granted {
        let mut granted = Granted::default();
        self.policy().visit(user, namespace, |source| {
            match source {
                Source::Rules(rules, _) => granted.rules.extend(rules.iter().cloned()),
                Source::Missing(fault) => granted.faults.push(fault),
            }
            true
        });
        granted
    }

    fn policy(&self) -> Arc<Policy> {
        let revision = self.objects.revision();
        {
            let kept = self.kept.read();
            if kept.revision == revision {
                return Arc::clone(&kept.policy);
            }
        }
        let found: Vec<_> = PREFIXES.iter().flat_map(|prefix| self.objects.list(prefix)).collect();
        let mut kept = self.kept.write();
        let same = found.len() == kept.made_of.len()
            && found.iter().zip(&kept.made_of).all(|(new, old)| new.0 == old.0 && new.1 == old.1);
        if !same {
            let parsed = found.iter().map(|(key, _, document)| (key.as_ref(), document.value()));
            kept.policy = Arc::new(Policy::of(parsed));
            kept.made_of = found.into_iter().map(|(key, revision, _)| (key, revision)).collect();
        }
        kept.revision = revision;
        Arc::clone(&kept.policy)
    }
}

/// Several faults as the real server joins them.
fn aggregate(mut faults: Vec<String>) -> String {
    faults.dedup();
    match faults.as_slice() {
        [] => String::new(),
        [one] => format!("RBAC: {one}"),
        many => format!("RBAC: [{}]", many.join(", ")),
    }
}

#[cfg(test)]
mod tests;
