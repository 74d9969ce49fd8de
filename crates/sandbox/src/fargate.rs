//! Where a fork's pods would run. EKS decides by the labels that a pod has, and a fork has fewer than its baseline.

use serde_json::Value;

use crate::{
    api::{conditions::reasons, names},
    labels::{Labels, glob},
};

/// A Fargate profile of the cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Profile {
    /// Its name.
    pub name: String,
    /// The pods it is for.
    pub selectors: Vec<Selector>,
}

/// Pods of some namespaces, perhaps with labels. `*` and `?` are wildcards everywhere.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Selector {
    /// Their namespace.
    pub namespace: String,
    /// Their labels, all of them.
    pub labels: Labels,
}

/// Where pods can run in a cluster.
#[derive(Debug, Clone, Copy, Default)]
pub struct Compute<'a> {
    /// The Fargate profiles.
    pub profiles: &'a [Profile],
    /// Whether there are nodes of another kind.
    pub nodes: bool,
}

/// Where a fork's pods would run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// On Fargate.
    Fargate {
        /// The profile that takes them.
        profile: String,
        /// Labels that they need for it, beside their own.
        labels: Labels,
    },
    /// On nodes.
    Nodes,
    /// Nowhere. The sentence names the selector to add.
    Nowhere(String),
}

impl Place {
    /// The reason for the condition `ComputeReady`.
    pub const fn reason(&self) -> &'static str {
        match self {
            Self::Fargate { .. } => reasons::FARGATE_PROFILE,
            Self::Nodes => reasons::NODES,
            Self::Nowhere(_) => reasons::NO_FARGATE_PROFILE,
        }
    }
}

/// The pods of a fork, before anything is made.
#[derive(Debug, Clone, Copy)]
pub struct Candidate<'a> {
    /// Their namespace.
    pub namespace: &'a str,
    /// The labels of the baseline's pods.
    pub baseline: &'a Labels,
    /// The labels of the fork's pods.
    pub fork: &'a Labels,
}

/// Where a fork's pods would run, and with which labels. `misleads` says of labels whether a Service or a disruption
/// budget of the baseline would take a pod with them for its own.
pub fn place(pods: Candidate<'_>, compute: Compute<'_>, misleads: impl Fn(&Labels) -> bool) -> Place {
    let found = taking(compute.profiles, pods.namespace, pods.fork);
    match found.as_slice() {
        [] => {}
        [only] => return Place::Fargate { profile: (*only).to_owned(), labels: Labels::new() },
        // EKS would take the first by name; said aloud it stays so when profiles come and go.
        [first, ..] => {
            let wished = pods.baseline.get(names::FARGATE_PROFILE_LABEL).map(String::as_str);
            let profile = wished.filter(|it| found.contains(it)).unwrap_or(first).to_owned();
            let labels = Labels::from([(names::FARGATE_PROFILE_LABEL.to_owned(), profile.clone())]);
            return Place::Fargate { profile, labels };
        }
    }
    if let Some(place) = by_kept_labels(pods, compute.profiles, misleads) {
        return place;
    }
    if compute.nodes {
        return Place::Nodes;
    }
    Place::Nowhere(format!(
        "no Fargate profile takes the fork's pods and there are no nodes; add a profile with the selector {{namespace: {:?}, labels: {{{:?}: \"*\"}}}}",
        pods.namespace,
        names::FORK_LABEL
    ))
}

/// How long pods may take to become ready on Fargate, in seconds: it looks for a place for a minute or two before they even start.
const PATIENCE: i64 = 600;

/// Lets a fork wait as long as Fargate takes. A baseline on nodes may know less patience.
pub fn give_time(fork: &mut Value) {
    if let Some(deadline) = fork.pointer_mut("/spec/progressDeadlineSeconds")
        && deadline.as_i64().is_some_and(|it| it < PATIENCE)
    {
        *deadline = PATIENCE.into();
    }
}

/// The profiles that take a pod, by name. A pod that names one is taken by no other.
fn taking<'a>(profiles: &'a [Profile], namespace: &str, labels: &Labels) -> Vec<&'a str> {
    let named = labels.get(names::FARGATE_PROFILE_LABEL);
    let wanted = profiles.iter().filter(|it| named.is_none_or(|name| *name == it.name));
    let takes = |profile: &&Profile| profile.selectors.iter().any(|it| selects(it, namespace, labels));
    let mut taking: Vec<_> = wanted.filter(takes).map(|it| it.name.as_str()).collect();
    taking.sort_unstable();
    taking
}

/// Whether a selector of EKS selects a pod.
pub fn selects(selector: &Selector, namespace: &str, labels: &Labels) -> bool {
    glob(&selector.namespace, namespace)
        && selector.labels.iter().all(|(key, value)| matching(key, value, labels).next().is_some())
}

/// The labels of a pod that match one of a selector.
fn matching<'a>(
    key: &'a str,
    value: &'a str,
    labels: &'a Labels,
) -> impl Iterator<Item = (&'a String, &'a String)> {
    labels.iter().filter(move |(k, v)| glob(key, k) && glob(value, v))
}

/// The labels by which a profile takes the baseline, if the fork may keep them.
fn by_kept_labels(
    pods: Candidate<'_>,
    profiles: &[Profile],
    misleads: impl Fn(&Labels) -> bool,
) -> Option<Place> {
    let mut profiles: Vec<_> = profiles.iter().collect();
    profiles.sort_by(|one, other| one.name.cmp(&other.name));
    for profile in profiles {
        let taking = profile.selectors.iter().filter(|it| selects(it, pods.namespace, pods.baseline));
        for selector in taking {
            let of_one = |(key, value): (&String, &String)| {
                let (key, value) = matching(key, value, pods.baseline).next()?;
                Some((key.clone(), value.clone()))
            };
            let kept: Labels = selector.labels.iter().filter_map(of_one).collect();
            let all: Labels = kept.iter().chain(pods.fork).map(|(k, v)| (k.clone(), v.clone())).collect();
            // Our own labels win over kept ones, so a profile may be missed again.
            if selects(selector, pods.namespace, &all) && !misleads(&all) {
                return Some(Place::Fargate { profile: profile.name.clone(), labels: kept });
            }
        }
    }
    None
}

#[cfg(test)]
mod tests;
