//! `capt destroy`: destroys what was applied from manifests, without Kubernetes.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::bail;
use capt_engine::{
    oneshot::{DependencyGraph, DestroySet, WorkspaceTask, compute_destroy_set},
    pipeline::{DestroyReason, WorkspaceRecord, list_workspaces_with_resources},
    process_env::ProcessEnv,
};
use capt_model::workspaces::{DesiredWorkspace, WorkspaceKey};

use super::{
    OutputFormat,
    gateway::stop_gateway,
    interruptible,
    manifest_files::ManifestArgs,
    output::{self, ExitStatus},
    report,
    run_setup::{RunArgs, RunEnvironment, refuse_if_in_use},
    run_workspaces::{WorkspacesRun, dropped_workspaces},
};
use crate::{
    aws_mode::AwsMode,
    local::{admin::AdminClient, aws_daemon::LocalAwsDaemon},
};

/// Arguments of `capt destroy`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  capt destroy examples/quickstart.yaml
  capt destroy examples/quickstart.yaml --aws real --yes

Workspaces are destroyed in reverse dependency order. Retained workspaces are kept.
The local AWS stops when its last resource is gone.")]
pub(super) struct Args {
    #[command(flatten)]
    files: ManifestArgs,
    #[command(flatten)]
    setup: RunArgs,
    /// Do not ask for confirmation.
    #[arg(short, long)]
    yes: bool,
    /// Output format.
    #[arg(short, long, value_enum, default_value_t)]
    output: OutputFormat,
}

pub(super) async fn run(args: &Args, process_env: &ProcessEnv) -> anyhow::Result<ExitStatus> {
    let asked = args.files.load(process_env)?;
    let real = args.setup.aws == AwsMode::Real;
    let asks = real && !args.yes;
    if asks && !output::is_interactive() {
        bail!(
            "this destroys resources of a real AWS account and standard input is no terminal; pass --yes, or run it in a terminal"
        );
    }
    if !real && list_workspaces_with_resources(&args.setup.data.path(process_env))?.is_empty() {
        // Another capt process may be about to use the local AWS that is stopped here.
        refuse_if_in_use(&args.setup.data.path(process_env))?;
        output::print_message("nothing to destroy");
        report::print_report(&BTreeMap::new(), &[], &args.setup.data.path(process_env), args.output)?;
        return stop_unused_local_aws(args, process_env).await;
    }
    args.setup.reject_identities(&asked)?;
    let ready = interruptible(Box::pin(args.setup.prepare(process_env))).await?;
    let doomed = destroy_tasks(&ready, &asked.blueprints)?;
    if doomed.is_empty() {
        output::print_message("nothing to destroy: no workspace of these manifests exists");
        return report::print_report(&BTreeMap::new(), &[], &ready.data_dir.path, args.output);
    }
    let graph =
        DependencyGraph::new(doomed.iter().map(|(key, (_, after))| (key.clone(), after.clone())))?.reversed();
    let tasks = doomed.into_iter().map(|(key, (task, _))| (key, task)).collect();
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
    if status == ExitStatus::Done && !real {
        stop_unused_local_aws(args, process_env).await
    } else {
        Ok(status)
    }
}

type DestroyTasks = BTreeMap<WorkspaceKey, (WorkspaceTask, BTreeSet<WorkspaceKey>)>;

/// Existing workspaces of the manifests, now and earlier, and what depends on them.
fn destroy_tasks(ready: &RunEnvironment, blueprints: &[DesiredWorkspace]) -> anyhow::Result<DestroyTasks> {
    let existing: BTreeMap<WorkspaceKey, WorkspaceRecord> =
        list_workspaces_with_resources(&ready.data_dir.path)?.into_iter().collect();
    let dropped = dropped_workspaces(ready, blueprints)?;
    let named: BTreeSet<WorkspaceKey> = blueprints
        .iter()
        .map(|it| it.key.clone())
        .chain(dropped.iter().map(|(key, _)| key.clone()))
        .filter(|key| existing.contains_key(key))
        .collect();
    let retained: BTreeSet<WorkspaceKey> = blueprints
        .iter()
        .filter(|it| it.retained)
        .map(|it| it.key.clone())
        .chain(dropped.into_iter().filter(|(_, record)| record.retained).map(|(key, _)| key))
        .collect();
    let DestroySet { to_destroy: doomed, to_retain: kept } =
        compute_destroy_set(&existing, &named, &retained)?;
    let task = |key: &WorkspaceKey, record: &WorkspaceRecord| {
        if doomed.contains(key) {
            Some(WorkspaceTask::Destroy(Box::new(record.clone()), DestroyReason::Requested))
        } else {
            kept.contains(key).then_some(WorkspaceTask::Retain)
        }
    };
    Ok(existing
        .iter()
        .filter_map(|(key, record)| Some((key.clone(), (task(key, record)?, record.after.clone()))))
        .collect())
}

/// Stops the local AWS when no workspace holds resources. Resources that remain are leaks and are reported first.
async fn stop_unused_local_aws(args: &Args, process_env: &ProcessEnv) -> anyhow::Result<ExitStatus> {
    let data = args.setup.data.path(process_env);
    let aws = LocalAwsDaemon::new(process_env, &data);
    let Some(server) = aws.running().await? else { return Ok(ExitStatus::Done) };
    if !list_workspaces_with_resources(&data)?.is_empty() {
        return Ok(ExitStatus::Done);
    }
    let left = AdminClient::new(server.endpoint).inventory().await?.items;
    if left.is_empty() {
        aws.stop().await?;
        output::print_message("no resources are left; stopped the local AWS");
        // The shared providers are configured for the stopped local AWS.
        stop_gateway(&data).await?;
        return Ok(ExitStatus::Done);
    }
    let names: Vec<String> =
        left.iter().map(|item| format!("{} {} {}", item.service, item.kind, item.id)).collect();
    output::print_warning(&format!(
        "the local AWS still holds resources that no workspace tracks: {}; `capt aws stop` stops it anyway",
        names.join(", ")
    ));
    Ok(ExitStatus::Refused)
}
