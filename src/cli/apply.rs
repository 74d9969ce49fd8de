//! `capt apply`: make it so.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::bail;

use super::{
    Format,
    files::{Asked, Files},
    interruptible,
    output::{self, ExitStatus},
    setup::{Ready, Setup},
    work::{Work, dropped},
};
use crate::{
    blueprint::{Blueprint, Key},
    config::{AwsMode, Outer},
    oneshot::{Graph, Task},
    work::{Doom, Goal},
};

/// What to make.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  capt apply examples/quickstart.yaml
  capt apply examples/quickstart.yaml --aws real          asks before each change
  capt apply examples/quickstart.yaml --approve 0a1b2c3d4e5f

Ctrl-C stops cleanly: creations under way are recorded, and the same command continues.")]
pub(super) struct Args {
    #[command(flatten)]
    files: Files,
    #[command(flatten)]
    setup: Setup,
    /// Do not ask.
    #[arg(short, long)]
    yes: bool,
    /// Approve the plan with this hash, although it replaces or destroys what is protected.
    #[arg(long, value_name = "HASH")]
    approve: Option<String>,
    /// How to print.
    #[arg(short, long, value_enum, default_value_t)]
    output: Format,
}

pub(super) async fn run(args: &Args, outer: &Outer) -> anyhow::Result<ExitStatus> {
    let asked = args.files.read(outer)?;
    let asks = args.setup.aws == AwsMode::Real && !args.yes;
    if asks && !output::can_ask() {
        bail!(
            "a real AWS account would be changed and nobody can be asked; say --yes, or run this at a terminal"
        );
    }
    // A circle is found before anything is started.
    Graph::new(asked.blueprints.iter().map(|it| (it.key.clone(), it.after.clone())))?;
    args.setup.refuse_identities(&asked)?;
    let ready = interruptible(Box::pin(args.setup.open(outer))).await?;
    let (tasks, graph) = tasks(&ready, &asked, args.approve.as_deref())?;
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
    if status == ExitStatus::Done && args.output == Format::Text {
        say_where(&ready, args.setup.aws);
    }
    Ok(status)
}

/// What to do with each workspace, and in which order.
fn tasks(
    ready: &Ready,
    asked: &Asked,
    approve: Option<&str>,
) -> anyhow::Result<(BTreeMap<Key, Task>, Graph)> {
    let approved = approve.map(str::to_owned);
    let goal = Goal::Apply { approved: approved.clone() };
    let bring = |it: &Blueprint| (it.key.clone(), Task::Bring(Box::new(it.clone()), goal.clone()));
    let mut tasks: BTreeMap<Key, Task> = asked.blueprints.iter().map(bring).collect();
    let mut nodes: Vec<_> = asked.blueprints.iter().map(|it| (it.key.clone(), it.after.clone())).collect();
    for (key, record) in dropped(ready, &asked.blueprints)? {
        if record.retained {
            output::say(&format!("{key} is not in the files any more and is retained"));
            continue;
        }
        output::say(&format!("{key} is not in the files any more and will be destroyed"));
        // What it stood on is not touched before it is gone.
        for (_, needs) in nodes.iter_mut().filter(|(other, _)| record.after.contains(other)) {
            needs.insert(key.clone());
        }
        nodes.push((key.clone(), BTreeSet::new()));
        tasks.insert(key, Task::Destroy(Box::new(record), Doom::Dropped { approved: approved.clone() }));
    }
    Ok((tasks, Graph::new(nodes)?))
}

fn say_where(ready: &Ready, aws: AwsMode) {
    let data = ready.site.data.display();
    let inventory = match aws {
        AwsMode::Local => format!("; `capt aws inventory --data {data}` lists what exists"),
        AwsMode::Real => String::new(),
    };
    output::say(&format!("look around: the terraform directories are in {data}/workspaces{inventory}"));
}
