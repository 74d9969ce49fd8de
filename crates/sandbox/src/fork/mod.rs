//! Builds the fork of a baseline.
//!
//! Contract: the fork is the baseline with these differences and no others, and the same input gives the same bytes.
//!
//! | where | difference |
//! |---|---|
//! | `metadata` | own name; labels and annotations without those of `GitOps` tools, plus ours; owned by the Sandbox |
//! | `spec` | `replicas` of the customizations, `strategy` Recreate, `revisionHistoryLimit` 1, own selector, not paused |
//! | `template.metadata` | only our labels and the preserved ones; annotations without those of tools |
//! | containers | images, env, resources of the customizations; the Sandbox's own variables first |
//! | `env`, `ports` | deduplicated by name (env) or number (ports), because an apply rejects duplicates |
//!
//! The user's patch is not applied here: the API server does that, and its answer is the baseline given to [`fork`].

mod containers;
mod env;
#[cfg(test)]
mod tests;
mod tool_metadata;

use std::collections::BTreeMap;

use capt_kinds::sandbox::{ForkSpec, Sandbox, conditions::reasons, names};
use kube::ResourceExt as _;
use regex::bytes::Regex;
use serde_json::{Map, Value, json};

use crate::{
    digest::{canonical_json, hashed_name, sha256},
    labels::{self, Labels},
    rejection::Rejection,
    service::MAX_NAME_LENGTH,
    template::{self, PodTemplate, own_labels, string_map},
};

pub use self::{env::ForkAddress, tool_metadata::without_tool_metadata};

/// The inputs of a fork.
#[derive(Debug, Clone, Copy)]
pub struct ForkRequest<'a> {
    /// The Sandbox.
    pub sandbox: &'a Sandbox,
    /// The fork in the Sandbox's spec.
    pub fork: &'a ForkSpec,
    /// The sandbox's routing key.
    pub key: &'a str,
    /// Value of `SIGNADOT_ROUTESERVER`; unset if `None`.
    pub route_server: Option<&'a str>,
    /// The addresses of the sandbox's forks, by the names of their baselines.
    pub addresses: &'a BTreeMap<String, ForkAddress>,
    /// Additional pod labels, required by a Fargate profile.
    pub extra_labels: &'a Labels,
    /// [`source_hash`] of the baseline before the patch.
    pub source_hash: &'a str,
}

/// A fork.
#[derive(Debug, Clone, PartialEq)]
pub struct ForkedDeployment {
    /// Its name, which is also its id.
    pub name: String,
    /// The Deployment, to be applied.
    pub object: Value,
    /// The labels of its pods.
    pub pod_labels: Labels,
    /// Notes for an event.
    pub notes: Vec<String>,
}

/// The name of a fork, which is also the value of its label.
pub fn fork_name(namespace: &str, baseline: &str, sandbox: &str) -> String {
    hashed_name(["Deployment", namespace, baseline], sandbox, MAX_NAME_LENGTH)
}

/// Hash of the fields that a fork inherits from its baseline. Scaling or rollout progress does not change it.
pub fn template_hash(baseline: &Value) -> String {
    sha256(&canonical_json(&inherited_spec(baseline)))
}

/// Hash of all inputs of a fork: baseline, customizations, Sandbox name and routing key.
pub fn source_hash(baseline: &Value, sandbox: &Sandbox, fork: &ForkSpec, key: &str) -> String {
    let customizations = serde_json::to_value(&fork.customizations).unwrap_or_default();
    let parts = json!([inherited_spec(baseline), customizations, sandbox.name_any(), key]);
    sha256(&canonical_json(&parts))
}

/// The fields of a baseline's spec that its fork inherits.
fn inherited_spec(baseline: &Value) -> Value {
    let mut spec = baseline["spec"].clone();
    if let Some(fields) = spec.as_object_mut() {
        for own in ["replicas", "strategy", "revisionHistoryLimit", "selector", "paused"] {
            fields.remove(own);
        }
    }
    spec
}

/// Builds the fork of a baseline to which the user's patch was already applied.
pub fn build_fork(baseline: &Value, order: &ForkRequest<'_>) -> Result<ForkedDeployment, Rejection> {
    let baseline_name = template::object_name(baseline);
    let namespace = order.sandbox.namespace().unwrap_or_default();
    reject_fork_of_fork(baseline)?;
    let name = fork_name(&namespace, baseline_name, &order.sandbox.name_any());
    let own = own_labels(&name, order.sandbox, baseline_name);
    let kept = preserved_labels(
        &PodTemplate::from_workload(baseline).labels(),
        &order.fork.customizations.preserved_labels,
    )?;
    let pod_labels: Labels = kept.into_iter().chain(order.extra_labels.clone()).chain(own.clone()).collect();
    let mut notes = Vec::new();
    let mut spec = object_fields(&baseline["spec"]);
    spec.remove("paused");
    spec.insert("replicas".into(), order.fork.customizations.replicas.into());
    spec.insert("strategy".into(), json!({"type": "Recreate"}));
    spec.insert("revisionHistoryLimit".into(), 1.into());
    spec.insert("selector".into(), json!({"matchLabels": {names::FORK_LABEL: name}}));
    let template = pod_template(&baseline["spec"]["template"], &pod_labels, order, &mut notes)?;
    spec.insert("template".into(), template);
    let object = json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": metadata(baseline, (&name, &namespace), &own, order),
        "spec": spec,
    });
    Ok(ForkedDeployment { name, object, pod_labels, notes })
}

fn reject_fork_of_fork(baseline: &Value) -> Result<(), Rejection> {
    let labels = string_map(&baseline["metadata"]["labels"]);
    let of_pods = PodTemplate::from_workload(baseline).labels();
    match labels.get(names::FORK_LABEL).or_else(|| of_pods.get(names::FORK_LABEL)) {
        Some(_) => Err(Rejection::new(
            reasons::BASELINE_IS_FORK,
            format!("{} is itself a fork; name its baseline in forkOf", template::object_name(baseline)),
        )),
        None => Ok(()),
    }
}

/// The labels whose keys match one of the expressions, except our own.
fn preserved_labels(labels: &Labels, expressions: &[String]) -> Result<Labels, Rejection> {
    let expressions =
        expressions.iter().map(|text| compile_expression(text)).collect::<Result<Vec<_>, _>>()?;
    let is_kept = |key: &str| {
        expressions.iter().any(|it| it.is_match(key.as_bytes())) && !tool_metadata::is_own_key(key)
    };
    Ok(labels
        .iter()
        .filter(|(key, _)| is_kept(key))
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect())
}

fn compile_expression(text: &str) -> Result<Regex, Rejection> {
    labels::compile_key_regex(text).map_err(|error| {
        Rejection::new(
            reasons::INVALID_SPEC,
            format!("preservedLabels: {text:?} is not a valid regular expression: {error}"),
        )
    })
}

fn metadata(
    baseline: &Value,
    (name, namespace): (&str, &str),
    own: &Labels,
    order: &ForkRequest<'_>,
) -> Value {
    let labels = tool_metadata::without_tool_metadata(string_map(&baseline["metadata"]["labels"]));
    let labels: Labels = labels.into_iter().chain(own.clone()).collect();
    let mut annotations =
        tool_metadata::without_tool_metadata(string_map(&baseline["metadata"]["annotations"]));
    annotations.insert(names::SOURCE_HASH_ANNOTATION.to_owned(), order.source_hash.to_owned());
    let mut metadata = json!({
        "name": name, "namespace": namespace, "labels": labels, "annotations": annotations,
    });
    if let Some(owner) = template::owner_reference(order.sandbox) {
        metadata["ownerReferences"] = json!([owner]);
    }
    metadata
}

fn pod_template(
    template: &Value,
    labels: &Labels,
    order: &ForkRequest<'_>,
    notes: &mut Vec<String>,
) -> Result<Value, Rejection> {
    let mut pod = object_fields(&template["spec"]);
    containers::customize(&mut pod, order, notes)?;
    let mut metadata = json!({"labels": labels});
    let annotations = tool_metadata::without_tool_metadata(string_map(&template["metadata"]["annotations"]));
    if !annotations.is_empty() {
        metadata["annotations"] = json!(annotations);
    }
    Ok(json!({"metadata": metadata, "spec": pod}))
}

/// The fields of an object, or none.
fn object_fields(value: &Value) -> Map<String, Value> {
    value.as_object().cloned().unwrap_or_default()
}
