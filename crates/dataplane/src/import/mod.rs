//! Converts Signadot files to our objects.
//!
//! Every field is either converted or reported in the notes; nothing is dropped silently. Forks run in the namespace of their
//! baseline, so a sandbox over several namespaces becomes one Sandbox per namespace and a `RouteGroup` over all of them.

#[cfg(test)]
mod tests;
mod unread_fields;

use std::collections::{BTreeMap, BTreeSet};

use capt_kinds::sandbox::{RouteGroup, Sandbox, names};
use sandbox::validate::{validate_group, validate_sandbox};
use serde_json::{Map, Value, json};

use self::unread_fields::UnreadFields;

/// Label of the Sandboxes that come from one sandbox of the file.
const PART_LABEL: &str = "sandbox.capt.x-k8s.io/part-of";

/// Import options.
#[derive(Debug, Clone, Default)]
pub struct ImportOptions {
    /// Default namespace.
    pub namespace: String,
    /// Whether `spec.cluster` becomes `clusterRef`, for a Cluster that this operator created.
    pub cluster_ref: bool,
}

/// The result of an import.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ImportResult {
    /// The objects, to be applied.
    pub objects: Vec<Value>,
    /// Dropped fields and other differences.
    pub notes: Vec<String>,
    /// Validation errors of the objects.
    pub problems: Vec<String>,
}

/// Converts one document of a file.
pub fn import_document(document: &Value, options: &ImportOptions) -> ImportResult {
    let mut notes = Vec::new();
    unread_fields::note_template_parameters(document, "", &mut notes);
    let mut fields = UnreadFields::new(document, "");
    let name = fields.take_string("name").unwrap_or_default();
    let spec = fields.take("spec");
    fields.note_unsupported(&mut notes);
    let mut spec = UnreadFields::new(&spec.unwrap_or_default(), "spec");
    let objects = if spec.has("match") {
        vec![build_group(&name, &mut spec, options, &mut notes)]
    } else {
        build_sandboxes(&name, &mut spec, options, &mut notes)
    };
    spec.note_unsupported(&mut notes);
    let problems = objects.iter().filter_map(validation_problem).collect();
    ImportResult { objects, notes, problems }
}

fn validation_problem(object: &Value) -> Option<String> {
    let refusal = |text: String| format!("{} {}: {text}", object["kind"], object["metadata"]["name"]);
    let verdict = if object["kind"] == "Sandbox" {
        serde_json::from_value::<Sandbox>(object.clone())
            .map_err(|error| error.to_string())
            .and_then(|it| validate_sandbox(&it).map_err(|refusal| refusal.to_string()))
    } else {
        serde_json::from_value::<RouteGroup>(object.clone())
            .map_err(|error| error.to_string())
            .and_then(|it| validate_group(&it).map_err(|refusal| refusal.to_string()))
    };
    verdict.err().map(refusal)
}

fn build_object(kind: &str, name: &str, namespace: &str, spec: &Map<String, Value>) -> Value {
    json!({
        "apiVersion": format!("{}/{}", names::GROUP, names::VERSION),
        "kind": kind,
        "metadata": {"name": name, "namespace": namespace},
        "spec": spec
    })
}

fn build_group(
    name: &str,
    spec: &mut UnreadFields,
    options: &ImportOptions,
    notes: &mut Vec<String>,
) -> Value {
    let mut made = Map::new();
    if let Some(cluster) = cluster_ref(spec, options, notes) {
        notes.push(group_cluster_note(&cluster, name));
    }
    made.extend(spec.take("description").map(|value| ("description".to_owned(), value)));
    if let Some(choice) = spec.take("match") {
        made.insert("match".into(), unread_fields::import_match(&choice, "spec.match", notes));
    }
    made.extend(import_ttl(spec, notes).map(|value| ("ttl".to_owned(), value)));
    if let Some(endpoints) = spec.take("endpoints") {
        made.insert("endpoints".into(), import_endpoints(&endpoints, "spec.endpoints", notes));
    }
    // Signadot sandboxes have no namespace, so the group covers all.
    made.insert("namespaces".into(), json!({"from": "All"}));
    build_object("RouteGroup", name, &options.namespace, &made)
}

/// Note on a group's cluster: a `RouteGroup` has no `clusterRef`.
fn group_cluster_note(cluster: &Value, name: &str) -> String {
    let cluster = cluster["name"].as_str().unwrap_or_default();
    format!(
        "spec.cluster: apply the RouteGroup {name} to the cluster {cluster:?} itself, where its sandboxes are made"
    )
}

fn import_ttl(spec: &mut UnreadFields, notes: &mut Vec<String>) -> Option<Value> {
    Some(unread_fields::take_known_fields(&spec.take("ttl")?, &["duration", "offsetFrom"], "spec.ttl", notes))
}

/// Converts `spec.cluster`.
fn cluster_ref(spec: &mut UnreadFields, options: &ImportOptions, notes: &mut Vec<String>) -> Option<Value> {
    let cluster = spec.take_string("cluster")?;
    if options.cluster_ref {
        return Some(json!({"name": cluster}));
    }
    notes.push(format!(
        "spec.cluster: apply the objects to the cluster {cluster:?} itself, or import with --cluster-ref if this operator made it"
    ));
    None
}

/// Converts endpoints; targets get the short names of Services.
fn import_endpoints(endpoints: &Value, path: &str, notes: &mut Vec<String>) -> Value {
    let mut endpoints = unread_fields::take_known_fields(endpoints, &["name", "target"], path, notes);
    for endpoint in endpoints.as_array_mut().into_iter().flatten() {
        if let Some(target) = endpoint["target"].as_str() {
            endpoint["target"] = target.replace(".svc.cluster.local", ".svc").into();
        }
    }
    endpoints
}

fn build_sandboxes(
    name: &str,
    spec: &mut UnreadFields,
    options: &ImportOptions,
    notes: &mut Vec<String>,
) -> Vec<Value> {
    let cluster = cluster_ref(spec, options, notes);
    let labels = unread_fields::import_labels(spec.take("labels").as_ref(), notes);
    let mut common = Map::new();
    common.extend(cluster.clone().map(|it| ("clusterRef".to_owned(), it)));
    common.extend(spec.take("description").map(|value| ("description".to_owned(), value)));
    common.extend(import_ttl(spec, notes).map(|value| ("ttl".to_owned(), value)));
    let path = "spec.defaultRouteGroup";
    let mut defaults = UnreadFields::new(&spec.take("defaultRouteGroup").unwrap_or_default(), path);
    let endpoints =
        defaults.take("endpoints").map(|it| import_endpoints(&it, &format!("{path}.endpoints"), notes));
    defaults.note_unsupported(notes);
    let parts = split_by_namespace(spec, options, notes);
    let several = parts.len() > 1;
    let mut objects: Vec<Value> = Vec::new();
    for (namespace, lists) in parts {
        let mut made = common.clone();
        made.extend(lists);
        if let (Some(endpoints), false) = (&endpoints, several) {
            made.insert("endpoints".into(), endpoints.clone());
        }
        let mut sandbox = build_object("Sandbox", name, &namespace, &made);
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
            "its workloads span {} namespaces: created one Sandbox in each and RouteGroup {name} with a shared routing key",
            objects.len()
        ));
        notes.extend(cluster.map(|it| group_cluster_note(&it, name)));
        objects.push(covering_group(name, common.contains_key("ttl"), endpoints, options));
    }
    objects
}

/// The group over the Sandboxes of one file. If these have a TTL, it expires after the last of them.
fn covering_group(name: &str, ends: bool, endpoints: Option<Value>, options: &ImportOptions) -> Value {
    let mut made = Map::new();
    made.insert("match".into(), json!({"label": {"key": PART_LABEL, "value": name}}));
    made.insert("namespaces".into(), json!({"from": "All"}));
    made.extend(endpoints.map(|it| ("endpoints".to_owned(), it)));
    if ends {
        made.insert("ttl".into(), json!({"duration": "1m", "offsetFrom": "noMatchedSandboxes"}));
    }
    build_object("RouteGroup", name, &options.namespace, &made)
}

/// Forks, local and virtual workloads, by the namespace of their baselines.
fn split_by_namespace(
    spec: &mut UnreadFields,
    options: &ImportOptions,
    notes: &mut Vec<String>,
) -> BTreeMap<String, Map<String, Value>> {
    let mut parts: BTreeMap<String, Map<String, Value>> = BTreeMap::new();
    for (list, reference) in [("forks", "forkOf"), ("local", "from"), ("virtual", "workload")] {
        let items = spec.take(list).and_then(|it| it.as_array().cloned()).unwrap_or_default();
        for (index, item) in items.iter().enumerate() {
            let path = format!("spec.{list}[{index}]");
            let (namespace, made) = unread_fields::import_workload(item, reference, &path, notes);
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
