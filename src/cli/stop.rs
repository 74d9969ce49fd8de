//! `capt stop`: end the background process and the shared providers, and keep everything.

use std::time::Duration;

use super::{
    DataDir,
    gateway::end_with_the_rest,
    interruptible,
    output::{self, ExitStatus},
    time,
};
use crate::{
    config::Outer,
    local::{aws::LocalAws, up::Up},
};

/// Which one, and how patiently.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  capt stop                  end the background process of .capt
  capt stop --now            without waiting for running terraforms; the next `capt up` finds them again

Objects, states and directories stay. The local AWS goes on, because it would lose its memory.")]
pub(super) struct Args {
    #[command(flatten)]
    data: DataDir,
    /// Leave running terraforms to themselves.
    #[arg(long)]
    now: bool,
    /// How long to wait for its end.
    #[arg(long, value_name = "TIME", default_value = "10m", value_parser = time::duration)]
    timeout: Duration,
}

pub(super) async fn run(args: &Args, outer: &Outer) -> anyhow::Result<ExitStatus> {
    let data = args.data.path(outer);
    let up = Up::of(outer, &data);
    let waits = || output::say("waiting for running terraforms to come to a good end (`--now` does not)");
    let stopped = interruptible(async { Ok(up.stop(args.timeout, args.now, waits).await?) }).await?;
    output::say(if stopped {
        "the background process is stopped"
    } else {
        "no background process was running"
    });
    end_with_the_rest(&data).await?;
    if let Some(server) = LocalAws::of(outer, &data).running().await? {
        output::say(&format!(
            "the local AWS goes on at {}, because it keeps what it holds in memory only; `capt aws stop --data {}` \
             ends it with all that is in it",
            server.endpoint,
            data.display()
        ));
    }
    Ok(ExitStatus::Done)
}
