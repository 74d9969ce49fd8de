//! Whether the targets are ready, pending or stuck.

use super::{HealthState, TreeNode};

/// Readiness of all targets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::cli) enum TargetReadiness {
    /// Every target and its descendants are ready.
    Ready,
    /// Something is still in progress.
    Pending,
    /// No progress without user action; one reason per line.
    Stuck(Vec<String>),
}

/// An object to wait for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::cli) struct WaitTarget {
    pub(in crate::cli) kind: String,
    pub(in crate::cli) namespace: String,
    pub(in crate::cli) name: String,
}

impl WaitTarget {
    /// Whether the node is this object.
    pub(in crate::cli) fn matches(&self, node: &TreeNode) -> bool {
        self.kind == node.kind
            && self.name == node.name
            && node.namespace.as_ref().is_none_or(|found| *found == self.namespace)
    }
}

/// Assesses the whole trees that contain targets: a Cluster is ready when all its descendants are. No targets means all
/// trees.
pub(in crate::cli) fn assess_readiness(forest: &[TreeNode], wanted: &[WaitTarget]) -> TargetReadiness {
    let holds = |root: &&TreeNode| {
        wanted.is_empty()
            || root
                .self_and_descendants()
                .into_iter()
                .any(|node| wanted.iter().any(|target| target.matches(node)))
    };
    let nodes: Vec<&TreeNode> =
        forest.iter().filter(holds).flat_map(TreeNode::self_and_descendants).collect();
    let stuck: Vec<String> = nodes.iter().filter_map(|node| stuck_reason(node)).collect();
    if !stuck.is_empty() {
        return TargetReadiness::Stuck(stuck);
    }
    let is_there = |target: &WaitTarget| nodes.iter().any(|node| target.matches(node));
    let is_well = |node: &&TreeNode| matches!(node.health.state, HealthState::Ready | HealthState::Plain);
    if wanted.iter().all(is_there) && nodes.iter().all(is_well) {
        TargetReadiness::Ready
    } else {
        TargetReadiness::Pending
    }
}

/// Why the node is stuck, with the remedy.
fn stuck_reason(node: &TreeNode) -> Option<String> {
    let judgement = &node.health;
    let said = judgement.message.as_deref().unwrap_or(&judgement.phase);
    match judgement.state {
        HealthState::Blocked => {
            let remedy = match &judgement.command {
                Some(command) => format!("approve it with `{command}`"),
                None => "its plan is not known yet; check `capt status`".to_owned(),
            };
            Some(format!("{}: the plan is waiting for approval: {said}; {remedy}", node.id()))
        }
        HealthState::Failed => Some(format!("{}: {}: {said}", node.id(), judgement.phase)),
        HealthState::Paused => Some(format!(
            "{}: reconciliation is paused; unset spec.paused of its Cluster, or remove its annotation cluster.x-k8s.io/paused",
            node.id()
        )),
        _ => None,
    }
}
