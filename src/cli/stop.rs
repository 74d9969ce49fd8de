//! `capt stop`: stops the background process and the provider gateway; keeps objects and states.

use std::time::Duration;

use capt_engine::process_env::ProcessEnv;

use super::{
    DataDirArg,
    gateway::stop_gateway,
    interruptible,
    output::{self, ExitStatus},
    time,
};
use crate::local::{aws_daemon::LocalAwsDaemon, up_daemon::UpDaemon};

/// Arguments of `capt stop`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  capt stop                  stop the background process of .capt
  capt stop --now            do not wait for running terraform processes; the next `capt up` adopts them

Objects, states and directories are kept. The local AWS keeps running, because it would lose its resources.")]
pub(super) struct Args {
    #[command(flatten)]
    data: DataDirArg,
    /// Do not wait for running terraform processes.
    #[arg(long)]
    now: bool,
    /// How long to wait for the process to exit.
    #[arg(long, value_name = "TIME", default_value = "10m", value_parser = time::parse_duration)]
    timeout: Duration,
}

pub(super) async fn run(args: &Args, process_env: &ProcessEnv) -> anyhow::Result<ExitStatus> {
    let data = args.data.path(process_env);
    let up = UpDaemon::new(process_env, &data);
    let waits =
        || output::print_message("waiting for running terraform processes to finish (`--now` does not wait)");
    let stopped = interruptible(async { Ok(up.stop(args.timeout, args.now, waits).await?) }).await?;
    output::print_message(if stopped {
        "stopped the background process"
    } else {
        "no background process was running"
    });
    stop_gateway(&data).await?;
    if let Some(server) = LocalAwsDaemon::new(process_env, &data).running().await? {
        output::print_message(&format!(
            "the local AWS keeps running at {}, because it holds its resources in memory only; `capt aws stop --data {}` \
            stops it and discards them",
            server.endpoint,
            data.display()
        ));
    }
    Ok(ExitStatus::Done)
}
