//! Object trees: a Cluster, its network and control plane, and the workspaces of both.
//!
//! Pure: objects in, nodes out. `object_view` reads an object, `health` derives its health, `lines` renders it, and
//! `readiness` decides whether the targets are ready.

mod health;
mod lines;
mod object_view;
mod readiness;

use std::{borrow::Borrow, collections::BTreeSet};

use jiff::Timestamp;
use kube::api::DynamicObject;
pub(super) use lines::{TreeLine, render_text, tree_lines};
pub(super) use object_view::ObjectView;
pub(super) use readiness::{TargetReadiness, WaitTarget, assess_readiness};
use serde::Serialize;

/// Health of an object in one word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum HealthState {
    /// Reconciled and healthy.
    Ready,
    /// The kind reports no health.
    Plain,
    /// Being created or changed.
    Working,
    /// Waiting for another object.
    Waiting,
    /// Failed; retried automatically.
    Retrying,
    /// Waiting for an approval.
    Blocked,
    /// Failed until something is changed.
    Failed,
    /// Reconciliation is paused.
    Paused,
    /// Being deleted.
    Deleting,
}

/// Progress of a terraform run.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct RunProgress {
    pub(super) done: i32,
    pub(super) total: i32,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) slowest: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) slowest_seconds: Option<i64>,
}

/// Health of an object.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ObjectHealth {
    pub(super) state: HealthState,
    /// Human-readable phase: `applying`, `Provisioned`.
    pub(super) phase: String,
    /// Start of the current phase.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) since: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) progress: Option<RunProgress>,
    /// What is wrong, or what the object waits for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) message: Option<String>,
    /// Time of the next attempt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) retry_at: Option<Timestamp>,
    /// Hash of the plan that waits for approval.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) approve: Option<String>,
    /// The command that approves it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) command: Option<String>,
}

impl ObjectHealth {
    fn new(state: HealthState, phase: impl Into<String>) -> Self {
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

    fn with_message(mut self, message: Option<String>) -> Self {
        self.message = message.filter(|text| !text.is_empty());
        self
    }
}

/// An object and its children.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct TreeNode {
    pub(super) kind: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) namespace: Option<String>,
    pub(super) name: String,
    /// Whether it has a deletion timestamp.
    pub(super) deleting: bool,
    #[serde(flatten)]
    pub(super) health: ObjectHealth,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) children: Vec<Self>,
}

impl TreeNode {
    /// The node itself and everything below it.
    pub(super) fn self_and_descendants(&self) -> Vec<&Self> {
        let mut found = vec![self];
        found.extend(self.children.iter().flat_map(Self::self_and_descendants));
        found
    }

    /// Kind, namespace and name.
    pub(super) fn id(&self) -> String {
        match &self.namespace {
            Some(namespace) => format!("{} {namespace}/{}", self.kind, self.name),
            None => format!("{} {}", self.kind, self.name),
        }
    }

    /// Whether it gets a line of its own; healthy templates and identities do not.
    fn is_shown(&self) -> bool {
        !matches!(self.kind.as_str(), "WorkspaceTemplate" | "CAPTIdentity")
            || !matches!(self.health.state, HealthState::Ready | HealthState::Plain)
    }
}

/// Sort order of siblings.
fn kind_rank(kind: &str) -> u8 {
    match kind {
        "Cluster" => 0,
        "CAPTCluster" => 1,
        "CAPTControlPlane" => 2,
        "WorkspaceTemplateApply" => 3,
        _ => 4,
    }
}

/// All objects as trees, each exactly once: below its owner, or as a root. `flags` are appended to the commands shown.
pub(super) fn build_forest<T: Borrow<DynamicObject>>(objects: &[T], flags: &str) -> Vec<TreeNode> {
    let mut nodes = build_trees(objects);
    for node in &mut nodes {
        add_approve_commands(node, flags);
    }
    nodes
}

/// Adds the approve command to each plan that waits for approval.
fn add_approve_commands(node: &mut TreeNode, flags: &str) {
    if let Some(hash) = &node.health.approve {
        let namespace = match node.namespace.as_deref() {
            None | Some("default") => String::new(),
            Some(namespace) => format!(" -n {namespace}"),
        };
        let short: String = hash.chars().take(12).collect();
        node.health.command = Some(format!("capt approve {} {short}{namespace}{flags}", node.name));
    }
    for child in &mut node.children {
        add_approve_commands(child, flags);
    }
}

fn build_trees<T: Borrow<DynamicObject>>(objects: &[T]) -> Vec<TreeNode> {
    let mut all: Vec<ObjectView<'_>> = objects.iter().map(|object| ObjectView(object.borrow())).collect();
    all.sort_by_key(|seen| {
        // The cluster's own workspace sorts before those of its profiles.
        let is_profile = seen.label(capt_kinds::api::names::FARGATE_PROFILE_LABEL).is_some();
        (kind_rank(seen.kind()), seen.namespace(), is_profile, seen.name())
    });
    let parents: Vec<Option<usize>> = all.iter().map(|seen| find_parent(*seen, &all)).collect();
    let mut placed = BTreeSet::new();
    let roots: Vec<usize> = (0..all.len()).filter(|index| parents[*index].is_none()).collect();
    let mut nodes: Vec<TreeNode> =
        roots.into_iter().map(|root| build_node(root, &all, &parents, &mut placed)).collect();
    // Objects in an ownership cycle have no root; they are shown anyway.
    for index in 0..all.len() {
        if !placed.contains(&index) {
            nodes.push(build_node(index, &all, &parents, &mut placed));
        }
    }
    nodes
}

fn build_node(
    index: usize,
    all: &[ObjectView<'_>],
    parents: &[Option<usize>],
    placed: &mut BTreeSet<usize>,
) -> TreeNode {
    placed.insert(index);
    let seen = all[index];
    let mut children = Vec::new();
    for child in 0..all.len() {
        if parents[child] == Some(index) && !placed.contains(&child) {
            children.push(build_node(child, all, parents, placed));
        }
    }
    TreeNode {
        kind: seen.kind().to_owned(),
        namespace: seen.namespace().map(str::to_owned),
        name: seen.name().to_owned(),
        deleting: seen.is_deleting(),
        health: health::assess(seen),
        children,
    }
}

/// The object that owns this one, or the Cluster that refers to it.
fn find_parent(child: ObjectView<'_>, all: &[ObjectView<'_>]) -> Option<usize> {
    let near = |other: ObjectView<'_>| other.namespace() == child.namespace();
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
