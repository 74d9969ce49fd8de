//! Text rendering of object trees.

use std::{fmt::Write as _, time::Duration};

use jiff::Timestamp;
use owo_colors::OwoColorize;

use super::{HealthState, TreeNode};
use crate::cli::time;

/// The line of one object.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::cli) struct TreeLine {
    /// Stable id of the object.
    pub(in crate::cli) id: String,
    /// Changes with the object's state, but not with elapsed time.
    pub(in crate::cli) change_key: String,
    /// Whether a descendant is unfinished and shows the details.
    pub(in crate::cli) has_unfinished_children: bool,
    pub(in crate::cli) state: HealthState,
    /// Indented kind and name.
    pub(in crate::cli) label: String,
    /// Phase and progress.
    pub(in crate::cli) text: String,
    /// Time in the current phase.
    pub(in crate::cli) elapsed: Option<Duration>,
    /// What is wrong, or what the object waits for.
    pub(in crate::cli) message: Option<String>,
}

/// The lines of the trees, top-down.
pub(in crate::cli) fn tree_lines(forest: &[TreeNode], now: Timestamp) -> Vec<TreeLine> {
    let mut found = Vec::new();
    for node in forest {
        push_lines(node, None, 0, now, &mut found);
    }
    found
}

fn push_lines(
    node: &TreeNode,
    above: Option<&TreeNode>,
    depth: usize,
    now: Timestamp,
    found: &mut Vec<TreeLine>,
) {
    if !node.is_shown() {
        return;
    }
    let is_near = above.is_some_and(|above| above.namespace == node.namespace);
    let name = match &node.namespace {
        Some(namespace) if !is_near => format!("{namespace}/{}", node.name),
        _ => node.name.clone(),
    };
    let leads = node
        .children
        .iter()
        .flat_map(TreeNode::self_and_descendants)
        .any(|it| it.health.state.is_unfinished());
    let said = node.health.message.as_deref().filter(|_| !leads).unwrap_or_default();
    let news = format!("{} {said}", node.health.phase);
    found.push(TreeLine {
        id: node.id().replacen(&node.kind, short_kind(&node.kind), 1),
        change_key: news,
        has_unfinished_children: leads,
        state: node.health.state,
        label: format!("{}{} {name}", "  ".repeat(depth), short_kind(&node.kind)),
        text: phase_text(node),
        elapsed: node.health.since.map(|since| time::elapsed_between(since, now)),
        message: message_text(node, now),
    });
    for child in &node.children {
        push_lines(child, Some(node), depth + 1, now, found);
    }
}

/// The short name as in `kubectl`.
fn short_kind(kind: &str) -> &str {
    match kind {
        "WorkspaceTemplateApply" => "wtapply",
        other => other,
    }
}

fn phase_text(node: &TreeNode) -> String {
    let mut text = node.health.phase.clone();
    if let Some(progress) = &node.health.progress {
        let _always_ok = write!(text, "  {}/{}", progress.done, progress.total);
        if let Some(slowest) = &progress.slowest {
            let _always_ok = write!(text, "  {slowest}");
        }
        if let Some(seconds) = progress.slowest_seconds.and_then(|it| u64::try_from(it).ok()) {
            let _always_ok = write!(text, " {}", time::format_duration(Duration::from_secs(seconds)));
        }
    }
    text
}

fn message_text(node: &TreeNode, now: Timestamp) -> Option<String> {
    let judgement = &node.health;
    if let Some(command) = &judgement.command {
        let said = judgement.message.as_deref().map(|said| format!("{said}; ")).unwrap_or_default();
        return Some(format!("{said}approve with `{command}`"));
    }
    let message = judgement.message.clone()?;
    Some(match judgement.retry_at {
        Some(at) if at > now => {
            format!("{message} (next attempt in {})", time::format_duration(time::elapsed_between(now, at)))
        }
        _ => message,
    })
}

impl HealthState {
    /// A coloured symbol.
    pub(in crate::cli) fn symbol(self) -> String {
        match self {
            Self::Ready => "✓".green().to_string(),
            Self::Working | Self::Deleting => "▸".cyan().to_string(),
            Self::Retrying => "!".yellow().to_string(),
            Self::Blocked | Self::Failed => "✗".red().to_string(),
            Self::Waiting | Self::Plain | Self::Paused => "·".dimmed().to_string(),
        }
    }

    fn is_unfinished(self) -> bool {
        !matches!(self, Self::Ready | Self::Plain)
    }

    /// Whether the elapsed time is shown.
    pub(in crate::cli) fn shows_elapsed(self) -> bool {
        matches!(self, Self::Working | Self::Deleting | Self::Waiting | Self::Retrying)
    }
}

/// The whole tree as text, with messages below the objects.
pub(in crate::cli) fn render_text(lines: &[TreeLine]) -> String {
    if lines.is_empty() {
        return "no objects\n".to_owned();
    }
    let width = lines.iter().map(|line| line.label.chars().count()).max().unwrap_or_default();
    let mut text = String::new();
    for line in lines {
        let clock = line.elapsed.filter(|_| line.state.shows_elapsed()).map(time::format_duration);
        let clock = clock.map(|clock| format!("  {clock}")).unwrap_or_default();
        let shown = format!("{} {:<width$}  {}{clock}", line.state.symbol(), line.label, line.text);
        let _always_ok = writeln!(text, "{}", shown.trim_end());
        if let Some(message) = &line.message {
            let depth = line.label.chars().take_while(|letter| *letter == ' ').count();
            let _always_ok = writeln!(text, "{}    {message}", " ".repeat(depth));
        }
    }
    text
}
