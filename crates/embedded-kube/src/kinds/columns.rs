//! Columns of the tables of built-in kinds, and what their cells are made of.

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
        endpoint_slice_endpoints, endpoint_slice_ports, endpoints_text, events, node_cells, replica_cells,
        service_cells,
    },
    pods::pod_cells,
};
use crate::{
    object::{Meta, at, text},
    registry::Column,
};

const NAME: &str = "Name of the object, unique within its namespace.";
const AGE: &str = "Time since the object was created.";
const CONTAINERS: [(&str, &str, i32, &str); 2] = [
    ("Containers", "string", 1, "Names of the containers in the template."),
    ("Images", "string", 1, "Images of the containers in the template."),
];

type Heading = (&'static str, &'static str, i32, &'static str);

/// Columns of a built-in kind; kinds without any of their own show name and age.
pub fn built_in(kind: &str) -> Vec<Column> {
    let own: Vec<Heading> = match kind {
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
    // The age stands behind what is always shown, and before what only wide tables show.
    let (always, wide): (Vec<Heading>, Vec<Heading>) =
        own.into_iter().partition(|(_, _, priority, _)| *priority == 0);
    let mut all = vec![("Name", "string", 0, NAME)];
    all.extend(always);
    all.push(("Age", "string", 0, AGE));
    all.extend(wide);
    if kind == "Node" {
        // The one kind whose age is not the last of the narrow ones.
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

fn service_columns() -> Vec<Heading> {
    vec![
        ("Type", "string", 0, "How the service is exposed."),
        ("Cluster-IP", "string", 0, "Address within the cluster."),
        ("External-IP", "string", 0, "Addresses outside of the cluster."),
        ("Port(s)", "string", 0, "Ports that the service offers."),
        ("Selector", "string", 1, "Labels of the pods behind it."),
    ]
}

fn pod_columns() -> Vec<Heading> {
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

fn node_columns() -> Vec<Heading> {
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

fn deployment_columns() -> Vec<Heading> {
    let mut all = vec![
        ("Ready", "string", 0, "Pods that are ready, of those wished for."),
        ("Up-to-date", "string", 0, "Pods of the present template."),
        ("Available", "string", 0, "Pods that have been ready for long enough."),
    ];
    all.extend(CONTAINERS);
    all.push(("Selector", "string", 1, "Labels of the pods that belong to it."));
    all
}

fn replica_set_columns() -> Vec<Heading> {
    let mut all = vec![
        ("Desired", "integer", 0, "Pods wished for."),
        ("Current", "integer", 0, "Pods that exist."),
        ("Ready", "integer", 0, "Pods that are ready."),
    ];
    all.extend(CONTAINERS);
    all.push(("Selector", "string", 1, "Labels of the pods that belong to it."));
    all
}

fn binding_columns() -> Vec<Heading> {
    vec![
        ("Role", "string", 0, "Role that is granted."),
        ("Users", "string", 1, "Users that have it."),
        ("Groups", "string", 1, "Groups that have it."),
        ("ServiceAccounts", "string", 1, "Service accounts that have it."),
    ]
}

fn column((name, kind, priority, description): Heading) -> Column {
    Column {
        name: name.to_owned(),
        kind: kind.to_owned(),
        format: if name == "Name" { "name" } else { "" }.to_owned(),
        description: description.to_owned(),
        priority,
        path: String::new(),
    }
}

/// The object's name, as a cell.
pub fn name(object: &Value) -> Value {
    object.name().into()
}

/// Cells of a scale, which is no resource of its own.
pub fn scale_cells(scale: &Value, now: Timestamp) -> Vec<Value> {
    let number = |path: &[&str]| at(scale, path).and_then(Value::as_i64).unwrap_or_default().into();
    vec![name(scale), number(&["spec", "replicas"]), number(&["status", "replicas"]), age(scale, now)]
}

/// The object's age, as a cell.
pub fn age(object: &Value, now: Timestamp) -> Value {
    ago(object.meta("creationTimestamp"), now).into()
}

/// The time of creation, as a cell.
pub fn created_at(object: &Value) -> Value {
    object.meta("creationTimestamp").into()
}

/// Time since a moment; `<unknown>` where there is none.
pub fn ago(moment: &str, now: Timestamp) -> String {
    match moment.parse::<Timestamp>() {
        Ok(moment) => human_duration(now.duration_since(moment)),
        Err(_) => "<unknown>".to_owned(),
    }
}

/// Conditions of a table's row: a finished Pod says so.
pub fn row_conditions(kind: &str, object: &Value) -> Option<Value> {
    let (reason, message) = match (kind, text(object, &["status", "phase"])) {
        ("Pod", "Succeeded") => ("Succeeded", "The pod has completed successfully."),
        ("Pod", "Failed") => ("Failed", "The pod failed."),
        _ => return None,
    };
    Some(json!([{"type": "Completed", "status": "True", "reason": reason, "message": message}]))
}
