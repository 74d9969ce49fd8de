//! Mode `GatewayAPI`: a mesh sends requests to the forks. One set of `HTTPRoute` objects for each port of a Service.
//!
//! An `HTTPRoute` has at most 16 rules and 128 matches, so keys are spread over several. Exactly one of them has the rule
//! for all other requests: without it a mesh answers those with 404. A rule with more header matches goes first whichever
//! object it is in, so the order of the objects makes no difference.
//!
//! A key stays in the object that has it: objects are written one after another, and a key that moved would be in none of
//! them for a moment.

mod pattern;
mod plan;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use sandbox_router::key::OLDER;
use serde_json::{Value, json};

use self::pattern::Writing;
use crate::{api::names, digest::sha256, labels::Labels, template::label_value};

pub use self::plan::{Name, Plan, Seen, Shard, concerns_services, digest};

/// Rules of one `HTTPRoute`; one more is for everybody else.
const KEYS: usize = 15;
/// Matches of one `HTTPRoute`, all rules together.
const MATCHES: usize = 128;
/// Matches of one rule.
const MATCHES_OF_RULE: usize = 64;

/// Headers with lists, in which keys are found.
const LISTS: usize = 2;

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
    /// Headers whose whole value is a key. Each of them may carry any key, as for the router.
    pub headers: BTreeSet<String>,
}

/// In which of a port's objects each key is, by the object's number.
pub type Homes = BTreeMap<String, usize>;

/// The `HTTPRoute` objects for a port, in order; the first has the rule for everybody else. Keys stay where they are, others
/// fill the gaps.
pub fn shards(port: &Port, homes: &Homes) -> Vec<Value> {
    let headers: Vec<&str> = OLDER.iter().copied().chain(port.headers.iter().map(String::as_str)).collect();
    let headers = &headers[..headers.len().min(MATCHES_OF_RULE - LISTS)];
    let each = headers.len() + LISTS;
    // The rule for everybody else counts as one match too.
    let room = |number: usize| KEYS.min((MATCHES - usize::from(number == 0)) / each);
    let mut all: BTreeMap<usize, Vec<&str>> = BTreeMap::from([(0, Vec::new())]);
    let mut homeless = Vec::new();
    for key in port.keys.keys() {
        match homes.get(key) {
            Some(at) if all.get(at).map_or(0, Vec::len) < room(*at) => all.entry(*at).or_default().push(key),
            _ => homeless.push(key),
        }
    }
    for key in homeless {
        // If all of them are full, the one behind them is not there yet.
        let mut numbers = 0..=all.len();
        let gap = numbers.find(|at| all.get(at).map_or(0, Vec::len) < room(*at)).unwrap_or_default();
        all.entry(gap).or_default().push(key);
    }
    let rules = |(number, keys): (usize, Vec<&str>)| {
        let one = |key: &str| rule(key, port.keys.get(key).and_then(Option::as_ref), headers);
        let mut rules: Vec<_> = keys.into_iter().map(one).collect();
        if number == 0 {
            let baseline = json!({"kind": "Service", "name": port.service, "port": port.port});
            rules.push(json!({"backendRefs": [baseline]}));
        }
        object(port, number, &rules)
    };
    all.into_iter().map(rules).collect()
}

/// In which of these objects the keys of a port are. What is said first counts.
pub fn homes<'a>(port: &Port, objects: impl IntoIterator<Item = &'a Value>) -> Homes {
    let begin = shard_names(port);
    let mut found = Homes::new();
    for object in objects.into_iter().filter(|it| it["metadata"]["namespace"] == port.namespace) {
        let name = object["metadata"]["name"].as_str().unwrap_or_default();
        let Some(number) = name.strip_prefix(&begin).and_then(|it| it.parse().ok()) else { continue };
        for key in object["spec"]["rules"].as_array().into_iter().flatten().filter_map(key_of) {
            found.entry(key.to_owned()).or_insert(number);
        }
    }
    found
}

/// The key of a rule of ours.
fn key_of(rule: &Value) -> Option<&str> {
    let matches = rule["matches"].as_array().into_iter().flatten();
    let mut headers = matches.flat_map(|it| it["headers"].as_array().into_iter().flatten());
    headers.find(|it| it["type"] == "Exact" && it["name"] == OLDER[0])?["value"].as_str()
}

/// Requests with a key. One match for each header; one of them is enough.
fn rule(key: &str, backend: Option<&(String, u16)>, headers: &[&str]) -> Value {
    let header = |name: &str, kind: &str, value: &str| json!({"headers": [{"name": name, "type": kind, "value": value}]});
    let lists: [Value; LISTS] = [
        header("baggage", "RegularExpression", &pattern::of_list(key, Writing::Percent)),
        header("tracestate", "RegularExpression", &pattern::of_list(key, Writing::Plain)),
    ];
    let whole = headers.iter().map(|name| header(name, "Exact", key));
    let matches: Vec<_> = lists.into_iter().chain(whole).collect();
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
    format!("{}{number}", shard_names(port))
}

/// How the names of a port's objects begin.
fn shard_names(port: &Port) -> String {
    let hash = &sha256(&format!("{}/{}:{}", port.namespace, port.service, port.port))[..6];
    let begin: String = port.service.chars().take(40).collect();
    format!("{}-sbx-{hash}-", begin.trim_end_matches('-'))
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
