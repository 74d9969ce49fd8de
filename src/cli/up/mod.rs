//! `capt up`: everything on this machine, as one background process per data directory; and the objects of some
//! files, followed until they are ready.

mod apply;
mod foreground;
mod next;
mod serve;
mod session;

use std::{path::PathBuf, time::Duration};

pub(super) use serve::{Args as ServeArgs, run as run_server};
pub(super) use session::{Session, Steady, bring_up};
use terraform_driver::clock;

use super::{
    DataDir, Format, interruptible,
    objects::{self, Wanted},
    output::{self, ExitStatus},
    setup::Tools,
    show::Show,
    time,
    tree::{Node, Target, Verdict, lines, plain, verdict},
};
use crate::{
    config::{AwsMode, Outer},
    local::up::{Settings, Up},
};

/// What to bring up, and where.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  capt up -f examples/quickstart.yaml        a VPC, an EKS cluster and Fargate profiles in the local AWS
  capt up                                    start it, or find it, and show what is there
  capt up -f demo.yaml --aws real --data .capt-real
  capt up -f demo.yaml --context kind-dev    on a Kubernetes API that is there already
  kubectl kustomize deploy | capt up -f -

Ctrl-C while it waits leaves the work to the background process; the same command follows it again.
`capt stop` ends the process and keeps everything, `capt down` deletes what was made.")]
pub(super) struct Args {
    /// Manifests to apply: YAML or JSON files, directories of them, or `-` for standard input.
    #[arg(short, long = "file", value_name = "FILE")]
    files: Vec<PathBuf>,
    #[command(flatten)]
    options: Options,
    /// Serve in this process, until Ctrl-C.
    #[arg(long)]
    foreground: bool,
    /// How long to wait; the work goes on after that.
    #[arg(long, value_name = "TIME", value_parser = time::duration)]
    timeout: Option<Duration>,
    /// How to print the tree at the end.
    #[arg(short, long, value_enum, default_value_t)]
    output: Format,
}

/// What the background process is started with. What is left out is as it was the last time.
#[derive(Debug, Clone, clap::Args)]
pub(super) struct Options {
    #[command(flatten)]
    pub(super) data: DataDir,
    /// Which AWS: the local one on this machine (the default), or the account of the default credential chain.
    #[arg(long, value_enum, env = "CAPT_AWS")]
    aws: Option<AwsMode>,
    /// A Kubernetes API that is there already, instead of one of our own.
    #[arg(long, value_name = "FILE", env = "CAPT_KUBECONFIG")]
    kubeconfig: Option<PathBuf>,
    /// The context of the kubeconfig.
    #[arg(long, value_name = "NAME", env = "CAPT_CONTEXT")]
    context: Option<String>,
    #[command(flatten)]
    pub(super) tools: Tools,
    /// How many terraform processes may run at once.
    #[arg(long, value_name = "N", env = "CAPT_PARALLEL")]
    parallel: Option<usize>,
}

impl Options {
    /// Flags over what was there the last time.
    pub(super) fn settings(&self, outer: &Outer, last: Option<Settings>) -> Settings {
        let last = last.unwrap_or_default();
        let elsewhere = self.kubeconfig.is_some() || self.context.is_some();
        let mirror = self.tools.provider_mirror.as_deref().map(|dir| outer.absolute(dir));
        Settings {
            aws: self.aws.unwrap_or(last.aws),
            // A context means another thing in another file.
            kubeconfig: if elsewhere {
                self.kubeconfig.as_deref().map(|path| outer.absolute(path))
            } else {
                last.kubeconfig
            },
            context: if elsewhere { self.context.clone() } else { last.context },
            engine: self.tools.engine.clone().or(last.engine),
            provider_mirror: mirror.or(last.provider_mirror),
            no_gateway: self.tools.shares().map_or(last.no_gateway, |shares| !shares),
            parallel: self.parallel.or(last.parallel),
        }
    }
}

pub(super) async fn run(args: &Args, outer: &Outer) -> anyhow::Result<ExitStatus> {
    let wanted = objects::load(&args.files, outer)?;
    let up = Up::of(outer, &args.options.data.path(outer));
    let settings = args.options.settings(outer, up.settings()?);
    if args.foreground {
        return Box::pin(foreground::run(args, outer, (&up, &settings), &wanted)).await;
    }
    let server = interruptible(Box::pin(bring_up(outer, &args.options, &up, &settings))).await?;
    let session = Session::open(up, server, args.options.data.flag(outer), args.timeout).await?;
    attend(args, outer, &session, &wanted).await
}

/// Applies the files, and follows what was asked for to its end.
async fn attend(
    args: &Args,
    outer: &Outer,
    session: &Session,
    wanted: &[Wanted],
) -> anyhow::Result<ExitStatus> {
    apply::all(&session.client, wanted).await?;
    let targets = targets(wanted);
    if targets.is_empty() && !wanted.is_empty() {
        output::say("the files hold no kind whose readiness capt could wait for");
        return Ok(ExitStatus::Done);
    }
    let keep = |trees| trees_of(trees, &targets);
    let mut steady = Steady::default();
    let mut show = Show::talk();
    let followed = session
        .follow(&mut show, keep, |trees| match steady.judge(verdict(trees, &targets)) {
            Verdict::Going => None,
            reached => Some((reached, trees.to_vec())),
        })
        .await;
    show.clear();
    match followed {
        Ok((reached, trees)) => {
            output::print(args.output, &trees, || plain(&lines(&trees, clock::now())))?;
            if let Verdict::Stuck(why) = reached {
                return Err(stuck(&why));
            }
            next::say(session, &args.options.data.path(outer), &trees);
            Ok(ExitStatus::Done)
        }
        Err(left) => left.end("the same command follows it again, `capt status` tells how it is"),
    }
}

fn stuck(why: &[String]) -> anyhow::Error {
    let hint = "what else there is to do goes on in the background; `capt logs` shows what terraform said";
    match why {
        [one] => anyhow::anyhow!("{one} ({hint})"),
        many => anyhow::anyhow!("{} objects cannot get ready ({hint})\n  {}", many.len(), many.join("\n  ")),
    }
}

/// The trees in which something stands that was asked for; all if nothing was.
pub(super) fn trees_of(mut trees: Vec<Node>, targets: &[Target]) -> Vec<Node> {
    let holds = |root: &Node| root.all().iter().any(|node| targets.iter().any(|target| target.is(node)));
    trees.retain(|root| targets.is_empty() || holds(root));
    trees
}

/// Those whose readiness can be seen.
pub(super) fn targets(wanted: &[Wanted]) -> Vec<Target> {
    let kinds = ["Cluster", "CAPTCluster", "CAPTControlPlane", "WorkspaceTemplateApply", "WorkspaceTemplate"];
    let ours = wanted
        .iter()
        .filter(|it| it.gvk.group.ends_with("cluster.x-k8s.io") && kinds.contains(&it.gvk.kind.as_str()));
    ours.map(|it| Target {
        kind: it.gvk.kind.clone(),
        namespace: it.namespace.clone(),
        name: it.name.clone(),
    })
    .collect()
}

#[cfg(test)]
mod tests;
