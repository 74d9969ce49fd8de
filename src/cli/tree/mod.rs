//! What exists, as a tree: a Cluster, its network and its control plane, and the workspaces of both.
//!
//! Everything here is pure: objects in, nodes out. `seen` reads an object, `judge` says how it is, `text` puts it
//! into lines, `verdict` tells whether all is done.

mod judge;
mod seen;
mod text;
mod verdict;

use std::{borrow::Borrow, collections::BTreeSet};

use jiff::Timestamp;
use kube::api::DynamicObject;
pub(super) use seen::Seen;
use serde::Serialize;
pub(super) use text::{Line, lines, plain};
pub(super) use verdict::{Target, Verdict, verdict};

/// How an object is, in one word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum State {
    /// As it should be.
    Ready,
    /// Nobody says how it is, and nobody has to.
    Plain,
    /// Something is being done.
    Working,
    /// It waits for something else.
    Waiting,
    /// It failed, and is tried again by itself.
    Retrying,
    /// It waits for a person's consent.
    Blocked,
    /// It failed, and stays so until something is changed.
    Failed,
    /// Nobody acts on it.
    Paused,
    /// It is going away.
    Deleting,
}

/// How far a run of terraform is.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Progress {
    pub(super) done: i32,
    pub(super) total: i32,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) slowest: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) slowest_seconds: Option<i64>,
}

/// How an object is.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Judgement {
    pub(super) state: State,
    /// For people: `applying`, `Provisioned`.
    pub(super) phase: String,
    /// Since when it is so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) since: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) progress: Option<Progress>,
    /// What is not right, or what is waited for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) message: Option<String>,
    /// When it is tried again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) retry_at: Option<Timestamp>,
    /// The hash of the plan that waits for consent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) approve: Option<String>,
    /// What to type then.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) command: Option<String>,
}

impl Judgement {
    fn new(state: State, phase: impl Into<String>) -> Self {
        let phase = phase.into();
        Self {
            state,
            phase,
            since: None,
            progress: None,
            message: None,
            retry_at: None,
            approve: None,
            command: None,
        }
    }

    fn because(mut self, message: Option<String>) -> Self {
        self.message = message.filter(|text| !text.is_empty());
        self
    }
}

/// An object and what belongs to it.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Node {
    pub(super) kind: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) namespace: Option<String>,
    pub(super) name: String,
    /// Whether somebody asked for its end.
    pub(super) deleting: bool,
    #[serde(flatten)]
    pub(super) judgement: Judgement,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) children: Vec<Self>,
}

impl Node {
    /// The node itself and everything below it.
    pub(super) fn all(&self) -> Vec<&Self> {
        let mut found = vec![self];
        found.extend(self.children.iter().flat_map(Self::all));
        found
    }

    /// Kind, namespace and name.
    pub(super) fn id(&self) -> String {
        match &self.namespace {
            Some(namespace) => format!("{} {namespace}/{}", self.kind, self.name),
            None => format!("{} {}", self.kind, self.name),
        }
    }

    /// Whether it is worth a line of its own: a template or an identity that is well is not.
    fn is_shown(&self) -> bool {
        !matches!(self.kind.as_str(), "WorkspaceTemplate" | "CAPTIdentity")
            || !matches!(self.judgement.state, State::Ready | State::Plain)
    }
}

/// In which order siblings stand.
fn rank(kind: &str) -> u8 {
    match kind {
        "Cluster" => 0,
        "CAPTCluster" => 1,
        "CAPTControlPlane" => 2,
        "WorkspaceTemplateApply" => 3,
        _ => 4,
    }
}

/// All objects as trees. Each stands once: below its owner, or else as a root. `flags` make a command find the same API.
pub(super) fn forest<T: Borrow<DynamicObject>>(objects: &[T], flags: &str) -> Vec<Node> {
    let mut nodes = trees(objects);
    for node in &mut nodes {
        address(node, flags);
    }
    nodes
}

/// Puts what to type beside each plan that waits.
fn address(node: &mut Node, flags: &str) {
    if let Some(hash) = &node.judgement.approve {
        let namespace = match node.namespace.as_deref() {
            None | Some("default") => String::new(),
            Some(namespace) => format!(" -n {namespace}"),
        };
        let short: String = hash.chars().take(12).collect();
        node.judgement.command = Some(format!("capt approve {} {short}{namespace}{flags}", node.name));
    }
    for child in &mut node.children {
        address(child, flags);
    }
}

fn trees<T: Borrow<DynamicObject>>(objects: &[T]) -> Vec<Node> {
    let mut all: Vec<Seen<'_>> = objects.iter().map(|object| Seen(object.borrow())).collect();
    all.sort_by_key(|seen| {
        // The workspace of the cluster itself comes before those of its profiles.
        let is_profile = seen.label(crate::api::names::FARGATE_PROFILE_LABEL).is_some();
        (rank(seen.kind()), seen.namespace(), is_profile, seen.name())
    });
    let parents: Vec<Option<usize>> = all.iter().map(|seen| parent(*seen, &all)).collect();
    let mut placed = BTreeSet::new();
    let roots: Vec<usize> = (0..all.len()).filter(|index| parents[*index].is_none()).collect();
    let mut nodes: Vec<Node> =
        roots.into_iter().map(|root| node(root, &all, &parents, &mut placed)).collect();
    // Two objects that own each other would be nobody's child; they are shown all the same.
    for index in 0..all.len() {
        if !placed.contains(&index) {
            nodes.push(node(index, &all, &parents, &mut placed));
        }
    }
    nodes
}

fn node(index: usize, all: &[Seen<'_>], parents: &[Option<usize>], placed: &mut BTreeSet<usize>) -> Node {
    placed.insert(index);
    let seen = all[index];
    let mut children = Vec::new();
    for child in 0..all.len() {
        if parents[child] == Some(index) && !placed.contains(&child) {
            children.push(node(child, all, parents, placed));
        }
    }
    Node {
        kind: seen.kind().to_owned(),
        namespace: seen.namespace().map(str::to_owned),
        name: seen.name().to_owned(),
        deleting: seen.is_deleting(),
        judgement: judge::judge(seen),
        children,
    }
}

/// The object that owns this one, or the Cluster that refers to it.
fn parent(child: Seen<'_>, all: &[Seen<'_>]) -> Option<usize> {
    let near = |other: Seen<'_>| other.namespace() == child.namespace();
    let owner = all.iter().position(|other| {
        near(*other) && child.owners().any(|(kind, name)| kind == other.kind() && name == other.name())
    });
    owner.or_else(|| {
        all.iter().position(|other| {
            other.kind() == "Cluster"
                && near(*other)
                && other.references().any(|(kind, name)| kind == child.kind() && name == child.name())
        })
    })
}

#[cfg(test)]
mod tests;
