//! Printer columns and cells of built-in kinds.

mod age;
mod cells;
mod pods;
#[cfg(test)]
mod tests;

use jiff::Timestamp;
use serde_json::{Value, json};

pub use self::{
    age::human_duration,
    cells::{
        endpoint_slice_endpoints, endpoint_slice_ports, endpoints_text, event_cells, node_cells,
        replica_cells, service_cells,
    },
    pods::pod_cells,
};
use crate::{
    object::{MetaAccessor, get_path, str_at},
    registry::Column,
};

const NAME: &str = "Name of the object, unique within its namespace.";
const AGE: &str = "Time since the object was created.";
const CONTAINERS: [(&str, &str, i32, &str); 2] = [
    ("Containers", "string", 1, "Names of the containers in the template."),
    ("Images", "string", 1, "Images of the containers in the template."),
];

type ColumnSpec = (&'static str, &'static str, i32, &'static str);

/// Columns of a built-in kind; by default name and age.
pub fn built_in_columns(kind: &str) -> Vec<Column> {
    let own: Vec<ColumnSpec> = match kind {
        "Namespace" => vec![("Status", "string", 0, "Whether the namespace takes objects.")],
        "Secret" => vec![
            ("Type", "string", 0, "What the data is meant for."),
            ("Data", "string", 0, "Number of entries."),
        ],
        "ConfigMap" => vec![("Data", "string", 0, "Number of entries.")],
        "Event" => return event_columns(),
        "Service" => service_columns(),
        "Pod" => pod_columns(),
        "Node" => node_columns(),
        "Endpoints" => vec![("Endpoints", "string", 0, "Addresses and ports.")],
        "Deployment" => deployment_columns(),
        "ReplicaSet" => replica_set_columns(),
        "EndpointSlice" => vec![
            ("AddressType", "string", 0, "Kind of the addresses."),
            ("Ports", "string", 0, "Ports of every endpoint."),
            ("Endpoints", "string", 0, "Addresses."),
        ],
        "Scale" => vec![
            ("Desired", "integer", 0, "Number of replicas that is wished for."),
            ("Available", "integer", 0, "Number of replicas there are."),
        ],
        "Lease" => vec![("Holder", "string", 0, "Who holds the lease.")],
        "Role" | "ClusterRole" | "CustomResourceDefinition" => {
            return vec![
                column(("Name", "string", 0, NAME)),
                column(("Created At", "date", 0, "Time of creation.")),
            ];
        }
        "RoleBinding" | "ClusterRoleBinding" => binding_columns(),
        _ => Vec::new(),
    };
    // The age follows the columns that are always shown and precedes those of wide output.
    let (always, wide): (Vec<ColumnSpec>, Vec<ColumnSpec>) =
        own.into_iter().partition(|(_, _, priority, _)| *priority == 0);
    let mut all = vec![("Name", "string", 0, NAME)];
    all.extend(always);
    all.push(("Age", "string", 0, AGE));
    all.extend(wide);
    if kind == "Node" {
        // The only kind whose age is not the last narrow column.
        all.swap(3, 4);
    }
    all.into_iter().map(column).collect()
}

fn event_columns() -> Vec<Column> {
    [
        ("Last Seen", "string", 0, "Time since it last happened."),
        ("Type", "string", 0, "Normal or Warning."),
        ("Reason", "string", 0, "Why, in one word."),
        ("Object", "string", 0, "Object that it is about."),
        ("Subobject", "string", 1, "Part of the object that it is about."),
        ("Source", "string", 1, "Who reports it."),
        ("Message", "string", 0, "What happened."),
        ("First Seen", "string", 1, "Time since it first happened."),
        ("Count", "string", 1, "How often it has happened."),
        ("Name", "string", 1, NAME),
    ]
    .into_iter()
    .map(column)
    .collect()
}

fn service_columns() -> Vec<ColumnSpec> {
    vec![
        ("Type", "string", 0, "How the service is exposed."),
        ("Cluster-IP", "string", 0, "Address within the cluster."),
        ("External-IP", "string", 0, "Addresses outside of the cluster."),
        ("Port(s)", "string", 0, "Ports that the service offers."),
        ("Selector", "string", 1, "Labels of the pods behind it."),
    ]
}

fn pod_columns() -> Vec<ColumnSpec> {
    vec![
        ("Ready", "string", 0, "Containers that are ready, of all."),
        ("Status", "string", 0, "State of the containers in one word."),
        ("Restarts", "string", 0, "How often containers have started again, and when last."),
        ("IP", "string", 1, "Address of the pod."),
        ("Node", "string", 1, "Node that the pod is bound to."),
        ("Nominated Node", "string", 1, "Node that room is being made on."),
        ("Readiness Gates", "string", 1, "Further conditions of readiness that hold, of all."),
    ]
}

fn node_columns() -> Vec<ColumnSpec> {
    vec![
        ("Status", "string", 0, "Whether the node takes pods."),
        ("Roles", "string", 0, "Roles by the node's labels."),
        ("Version", "string", 0, "Version of the kubelet."),
        ("Internal-IP", "string", 1, "Address within the cluster."),
        ("External-IP", "string", 1, "Address outside of the cluster."),
        ("OS-Image", "string", 1, "Operating system."),
        ("Kernel-Version", "string", 1, "Kernel."),
        ("Container-Runtime", "string", 1, "Container runtime and its version."),
    ]
}

fn deployment_columns() -> Vec<ColumnSpec> {
    let mut all = vec![
        ("Ready", "string", 0, "Pods that are ready, of those wished for."),
        ("Up-to-date", "string", 0, "Pods of the present template."),
        ("Available", "string", 0, "Pods that have been ready for long enough."),
    ];
    all.extend(CONTAINERS);
    all.push(("Selector", "string", 1, "Labels of the pods that belong to it."));
    all
}

fn replica_set_columns() -> Vec<ColumnSpec> {
    let mut all = vec![
        ("Desired", "integer", 0, "Pods wished for."),
        ("Current", "integer", 0, "Pods that exist."),
        ("Ready", "integer", 0, "Pods that are ready."),
    ];
    all.extend(CONTAINERS);
    all.push(("Selector", "string", 1, "Labels of the pods that belong to it."));
    all
}

fn binding_columns() -> Vec<ColumnSpec> {
    vec![
        ("Role", "string", 0, "Role that is granted."),
        ("Users", "string", 1, "Users that have it."),
        ("Groups", "string", 1, "Groups that have it."),
        ("ServiceAccounts", "string", 1, "Service accounts that have it."),
    ]
}

fn column((name, kind, priority, description): ColumnSpec) -> Column {
    Column {
        name: name.to_owned(),
        kind: kind.to_owned(),
        format: if name == "Name" { "name" } else { "" }.to_owned(),
        description: description.to_owned(),
        priority,
        path: String::new(),
    }
}

/// The name cell.
pub fn name_cell(object: &Value) -> Value {
    object.name().into()
}

/// Cells of a `Scale`.
pub fn scale_cells(scale: &Value, now: Timestamp) -> Vec<Value> {
    let number = |path: &[&str]| get_path(scale, path).and_then(Value::as_i64).unwrap_or_default().into();
    vec![
        name_cell(scale),
        number(&["spec", "replicas"]),
        number(&["status", "replicas"]),
        age_cell(scale, now),
    ]
}

/// The age cell.
pub fn age_cell(object: &Value, now: Timestamp) -> Value {
    age_since(object.meta_str("creationTimestamp"), now).into()
}

/// The creation time cell.
pub fn created_at_cell(object: &Value) -> Value {
    object.meta_str("creationTimestamp").into()
}

/// Age since a time; `<unknown>` if there is none.
pub fn age_since(moment: &str, now: Timestamp) -> String {
    match moment.parse::<Timestamp>() {
        Ok(moment) => human_duration(now.duration_since(moment)),
        Err(_) => "<unknown>".to_owned(),
    }
}

/// Row conditions: marks a completed Pod.
pub fn row_conditions(kind: &str, object: &Value) -> Option<Value> {
    let (reason, message) = match (kind, str_at(object, &["status", "phase"])) {
        ("Pod", "Succeeded") => ("Succeeded", "The pod has completed successfully."),
        ("Pod", "Failed") => ("Failed", "The pod failed."),
        _ => return None,
    };
    Some(json!([{"type": "Completed", "status": "True", "reason": reason, "message": message}]))
}
