//! What became of it all, for people and for scripts.

use std::{collections::BTreeMap, fmt::Write, path::Path};

use owo_colors::OwoColorize;
use serde::Serialize;
use terraform_driver::plan::{Action, Change, Counts, Shown, Summary};

use super::{
    Format,
    output::{self, ExitStatus},
};
use crate::{
    blueprint::Key,
    oneshot::Finished,
    work::{Outcome, WorkError, workspace},
};

#[derive(Serialize)]
struct Report<'a> {
    ok: bool,
    workspaces: Vec<Entry<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Entry<'a> {
    name: String,
    result: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    counts: Option<Counts>,
    #[serde(skip_serializing_if = "Option::is_none")]
    plan: Option<&'a Summary>,
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<String>,
    directory: String,
}

/// Prints everything and says how the command ends.
pub(super) fn report(
    finished: &BTreeMap<Key, Finished>,
    order: &[Key],
    data: &Path,
    format: Format,
) -> anyhow::Result<ExitStatus> {
    let status = status(finished);
    let ordered = order.iter().filter_map(|key| Some((key, finished.get(key)?)));
    match format {
        Format::Json | Format::Yaml => {
            let workspaces = ordered.map(|(key, end)| entry(key, end, data)).collect();
            output::print(format, &Report { ok: status == ExitStatus::Done, workspaces }, String::new)?;
        }
        Format::Text => {
            let width = order.iter().map(|key| key.to_string().len()).max().unwrap_or_default();
            let mut text = String::new();
            for (key, end) in ordered {
                lines(key, end, width, data, &mut text)?;
            }
            output::data(&text)?;
        }
    }
    Ok(status)
}

fn status(finished: &BTreeMap<Key, Finished>) -> ExitStatus {
    let interrupted = |end: &Finished| matches!(end, Finished::Badly(WorkError::Interrupted));
    let bad = |end: &Finished| matches!(end, Finished::Badly(_) | Finished::Skipped { .. });
    if finished.values().any(interrupted) {
        ExitStatus::Interrupted
    } else if finished.values().any(bad) {
        ExitStatus::Refused
    } else {
        ExitStatus::Done
    }
}

fn entry<'a>(key: &Key, end: &'a Finished, data: &Path) -> Entry<'a> {
    let (result, counts, plan, message) = match end {
        Finished::Well(outcome) => match outcome {
            Outcome::Unchanged => ("unchanged", None, None, None),
            Outcome::Planned(summary) => ("planned", Some(summary.counts), Some(&**summary), None),
            Outcome::Later { reason } => ("later", None, None, Some(reason.clone())),
            Outcome::Applied(counts) => ("applied", Some(*counts), None, None),
            Outcome::Destroyed { .. } => ("destroyed", None, None, None),
            Outcome::Kept => ("kept", None, None, None),
        },
        Finished::Badly(error) => ("failed", None, None, Some(error.to_string())),
        Finished::Skipped { because } => {
            ("skipped", None, None, Some(format!("not begun because of {because}")))
        }
    };
    let directory = workspace(data, key).dir().display().to_string();
    Entry { name: key.to_string(), result, counts, plan, message, directory }
}

fn lines(key: &Key, end: &Finished, width: usize, data: &Path, text: &mut String) -> std::fmt::Result {
    let name = key.to_string();
    match end {
        Finished::Well(outcome) => {
            writeln!(text, "{} {name:<width$}  {outcome}", "✓".green())?;
            if let Outcome::Planned(summary) = outcome {
                plan(summary, text)?;
            }
        }
        Finished::Badly(error) => {
            writeln!(text, "{} {name:<width$}  {}", "✗".red(), chain(error))?;
            if matches!(error, WorkError::Failed(_) | WorkError::Step(_)) {
                let runs = workspace(data, key).runs();
                writeln!(text, "  {:<width$}  what terraform said: {}", "", runs.display())?;
            }
        }
        Finished::Skipped { because } => {
            writeln!(text, "{} {name:<width$}  not begun because of {because}", "·".dimmed())?;
        }
    }
    Ok(())
}

/// An error with its causes, each once.
fn chain(error: &WorkError) -> String {
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(inner) = cause {
        let said = inner.to_string();
        if !text.contains(&said) {
            text.push_str(": ");
            text.push_str(&said);
        }
        cause = inner.source();
    }
    text
}

/// The changes of a plan, with what differs.
pub(super) fn plan(summary: &Summary, text: &mut String) -> std::fmt::Result {
    for change in &summary.changes {
        change_lines(change, text)?;
    }
    for change in &summary.drift {
        writeln!(text, "    {} {} changed outside of terraform", "!".yellow(), change.address)?;
    }
    writeln!(text, "    plan {}", summary.hash)
}

fn change_lines(change: &Change, text: &mut String) -> std::fmt::Result {
    write!(text, "    {:<3} {}", change.sign(), change.address)?;
    if let Some(reason) = &change.reason {
        write!(text, "  ({})", reason.replace('_', " "))?;
    }
    writeln!(text)?;
    // What is made or goes as a whole has nothing to compare with.
    if matches!(change.action, Action::Change | Action::Replace) {
        for attribute in &change.attributes {
            let show = |value: &Option<Shown>| {
                value.as_ref().map_or_else(|| "(none)".to_owned(), ToString::to_string)
            };
            let forces = if attribute.forces_replacement { "  (forces replacement)" } else { "" };
            let (before, after) = (show(&attribute.before), show(&attribute.after));
            writeln!(text, "          {}: {before} → {after}{forces}", attribute.path)?;
        }
    }
    Ok(())
}
