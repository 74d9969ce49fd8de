//! Labels and annotations of other tools, which would make them treat a fork as their own object.

use capt_kinds::sandbox::names;

use crate::labels::Labels;

/// Written by the server or `kubectl` about the baseline itself.
const SERVER_WRITTEN: [&str; 2] =
    ["deployment.kubernetes.io/revision", "kubectl.kubernetes.io/last-applied-configuration"];

/// Tracking metadata of `GitOps` tools, which would adopt or prune a fork that has it.
const TRACKING_PREFIXES: [&str; 4] =
    ["argocd.argoproj.io/", "meta.helm.sh/", "kustomize.toolkit.fluxcd.io/", "helm.toolkit.fluxcd.io/"];
const INSTANCE_LABEL: &str = "app.kubernetes.io/instance";

/// Labels or annotations without metadata of tools, and without ours.
pub fn without_tool_metadata(texts: Labels) -> Labels {
    texts.into_iter().filter(|(key, _)| !is_tool_metadata(key)).collect()
}

/// Whether a key is metadata of a tool or ours.
fn is_tool_metadata(key: &str) -> bool {
    key == INSTANCE_LABEL
        || SERVER_WRITTEN.contains(&key)
        || TRACKING_PREFIXES.iter().any(|prefix| key.starts_with(prefix))
        || is_own_key(key)
}

/// Whether a key has our API group as prefix.
pub(super) fn is_own_key(key: &str) -> bool {
    key.split_once('/').is_some_and(|(prefix, _)| prefix == names::GROUP)
}
