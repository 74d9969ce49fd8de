//! Placement of a fork's pods. EKS matches Fargate profiles by pod labels, and a fork has fewer labels than its baseline.

use capt_kinds::sandbox::{conditions::reasons, names};
use serde_json::Value;

use crate::labels::{Labels, glob_matches};

/// A Fargate profile of the cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Profile {
    /// Its name.
    pub name: String,
    /// Its selectors.
    pub selectors: Vec<Selector>,
}

/// A selector of a profile. `*` and `?` are wildcards in all values.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Selector {
    /// Namespace of the pods.
    pub namespace: String,
    /// Labels of the pods, all required.
    pub labels: Labels,
}

/// Compute capacity of a cluster.
#[derive(Debug, Clone, Copy, Default)]
pub struct ClusterCompute<'a> {
    /// The Fargate profiles.
    pub profiles: &'a [Profile],
    /// Whether there are nodes other than Fargate's.
    pub has_nodes: bool,
}

/// Where a fork's pods are scheduled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Placement {
    /// On Fargate.
    Fargate {
        /// The selecting profile.
        profile: String,
        /// Additional labels that the pods need for it.
        labels: Labels,
    },
    /// On nodes.
    Nodes,
    /// Nowhere. The message names the selector to add.
    Unschedulable(String),
}

impl Placement {
    /// The reason for the condition `ComputeReady`.
    pub const fn reason(&self) -> &'static str {
        match self {
            Self::Fargate { .. } => reasons::FARGATE_PROFILE,
            Self::Nodes => reasons::NODES,
            Self::Unschedulable(_) => reasons::NO_FARGATE_PROFILE,
        }
    }
}

/// The pods of a fork before it is created.
#[derive(Debug, Clone, Copy)]
pub struct ForkPods<'a> {
    /// Their namespace.
    pub namespace: &'a str,
    /// The labels of the baseline's pods.
    pub baseline: &'a Labels,
    /// The labels of the fork's pods.
    pub fork: &'a Labels,
}

/// Chooses the placement of a fork's pods and the labels that it needs. `misleads` returns whether a Service or a disruption
/// budget of the baseline would select a pod with the given labels.
pub fn choose_placement(
    pods: ForkPods<'_>,
    compute: ClusterCompute<'_>,
    misleads: impl Fn(&Labels) -> bool,
) -> Placement {
    let found = matching_profiles(compute.profiles, pods.namespace, pods.fork);
    match found.as_slice() {
        [] => {}
        [only] => return Placement::Fargate { profile: (*only).to_owned(), labels: Labels::new() },
        // EKS picks the first by name; the explicit label keeps the choice stable when profiles are added or removed.
        [first, ..] => {
            let wished = pods.baseline.get(names::FARGATE_PROFILE_LABEL).map(String::as_str);
            let profile = wished.filter(|it| found.contains(it)).unwrap_or(first).to_owned();
            let labels = Labels::from([(names::FARGATE_PROFILE_LABEL.to_owned(), profile.clone())]);
            return Placement::Fargate { profile, labels };
        }
    }
    if let Some(place) = placement_by_baseline_labels(pods, compute.profiles, misleads) {
        return place;
    }
    if compute.has_nodes {
        return Placement::Nodes;
    }
    Placement::Unschedulable(format!(
        "no Fargate profile selects the fork's pods and there are no nodes; add a profile with the selector {{namespace: {:?}, labels: {{{:?}: \"*\"}}}}",
        pods.namespace,
        names::FORK_LABEL
    ))
}

/// Minimum progress deadline on Fargate, in seconds: scheduling takes a minute or two before a pod starts.
const FARGATE_PROGRESS_DEADLINE: i64 = 600;

/// Raises the progress deadline of a fork on Fargate. That of a baseline on nodes may be shorter.
pub fn extend_progress_deadline(fork: &mut Value) {
    if let Some(deadline) = fork.pointer_mut("/spec/progressDeadlineSeconds")
        && deadline.as_i64().is_some_and(|it| it < FARGATE_PROGRESS_DEADLINE)
    {
        *deadline = FARGATE_PROGRESS_DEADLINE.into();
    }
}

/// The profiles that select a pod, sorted by name. A pod that names a profile is selected by no other.
fn matching_profiles<'a>(profiles: &'a [Profile], namespace: &str, labels: &Labels) -> Vec<&'a str> {
    let named = labels.get(names::FARGATE_PROFILE_LABEL);
    let wanted = profiles.iter().filter(|it| named.is_none_or(|name| *name == it.name));
    let takes = |profile: &&Profile| profile.selectors.iter().any(|it| selects(it, namespace, labels));
    let mut taking: Vec<_> = wanted.filter(takes).map(|it| it.name.as_str()).collect();
    taking.sort_unstable();
    taking
}

/// Whether a profile's selector selects a pod.
pub fn selects(selector: &Selector, namespace: &str, labels: &Labels) -> bool {
    glob_matches(&selector.namespace, namespace)
        && selector.labels.iter().all(|(key, value)| matching_labels(key, value, labels).next().is_some())
}

/// The labels of a pod that match a label of a selector.
fn matching_labels<'a>(
    key: &'a str,
    value: &'a str,
    labels: &'a Labels,
) -> impl Iterator<Item = (&'a String, &'a String)> {
    labels.iter().filter(move |(k, v)| glob_matches(key, k) && glob_matches(value, v))
}

/// Placement by the labels for which a profile selects the baseline, if the fork may keep them.
fn placement_by_baseline_labels(
    pods: ForkPods<'_>,
    profiles: &[Profile],
    misleads: impl Fn(&Labels) -> bool,
) -> Option<Placement> {
    let mut profiles: Vec<_> = profiles.iter().collect();
    profiles.sort_by(|one, other| one.name.cmp(&other.name));
    for profile in profiles {
        let taking = profile.selectors.iter().filter(|it| selects(it, pods.namespace, pods.baseline));
        for selector in taking {
            let of_one = |(key, value): (&String, &String)| {
                let (key, value) = matching_labels(key, value, pods.baseline).next()?;
                Some((key.clone(), value.clone()))
            };
            let kept: Labels = selector.labels.iter().filter_map(of_one).collect();
            let all: Labels = kept.iter().chain(pods.fork).map(|(k, v)| (k.clone(), v.clone())).collect();
            // Our labels override kept ones, so the selector may no longer match.
            if selects(selector, pods.namespace, &all) && !misleads(&all) {
                return Some(Placement::Fargate { profile: profile.name.clone(), labels: kept });
            }
        }
    }
    None
}

#[cfg(test)]
mod tests;
