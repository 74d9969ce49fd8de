//! From a baseline to its fork.
//!
//! Contract: the fork is the baseline with these differences and no others, and the same input gives the same bytes.
//!
//! | where | difference |
//! |---|---|
//! | `metadata` | a name of its own; labels and annotations without the marks of `GitOps` tools, with ours; owned by the sandbox; nothing that the server wrote |
//! | `spec` | `replicas` of the customizations, `strategy` Recreate, `revisionHistoryLimit` 1, the selector is the fork's, not paused |
//! | `template.metadata` | only our labels, those that are preserved, and annotations without marks |
//! | containers | images, env, resources of the customizations; the sandbox's own variables first |
//! | `env`, `ports` | of several entries with one name (env) or one number (ports) the one that counts: an apply takes no others |
//!
//! The user's patch is not applied here: the API server does that, and its answer is the baseline given to [`fork`].

mod containers;
mod env;
mod marks;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use kube::ResourceExt as _;
use regex::bytes::Regex;
use serde_json::{Map, Value, json};

use crate::{
    api::{ForkSpec, Sandbox, conditions::reasons, names},
    digest::{canonical, joined_name, sha256},
    labels::{self, Labels},
    refusal::Refusal,
    service::LONGEST_NAME,
    template::{self, Template, own_labels, texts},
};

pub use self::{env::Address, marks::without as without_marks};

/// What is to be forked, and for whom.
#[derive(Debug, Clone, Copy)]
pub struct Order<'a> {
    /// For whom.
    pub sandbox: &'a Sandbox,
    /// What, of the sandbox's spec.
    pub fork: &'a ForkSpec,
    /// The sandbox's routing key.
    pub key: &'a str,
    /// Where routes can be asked for, for `SIGNADOT_ROUTESERVER`; nothing if nobody answers.
    pub route_server: Option<&'a str>,
    /// The addresses of the sandbox's forks, by the names of their baselines.
    pub addresses: &'a BTreeMap<String, Address>,
    /// Labels that the pods get beside ours and the preserved ones: what a Fargate profile wants.
    pub labels: &'a Labels,
    /// What [`source_hash`] says of the baseline before the patch.
    pub source_hash: &'a str,
}

/// A fork.
#[derive(Debug, Clone, PartialEq)]
pub struct Forked {
    /// Its name, which is also its id.
    pub name: String,
    /// The Deployment, to be applied.
    pub object: Value,
    /// The labels of its pods.
    pub pod_labels: Labels,
    /// What people should know.
    pub notes: Vec<String>,
}

/// The name of a fork, which is also the value of its label.
pub fn fork_name(namespace: &str, baseline: &str, sandbox: &str) -> String {
    joined_name(["Deployment", namespace, baseline], sandbox, LONGEST_NAME)
}

/// A digest of what a fork takes from its baseline. An autoscaler or a rollout's progress does not change it.
pub fn template_hash(baseline: &Value) -> String {
    sha256(&canonical(&taken(baseline)))
}

/// A digest of what a fork is made from: the baseline, how the fork differs, and for whom.
pub fn source_hash(baseline: &Value, sandbox: &Sandbox, fork: &ForkSpec, key: &str) -> String {
    let customizations = serde_json::to_value(&fork.customizations).unwrap_or_default();
    let parts = json!([taken(baseline), customizations, sandbox.name_any(), key]);
    sha256(&canonical(&parts))
}

/// The parts of a baseline's spec that are in its fork too.
fn taken(baseline: &Value) -> Value {
    let mut spec = baseline["spec"].clone();
    if let Some(fields) = spec.as_object_mut() {
        for own in ["replicas", "strategy", "revisionHistoryLimit", "selector", "paused"] {
            fields.remove(own);
        }
    }
    spec
}

/// Makes the fork of a baseline, after the user's patch was applied to it.
pub fn fork(baseline: &Value, order: &Order<'_>) -> Result<Forked, Refusal> {
    let baseline_name = template::name(baseline);
    let namespace = order.sandbox.namespace().unwrap_or_default();
    refuse_fork_of_fork(baseline)?;
    let name = fork_name(&namespace, baseline_name, &order.sandbox.name_any());
    let own = own_labels(&name, order.sandbox, baseline_name);
    let kept = preserved(&Template::of(baseline).labels(), &order.fork.customizations.preserved_labels)?;
    let pod_labels: Labels = kept.into_iter().chain(order.labels.clone()).chain(own.clone()).collect();
    let mut notes = Vec::new();
    let mut spec = object(&baseline["spec"]);
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
    Ok(Forked { name, object, pod_labels, notes })
}

fn refuse_fork_of_fork(baseline: &Value) -> Result<(), Refusal> {
    let labels = texts(&baseline["metadata"]["labels"]);
    let of_pods = Template::of(baseline).labels();
    match labels.get(names::FORK_LABEL).or_else(|| of_pods.get(names::FORK_LABEL)) {
        Some(_) => Err(Refusal::new(
            reasons::BASELINE_IS_FORK,
            format!("{} is itself a fork; name its baseline in forkOf", template::name(baseline)),
        )),
        None => Ok(()),
    }
}

/// The labels whose keys match one of the expressions, but for the marks of tools and ours.
fn preserved(labels: &Labels, expressions: &[String]) -> Result<Labels, Refusal> {
    let expressions = expressions.iter().map(|text| expression(text)).collect::<Result<Vec<_>, _>>()?;
    let is_kept =
        |key: &str| expressions.iter().any(|it| it.is_match(key.as_bytes())) && !marks::is_ours(key);
    Ok(labels
        .iter()
        .filter(|(key, _)| is_kept(key))
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect())
}

fn expression(text: &str) -> Result<Regex, Refusal> {
    labels::expression(text).map_err(|error| {
        Refusal::new(
            reasons::INVALID_SPEC,
            format!("preservedLabels: {text:?} is no regular expression: {error}"),
        )
    })
}

fn metadata(baseline: &Value, (name, namespace): (&str, &str), own: &Labels, order: &Order<'_>) -> Value {
    let labels = marks::without(texts(&baseline["metadata"]["labels"]));
    let labels: Labels = labels.into_iter().chain(own.clone()).collect();
    let mut annotations = marks::without(texts(&baseline["metadata"]["annotations"]));
    annotations.insert(names::SOURCE_HASH_ANNOTATION.to_owned(), order.source_hash.to_owned());
    let mut metadata = json!({
        "name": name, "namespace": namespace, "labels": labels, "annotations": annotations,
    });
    if let Some(owner) = template::owner(order.sandbox) {
        metadata["ownerReferences"] = json!([owner]);
    }
    metadata
}

fn pod_template(
    template: &Value,
    labels: &Labels,
    order: &Order<'_>,
    notes: &mut Vec<String>,
) -> Result<Value, Refusal> {
    let mut pod = object(&template["spec"]);
    containers::customize(&mut pod, order, notes)?;
    let mut metadata = json!({"labels": labels});
    let annotations = marks::without(texts(&template["metadata"]["annotations"]));
    if !annotations.is_empty() {
        metadata["annotations"] = json!(annotations);
    }
    Ok(json!({"metadata": metadata, "spec": pod}))
}

/// The fields of an object, or none.
fn object(value: &Value) -> Map<String, Value> {
    value.as_object().cloned().unwrap_or_default()
}
