//! `capt down`: deletes what `up` created, waits, verifies that nothing is left, and stops the background process.

use std::{path::PathBuf, time::Duration};

use anyhow::{anyhow, bail};
use capt_engine::process_env::ProcessEnv;
use kube::{ResourceExt as _, api::DynamicObject};
use tokio::time::sleep;

use super::{
    aws::inventory_table,
    gateway::stop_gateway,
    interruptible,
    kube_api::{self, describe_api_error},
    live_view::LiveView,
    manifest_objects::{self, ManifestObject},
    output::{self, ExitStatus},
    run_workspaces::prompt_for_yes,
    time,
    tree::{HealthState, ObjectView, TargetReadiness, TreeNode, WaitTarget},
    up::{ReadinessDebounce, UpOptions, UpSession, ensure_daemon, trees_with_targets, wait_targets},
};
use crate::{
    aws_mode::AwsMode,
    local::{
        admin::AdminClient,
        aws_daemon::LocalAwsDaemon,
        embedded_api,
        up_daemon::{UpDaemon, UpSettings},
    },
};

/// Arguments of `capt down`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  capt down                                  everything in .capt
  capt down -f examples/quickstart.yaml      only the objects of this file
  capt down --data .capt-real --yes          in a real account, without confirmation

Waits for the destroy runs. Ctrl-C detaches; the background process continues, and the same command reattaches.")]
pub(super) struct Args {
    /// Only the objects of these manifests.
    #[arg(short, long = "file", value_name = "FILE")]
    files: Vec<PathBuf>,
    #[command(flatten)]
    options: UpOptions,
    /// Do not ask for confirmation.
    #[arg(short, long)]
    yes: bool,
    /// How long to wait; the background process continues after the timeout.
    #[arg(long, value_name = "TIME", value_parser = time::parse_duration)]
    timeout: Option<Duration>,
}

/// Deletion order of the kinds; the operator orders the destroy runs.
const DELETION_ORDER: [&str; 5] =
    ["Cluster", "CAPTControlPlane", "CAPTCluster", "WorkspaceTemplateApply", "WorkspaceTemplate"];

pub(super) async fn run(args: &Args, process_env: &ProcessEnv) -> anyhow::Result<ExitStatus> {
    let wanted = manifest_objects::load_objects(&args.files, process_env)?;
    let data = args.options.data.path(process_env);
    let up = UpDaemon::new(process_env, &data);
    if up.running()?.is_none() && !embedded_api::api_dir(&data).exists() && up.settings()?.is_none() {
        output::print_message(&format!("nothing to delete: `capt up` never ran in {}", data.display()));
        return Ok(ExitStatus::Done);
    }
    let settings = args.options.settings(process_env, up.settings()?);
    if settings.uses_external_api() && wanted.is_empty() {
        bail!(
            "the Kubernetes API is external and may hold objects of others; select what to delete with -f FILE"
        );
    }
    confirm_deletion(args, &settings).await?;
    let server = interruptible(Box::pin(ensure_daemon(process_env, &args.options, &up, &settings))).await?;
    let session =
        UpSession::open(up, server, args.options.data.command_flag(process_env), args.timeout).await?;
    if let Some(status) = delete_and_wait(&session, &wanted).await? {
        return Ok(status);
    }
    if !wanted.is_empty() && has_other_objects(&session).await? {
        return Ok(ExitStatus::Done);
    }
    stop_all(process_env, &session, &settings, &data).await
}

/// Asks before deleting resources of a real account or objects of an external API.
async fn confirm_deletion(args: &Args, settings: &UpSettings) -> anyhow::Result<()> {
    let what = match (settings.aws, settings.uses_external_api()) {
        _ if args.yes => return Ok(()),
        (AwsMode::Local, false) => return Ok(()),
        (AwsMode::Real, _) => "this destroys resources of a real AWS account",
        (AwsMode::Local, true) => "this deletes objects of an external Kubernetes API",
    };
    if !output::is_interactive() {
        bail!("{what} and standard input is no terminal; pass --yes, or run it in a terminal");
    }
    if prompt_for_yes(&format!("{what}. Continue?")).await {
        Ok(())
    } else {
        bail!("cancelled; nothing was deleted")
    }
}

/// Deletes the objects and waits; returns an exit status if the command ends early.
async fn delete_and_wait(
    session: &UpSession,
    wanted: &[ManifestObject],
) -> anyhow::Result<Option<ExitStatus>> {
    let goals = wait_targets(wanted);
    let mut show = LiveView::on_stderr();
    let keep = |trees| trees_with_targets(trees, &goals);
    let mut steady = ReadinessDebounce::default();
    let ends = |trees: &[TreeNode]| match steady.settle(deletion_readiness(trees)) {
        TargetReadiness::Pending => None,
        reached => Some(reached),
    };
    let swept = async {
        let error: anyhow::Error = keep_deleting(session, &goals).await;
        error
    };
    let followed = tokio::select! {
        followed = session.follow(&mut show, keep, ends) => followed,
        error = swept => return Err(error),
    };
    show.clear();
    match followed {
        Ok(TargetReadiness::Stuck(why)) => {
            bail!("the deletion failed: {}; `capt logs` shows the terraform output", why.join("; "))
        }
        Ok(_) => {
            let rest = wanted.iter().rev().filter(|it| !goals.iter().any(|goal| is_target_of(goal, it)));
            for object in rest {
                kube_api::delete_object(&session.client, object)
                    .await
                    .map_err(|error| describe_api_error(&error))?;
            }
            Ok(None)
        }
        Err(left) => left.into_exit_status("run the same command again to reattach").map(Some),
    }
}

fn is_target_of(goal: &WaitTarget, wanted: &ManifestObject) -> bool {
    goal.kind == wanted.gvk.kind && goal.name == wanted.name && goal.namespace == wanted.namespace
}

/// Whether everything is deleted, still being deleted, or stuck in a failure that is not retried.
fn deletion_readiness(trees: &[TreeNode]) -> TargetReadiness {
    let nodes: Vec<&TreeNode> = trees
        .iter()
        .flat_map(TreeNode::self_and_descendants)
        .filter(|node| node.kind != "CAPTIdentity")
        .collect();
    let failed = nodes.iter().filter(|node| node.deleting && node.health.state == HealthState::Failed);
    let why: Vec<String> = failed
        .map(|node| format!("{}: {}", node.id(), node.health.message.as_deref().unwrap_or("failed")))
        .collect();
    if nodes.is_empty() {
        TargetReadiness::Ready
    } else if why.is_empty() {
        TargetReadiness::Pending
    } else {
        TargetReadiness::Stuck(why)
    }
}

/// Repeatedly deletes the objects without an owner, until an error. Owned objects are deleted with their owner;
/// templates are deleted once no apply uses them.
async fn keep_deleting(session: &UpSession, goals: &[WaitTarget]) -> anyhow::Error {
    loop {
        let found = match kube_api::discover_kinds(&session.client).await {
            Ok(kinds) => kube_api::list_objects(&session.client, &kinds, None).await,
            Err(error) => Err(error),
        };
        let objects = match found {
            Ok(objects) => objects,
            Err(error) => return error,
        };
        for object in deletable_objects(&objects, goals) {
            if let Err(error) = kube_api::delete_listed(&session.client, object).await {
                return describe_api_error(&error).context(format!("cannot delete {}", object.name_any()));
            }
        }
        sleep(Duration::from_secs(1)).await;
    }
}

/// The objects to delete now, in deletion order.
fn deletable_objects<'a>(objects: &'a [DynamicObject], goals: &[WaitTarget]) -> Vec<&'a DynamicObject> {
    let works = objects.iter().any(|object| ObjectView(object).kind() == "WorkspaceTemplateApply");
    let mut found: Vec<&DynamicObject> = objects
        .iter()
        .filter(|object| {
            let seen = ObjectView(object);
            let named = goals.iter().any(|goal| {
                goal.kind == seen.kind()
                    && goal.name == seen.name()
                    && Some(goal.namespace.as_str()) == seen.namespace()
            });
            let ours =
                DELETION_ORDER.contains(&seen.kind()) && (named || (goals.is_empty() && !seen.is_owned()));
            ours && !seen.is_deleting() && !(seen.kind() == "WorkspaceTemplate" && works)
        })
        .collect();
    found.sort_by_key(|object| DELETION_ORDER.iter().position(|kind| *kind == ObjectView(object).kind()));
    found
}

/// Whether other objects still need the background process.
async fn has_other_objects(session: &UpSession) -> anyhow::Result<bool> {
    let objects =
        kube_api::list_objects(&session.client, &kube_api::discover_kinds(&session.client).await?, None)
            .await?;
    let left: Vec<String> = objects
        .iter()
        .map(ObjectView)
        .filter(|seen| DELETION_ORDER.contains(&seen.kind()) && seen.kind() != "WorkspaceTemplate")
        .map(|seen| format!("{} {}/{}", seen.kind(), seen.namespace().unwrap_or_default(), seen.name()))
        .collect();
    if !left.is_empty() {
        output::print_message(&format!(
            "deleted; the background process keeps running for {}",
            left.join(", ")
        ));
    }
    Ok(!left.is_empty())
}

/// Stops everything, unless the local AWS still holds resources.
async fn stop_all(
    process_env: &ProcessEnv,
    session: &UpSession,
    settings: &UpSettings,
    data: &std::path::Path,
) -> anyhow::Result<ExitStatus> {
    let aws = LocalAwsDaemon::new(process_env, data);
    let local = if settings.aws == AwsMode::Local { aws.running().await? } else { None };
    if let Some(server) = &local {
        let left = AdminClient::new(&server.endpoint).inventory().await?;
        if !left.items.is_empty() {
            output::print_data(&inventory_table(&left))?;
            return Err(anyhow!(
                "all objects are deleted, but the local AWS still holds {} resource(s), listed above, that were \
                retained or leaked; `capt stop` and `capt aws stop` stop everything anyway",
                left.items.len()
            ));
        }
    }
    session
        .up
        .stop(Duration::from_mins(10), false, || output::print_message("waiting for the background process"))
        .await?;
    stop_gateway(data).await?;
    match local {
        Some(_) => {
            aws.stop().await?;
            output::print_message("no resources are left; stopped the background process and the local AWS");
        }
        None => output::print_message(
            "every state was verified empty before its object was deleted; stopped the background process",
        ),
    }
    Ok(ExitStatus::Done)
}

#[cfg(test)]
mod tests;
