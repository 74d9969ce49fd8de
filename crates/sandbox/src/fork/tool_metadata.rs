//! Marks that others put on a workload, and that would mislead them on a fork.

use crate::{api::names, labels::Labels};

/// What the server or `kubectl` wrote about the baseline itself.
const BOOKKEEPING: [&str; 2] =
    ["deployment.kubernetes.io/revision", "kubectl.kubernetes.io/last-applied-configuration"];

/// By these, tools that deploy from a repository know their objects: with them on it, a fork would be taken over or pruned.
const TRACKING_PREFIXES: [&str; 4] =
    ["argocd.argoproj.io/", "meta.helm.sh/", "kustomize.toolkit.fluxcd.io/", "helm.toolkit.fluxcd.io/"];
const TRACKING: &str = "app.kubernetes.io/instance";

/// Labels or annotations without marks.
pub fn without(texts: Labels) -> Labels {
    texts.into_iter().filter(|(key, _)| !is_mark(key)).collect()
}

/// Whether a key is such a mark.
fn is_mark(key: &str) -> bool {
    key == TRACKING
        || BOOKKEEPING.contains(&key)
        || TRACKING_PREFIXES.iter().any(|prefix| key.starts_with(prefix))
        || is_ours(key)
}

/// Whether a key is one of ours.
pub(super) fn is_ours(key: &str) -> bool {
    key.split_once('/').is_some_and(|(prefix, _)| prefix == names::GROUP)
}
