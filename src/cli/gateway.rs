//! `capt gateway`: the shared providers of a data directory.

use std::{ffi::OsString, path::Path, time::Duration};

use anyhow::bail;
use provider_gateway::{
    admin::{Client, Report},
    plugin::become_provider,
};
use serde::Serialize;

use super::{
    Format,
    log::{self, LogFormat},
    output::{self, ExitStatus},
    time,
};
use crate::{
    config::Outer,
    gateway::{self, Ended, Gateway},
};

/// What to do with it.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(subcommand)]
    pub(super) command: Command,
}

#[derive(Debug, clap::Subcommand)]
pub(super) enum Command {
    /// Whether it runs, which providers it has, and what it has done.
    Status(Common),
    /// Let it end, as soon as no run uses it.
    Stop(Common),
    /// Serve in the foreground (what the other commands run in the background).
    Serve(Serve),
    /// Become a provider (internal).
    #[command(hide = true)]
    Exec(Exec),
}

#[derive(Debug, clap::Args)]
pub(super) struct Common {
    #[command(flatten)]
    data: super::DataDir,
    /// How to print.
    #[arg(short, long, value_enum, default_value_t)]
    output: Format,
}

#[derive(Debug, clap::Args)]
pub(super) struct Serve {
    #[command(flatten)]
    data: super::DataDir,
    /// End when nobody has needed it for so long.
    #[arg(long, value_name = "TIME", default_value = "10m", value_parser = time::duration)]
    idle: Duration,
}

#[derive(Debug, clap::Args)]
pub(super) struct Exec {
    program: OsString,
}

#[derive(Serialize)]
struct Status {
    running: bool,
    #[serde(flatten)]
    report: Option<Report>,
}

/// Returns only if the provider cannot be started.
pub(super) fn exec(args: &Exec) -> anyhow::Result<ExitStatus> {
    Err(become_provider(&args.program).into())
}

pub(super) async fn run(args: Args, outer: &Outer) -> anyhow::Result<ExitStatus> {
    match args.command {
        Command::Status(args) => status(&args, outer).await,
        Command::Stop(args) => stop(&args, outer).await,
        Command::Serve(args) => {
            log::begin(LogFormat::default(), log::USUAL, None)?;
            gateway::serve::serve(outer, &args.data.path(outer), args.idle).await?;
            Ok(ExitStatus::Done)
        }
        Command::Exec(args) => exec(&args),
    }
}

async fn status(args: &Common, outer: &Outer) -> anyhow::Result<ExitStatus> {
    let report = match client(args, outer)? {
        Some(client) => Some(client.report().await?),
        None => None,
    };
    let status = Status { running: report.is_some(), report };
    let said = status.report.as_ref().map(text);
    output::print(args.output, &status, || said.unwrap_or_else(|| "not running\n".to_owned()))?;
    Ok(ExitStatus::Done)
}

fn text(report: &Report) -> String {
    let mut lines = vec![format!("process {}, {} run(s)", report.pid, report.runs)];
    for provider in &report.providers {
        lines.push(format!(
            "provider {}: {} MB, {} call(s) under way, {} s old, group {}",
            provider.pid,
            provider.memory >> 20,
            provider.calls,
            provider.age,
            provider.herd
        ));
    }
    let counts = report.counts.list().into_iter().filter(|(_, count)| *count > 0);
    lines.extend(counts.map(|(name, count)| format!("{}: {count}", name.replace('_', " "))));
    lines.join("\n") + "\n"
}

async fn stop(args: &Common, outer: &Outer) -> anyhow::Result<ExitStatus> {
    match Gateway::end(&args.data.path(outer)).await? {
        Ended::NotThere => output::say("the gateway was not running"),
        Ended::Gone => output::say("the gateway is stopped"),
        Ended::Later => bail!("the gateway still has runs; it ends when they are over"),
    }
    Ok(ExitStatus::Done)
}

/// What the commands that end everything say of it; nothing, if there was none.
pub(super) async fn end_with_the_rest(data: &Path) -> anyhow::Result<()> {
    match Gateway::end(data).await? {
        Ended::NotThere => {}
        Ended::Gone => output::say("the shared providers are stopped"),
        Ended::Later => output::say("the shared providers end with the terraforms that still use them"),
    }
    Ok(())
}

fn client(args: &Common, outer: &Outer) -> anyhow::Result<Option<Client>> {
    let server = Gateway::running(&args.data.path(outer))?;
    Ok(server.map(|server| Client::at(server.socket)))
}
