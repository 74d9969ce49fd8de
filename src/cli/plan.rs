//! `capt plan`: shows what `apply` would change.

use capt_engine::{
    oneshot::{DependencyGraph, WorkspaceTask},
    pipeline::Goal,
    process_env::ProcessEnv,
};

use super::{
    OutputFormat, interruptible,
    manifest_files::ManifestArgs,
    output::ExitStatus,
    run_setup::RunArgs,
    run_workspaces::{WorkspacesRun, dropped_workspaces},
};

/// Arguments of `capt plan`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  capt plan examples/quickstart.yaml
  capt plan examples/quickstart.yaml -o json | jq '.workspaces[].counts'

A workspace that uses outputs of another one can only be planned after that one was applied.")]
pub(super) struct Args {
    #[command(flatten)]
    files: ManifestArgs,
    #[command(flatten)]
    setup: RunArgs,
    /// Output format.
    #[arg(short, long, value_enum, default_value_t)]
    output: OutputFormat,
}

pub(super) async fn run(args: &Args, process_env: &ProcessEnv) -> anyhow::Result<ExitStatus> {
    let asked = args.files.load(process_env)?;
    let graph =
        DependencyGraph::new(asked.blueprints.iter().map(|it| (it.key.clone(), it.depends_on.clone())))?;
    args.setup.reject_identities(&asked)?;
    let ready = interruptible(Box::pin(args.setup.prepare(process_env))).await?;
    for (key, _) in dropped_workspaces(&ready, &asked.blueprints)? {
        super::output::print_message(&format!("{key} is no longer in the manifests; apply will destroy it"));
    }
    let tasks = asked
        .blueprints
        .iter()
        .map(|it| (it.key.clone(), WorkspaceTask::Run(Box::new(it.clone()), Goal::Plan)))
        .collect();
    let work = WorkspacesRun {
        environment: &ready,
        manifests: &asked.manifests,
        blueprints: &asked.blueprints,
        tasks,
        graph,
        confirms: false,
        format: args.output,
    };
    work.run(&args.setup).await
}
