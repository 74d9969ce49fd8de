//! `capt history`: lists the finished runs of a workspace.

use capt_engine::process_env::ProcessEnv;
use capt_kinds::api::{PlanStatus, RunRecord};
use comfy_table::{Table, presets};

use super::{
    OutputFormat,
    kube_api::get_workspace,
    kube_target::KubeTarget,
    output::{self, ExitStatus},
    time,
};

/// Arguments of `capt history`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  capt history demo-vpc
  capt history demo-eks-controlplane-apply -n prod -o json")]
pub(super) struct Args {
    /// The workspace: name of its `WorkspaceTemplateApply` or of its directory.
    name: String,
    #[command(flatten)]
    access: KubeTarget,
    /// Namespace of the workspace.
    #[arg(short, long, value_name = "NAME", default_value = "default")]
    namespace: String,
    /// Output format.
    #[arg(short, long, value_enum, default_value_t)]
    output: OutputFormat,
}

pub(super) async fn run(args: &Args, process_env: &ProcessEnv) -> anyhow::Result<ExitStatus> {
    let client = args.access.client(process_env).await?;
    let found = get_workspace(&client, &args.namespace, &args.name).await?;
    let history = found.status.unwrap_or_default().history;
    output::print_formatted(args.output, &history, || history_table(&history))?;
    Ok(ExitStatus::Done)
}

fn history_table(history: &[RunRecord]) -> String {
    if history.is_empty() {
        return "no finished runs\n".to_owned();
    }
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_header([
        "STARTED",
        "TOOK",
        "OPERATION",
        "RESULT",
        "PLAN",
        "RUN",
        "ERROR",
    ]);
    for run in history {
        let dash = || "-".to_owned();
        let took = run.started_at.as_ref().zip(run.finished_at.as_ref());
        table.add_row([
            run.started_at.as_ref().map_or_else(dash, |time| format!("{:.0}", time.0)),
            took.map_or_else(dash, |(from, to)| time::format_duration(time::elapsed_between(from.0, to.0))),
            format!("{:?}", run.operation),
            format!("{:?}", run.phase),
            run.plan.as_ref().map_or_else(dash, plan_counts),
            run.id.clone(),
            run.error.as_deref().and_then(|error| error.lines().next()).map_or_else(dash, str::to_owned),
        ]);
    }
    let lines: Vec<String> = table.lines().map(|line| line.trim_end().to_owned()).collect();
    lines.join("\n") + "\n"
}

/// Change counts with terraform's symbols, such as `+3 ~1`.
fn plan_counts(plan: &PlanStatus) -> String {
    let parts = [("+", plan.add), ("~", plan.change), ("-/+", plan.replace), ("-", plan.destroy)];
    let parts: Vec<String> =
        parts.iter().filter(|(_, count)| *count > 0).map(|(sign, count)| format!("{sign}{count}")).collect();
    if parts.is_empty() { "no change".to_owned() } else { parts.join(" ") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_run_is_a_row_that_says_how_long_it_took_and_what_it_did() {
        let history: Vec<RunRecord> = serde_json::from_value(serde_json::json!([
            {"id": "r2", "operation": "Apply", "phase": "Failed", "startedAt": "2026-01-01T00:00:00Z",
             "finishedAt": "2026-01-01T00:02:05Z", "plan": {"hash": "x", "add": 3, "replace": 1},
             "error": "throttled\nand more"},
            {"id": "r1", "operation": "Check", "phase": "Succeeded", "plan": {"hash": "x"}},
        ]))
        .unwrap();
        let table = history_table(&history);
        let rows: Vec<Vec<&str>> = table.lines().map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(rows[0], ["STARTED", "TOOK", "OPERATION", "RESULT", "PLAN", "RUN", "ERROR"]);
        assert_eq!(
            rows[1],
            ["2026-01-01T00:00:00Z", "2m05s", "Apply", "Failed", "+3", "-/+1", "r2", "throttled"]
        );
        assert_eq!(rows[2], ["-", "-", "Check", "Succeeded", "no", "change", "r1", "-"]);
    }
}
