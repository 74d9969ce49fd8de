//! Mode `GatewayAPI`: a mesh sends requests to the forks. One set of `HTTPRoute` objects for each port of a Service.
//!
//! An `HTTPRoute` has at most 16 rules and 128 matches, so keys are spread over several. Exactly one of them has the rule
//! for all other requests: without it a mesh answers those with 404. A rule with more header matches goes first whichever
//! object it is in, so the order of the objects makes no difference.

mod pattern;
mod plan;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use sandbox_router::key::OLDER;
use serde_json::{Value, json};

use self::pattern::Writing;
use crate::{api::names, digest::sha256, labels::Labels, template::label_value};

pub use self::plan::{Name, Plan, Seen, Shard, concerns_services, digest};

/// Rules of one `HTTPRoute`; one more is for everybody else.
const KEYS: usize = 15;
/// Matches of one `HTTPRoute`, all rules together.
const MATCHES: usize = 128;

/// Who answers under the keys of one port of a Service.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Port {
    /// Of the Service.
    pub namespace: String,
    /// Of the Service.
    pub service: String,
    /// The Service's port.
    pub port: u16,
    /// By key: the Service that answers, and its port. Nobody: the mesh answers with an error.
    pub keys: BTreeMap<String, Option<(String, u16)>>,
    /// Headers whose whole value is a key, by key.
    pub headers: BTreeMap<String, Vec<String>>,
}

/// The `HTTPRoute` objects for a port, in order; the first has the rule for everybody else.
pub fn shards(port: &Port) -> Vec<Value> {
    let mut shards: Vec<Vec<Value>> = vec![Vec::new()];
    // The rule for everybody else counts as one match too.
    let mut matches = 1;
    for (key, backend) in &port.keys {
        let rule = rule(key, backend.as_ref(), port.headers.get(key).map_or(&[][..], Vec::as_slice));
        let count = rule["matches"].as_array().map_or(0, Vec::len);
        let is_full = shards.last().is_some_and(|it| it.len() == KEYS) || matches + count > MATCHES;
        if is_full {
            shards.push(Vec::new());
            matches = 0;
        }
        matches += count;
        if let Some(last) = shards.last_mut() {
            last.push(rule);
        }
    }
    if let Some(first) = shards.first_mut() {
        first.push(json!({"backendRefs": [{"kind": "Service", "name": port.service, "port": port.port}]}));
    }
    shards.into_iter().enumerate().map(|(number, rules)| object(port, number, &rules)).collect()
}

/// Requests with a key. One match for each header; one of them is enough.
fn rule(key: &str, backend: Option<&(String, u16)>, headers: &[String]) -> Value {
    let header = |name: &str, kind: &str, value: &str| json!({"headers": [{"name": name, "type": kind, "value": value}]});
    let mut matches = vec![
        header("baggage", "RegularExpression", &pattern::of_list(key, Writing::Percent)),
        header("tracestate", "RegularExpression", &pattern::of_list(key, Writing::Plain)),
    ];
    let whole = OLDER.iter().copied().chain(headers.iter().map(String::as_str));
    matches.extend(whole.map(|name| header(name, "Exact", key)));
    let backends = backend.map(|(name, port)| json!({"kind": "Service", "name": name, "port": port}));
    json!({"matches": matches, "backendRefs": backends.into_iter().collect::<Vec<_>>()})
}

fn object(port: &Port, number: usize, rules: &[Value]) -> Value {
    let labels = Labels::from([(names::SERVICE_LABEL.to_owned(), label_value(&port.service))]);
    json!({
        "apiVersion": "gateway.networking.k8s.io/v1",
        "kind": "HTTPRoute",
        "metadata": {"name": shard_name(port, number), "namespace": port.namespace, "labels": labels},
        "spec": {
            "parentRefs": [{"group": "", "kind": "Service", "name": port.service, "port": port.port}],
            "rules": rules
        }
    })
}

/// `<service>-sbx-<hash>-<number>`.
fn shard_name(port: &Port, number: usize) -> String {
    let hash = &sha256(&format!("{}/{}:{}", port.namespace, port.service, port.port))[..6];
    let begin: String = port.service.chars().take(40).collect();
    format!("{}-sbx-{hash}-{number}", begin.trim_end_matches('-'))
}

/// Whether a live mesh reads `HTTPRoute` objects. `routes` are those of the cluster; that the kind is served is not enough:
/// without a controller behind it, traffic would be stranded.
pub fn is_live<'a>(routes: impl IntoIterator<Item = &'a Value>) -> bool {
    let accepted = |parent: &Value| {
        let conditions = parent["conditions"].as_array().into_iter().flatten();
        parent["parentRef"]["kind"] == "Service"
            && conditions.into_iter().any(|it| it["type"] == "Accepted" && it["status"] == "True")
    };
    routes.into_iter().any(|route| {
        let parents = route["status"]["parents"].as_array().into_iter().flatten();
        parents.into_iter().any(accepted)
    })
}

/// Whether somebody else's `HTTPRoute` leads from a Service already: then we touch nothing.
pub fn foreign<'a>(port: &Port, routes: impl IntoIterator<Item = &'a Value>) -> Option<String> {
    let ours = format!("{}-sbx-", port.service.chars().take(40).collect::<String>().trim_end_matches('-'));
    let leads = |route: &&Value| {
        let parents = route["spec"]["parentRefs"].as_array().into_iter().flatten();
        route["metadata"]["namespace"] == port.namespace
            && parents.into_iter().any(|it| it["kind"] == "Service" && it["name"] == port.service)
            && route["metadata"]["labels"].get(names::SERVICE_LABEL).is_none()
    };
    let name = |route: &Value| route["metadata"]["name"].as_str().unwrap_or_default().to_owned();
    routes.into_iter().filter(leads).map(name).find(|it| !it.starts_with(&ours))
}
