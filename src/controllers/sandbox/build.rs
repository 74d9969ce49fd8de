//! What a Sandbox shall have, or why it cannot have it. Pure.

use std::collections::BTreeMap;

use kube::{ResourceExt as _, core::DynamicObject};
use sandbox::{
    api::{BaselineUpdatePolicy, ForkServiceStatus, ForkSpec, Sandbox, Unroutable, conditions::reasons},
    around::{Around, policy_difference},
    fargate::{self, Candidate, Compute, Place},
    fork::{self, Address, Forked, Order},
    labels::Labels,
    refusal::Refusal,
    refuse,
    service::{fork_services, misled},
    template::{Template, own_labels},
    validate::check_patched,
};
use serde_json::{Value, json};

/// Annotation of a fork: a digest of the baseline that it is made from.
pub(super) const BASELINE_ANNOTATION: &str = "sandbox.capt.x-k8s.io/baseline-hash";
/// Annotation of a fork: a digest of how it differs from its baseline.
pub(super) const CUSTOMIZATIONS_ANNOTATION: &str = "sandbox.capt.x-k8s.io/customizations-hash";

/// Annotation of a pinned fork: what it was made as.
const PINNED_ANNOTATION: &str = "sandbox.capt.x-k8s.io/pinned";

/// A baseline, before and after the patch of a fork.
#[derive(Debug, Clone)]
pub(super) struct Source<'a> {
    /// The fork, in the spec.
    pub fork: &'a ForkSpec,
    /// The baseline.
    pub baseline: Value,
    /// The baseline with the patch.
    pub patched: Value,
}

/// What all forks of a Sandbox share.
#[derive(Debug, Clone, Copy)]
pub(super) struct Shared<'a> {
    /// The Sandbox.
    pub sandbox: &'a Sandbox,
    /// Its key.
    pub key: &'a str,
    /// What stands around the baselines.
    pub around: &'a Around<'a>,
    /// Where pods can run.
    pub compute: Compute<'a>,
}

/// A fork as it shall be.
#[derive(Debug, Clone)]
pub(super) struct Built {
    /// Its name in the spec.
    pub name: String,
    /// The Deployment.
    pub deployment: DynamicObject,
    /// Its Services.
    pub services: Vec<DynamicObject>,
    /// Which of them stands for which.
    pub statuses: Vec<ForkServiceStatus>,
    /// What nobody can stand before.
    pub unroutable: Vec<Unroutable>,
    /// Digest of what it takes from the baseline.
    pub baseline_hash: String,
    /// Where its pods will run.
    pub place: Place,
    /// What people should know.
    pub notes: Vec<String>,
    /// A sentence on network policies that hold for only one of both.
    pub policies: Option<String>,
}

/// All forks of a Sandbox, or the first thing that is wrong.
pub(super) fn build(sources: &[Source<'_>], shared: &Shared<'_>) -> Result<Vec<Built>, Refusal> {
    for source in sources {
        check_patched(&source.baseline, &source.patched)?;
        refuse::shared(&source.patched, shared.around)?;
    }
    let addresses = addresses(sources, shared);
    sources.iter().map(|source| one(source, &addresses, shared)).collect()
}

/// Where the forks are reached, by the names of their baselines.
fn addresses(sources: &[Source<'_>], shared: &Shared<'_>) -> BTreeMap<String, Address> {
    let namespace = shared.sandbox.namespace().unwrap_or_default();
    let of_one = |source: &Source<'_>| {
        let name = &source.fork.fork_of.name;
        let mut bare = source.patched.clone();
        bare["metadata"]["name"] = json!(fork::fork_name(&namespace, name, &shared.sandbox.name_any()));
        let found = fork_services(shared.sandbox, &source.baseline, &bare, shared.around.services);
        let first = found.statuses.first()?;
        let host = format!("{}.{namespace}.svc", first.to);
        Some((name.clone(), Address { host, port: first.ports.first()?.port }))
    };
    sources.iter().filter_map(of_one).collect()
}

fn one(
    source: &Source<'_>,
    addresses: &BTreeMap<String, Address>,
    shared: &Shared<'_>,
) -> Result<Built, Refusal> {
    let Shared { sandbox, key, around, compute } = *shared;
    let Source { fork, baseline, patched } = source;
    let source_hash = fork::source_hash(baseline, sandbox, fork, key);
    let nothing = Labels::new();
    let order = Order {
        sandbox,
        fork,
        key,
        route_server: None,
        addresses,
        labels: &nothing,
        source_hash: &source_hash,
    };
    let bare = fork::fork(patched, &order)?;
    let own = own_labels(&bare.name, sandbox, &fork.fork_of.name);
    let namespace = sandbox.namespace().unwrap_or_default();
    let before = Template::of(patched).labels();
    let pods = Candidate { namespace: &namespace, baseline: &before, fork: &bare.pod_labels };
    let place = fargate::place(pods, compute, |labels| !misled(labels, &own, around).is_empty());
    let mut forked = match &place {
        Place::Fargate { labels, .. } if !labels.is_empty() => {
            fork::fork(patched, &Order { labels, ..order })?
        }
        _ => bare,
    };
    check_labels(fork, &forked, (&own, around))?;
    let mut notes = forked.notes.clone();
    if matches!(place, Place::Fargate { .. }) {
        fargate::give_time(&mut forked.object);
        refuse::on_fargate(&forked.object, around)?;
        notes.extend(refuse::fargate_notes(&forked.object));
    }
    let policies = policy_difference(&before, &forked.pod_labels, around.policies).words();
    let services = fork_services(sandbox, baseline, &forked.object, around.services);
    let baseline_hash = fork::template_hash(baseline);
    let mut deployment = dynamic(&forked.object)?;
    let notes_of_ours = deployment.annotations_mut();
    notes_of_ours.insert(BASELINE_ANNOTATION.to_owned(), baseline_hash.clone());
    notes_of_ours.insert(CUSTOMIZATIONS_ANNOTATION.to_owned(), customizations(fork, shared));
    if fork.baseline_update_policy == BaselineUpdatePolicy::Pin {
        remember(&mut deployment);
    }
    Ok(Built {
        name: fork.name().to_owned(),
        services: services.services.iter().map(dynamic).collect::<Result<_, _>>()?,
        statuses: services.statuses,
        unroutable: services.unroutable,
        baseline_hash,
        place,
        notes,
        policies,
        deployment,
    })
}

/// Notes what a pinned fork shall be. The baseline that it was made from may be gone when somebody edits it.
fn remember(deployment: &mut DynamicObject) {
    if let Ok(text) = serde_json::to_string(deployment) {
        deployment.annotations_mut().insert(PINNED_ANNOTATION.to_owned(), text);
    }
}

/// What a pinned fork shall be, as it was noted.
pub(super) fn remembered(live: &DynamicObject) -> Option<DynamicObject> {
    let text = live.annotations().get(PINNED_ANNOTATION)?;
    let mut noted: DynamicObject = serde_json::from_str(text).ok()?;
    let is_it =
        noted.metadata.name == live.metadata.name && noted.metadata.namespace == live.metadata.namespace;
    noted.annotations_mut().insert(PINNED_ANNOTATION.to_owned(), text.clone());
    is_it.then_some(noted)
}

/// A digest of how a fork differs from its baseline.
fn customizations(fork: &ForkSpec, shared: &Shared<'_>) -> String {
    let text = serde_json::to_string(&(&fork.customizations, shared.key)).unwrap_or_default();
    sandbox::digest::sha256(&text)
}

/// A fork that keeps labels of its baseline must not be taken for it.
fn check_labels(
    fork: &ForkSpec,
    forked: &Forked,
    (own, around): (&Labels, &Around<'_>),
) -> Result<(), Refusal> {
    let misled = misled(&forked.pod_labels, own, around);
    if misled.is_empty() {
        return Ok(());
    }
    let message = format!(
        "the labels that fork {} keeps would make its pods the baseline's to {}; keep fewer in preservedLabels",
        fork.name(),
        misled.join(", ")
    );
    Err(Refusal::new(reasons::WOULD_RECEIVE_BASELINE_TRAFFIC, message))
}

/// An object as it is applied. Whoever made something that is no object made a mistake in the spec.
pub(super) fn dynamic<K: serde::Serialize>(object: &K) -> Result<DynamicObject, Refusal> {
    let made = serde_json::to_value(object).and_then(serde_json::from_value);
    made.map_err(|error| Refusal::new(reasons::INVALID_SPEC, format!("the fork is no object: {error}")))
}
