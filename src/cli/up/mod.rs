//! `capt up`: runs everything on this machine in one background process per data directory, applies manifests, and waits
//! until they are ready.

mod apply_objects;
mod foreground;
mod next_steps;
mod serve;
mod session;

use std::{path::PathBuf, time::Duration};

use capt_engine::process_env::ProcessEnv;
pub(super) use serve::{Args as ServeArgs, run as run_server};
pub(super) use session::{ReadinessDebounce, UpSession, ensure_daemon};
use terraform_driver::clock;

use super::{
    DataDirArg, OutputFormat, interruptible,
    live_view::LiveView,
    manifest_objects::{self, ManifestObject},
    output::{self, ExitStatus},
    run_setup::{EngineArgs, Isolation},
    time,
    tree::{TargetReadiness, TreeNode, WaitTarget, assess_readiness, render_text, tree_lines},
};
use crate::{
    aws_mode::AwsMode,
    local::up_daemon::{UpDaemon, UpSettings},
};

/// Arguments of `capt up`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  capt up -f examples/quickstart.yaml        a VPC, an EKS cluster and Fargate profiles in the local AWS
  capt up                                    start the background process, or attach to it
  capt up -f demo.yaml --aws real --data .capt-real
  capt up -f demo.yaml --context kind-dev    use an existing Kubernetes API
  kubectl kustomize deploy | capt up -f -

Ctrl-C while waiting detaches; the background process continues, and the same command reattaches.
`capt stop` stops the process and keeps everything, `capt down` deletes everything.")]
pub(super) struct Args {
    /// Manifests to apply: YAML or JSON files, directories of them, or `-` for standard input.
    #[arg(short, long = "file", value_name = "FILE")]
    files: Vec<PathBuf>,
    #[command(flatten)]
    options: UpOptions,
    /// Run in the foreground until Ctrl-C.
    #[arg(long)]
    foreground: bool,
    /// How long to wait; the background process continues after the timeout.
    #[arg(long, value_name = "TIME", value_parser = time::parse_duration)]
    timeout: Option<Duration>,
    /// Output format of the final tree.
    #[arg(short, long, value_enum, default_value_t)]
    output: OutputFormat,
}

/// Settings of the background process. Omitted flags keep the values of the previous start.
#[derive(Debug, Clone, clap::Args)]
pub(super) struct UpOptions {
    #[command(flatten)]
    pub(super) data: DataDirArg,
    /// Target AWS: the local AWS (default), or the account of the default credential chain.
    #[arg(long, value_enum, env = "CAPT_AWS")]
    aws: Option<AwsMode>,
    /// Kubeconfig of an existing Kubernetes API, instead of the embedded one.
    #[arg(long, value_name = "FILE", env = "CAPT_KUBECONFIG")]
    kubeconfig: Option<PathBuf>,
    /// Context of the kubeconfig.
    #[arg(long, value_name = "NAME", env = "CAPT_CONTEXT")]
    context: Option<String>,
    #[command(flatten)]
    pub(super) tools: EngineArgs,
    /// Maximum concurrent terraform processes.
    #[arg(long, value_name = "N", env = "CAPT_PARALLEL")]
    parallel: Option<usize>,
}

impl UpOptions {
    /// Merges the flags with the previous settings.
    pub(super) fn settings(&self, process_env: &ProcessEnv, last: Option<UpSettings>) -> UpSettings {
        let last = last.unwrap_or_default();
        let elsewhere = self.kubeconfig.is_some() || self.context.is_some();
        let mirror = self.tools.provider_mirror.as_deref().map(|dir| process_env.absolute_path(dir));
        UpSettings {
            aws: self.aws.unwrap_or(last.aws),
            // A stored context belongs to its stored kubeconfig.
            kubeconfig: if elsewhere {
                self.kubeconfig.as_deref().map(|path| process_env.absolute_path(path))
            } else {
                last.kubeconfig
            },
            context: if elsewhere { self.context.clone() } else { last.context },
            engine: self.tools.engine.clone().or(last.engine),
            provider_mirror: mirror.or(last.provider_mirror),
            no_gateway: self.tools.uses_gateway().map_or(last.no_gateway, |shares| !shares),
            no_isolation: self.tools.isolation == Isolation::Off,
            parallel: self.parallel.or(last.parallel),
        }
    }
}

pub(super) async fn run(args: &Args, process_env: &ProcessEnv) -> anyhow::Result<ExitStatus> {
    let wanted = manifest_objects::load_objects(&args.files, process_env)?;
    let up = UpDaemon::new(process_env, &args.options.data.path(process_env));
    let settings = args.options.settings(process_env, up.settings()?);
    if args.foreground {
        return Box::pin(foreground::run(args, process_env, (&up, &settings), &wanted)).await;
    }
    let server = interruptible(Box::pin(ensure_daemon(process_env, &args.options, &up, &settings))).await?;
    let session =
        UpSession::open(up, server, args.options.data.command_flag(process_env), args.timeout).await?;
    apply_and_follow(args, process_env, &session, &wanted).await
}

/// Applies the manifests and waits until their objects are ready or stuck.
async fn apply_and_follow(
    args: &Args,
    process_env: &ProcessEnv,
    session: &UpSession,
    wanted: &[ManifestObject],
) -> anyhow::Result<ExitStatus> {
    apply_objects::apply_all(&session.client, wanted).await?;
    let targets = wait_targets(wanted);
    if targets.is_empty() && !wanted.is_empty() {
        output::print_message("applied; the files contain no kind whose readiness capt can wait for");
        return Ok(ExitStatus::Done);
    }
    let keep = |trees| trees_with_targets(trees, &targets);
    let mut steady = ReadinessDebounce::default();
    let mut show = LiveView::on_stderr();
    let followed = session
        .follow(&mut show, keep, |trees| match steady.settle(assess_readiness(trees, &targets)) {
            TargetReadiness::Pending => None,
            reached => Some((reached, trees.to_vec())),
        })
        .await;
    show.clear();
    match followed {
        Ok((reached, trees)) => {
            output::print_formatted(args.output, &trees, || render_text(&tree_lines(&trees, clock::now())))?;
            if let TargetReadiness::Stuck(why) = reached {
                return Err(stuck_error(&why));
            }
            next_steps::print_next_steps(session, &args.options.data.path(process_env), &trees);
            Ok(ExitStatus::Done)
        }
        Err(left) => left.into_exit_status("run the same command again to reattach, or see `capt status`"),
    }
}

fn stuck_error(why: &[String]) -> anyhow::Error {
    let hint =
        "the background process continues with everything else; `capt logs` shows the terraform output";
    match why {
        [one] => anyhow::anyhow!("{one} ({hint})"),
        many => {
            anyhow::anyhow!("{} objects cannot become ready ({hint})\n  {}", many.len(), many.join("\n  "))
        }
    }
}

/// The trees that contain a target; all if there are no targets.
pub(super) fn trees_with_targets(mut trees: Vec<TreeNode>, targets: &[WaitTarget]) -> Vec<TreeNode> {
    let holds = |root: &TreeNode| {
        root.self_and_descendants().iter().any(|node| targets.iter().any(|target| target.matches(node)))
    };
    trees.retain(|root| targets.is_empty() || holds(root));
    trees
}

/// The objects whose readiness capt can assess.
pub(super) fn wait_targets(wanted: &[ManifestObject]) -> Vec<WaitTarget> {
    let kinds = ["Cluster", "CAPTCluster", "CAPTControlPlane", "WorkspaceTemplateApply", "WorkspaceTemplate"];
    let ours = wanted
        .iter()
        .filter(|it| it.gvk.group.ends_with("cluster.x-k8s.io") && kinds.contains(&it.gvk.kind.as_str()));
    ours.map(|it| WaitTarget {
        kind: it.gvk.kind.clone(),
        namespace: it.namespace.clone(),
        name: it.name.clone(),
    })
    .collect()
}

#[cfg(test)]
mod tests;
