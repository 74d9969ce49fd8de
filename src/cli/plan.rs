//! `capt plan`: what would change.

use super::{
    Format,
    files::Files,
    interruptible,
    output::ExitStatus,
    setup::Setup,
    work::{Work, dropped},
};
use crate::{
    config::Outer,
    oneshot::{Graph, Task},
    work::Goal,
};

/// What to plan.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  capt plan examples/quickstart.yaml
  capt plan examples/quickstart.yaml -o json | jq '.workspaces[].counts'

A workspace whose values come from another one can only be planned when that one is there.")]
pub(super) struct Args {
    #[command(flatten)]
    files: Files,
    #[command(flatten)]
    setup: Setup,
    /// How to print.
    #[arg(short, long, value_enum, default_value_t)]
    output: Format,
}

pub(super) async fn run(args: &Args, outer: &Outer) -> anyhow::Result<ExitStatus> {
    let asked = args.files.read(outer)?;
    let graph = Graph::new(asked.blueprints.iter().map(|it| (it.key.clone(), it.after.clone())))?;
    args.setup.refuse_identities(&asked)?;
    let ready = interruptible(Box::pin(args.setup.open(outer))).await?;
    for (key, _) in dropped(&ready, &asked.blueprints)? {
        super::output::say(&format!("{key} is not in the files any more; apply will destroy it"));
    }
    let tasks = asked
        .blueprints
        .iter()
        .map(|it| (it.key.clone(), Task::Bring(Box::new(it.clone()), Goal::Plan)))
        .collect();
    let work = Work {
        ready: &ready,
        manifests: &asked.manifests,
        blueprints: &asked.blueprints,
        tasks,
        graph,
        asks: false,
        format: args.output,
    };
    work.run(&args.setup).await
}
