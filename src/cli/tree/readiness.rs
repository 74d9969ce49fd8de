//! Whether what was asked for is there, still comes, or cannot come.

use super::{Node, State};

/// How it stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::cli) enum Verdict {
    /// Everything is as it should be.
    Ready,
    /// Something still happens.
    Going,
    /// Nothing more happens by itself; why, a line each.
    Stuck(Vec<String>),
}

/// An object that was asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::cli) struct Target {
    pub(in crate::cli) kind: String,
    pub(in crate::cli) namespace: String,
    pub(in crate::cli) name: String,
}

impl Target {
    /// Whether it is this one.
    pub(in crate::cli) fn is(&self, node: &Node) -> bool {
        self.kind == node.kind
            && self.name == node.name
            && node.namespace.as_ref().is_none_or(|found| *found == self.namespace)
    }
}

/// Looks at the trees in which the wanted objects stand, whole: a Cluster is ready when all that belongs to it is.
/// Nothing wanted means everything.
pub(in crate::cli) fn verdict(forest: &[Node], wanted: &[Target]) -> Verdict {
    let holds = |root: &&Node| {
        wanted.is_empty() || root.all().into_iter().any(|node| wanted.iter().any(|target| target.is(node)))
    };
    let nodes: Vec<&Node> = forest.iter().filter(holds).flat_map(Node::all).collect();
    let stuck: Vec<String> = nodes.iter().filter_map(|node| reason(node)).collect();
    if !stuck.is_empty() {
        return Verdict::Stuck(stuck);
    }
    let is_there = |target: &Target| nodes.iter().any(|node| target.is(node));
    let is_well = |node: &&Node| matches!(node.judgement.state, State::Ready | State::Plain);
    if wanted.iter().all(is_there) && nodes.iter().all(is_well) { Verdict::Ready } else { Verdict::Going }
}

/// Why nothing more happens to it, and what to do.
fn reason(node: &Node) -> Option<String> {
    let judgement = &node.judgement;
    let said = judgement.message.as_deref().unwrap_or(&judgement.phase);
    match judgement.state {
        State::Blocked => {
            let remedy = match &judgement.command {
                Some(command) => format!("to go on: `{command}`"),
                None => "its plan is not known yet; look again with `capt status`".to_owned(),
            };
            Some(format!("{}: its plan waits for approval: {said}; {remedy}", node.id()))
        }
        State::Failed => Some(format!("{}: {}: {said}", node.id(), judgement.phase)),
        State::Paused => Some(format!(
            "{}: it is paused; take away spec.paused of its Cluster, or its annotation cluster.x-k8s.io/paused",
            node.id()
        )),
        _ => None,
    }
}
