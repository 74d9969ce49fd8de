//! Final report of plan, apply and destroy, as text or JSON/YAML.

use std::{collections::BTreeMap, fmt::Write, path::Path};

use capt_engine::{
    oneshot::TaskResult,
    pipeline::{PipelineError, WorkspaceOutcome, workspace_dir},
};
use capt_model::workspaces::WorkspaceKey;
use capt_util::error_chain::format_error_chain;
use owo_colors::OwoColorize;
use serde::Serialize;
use terraform_driver::plan::{ChangeCounts, DisplayValue, ObjectChange, PlanAction, PlanSummary};

use super::{
    OutputFormat,
    output::{self, ExitStatus},
};

#[derive(Serialize)]
struct RunReport<'a> {
    ok: bool,
    workspaces: Vec<WorkspaceEntry<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct WorkspaceEntry<'a> {
    name: String,
    result: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    counts: Option<ChangeCounts>,
    #[serde(skip_serializing_if = "Option::is_none")]
    plan: Option<&'a PlanSummary>,
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<String>,
    directory: String,
}

/// Prints the report and returns the exit status.
pub(super) fn print_report(
    finished: &BTreeMap<WorkspaceKey, TaskResult>,
    order: &[WorkspaceKey],
    data: &Path,
    format: OutputFormat,
) -> anyhow::Result<ExitStatus> {
    let status = exit_status(finished);
    let ordered = order.iter().filter_map(|key| Some((key, finished.get(key)?)));
    match format {
        OutputFormat::Json | OutputFormat::Yaml => {
            let workspaces = ordered.map(|(key, end)| report_entry(key, end, data)).collect();
            output::print_formatted(
                format,
                &RunReport { ok: status == ExitStatus::Done, workspaces },
                String::new,
            )?;
        }
        OutputFormat::Text => {
            let width = order.iter().map(|key| key.to_string().len()).max().unwrap_or_default();
            let mut text = String::new();
            for (key, end) in ordered {
                push_report_lines(key, end, width, data, &mut text)?;
            }
            output::print_data(&text)?;
        }
    }
    Ok(status)
}

fn exit_status(finished: &BTreeMap<WorkspaceKey, TaskResult>) -> ExitStatus {
    let interrupted = |end: &TaskResult| matches!(end, TaskResult::Failed(PipelineError::Interrupted));
    let bad = |end: &TaskResult| matches!(end, TaskResult::Failed(_) | TaskResult::Skipped { .. });
    if finished.values().any(interrupted) {
        ExitStatus::Interrupted
    } else if finished.values().any(bad) {
        ExitStatus::Refused
    } else {
        ExitStatus::Done
    }
}

fn report_entry<'a>(key: &WorkspaceKey, end: &'a TaskResult, data: &Path) -> WorkspaceEntry<'a> {
    let (result, counts, plan, message) = match end {
        TaskResult::Succeeded(outcome) => match outcome {
            WorkspaceOutcome::Unchanged => ("unchanged", None, None, None),
            WorkspaceOutcome::Planned(summary) => ("planned", Some(summary.counts), Some(&**summary), None),
            WorkspaceOutcome::Deferred { reason } => ("later", None, None, Some(reason.clone())),
            WorkspaceOutcome::Applied(counts) => ("applied", Some(*counts), None, None),
            WorkspaceOutcome::Destroyed { .. } => ("destroyed", None, None, None),
            WorkspaceOutcome::Retained => ("kept", None, None, None),
        },
        TaskResult::Failed(error) => ("failed", None, None, Some(error.to_string())),
        TaskResult::Skipped { blocked_by: because } => {
            ("skipped", None, None, Some(format!("skipped because of {because}")))
        }
    };
    let directory = workspace_dir(data, key).dir().display().to_string();
    WorkspaceEntry { name: key.to_string(), result, counts, plan, message, directory }
}

fn push_report_lines(
    key: &WorkspaceKey,
    end: &TaskResult,
    width: usize,
    data: &Path,
    text: &mut String,
) -> std::fmt::Result {
    let name = key.to_string();
    match end {
        TaskResult::Succeeded(outcome) => {
            writeln!(text, "{} {name:<width$}  {outcome}", "✓".green())?;
            if let WorkspaceOutcome::Planned(summary) = outcome {
                push_plan(summary, text)?;
            }
        }
        TaskResult::Failed(error) => {
            writeln!(text, "{} {name:<width$}  {}", "✗".red(), format_error_chain(error))?;
            if matches!(error, PipelineError::Failed(_) | PipelineError::Step(_)) {
                let runs = workspace_dir(data, key).runs_dir();
                writeln!(text, "  {:<width$}  terraform output: {}", "", runs.display())?;
            }
        }
        TaskResult::Skipped { blocked_by: because } => {
            writeln!(text, "{} {name:<width$}  skipped because of {because}", "·".dimmed())?;
        }
    }
    Ok(())
}

/// The changes of a plan, with changed attributes.
pub(super) fn push_plan(summary: &PlanSummary, text: &mut String) -> std::fmt::Result {
    for change in &summary.changes {
        push_change(change, text)?;
    }
    for change in &summary.drift {
        writeln!(text, "    {} {} changed outside of terraform", "!".yellow(), change.address)?;
    }
    writeln!(text, "    plan {}", summary.hash)
}

fn push_change(change: &ObjectChange, text: &mut String) -> std::fmt::Result {
    write!(text, "    {:<3} {}", change.sign(), change.address)?;
    if let Some(reason) = &change.reason {
        write!(text, "  ({})", reason.replace('_', " "))?;
    }
    writeln!(text)?;
    // Created and destroyed resources have no previous or next values to compare.
    if matches!(change.action, PlanAction::Change | PlanAction::Replace) {
        for attribute in &change.attributes {
            let show = |value: &Option<DisplayValue>| {
                value.as_ref().map_or_else(|| "(none)".to_owned(), ToString::to_string)
            };
            let forces = if attribute.forces_replacement { "  (forces replacement)" } else { "" };
            let (before, after) = (show(&attribute.before), show(&attribute.after));
            writeln!(text, "          {}: {before} → {after}{forces}", attribute.path)?;
        }
    }
    Ok(())
}
