//! Files of Signadot as objects of ours.
//!
//! Everything in a file is either taken over or named in the notes: nothing is dropped silently. Forks live in their baseline's
//! namespace here, so a sandbox that forks workloads of several namespaces becomes one sandbox in each and a route group over
//! all of them.

mod fields;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use sandbox::{
    api::{RouteGroup, Sandbox, names},
    validate::{validate, validate_group},
};
use serde_json::{Map, Value, json};

use self::fields::Fields;

/// Label of sandboxes that were one in their file.
const PART_LABEL: &str = "sandbox.capt.x-k8s.io/part-of";

/// How to read a file.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// The namespace of what names none.
    pub namespace: String,
    /// Whether `spec.cluster` is a Cluster of ours.
    pub cluster_ref: bool,
}

/// What a file became.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Imported {
    /// The objects, to be applied.
    pub objects: Vec<Value>,
    /// Fields that have no meaning here, and what was done differently.
    pub notes: Vec<String>,
    /// What our validator says against the objects.
    pub problems: Vec<String>,
}

/// Turns one document of a file into objects.
pub fn import(document: &Value, options: &Options) -> Imported {
    let mut notes = Vec::new();
    fields::templates(document, "", &mut notes);
    let mut fields = Fields::of(document, "");
    let name = fields.text("name").unwrap_or_default();
    let spec = fields.take("spec");
    fields.rest(&mut notes);
    let mut spec = Fields::of(&spec.unwrap_or_default(), "spec");
    let objects = if spec.has("match") {
        vec![group(&name, &mut spec, options, &mut notes)]
    } else {
        sandboxes(&name, &mut spec, options, &mut notes)
    };
    spec.rest(&mut notes);
    let problems = objects.iter().filter_map(problem).collect();
    Imported { objects, notes, problems }
}

fn problem(object: &Value) -> Option<String> {
    let refusal = |text: String| format!("{} {}: {text}", object["kind"], object["metadata"]["name"]);
    let verdict = if object["kind"] == "Sandbox" {
        serde_json::from_value::<Sandbox>(object.clone())
            .map_err(|error| error.to_string())
            .and_then(|it| validate(&it).map_err(|refusal| refusal.to_string()))
    } else {
        serde_json::from_value::<RouteGroup>(object.clone())
            .map_err(|error| error.to_string())
            .and_then(|it| validate_group(&it).map_err(|refusal| refusal.to_string()))
    };
    verdict.err().map(refusal)
}

fn object(kind: &str, name: &str, namespace: &str, spec: &Map<String, Value>) -> Value {
    json!({
        "apiVersion": format!("{}/{}", names::GROUP, names::VERSION),
        "kind": kind,
        "metadata": {"name": name, "namespace": namespace},
        "spec": spec
    })
}

fn group(name: &str, spec: &mut Fields, options: &Options, notes: &mut Vec<String>) -> Value {
    let mut made = Map::new();
    if let Some(cluster) = cluster(spec, options, notes) {
        notes.push(group_of(&cluster, name));
    }
    made.extend(spec.take("description").map(|value| ("description".to_owned(), value)));
    if let Some(choice) = spec.take("match") {
        made.insert("match".into(), fields::choice(&choice, "spec.match", notes));
    }
    made.extend(ttl(spec, notes).map(|value| ("ttl".to_owned(), value)));
    if let Some(endpoints) = spec.take("endpoints") {
        made.insert("endpoints".into(), targets(&endpoints, "spec.endpoints", notes));
    }
    // Sandboxes have no namespace there, so a group has all of them.
    made.insert("namespaces".into(), json!({"from": "All"}));
    object("RouteGroup", name, &options.namespace, &made)
}

/// A group has no `clusterRef`: it is where its sandboxes are made.
fn group_of(cluster: &Value, name: &str) -> String {
    let cluster = cluster["name"].as_str().unwrap_or_default();
    format!(
        "spec.cluster: apply the RouteGroup {name} to the cluster {cluster:?} itself, where its sandboxes are made"
    )
}

fn ttl(spec: &mut Fields, notes: &mut Vec<String>) -> Option<Value> {
    Some(fields::only(&spec.take("ttl")?, &["duration", "offsetFrom"], "spec.ttl", notes))
}

/// What `spec.cluster` means here.
fn cluster(spec: &mut Fields, options: &Options, notes: &mut Vec<String>) -> Option<Value> {
    let cluster = spec.text("cluster")?;
    if options.cluster_ref {
        return Some(json!({"name": cluster}));
    }
    notes.push(format!(
        "spec.cluster: apply the objects to the cluster {cluster:?} itself, or import with --cluster-ref if this operator made it"
    ));
    None
}

/// Endpoints with the short names of Services.
fn targets(endpoints: &Value, path: &str, notes: &mut Vec<String>) -> Value {
    let mut endpoints = fields::only(endpoints, &["name", "target"], path, notes);
    for endpoint in endpoints.as_array_mut().into_iter().flatten() {
        if let Some(target) = endpoint["target"].as_str() {
            endpoint["target"] = target.replace(".svc.cluster.local", ".svc").into();
        }
    }
    endpoints
}

fn sandboxes(name: &str, spec: &mut Fields, options: &Options, notes: &mut Vec<String>) -> Vec<Value> {
    let cluster = cluster(spec, options, notes);
    let labels = fields::labels(spec.take("labels").as_ref(), notes);
    let mut common = Map::new();
    common.extend(cluster.clone().map(|it| ("clusterRef".to_owned(), it)));
    common.extend(spec.take("description").map(|value| ("description".to_owned(), value)));
    common.extend(ttl(spec, notes).map(|value| ("ttl".to_owned(), value)));
    let path = "spec.defaultRouteGroup";
    let mut defaults = Fields::of(&spec.take("defaultRouteGroup").unwrap_or_default(), path);
    let endpoints = defaults.take("endpoints").map(|it| targets(&it, &format!("{path}.endpoints"), notes));
    defaults.rest(notes);
    let parts = parts(spec, options, notes);
    let several = parts.len() > 1;
    let mut objects: Vec<Value> = Vec::new();
    for (namespace, lists) in parts {
        let mut made = common.clone();
        made.extend(lists);
        if let (Some(endpoints), false) = (&endpoints, several) {
            made.insert("endpoints".into(), endpoints.clone());
        }
        let mut sandbox = object("Sandbox", name, &namespace, &made);
        let mut all = labels.clone();
        if several {
            all.insert(PART_LABEL.to_owned(), json!(name));
        }
        if !all.is_empty() {
            sandbox["metadata"]["labels"] = json!(all);
        }
        objects.push(sandbox);
    }
    if several {
        notes.push(format!(
            "its workloads are in {} namespaces: it becomes a sandbox in each, and the RouteGroup {name} with one key for all",
            objects.len()
        ));
        notes.extend(cluster.map(|it| group_of(&it, name)));
        objects.push(over_all(name, common.contains_key("ttl"), endpoints, options));
    }
    objects
}

/// The group over the parts of a sandbox. It ends with the last of them, if they end by themselves.
fn over_all(name: &str, ends: bool, endpoints: Option<Value>, options: &Options) -> Value {
    let mut made = Map::new();
    made.insert("match".into(), json!({"label": {"key": PART_LABEL, "value": name}}));
    made.insert("namespaces".into(), json!({"from": "All"}));
    made.extend(endpoints.map(|it| ("endpoints".to_owned(), it)));
    if ends {
        made.insert("ttl".into(), json!({"duration": "1m", "offsetFrom": "noMatchedSandboxes"}));
    }
    object("RouteGroup", name, &options.namespace, &made)
}

/// Forks, local and virtual workloads, by the namespace of their baselines.
fn parts(
    spec: &mut Fields,
    options: &Options,
    notes: &mut Vec<String>,
) -> BTreeMap<String, Map<String, Value>> {
    let mut parts: BTreeMap<String, Map<String, Value>> = BTreeMap::new();
    for (list, reference) in [("forks", "forkOf"), ("local", "from"), ("virtual", "workload")] {
        let items = spec.take(list).and_then(|it| it.as_array().cloned()).unwrap_or_default();
        for (index, item) in items.iter().enumerate() {
            let path = format!("spec.{list}[{index}]");
            let (namespace, made) = fields::item(item, reference, &path, notes);
            let namespace = namespace.unwrap_or_else(|| options.namespace.clone());
            let part = parts.entry(namespace).or_default();
            if let Some(all) = part.entry(list).or_insert_with(|| json!([])).as_array_mut() {
                all.push(made);
            }
        }
    }
    let kinds: BTreeSet<&str> = parts.values().flat_map(Map::keys).map(String::as_str).collect();
    if kinds.is_empty() {
        parts.insert(options.namespace.clone(), Map::new());
    }
    parts
}
