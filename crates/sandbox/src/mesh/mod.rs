//! Mode `GatewayAPI`: a mesh routes requests to the forks. One set of `HTTPRoute` objects (shards) per Service port.
//!
//! An `HTTPRoute` has at most 16 rules and 128 matches, so keys are sharded. Exactly one shard has the default rule for all other
//! requests: without it a mesh answers those with 404. Rules with more header matches take precedence across objects, so the order
//! of the shards is irrelevant.
//!
//! A key stays in its shard: objects are written one after another, and a key that moved would be in none for a moment.

mod pattern;
mod plan;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use capt_kinds::sandbox::names;
use sandbox_router::key::LEGACY_HEADERS;
use serde_json::{Value, json};

use self::pattern::ValueEncoding;
use crate::{digest::sha256, labels::Labels, template::label_value};

pub use self::plan::{
    HttpRouteListing, MeshPlan, NamespacedName, RouteShard, has_service_parent, source_digest,
};

/// Maximum keys per `HTTPRoute`; one more rule is the default.
const MAX_KEYS_PER_ROUTE: usize = 15;
/// Maximum matches per `HTTPRoute`, over all rules.
const MAX_MATCHES_PER_ROUTE: usize = 128;
/// Maximum matches per rule.
const MAX_MATCHES_PER_RULE: usize = 64;

/// Number of list headers that may contain a key: `baggage` and `tracestate`.
const LIST_HEADERS: usize = 2;

/// The backends of one Service port, by routing key.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MeshPort {
    /// Of the Service.
    pub namespace: String,
    /// Of the Service.
    pub service: String,
    /// The Service's port.
    pub port: u16,
    /// By key: Service and port of the backend. Without a backend, the mesh answers with an error.
    pub keys: BTreeMap<String, Option<(String, u16)>>,
    /// Headers whose whole value is a key. Each may carry any key, as for the router.
    pub headers: BTreeSet<String>,
}

/// Shard number by key.
pub type ShardByKey = BTreeMap<String, usize>;

/// Builds the shards of a port, in order; the first has the default rule. Assigned keys stay in their shards, new ones fill the
/// gaps.
pub fn build_shards(port: &MeshPort, homes: &ShardByKey) -> Vec<Value> {
    let headers: Vec<&str> =
        LEGACY_HEADERS.iter().copied().chain(port.headers.iter().map(String::as_str)).collect();
    let headers = &headers[..headers.len().min(MAX_MATCHES_PER_RULE - LIST_HEADERS)];
    let each = headers.len() + LIST_HEADERS;
    // The default rule counts as one match.
    let room =
        |number: usize| MAX_KEYS_PER_ROUTE.min((MAX_MATCHES_PER_ROUTE - usize::from(number == 0)) / each);
    let mut all: BTreeMap<usize, Vec<&str>> = BTreeMap::from([(0, Vec::new())]);
    let mut homeless = Vec::new();
    for key in port.keys.keys() {
        match homes.get(key) {
            Some(at) if all.get(at).map_or(0, Vec::len) < room(*at) => all.entry(*at).or_default().push(key),
            _ => homeless.push(key),
        }
    }
    for key in homeless {
        // If all shards are full, the range includes the next, new one.
        let mut numbers = 0..=all.len();
        let gap = numbers.find(|at| all.get(at).map_or(0, Vec::len) < room(*at)).unwrap_or_default();
        all.entry(gap).or_default().push(key);
    }
    let rules = |(number, keys): (usize, Vec<&str>)| {
        let one = |key: &str| build_rule(key, port.keys.get(key).and_then(Option::as_ref), headers);
        let mut rules: Vec<_> = keys.into_iter().map(one).collect();
        if number == 0 {
            let baseline = json!({"kind": "Service", "name": port.service, "port": port.port});
            rules.push(json!({"backendRefs": [baseline]}));
        }
        build_http_route(port, number, &rules)
    };
    all.into_iter().map(rules).collect()
}

/// The shards of a port's keys in these objects. The first occurrence of a key counts.
pub fn assigned_shards<'a>(port: &MeshPort, objects: impl IntoIterator<Item = &'a Value>) -> ShardByKey {
    let begin = shard_name_prefix(port);
    let mut found = ShardByKey::new();
    for object in objects.into_iter().filter(|it| it["metadata"]["namespace"] == port.namespace) {
        let name = object["metadata"]["name"].as_str().unwrap_or_default();
        let Some(number) = name.strip_prefix(&begin).and_then(|it| it.parse().ok()) else { continue };
        for key in object["spec"]["rules"].as_array().into_iter().flatten().filter_map(rule_key) {
            found.entry(key.to_owned()).or_insert(number);
        }
    }
    found
}

/// The key of a rule of ours.
fn rule_key(rule: &Value) -> Option<&str> {
    let matches = rule["matches"].as_array().into_iter().flatten();
    let mut headers = matches.flat_map(|it| it["headers"].as_array().into_iter().flatten());
    headers.find(|it| it["type"] == "Exact" && it["name"] == LEGACY_HEADERS[0])?["value"].as_str()
}

/// The rule of a key, with one match per header; matches are alternatives.
fn build_rule(key: &str, backend: Option<&(String, u16)>, headers: &[&str]) -> Value {
    let header = |name: &str, kind: &str, value: &str| json!({"headers": [{"name": name, "type": kind, "value": value}]});
    let lists: [Value; LIST_HEADERS] = [
        header(
            "baggage",
            "RegularExpression",
            &pattern::list_header_pattern(key, ValueEncoding::PercentEncoded),
        ),
        header("tracestate", "RegularExpression", &pattern::list_header_pattern(key, ValueEncoding::Plain)),
    ];
    let whole = headers.iter().map(|name| header(name, "Exact", key));
    let matches: Vec<_> = lists.into_iter().chain(whole).collect();
    let backends = backend.map(|(name, port)| json!({"kind": "Service", "name": name, "port": port}));
    json!({"matches": matches, "backendRefs": backends.into_iter().collect::<Vec<_>>()})
}

fn build_http_route(port: &MeshPort, number: usize, rules: &[Value]) -> Value {
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
fn shard_name(port: &MeshPort, number: usize) -> String {
    format!("{}{number}", shard_name_prefix(port))
}

/// Name prefix of a port's shards.
fn shard_name_prefix(port: &MeshPort) -> String {
    let hash = &sha256(&format!("{}/{}:{}", port.namespace, port.service, port.port))[..6];
    let begin: String = port.service.chars().take(40).collect();
    format!("{}-sbx-{hash}-", begin.trim_end_matches('-'))
}

/// Whether an active mesh accepts `HTTPRoute` objects with Service parents. `routes` are those of the cluster. A served kind is
/// not enough: without a controller, nothing implements the routes.
pub fn has_active_mesh<'a>(routes: impl IntoIterator<Item = &'a Value>) -> bool {
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

/// The name of an `HTTPRoute` of the same Service that we do not manage, if any. Its routes must not be changed.
pub fn foreign_route<'a>(port: &MeshPort, routes: impl IntoIterator<Item = &'a Value>) -> Option<String> {
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
