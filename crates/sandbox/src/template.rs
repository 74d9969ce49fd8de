//! Access to workloads as JSON.
//!
//! Typed decoding would drop fields that are newer than our types, and the fork would differ from its baseline. Nothing here
//! panics on unexpected JSON: missing values are empty.

use capt_kinds::sandbox::{Sandbox, names};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::{Resource as _, ResourceExt as _};
use serde_json::Value;

use crate::{digest::sha256, labels::Labels};

/// The pod template of a workload.
#[derive(Debug, Clone, Copy)]
pub struct PodTemplate<'a>(&'a Value);

impl<'a> PodTemplate<'a> {
    /// The template of a Deployment.
    pub fn from_workload(workload: &'a Value) -> Self {
        Self(&workload["spec"]["template"])
    }

    /// The labels of its pods.
    pub fn labels(&self) -> Labels {
        string_map(&self.0["metadata"]["labels"])
    }

    /// The spec of its pods.
    pub fn spec(&self) -> &'a Value {
        &self.0["spec"]
    }

    /// Its containers, without init containers.
    pub fn containers(&self) -> impl Iterator<Item = &'a Value> {
        array_items(&self.spec()["containers"])
    }

    /// Its init containers.
    pub fn init_containers(&self) -> impl Iterator<Item = &'a Value> {
        array_items(&self.spec()["initContainers"])
    }

    /// All containers.
    pub fn all_containers(&self) -> impl Iterator<Item = &'a Value> {
        self.containers().chain(self.init_containers())
    }

    /// The number of a named port.
    pub fn named_port(&self, name: &str, protocol: &str) -> Option<i32> {
        let ports = self.all_containers().flat_map(|it| array_items(&it["ports"]));
        let mut named = ports.filter(|it| {
            it["name"].as_str() == Some(name) && it["protocol"].as_str().unwrap_or("TCP") == protocol
        });
        named.find_map(|it| it["containerPort"].as_i64()).and_then(|it| i32::try_from(it).ok())
    }
}

/// The items of an array, or none.
pub(crate) fn array_items(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

/// The string values of an object, or none.
pub(crate) fn string_map(value: &Value) -> Labels {
    let fields = value.as_object().into_iter().flatten();
    fields.filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned()))).collect()
}

/// The name of an object.
pub(crate) fn object_name(object: &Value) -> &str {
    object["metadata"]["name"].as_str().unwrap_or_default()
}

/// A name as a label value: unchanged if it fits, otherwise truncated and made unique by a hash.
pub(crate) fn label_value(name: &str) -> String {
    if name.len() <= 63 {
        return name.to_owned();
    }
    let begin: String = name.chars().take(54).collect();
    format!("{}-{}", begin.trim_end_matches(['-', '.']), &sha256(name)[..8])
}

/// The owner reference to a Sandbox.
pub(crate) fn owner_reference(sandbox: &Sandbox) -> Option<OwnerReference> {
    sandbox.controller_owner_ref(&())
}

/// Our labels on a fork's pods.
pub fn own_labels(id: &str, sandbox: &Sandbox, baseline: &str) -> Labels {
    Labels::from([
        (names::FORK_LABEL.to_owned(), id.to_owned()),
        (names::SANDBOX_LABEL.to_owned(), sandbox.name_any()),
        (names::BASELINE_LABEL.to_owned(), label_value(baseline)),
    ])
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_not_there_is_empty() {
        for odd in [
            json!(null),
            json!([]),
            json!({"spec": 1}),
            json!({"spec": {"template": {"spec": {"containers": {}}}}}),
        ] {
            let template = PodTemplate::from_workload(&odd);
            assert!(template.labels().is_empty());
            assert_eq!(template.all_containers().count(), 0);
            assert_eq!(template.named_port("http", "TCP"), None);
        }
    }

    #[test]
    fn a_port_is_found_by_name_and_protocol() {
        let ports = json!([{"name": "dns", "containerPort": 53, "protocol": "UDP"}, {"name": "dns", "containerPort": 5353}]);
        let workload =
            json!({"spec": {"template": {"spec": {"containers": [{"name": "app", "ports": ports}]}}}});
        let template = PodTemplate::from_workload(&workload);
        assert_eq!(template.named_port("dns", "UDP"), Some(53));
        assert_eq!(template.named_port("dns", "TCP"), Some(5353));
        assert_eq!(template.named_port("http", "TCP"), None);
    }

    #[test]
    fn a_long_name_fits_into_a_label() {
        let long = "a".repeat(200);
        assert_eq!(label_value("cart"), "cart");
        assert_eq!(label_value(&long).len(), 63);
        assert_ne!(label_value(&long), label_value(&format!("{long}b")));
    }
}
