//! `capt down`: delete what `up` made, wait for it, prove that nothing is left, and stop.

use std::{path::PathBuf, time::Duration};

use anyhow::{anyhow, bail};
use kube::{ResourceExt as _, api::DynamicObject};
use tokio::time::sleep;

use super::{
    aws::table,
    client::{self, explain},
    gateway::end_with_the_rest,
    interruptible,
    objects::{self, Wanted},
    output::{self, ExitStatus},
    show::Show,
    time,
    tree::{Node, Seen, State, Target, Verdict},
    up::{Options, Session, Steady, bring_up, targets, trees_of},
    work::ask,
};
use crate::{
    config::{AwsMode, Outer},
    local::{
        admin::Admin,
        aws::LocalAws,
        kube as embedded_api,
        up::{Settings, Up},
    },
};

/// What to delete.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  capt down                                  everything of .capt
  capt down -f examples/quickstart.yaml      only what this file names
  capt down --data .capt-real --yes          in a real account, without asking

The destroys are waited for. Ctrl-C leaves them to the background process; the same command follows them again.")]
pub(super) struct Args {
    /// Only the objects of these manifests.
    #[arg(short, long = "file", value_name = "FILE")]
    files: Vec<PathBuf>,
    #[command(flatten)]
    options: Options,
    /// Do not ask.
    #[arg(short, long)]
    yes: bool,
    /// How long to wait; the work goes on after that.
    #[arg(long, value_name = "TIME", value_parser = time::duration)]
    timeout: Option<Duration>,
}

/// In which order kinds are asked to go; the operator keeps the order of the destroys.
const KINDS: [&str; 5] =
    ["Cluster", "CAPTControlPlane", "CAPTCluster", "WorkspaceTemplateApply", "WorkspaceTemplate"];

pub(super) async fn run(args: &Args, outer: &Outer) -> anyhow::Result<ExitStatus> {
    let wanted = objects::load(&args.files, outer)?;
    let data = args.options.data.path(outer);
    let up = Up::of(outer, &data);
    if up.running()?.is_none() && !embedded_api::dir(&data).exists() && up.settings()?.is_none() {
        output::say(&format!("nothing was ever up in {}", data.display()));
        return Ok(ExitStatus::Done);
    }
    let settings = args.options.settings(outer, up.settings()?);
    if settings.is_elsewhere() && wanted.is_empty() {
        bail!(
            "the Kubernetes API is somebody else's, and may hold what is not ours; name what to delete with -f FILE"
        );
    }
    confirm(args, &settings).await?;
    let server = interruptible(Box::pin(bring_up(outer, &args.options, &up, &settings))).await?;
    let session = Session::open(up, server, args.options.data.flag(outer), args.timeout).await?;
    if let Some(status) = destroy(&session, &wanted).await? {
        return Ok(status);
    }
    if !wanted.is_empty() && others_remain(&session).await? {
        return Ok(ExitStatus::Done);
    }
    finish(outer, &session, &settings, &data).await
}

/// What costs money, or is somebody else's, is not deleted by mistake.
async fn confirm(args: &Args, settings: &Settings) -> anyhow::Result<()> {
    let what = match (settings.aws, settings.is_elsewhere()) {
        _ if args.yes => return Ok(()),
        (AwsMode::Local, false) => return Ok(()),
        (AwsMode::Real, _) => "resources of a real AWS account would be destroyed",
        (AwsMode::Local, true) => "objects of a Kubernetes API that is not ours would be deleted",
    };
    if !output::can_ask() {
        bail!("{what} and nobody can be asked; say --yes, or run this at a terminal");
    }
    if ask(&format!("{what}. Go on?")).await { Ok(()) } else { bail!("nothing was deleted") }
}

/// Deletes and waits. A status, if the command ends here.
async fn destroy(session: &Session, wanted: &[Wanted]) -> anyhow::Result<Option<ExitStatus>> {
    let goals = targets(wanted);
    let mut show = Show::talk();
    let keep = |trees| trees_of(trees, &goals);
    let mut steady = Steady::default();
    let ends = |trees: &[Node]| match steady.judge(verdict(trees)) {
        Verdict::Going => None,
        reached => Some(reached),
    };
    let swept = async {
        let error: anyhow::Error = sweep(session, &goals).await;
        error
    };
    let followed = tokio::select! {
        followed = session.follow(&mut show, keep, ends) => followed,
        error = swept => return Err(error),
    };
    show.clear();
    match followed {
        Ok(Verdict::Stuck(why)) => {
            bail!("it cannot be deleted: {}; `capt logs` shows what terraform said", why.join("; "))
        }
        Ok(_) => {
            let rest = wanted.iter().rev().filter(|it| !goals.iter().any(|goal| is_same(goal, it)));
            for object in rest {
                client::delete(&session.client, object).await.map_err(|error| explain(&error))?;
            }
            Ok(None)
        }
        Err(left) => left.end("the same command waits for it again").map(Some),
    }
}

fn is_same(goal: &Target, wanted: &Wanted) -> bool {
    goal.kind == wanted.gvk.kind && goal.name == wanted.name && goal.namespace == wanted.namespace
}

/// Gone, still going, or kept by something that nobody tries again.
fn verdict(trees: &[Node]) -> Verdict {
    let nodes: Vec<&Node> =
        trees.iter().flat_map(Node::all).filter(|node| node.kind != "CAPTIdentity").collect();
    let failed = nodes.iter().filter(|node| node.deleting && node.judgement.state == State::Failed);
    let why: Vec<String> = failed
        .map(|node| format!("{}: {}", node.id(), node.judgement.message.as_deref().unwrap_or("it failed")))
        .collect();
    if nodes.is_empty() {
        Verdict::Ready
    } else if why.is_empty() {
        Verdict::Going
    } else {
        Verdict::Stuck(why)
    }
}

/// Asks again and again whatever nobody owns to go, until an error. What is owned goes with its owner, and
/// templates go when nobody can need them any more.
async fn sweep(session: &Session, goals: &[Target]) -> anyhow::Error {
    loop {
        let found = match client::kinds(&session.client).await {
            Ok(kinds) => client::list(&session.client, &kinds, None).await,
            Err(error) => Err(error),
        };
        let objects = match found {
            Ok(objects) => objects,
            Err(error) => return error,
        };
        for object in doomed(&objects, goals) {
            if let Err(error) = client::delete_seen(&session.client, object).await {
                return explain(&error).context(format!("cannot delete {}", object.name_any()));
            }
        }
        sleep(Duration::from_secs(1)).await;
    }
}

/// Those that are to be asked now.
fn doomed<'a>(objects: &'a [DynamicObject], goals: &[Target]) -> Vec<&'a DynamicObject> {
    let works = objects.iter().any(|object| Seen(object).kind() == "WorkspaceTemplateApply");
    let mut found: Vec<&DynamicObject> = objects
        .iter()
        .filter(|object| {
            let seen = Seen(object);
            let named = goals.iter().any(|goal| {
                goal.kind == seen.kind()
                    && goal.name == seen.name()
                    && Some(goal.namespace.as_str()) == seen.namespace()
            });
            let ours = KINDS.contains(&seen.kind()) && (named || (goals.is_empty() && !seen.is_owned()));
            ours && !seen.is_deleting() && !(seen.kind() == "WorkspaceTemplate" && works)
        })
        .collect();
    found.sort_by_key(|object| KINDS.iter().position(|kind| *kind == Seen(object).kind()));
    found
}

/// Whether there is something else that the process is still needed for.
async fn others_remain(session: &Session) -> anyhow::Result<bool> {
    let objects = client::list(&session.client, &client::kinds(&session.client).await?, None).await?;
    let left: Vec<String> = objects
        .iter()
        .map(Seen)
        .filter(|seen| KINDS.contains(&seen.kind()) && seen.kind() != "WorkspaceTemplate")
        .map(|seen| format!("{} {}/{}", seen.kind(), seen.namespace().unwrap_or_default(), seen.name()))
        .collect();
    if !left.is_empty() {
        output::say(&format!("deleted; the background process goes on for {}", left.join(", ")));
    }
    Ok(!left.is_empty())
}

/// Asks the local AWS what it still holds. Only when that is nothing, everything is stopped.
async fn finish(
    outer: &Outer,
    session: &Session,
    settings: &Settings,
    data: &std::path::Path,
) -> anyhow::Result<ExitStatus> {
    let aws = LocalAws::of(outer, data);
    let local = if settings.aws == AwsMode::Local { aws.running().await? } else { None };
    if let Some(server) = &local {
        let left = Admin::at(&server.endpoint).inventory().await?;
        if !left.items.is_empty() {
            output::data(&table(&left))?;
            return Err(anyhow!(
                "all objects are deleted, and the local AWS still holds {} thing(s), listed above, that were to be \
                 retained or that no object knew of; `capt stop` and `capt aws stop` end everything all the same",
                left.items.len()
            ));
        }
    }
    session
        .up
        .stop(Duration::from_mins(10), false, || output::say("waiting for the background process"))
        .await?;
    end_with_the_rest(data).await?;
    match local {
        Some(_) => {
            aws.stop().await?;
            output::say("nothing is left; the background process and the local AWS are stopped");
        }
        None => output::say(
            "every state was proven empty before its object went; the background process is stopped",
        ),
    }
    Ok(ExitStatus::Done)
}

#[cfg(test)]
mod tests;
