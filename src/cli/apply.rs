//! `capt apply`: applies manifests without Kubernetes.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::bail;
use capt_engine::{
    oneshot::{DependencyGraph, WorkspaceTask},
    pipeline::{DestroyReason, Goal},
    process_env::ProcessEnv,
};

use crate::aws_mode::AwsMode;
use capt_model::workspaces::{DesiredWorkspace, WorkspaceKey};

use super::{
    OutputFormat, interruptible,
    manifest_files::{DesiredWorkspaces, ManifestArgs},
    output::{self, ExitStatus},
    run_setup::{RunArgs, RunEnvironment},
    run_workspaces::{WorkspacesRun, dropped_workspaces},
};

/// Arguments of `capt apply`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  capt apply examples/quickstart.yaml
  capt apply examples/quickstart.yaml --aws real          asks for confirmation before each change
  capt apply examples/quickstart.yaml --approve HASH   HASH: all 64 digits, as the refusal shows them

Ctrl-C stops gracefully: resources being created are recorded in the state. Run the same command again to continue.")]
pub(super) struct Args {
    #[command(flatten)]
    files: ManifestArgs,
    #[command(flatten)]
    setup: RunArgs,
    /// Do not ask for confirmation.
    #[arg(short, long)]
    yes: bool,
    /// Approve the plan with this full hash although it replaces or destroys protected resources.
    #[arg(long, value_name = "HASH")]
    approve: Option<String>,
    /// Output format.
    #[arg(short, long, value_enum, default_value_t)]
    output: OutputFormat,
}

pub(super) async fn run(args: &Args, process_env: &ProcessEnv) -> anyhow::Result<ExitStatus> {
    let asked = args.files.load(process_env)?;
    let asks = args.setup.aws == AwsMode::Real && !args.yes;
    if asks && !output::is_interactive() {
        bail!(
            "this changes a real AWS account and standard input is no terminal; pass --yes, or run it in a terminal"
        );
    }
    // Detects dependency cycles before anything starts.
    DependencyGraph::new(asked.blueprints.iter().map(|it| (it.key.clone(), it.depends_on.clone())))?;
    args.setup.reject_identities(&asked)?;
    let ready = interruptible(Box::pin(args.setup.prepare(process_env))).await?;
    let (tasks, graph) = plan_tasks(&ready, &asked, args.approve.as_deref())?;
    let work = WorkspacesRun {
        environment: &ready,
        manifests: &asked.manifests,
        blueprints: &asked.blueprints,
        tasks,
        graph,
        confirms: asks,
        format: args.output,
    };
    let status = work.run(&args.setup).await?;
    if status == ExitStatus::Done && args.output == OutputFormat::Text {
        print_next_steps(&ready, args.setup.aws);
    }
    Ok(status)
}

/// The task of each workspace and their order.
fn plan_tasks(
    ready: &RunEnvironment,
    asked: &DesiredWorkspaces,
    approve: Option<&str>,
) -> anyhow::Result<(BTreeMap<WorkspaceKey, WorkspaceTask>, DependencyGraph)> {
    let approved = approve.map(str::to_owned);
    let goal = Goal::Apply { approved: approved.clone() };
    let bring =
        |it: &DesiredWorkspace| (it.key.clone(), WorkspaceTask::Run(Box::new(it.clone()), goal.clone()));
    let mut tasks: BTreeMap<WorkspaceKey, WorkspaceTask> = asked.blueprints.iter().map(bring).collect();
    let mut nodes: Vec<_> =
        asked.blueprints.iter().map(|it| (it.key.clone(), it.depends_on.clone())).collect();
    for (key, record) in dropped_workspaces(ready, &asked.blueprints)? {
        if record.retained {
            output::print_message(&format!("{key} is no longer in the manifests and is retained"));
            continue;
        }
        output::print_message(&format!("{key} is no longer in the manifests and will be destroyed"));
        // Its dependencies must not change before it is destroyed.
        for (_, needs) in nodes.iter_mut().filter(|(other, _)| record.after.contains(other)) {
            needs.insert(key.clone());
        }
        nodes.push((key.clone(), BTreeSet::new()));
        tasks.insert(
            key,
            WorkspaceTask::Destroy(
                Box::new(record),
                DestroyReason::RemovedFromManifests { approved: approved.clone() },
            ),
        );
    }
    Ok((tasks, DependencyGraph::new(nodes)?))
}

fn print_next_steps(ready: &RunEnvironment, aws: AwsMode) {
    let data = ready.data_dir.path.display();
    let inventory = match aws {
        AwsMode::Local => format!("; `capt aws inventory --data {data}` lists the resources"),
        AwsMode::Real => String::new(),
    };
    output::print_message(&format!("terraform directories: {data}/workspaces{inventory}"));
}
