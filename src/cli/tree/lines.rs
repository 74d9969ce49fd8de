//! A tree as lines for people.

use std::{fmt::Write as _, time::Duration};

use jiff::Timestamp;
use owo_colors::OwoColorize;

use super::{Node, State};
use crate::cli::time;

/// One object.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::cli) struct Line {
    /// What it is about; the same object always has the same.
    pub(in crate::cli) id: String,
    /// Changes when something happens, and not because time passes.
    pub(in crate::cli) news: String,
    /// Whether something below it is not done and says more.
    pub(in crate::cli) leads: bool,
    pub(in crate::cli) state: State,
    /// Indented, with its kind and name.
    pub(in crate::cli) label: String,
    /// How it is.
    pub(in crate::cli) text: String,
    /// For how long.
    pub(in crate::cli) elapsed: Option<Duration>,
    /// What is not right, or what is waited for.
    pub(in crate::cli) message: Option<String>,
}

/// The lines of some trees, from above.
pub(in crate::cli) fn lines(forest: &[Node], now: Timestamp) -> Vec<Line> {
    let mut found = Vec::new();
    for node in forest {
        add(node, None, 0, now, &mut found);
    }
    found
}

fn add(node: &Node, above: Option<&Node>, depth: usize, now: Timestamp, found: &mut Vec<Line>) {
    if !node.is_shown() {
        return;
    }
    let is_near = above.is_some_and(|above| above.namespace == node.namespace);
    let name = match &node.namespace {
        Some(namespace) if !is_near => format!("{namespace}/{}", node.name),
        _ => node.name.clone(),
    };
    let leads = node.children.iter().flat_map(Node::all).any(|it| it.judgement.state.is_unfinished());
    let said = node.judgement.message.as_deref().filter(|_| !leads).unwrap_or_default();
    let news = format!("{} {said}", node.judgement.phase);
    found.push(Line {
        id: node.id().replacen(&node.kind, short_kind(&node.kind), 1),
        news,
        leads,
        state: node.judgement.state,
        label: format!("{}{} {name}", "  ".repeat(depth), short_kind(&node.kind)),
        text: how(node),
        elapsed: node.judgement.since.map(|since| time::between(since, now)),
        message: message(node, now),
    });
    for child in &node.children {
        add(child, Some(node), depth + 1, now, found);
    }
}

/// As `kubectl` has it.
fn short_kind(kind: &str) -> &str {
    match kind {
        "WorkspaceTemplateApply" => "wtapply",
        other => other,
    }
}

fn how(node: &Node) -> String {
    let mut text = node.judgement.phase.clone();
    if let Some(progress) = &node.judgement.progress {
        let _always_ok = write!(text, "  {}/{}", progress.done, progress.total);
        if let Some(slowest) = &progress.slowest {
            let _always_ok = write!(text, "  {slowest}");
        }
        if let Some(seconds) = progress.slowest_seconds.and_then(|it| u64::try_from(it).ok()) {
            let _always_ok = write!(text, " {}", time::short(Duration::from_secs(seconds)));
        }
    }
    text
}

fn message(node: &Node, now: Timestamp) -> Option<String> {
    let judgement = &node.judgement;
    if let Some(command) = &judgement.command {
        let said = judgement.message.as_deref().map(|said| format!("{said}; ")).unwrap_or_default();
        return Some(format!("{said}approve with `{command}`"));
    }
    let message = judgement.message.clone()?;
    Some(match judgement.retry_at {
        Some(at) if at > now => {
            format!("{message} (next attempt in {})", time::short(time::between(now, at)))
        }
        _ => message,
    })
}

impl State {
    /// A letter that stands for it.
    pub(in crate::cli) fn sign(self) -> String {
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

    /// Whether how long it is so is worth saying.
    pub(in crate::cli) fn has_clock(self) -> bool {
        matches!(self, Self::Working | Self::Deleting | Self::Waiting | Self::Retrying)
    }
}

/// The whole tree, with the messages of what is not ready below each object.
pub(in crate::cli) fn plain(lines: &[Line]) -> String {
    if lines.is_empty() {
        return "nothing is there\n".to_owned();
    }
    let width = lines.iter().map(|line| line.label.chars().count()).max().unwrap_or_default();
    let mut text = String::new();
    for line in lines {
        let clock = line.elapsed.filter(|_| line.state.has_clock()).map(time::short);
        let clock = clock.map(|clock| format!("  {clock}")).unwrap_or_default();
        let shown = format!("{} {:<width$}  {}{clock}", line.state.sign(), line.label, line.text);
        let _always_ok = writeln!(text, "{}", shown.trim_end());
        if let Some(message) = &line.message {
            let depth = line.label.chars().take_while(|letter| *letter == ' ').count();
            let _always_ok = writeln!(text, "{}    {message}", " ".repeat(depth));
        }
    }
    text
}
