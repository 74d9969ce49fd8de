//! Audit log of the operator's requests.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    sync::Mutex,
};

use serde_json::{Value, json};

use crate::{harness::USER, rbac::AccessRequest};

/// What groups have asked for that are over.
static EARLIER_REQUESTS: Mutex<BTreeSet<(AccessRequest, bool)>> = Mutex::new(BTreeSet::new());

/// The log, and what is noted in it.
pub(crate) struct AuditLog {
    policy: PathBuf,
    log: PathBuf,
}

impl AuditLog {
    /// Everything that the operator asks for, and nothing that others do. Bodies are not kept.
    pub(crate) fn new(dir: &Path) -> Self {
        let audit = Self { policy: dir.join("audit-policy.json"), log: dir.join("audit.log") };
        let policy = json!({
            "apiVersion": "audit.k8s.io/v1", "kind": "Policy", "omitStages": ["RequestReceived"],
            "rules": [{"level": "Metadata", "users": [USER]}, {"level": "None"}],
        });
        fs::write(&audit.policy, policy.to_string()).unwrap();
        audit
    }

    /// For the API server.
    pub(crate) fn flags(&self) -> Vec<String> {
        vec![
            format!("--audit-policy-file={}", self.policy.display()),
            format!("--audit-log-path={}", self.log.display()),
        ]
    }

    /// Each distinct request for a resource, and whether the rules let it through. Other refusals, such as those of a
    /// namespace that is being deleted, are nobody's lack of rights.
    pub(crate) fn requests(&self) -> BTreeSet<(AccessRequest, bool)> {
        let text = fs::read_to_string(&self.log).unwrap();
        let events = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        events.flat_map(|event| requests_from_event(&event)).collect()
    }

    /// The same, with those of the groups before this one.
    pub(crate) fn all_requests(&self) -> BTreeSet<(AccessRequest, bool)> {
        let mut before = EARLIER_REQUESTS.lock().unwrap();
        before.extend(self.requests());
        before.clone()
    }
}

/// What was asked for: a server-side apply that made something asked for the right to create, too.
fn requests_from_event(event: &Value) -> Vec<(AccessRequest, bool)> {
    let Some(object) = event.get("objectRef") else { return Vec::new() };
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let asked = AccessRequest {
        verb: text(&event["verb"]),
        group: text(&object["apiGroup"]),
        resource: text(&object["resource"]),
        subresource: text(&object["subresource"]),
        namespace: text(&object["namespace"]),
        name: text(&object["name"]),
    };
    let allowed = event["annotations"]["authorization.k8s.io/decision"] == "allow";
    let made = asked.verb == "patch" && event["responseStatus"]["code"] == 201;
    let create = made.then(|| (AccessRequest { verb: "create".to_owned(), ..asked.clone() }, allowed));
    [(asked, allowed)].into_iter().chain(create).collect()
}
