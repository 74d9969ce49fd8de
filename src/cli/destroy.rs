//! `capt destroy`: undo it.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::bail;

use super::{
    Format,
    files::Files,
    gateway::end_with_the_rest,
    interruptible,
    output::{self, ExitStatus},
    report,
    setup::{Ready, Setup, refuse_if_in_use},
    work::{Work, dropped},
};
use crate::{
    blueprint::{Blueprint, Key},
    config::{AwsMode, Outer},
    local::{admin::Admin, aws::LocalAws},
    oneshot::{Fates, Graph, Task, fates},
    work::{Doom, Record, holding},
};

/// What to destroy.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  capt destroy examples/quickstart.yaml
  capt destroy examples/quickstart.yaml --aws real --yes

Everything goes in the opposite order in which it was made. What is to be retained stays.
The local AWS ends with the last object in it.")]
pub(super) struct Args {
    #[command(flatten)]
    files: Files,
    #[command(flatten)]
    setup: Setup,
    /// Do not ask.
    #[arg(short, long)]
    yes: bool,
    /// How to print.
    #[arg(short, long, value_enum, default_value_t)]
    output: Format,
}

pub(super) async fn run(args: &Args, outer: &Outer) -> anyhow::Result<ExitStatus> {
    let asked = args.files.read(outer)?;
    let real = args.setup.aws == AwsMode::Real;
    let asks = real && !args.yes;
    if asks && !output::can_ask() {
        bail!(
            "resources of a real AWS account would be destroyed and nobody can be asked; say --yes, or run this at a terminal"
        );
    }
    if !real && holding(&args.setup.data.path(outer))?.is_empty() {
        // Another capt may be about to make something, and needs the local AWS that would be stopped here.
        refuse_if_in_use(&args.setup.data.path(outer))?;
        output::say("nothing is there to destroy");
        report::report(&BTreeMap::new(), &[], &args.setup.data.path(outer), args.output)?;
        return stop_if_unused(args, outer).await;
    }
    args.setup.refuse_identities(&asked)?;
    let ready = interruptible(Box::pin(args.setup.open(outer))).await?;
    let doomed = doomed(&ready, &asked.blueprints)?;
    if doomed.is_empty() {
        output::say("nothing of it is there");
        return report::report(&BTreeMap::new(), &[], &ready.site.data, args.output);
    }
    let graph = Graph::new(doomed.iter().map(|(key, (_, after))| (key.clone(), after.clone())))?.reversed();
    let tasks = doomed.into_iter().map(|(key, (task, _))| (key, task)).collect();
    let work = Work {
        ready: &ready,
        manifests: &asked.manifests,
        blueprints: &asked.blueprints,
        tasks,
        graph,
        asks,
        format: args.output,
    };
    let status = work.run(&args.setup).await?;
    if status == ExitStatus::Done && !real { stop_if_unused(args, outer).await } else { Ok(status) }
}

type Doomed = BTreeMap<Key, (Task, BTreeSet<Key>)>;

/// What exists of what the files ask for, and what they asked for earlier.
fn doomed(ready: &Ready, blueprints: &[Blueprint]) -> anyhow::Result<Doomed> {
    let existing: BTreeMap<Key, Record> = holding(&ready.site.data)?.into_iter().collect();
    let dropped = dropped(ready, blueprints)?;
    let named: BTreeSet<Key> = blueprints
        .iter()
        .map(|it| it.key.clone())
        .chain(dropped.iter().map(|(key, _)| key.clone()))
        .filter(|key| existing.contains_key(key))
        .collect();
    let retained: BTreeSet<Key> = blueprints
        .iter()
        .filter(|it| it.retained)
        .map(|it| it.key.clone())
        .chain(dropped.into_iter().filter(|(_, record)| record.retained).map(|(key, _)| key))
        .collect();
    let Fates { doomed, kept } = fates(&existing, &named, &retained)?;
    let task = |key: &Key, record: &Record| {
        if doomed.contains(key) {
            Some(Task::Destroy(Box::new(record.clone()), Doom::Asked))
        } else {
            kept.contains(key).then_some(Task::Keep)
        }
    };
    Ok(existing
        .iter()
        .filter_map(|(key, record)| Some((key.clone(), (task(key, record)?, record.after.clone()))))
        .collect())
}

/// The local AWS ends with the last object in it. Before that it is asked what it still holds: something that
/// no workspace knows of was leaked, and must not vanish unseen.
async fn stop_if_unused(args: &Args, outer: &Outer) -> anyhow::Result<ExitStatus> {
    let data = args.setup.data.path(outer);
    let aws = LocalAws::of(outer, &data);
    let Some(server) = aws.running().await? else { return Ok(ExitStatus::Done) };
    if !holding(&data)?.is_empty() {
        return Ok(ExitStatus::Done);
    }
    let left = Admin::at(server.endpoint).inventory().await?.items;
    if left.is_empty() {
        aws.stop().await?;
        output::say("nothing is left, so the local AWS is stopped");
        // Its providers talk to an AWS that is gone.
        end_with_the_rest(&data).await?;
        return Ok(ExitStatus::Done);
    }
    let names: Vec<String> =
        left.iter().map(|item| format!("{} {} {}", item.service, item.kind, item.id)).collect();
    output::warn(&format!(
        "the local AWS still holds what no workspace knows of: {}; `capt aws stop` ends it all the same",
        names.join(", ")
    ));
    Ok(ExitStatus::Refused)
}
