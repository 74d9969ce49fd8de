//! Builds the forks of a Sandbox, or rejects its spec. Pure.

use std::collections::BTreeMap;

use capt_kinds::sandbox::{
    BaselineUpdatePolicy, ForkServiceStatus, ForkSpec, Sandbox, Unroutable, conditions::reasons,
};
use kube::{ResourceExt as _, core::DynamicObject};
use sandbox::{
    fargate::{self, ClusterCompute, ForkPods, Placement},
    fork::{self, ForkAddress, ForkRequest, ForkedDeployment},
    labels::Labels,
    namespace_context::{NamespaceContext, policy_difference},
    rejection::Rejection,
    service::{fork_services, misselecting_objects},
    template::{PodTemplate, own_labels},
    unsupported,
    validate::check_patched_baseline,
};
use serde_json::{Value, json};

/// Annotation of a fork: hash of the baseline that it was built from.
pub(super) const BASELINE_HASH_ANNOTATION: &str = "sandbox.capt.x-k8s.io/baseline-hash";
/// Annotation of a fork: hash of its customizations.
pub(super) const CUSTOMIZATIONS_HASH_ANNOTATION: &str = "sandbox.capt.x-k8s.io/customizations-hash";

/// Annotation of a pinned fork: its manifest at the time it was built.
const PINNED_ANNOTATION: &str = "sandbox.capt.x-k8s.io/pinned";

/// A baseline before and after the patch of a fork.
#[derive(Debug, Clone)]
pub(super) struct ForkSource<'a> {
    /// The fork's spec.
    pub fork: &'a ForkSpec,
    /// The baseline.
    pub baseline: Value,
    /// The baseline with the patch.
    pub patched: Value,
}

/// The inputs that all forks of a Sandbox share.
#[derive(Debug, Clone, Copy)]
pub(super) struct BuildContext<'a> {
    /// The Sandbox.
    pub sandbox: &'a Sandbox,
    /// Its routing key.
    pub key: &'a str,
    /// The namespace of the baselines.
    pub namespace: &'a NamespaceContext<'a>,
    /// Where pods can run.
    pub compute: ClusterCompute<'a>,
}

/// A desired fork.
#[derive(Debug, Clone)]
pub(super) struct BuiltFork {
    /// Its name in the spec.
    pub name: String,
    /// The Deployment.
    pub deployment: DynamicObject,
    /// Its Services.
    pub services: Vec<DynamicObject>,
    /// Which of them replaces which Service of the baseline.
    pub service_statuses: Vec<ForkServiceStatus>,
    /// Services that cannot be routed.
    pub unroutable: Vec<Unroutable>,
    /// Hash of the fields that it inherits from the baseline.
    pub baseline_hash: String,
    /// Where its pods are scheduled.
    pub placement: Placement,
    /// Notes for an event.
    pub notes: Vec<String>,
    /// A sentence on network policies that select only the baseline or only the fork.
    pub policy_note: Option<String>,
}

/// Builds all forks of a Sandbox, or returns the first rejection.
pub(super) fn build_forks(
    sources: &[ForkSource<'_>],
    shared: &BuildContext<'_>,
) -> Result<Vec<BuiltFork>, Rejection> {
    for source in sources {
        check_patched_baseline(&source.baseline, &source.patched)?;
        unsupported::check_exclusive_resources(&source.patched, shared.namespace)?;
    }
    let addresses = fork_addresses(sources, shared);
    sources.iter().map(|source| build_fork(source, &addresses, shared)).collect()
}

/// The addresses of the forks, by the names of their baselines.
fn fork_addresses(sources: &[ForkSource<'_>], shared: &BuildContext<'_>) -> BTreeMap<String, ForkAddress> {
    let namespace = shared.sandbox.namespace().unwrap_or_default();
    let of_one = |source: &ForkSource<'_>| {
        let name = &source.fork.fork_of.name;
        let mut bare = source.patched.clone();
        bare["metadata"]["name"] = json!(fork::fork_name(&namespace, name, &shared.sandbox.name_any()));
        let found = fork_services(shared.sandbox, &source.baseline, &bare, shared.namespace.services);
        let first = found.statuses.first()?;
        let host = format!("{}.{namespace}.svc", first.to);
        Some((name.clone(), ForkAddress { host, port: first.ports.first()?.port }))
    };
    sources.iter().filter_map(of_one).collect()
}

fn build_fork(
    source: &ForkSource<'_>,
    addresses: &BTreeMap<String, ForkAddress>,
    shared: &BuildContext<'_>,
) -> Result<BuiltFork, Rejection> {
    let BuildContext { sandbox, key, namespace: around, compute } = *shared;
    let ForkSource { fork, baseline, patched } = source;
    let source_hash = fork::source_hash(baseline, sandbox, fork, key);
    let nothing = Labels::new();
    let order = ForkRequest {
        sandbox,
        fork,
        key,
        route_server: None,
        addresses,
        extra_labels: &nothing,
        source_hash: &source_hash,
    };
    let bare = fork::build_fork(patched, &order)?;
    let own = own_labels(&bare.name, sandbox, &fork.fork_of.name);
    let namespace = sandbox.namespace().unwrap_or_default();
    let before = PodTemplate::from_workload(patched).labels();
    let pods = ForkPods { namespace: &namespace, baseline: &before, fork: &bare.pod_labels };
    let place = fargate::choose_placement(pods, compute, |labels| {
        !misselecting_objects(labels, &own, around).is_empty()
    });
    let mut forked = match &place {
        Placement::Fargate { labels, .. } if !labels.is_empty() => {
            fork::build_fork(patched, &ForkRequest { extra_labels: labels, ..order })?
        }
        _ => bare,
    };
    check_preserved_labels(fork, &forked, (&own, around))?;
    let mut notes = forked.notes.clone();
    if matches!(place, Placement::Fargate { .. }) {
        fargate::extend_progress_deadline(&mut forked.object);
        unsupported::check_fargate_support(&forked.object, around)?;
        notes.extend(unsupported::fargate_notes(&forked.object));
    }
    let policies = policy_difference(&before, &forked.pod_labels, around.policies).describe();
    let services = fork_services(sandbox, baseline, &forked.object, around.services);
    let baseline_hash = fork::template_hash(baseline);
    let mut deployment = to_dynamic(&forked.object)?;
    let notes_of_ours = deployment.annotations_mut();
    notes_of_ours.insert(BASELINE_HASH_ANNOTATION.to_owned(), baseline_hash.clone());
    notes_of_ours.insert(CUSTOMIZATIONS_HASH_ANNOTATION.to_owned(), customizations_hash(fork, shared));
    if fork.baseline_update_policy == BaselineUpdatePolicy::Pin {
        record_pinned(&mut deployment);
    }
    Ok(BuiltFork {
        name: fork.name().to_owned(),
        services: services.services.iter().map(to_dynamic).collect::<Result<_, _>>()?,
        service_statuses: services.statuses,
        unroutable: services.unroutable,
        baseline_hash,
        placement: place,
        notes,
        policy_note: policies,
        deployment,
    })
}

/// Records the manifest of a pinned fork, so that foreign edits can be reverted after the baseline has changed.
fn record_pinned(deployment: &mut DynamicObject) {
    if let Ok(text) = serde_json::to_string(deployment) {
        deployment.annotations_mut().insert(PINNED_ANNOTATION.to_owned(), text);
    }
}

/// The recorded manifest of a pinned fork.
pub(super) fn pinned_deployment(live: &DynamicObject) -> Option<DynamicObject> {
    let text = live.annotations().get(PINNED_ANNOTATION)?;
    let mut noted: DynamicObject = serde_json::from_str(text).ok()?;
    let is_it =
        noted.metadata.name == live.metadata.name && noted.metadata.namespace == live.metadata.namespace;
    noted.annotations_mut().insert(PINNED_ANNOTATION.to_owned(), text.clone());
    is_it.then_some(noted)
}

/// Hash of the customizations and the routing key of a fork.
fn customizations_hash(fork: &ForkSpec, shared: &BuildContext<'_>) -> String {
    let text = serde_json::to_string(&(&fork.customizations, shared.key)).unwrap_or_default();
    sandbox::digest::sha256(&text)
}

/// Rejects preserved labels by which a Service or disruption budget would select the fork's pods as the baseline's.
fn check_preserved_labels(
    fork: &ForkSpec,
    forked: &ForkedDeployment,
    (own, around): (&Labels, &NamespaceContext<'_>),
) -> Result<(), Rejection> {
    let misled = misselecting_objects(&forked.pod_labels, own, around);
    if misled.is_empty() {
        return Ok(());
    }
    let message = format!(
        "labels preserved by fork {} let {} select its pods as the baseline's; preserve fewer in preservedLabels",
        fork.name(),
        misled.join(", ")
    );
    Err(Rejection::new(reasons::WOULD_RECEIVE_BASELINE_TRAFFIC, message))
}

/// Converts an object for a server-side apply. A conversion error is caused by the spec.
pub(super) fn to_dynamic<K: serde::Serialize>(object: &K) -> Result<DynamicObject, Rejection> {
    let made = serde_json::to_value(object).and_then(serde_json::from_value);
    made.map_err(|error| {
        Rejection::new(reasons::INVALID_SPEC, format!("the generated object is not valid: {error}"))
    })
}
