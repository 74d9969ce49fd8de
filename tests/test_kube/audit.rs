//! What a real API server noted, in the words of the embedded one.

use std::{
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use embedded_kube::{fault_injection::RequestRecord, request::Verb};
use jiff::Timestamp;
use serde_json::{Value, json};

/// The log, and what is noted in it.
pub(super) struct AuditLog {
    policy: PathBuf,
    log: PathBuf,
}

impl AuditLog {
    /// Everything that the operator and the routers of a shop ask for, and nothing that others do. Bodies are not kept.
    pub(super) fn new(dir: &Path) -> Self {
        let audit = Self { policy: dir.join("audit-policy.json"), log: dir.join("audit.log") };
        let policy = json!({
            "apiVersion": "audit.k8s.io/v1", "kind": "Policy", "omitStages": ["RequestReceived"],
            "rules": [
                {"level": "Metadata", "userGroups": ["system:serviceaccounts:capt-system", "system:serviceaccounts:shop"]},
                {"level": "None"},
            ],
        });
        fs::write(&audit.policy, policy.to_string()).unwrap();
        audit
    }

    /// For the API server.
    pub(super) fn flags(&self) -> Vec<String> {
        vec![
            format!("--audit-policy-file={}", self.policy.display()),
            format!("--audit-log-path={}", self.log.display()),
        ]
    }

    /// Oldest first. A watch is noted when it begins, everything else when it was answered.
    pub(super) fn requests(&self) -> Vec<RequestRecord> {
        let text = fs::read_to_string(&self.log).unwrap_or_default();
        // The last line may be half written.
        let whole = text.rsplit_once('\n').map_or("", |(whole, _)| whole);
        let events = whole.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        let is_one = |it: &Value| (it["verb"] == "watch") == (it["stage"] == "ResponseStarted");
        events.filter(is_one).map(|it| logged_from_event(&it)).collect()
    }
}

fn logged_from_event(event: &Value) -> RequestRecord {
    let object = &event["objectRef"];
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let time = |field: &str| event[field].as_str().unwrap().parse::<Timestamp>().unwrap();
    let uri = text(&event["requestURI"]);
    let (path, query) = uri.split_once('?').unwrap_or((&uri, ""));
    let is_resource = object.is_object();
    let at = time("requestReceivedTimestamp");
    RequestRecord {
        at,
        duration: Duration::try_from(time("stageTimestamp").duration_since(at)).unwrap_or_default(),
        user: text(&event["user"]["username"]),
        agent: text(&event["userAgent"]),
        verb: event["verb"].as_str().filter(|_| is_resource).and_then(verb),
        group: text(&object["apiGroup"]),
        resource: if is_resource { text(&object["resource"]) } else { path.to_owned() },
        subresource: text(&object["subresource"]),
        namespace: text(&object["namespace"]),
        name: text(&object["name"]),
        // It stands in a header, and those are not noted.
        patch_type: String::new(),
        field_manager: query_parameter(query, "fieldManager"),
        dry_run: query_parameter(query, "dryRun") == "All",
        code: event["responseStatus"]["code"].as_u64().and_then(|it| it.try_into().ok()).unwrap_or_default(),
    }
}

fn verb(name: &str) -> Option<Verb> {
    let all = [
        Verb::Get,
        Verb::List,
        Verb::Watch,
        Verb::Create,
        Verb::Update,
        Verb::Patch,
        Verb::Delete,
        Verb::DeleteCollection,
    ];
    all.into_iter().find(|it| it.name() == name)
}

fn query_parameter(query: &str, name: &str) -> String {
    let all = query.split('&').filter_map(|it| it.split_once('='));
    all.into_iter().find(|(key, _)| *key == name).map(|(_, value)| value.to_owned()).unwrap_or_default()
}
