//! `capt gateway`: the provider gateway of a data directory.

use std::{
    ffi::{OsStr, OsString},
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::bail;
use capt_engine::{
    gateway::{self, GatewayHandle, GatewayStopOutcome, PROVIDER_RULES_VARIABLE},
    process_env::ProcessEnv,
};
use isolation::{enforce, process::from_argument};
use provider_gateway::{
    admin::{GatewayClient, GatewayReport},
    plugin::{become_named_provider, become_provider},
};
use serde::Serialize;

use super::{
    OutputFormat,
    logging::{self, LogFormat},
    output::{self, ExitStatus},
    time,
};

/// Arguments of `capt gateway`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(subcommand)]
    pub(super) command: Command,
}

#[derive(Debug, clap::Subcommand)]
pub(super) enum Command {
    /// Print whether it runs, its provider processes, and its counters.
    Status(GatewayArgs),
    /// Stop it as soon as no run uses it.
    Stop(GatewayArgs),
    /// Drop the journal entries of a workspace unread: its next run plans without them.
    Forget(GatewayForgetArgs),
    /// Run it in the foreground (other commands run this in the background).
    Serve(GatewayServeArgs),
    /// Exec a provider binary (internal).
    #[command(hide = true)]
    Exec(GatewayExecArgs),
}

#[derive(Debug, clap::Args)]
pub(super) struct GatewayArgs {
    #[command(flatten)]
    data: super::DataDirArg,
    /// Output format.
    #[arg(short, long, value_enum, default_value_t)]
    output: OutputFormat,
}

#[derive(Debug, clap::Args)]
pub(super) struct GatewayForgetArgs {
    #[command(flatten)]
    data: super::DataDirArg,
    /// The workspace, NAMESPACE/NAME.
    workspace: String,
}

#[derive(Debug, clap::Args)]
pub(super) struct GatewayServeArgs {
    #[command(flatten)]
    data: super::DataDirArg,
    /// Exit after this time without a run.
    #[arg(long, value_name = "TIME", default_value = "10m", value_parser = time::parse_duration)]
    idle: Duration,
}

#[derive(Debug, clap::Args)]
pub(super) struct GatewayExecArgs {
    /// The program is open as standard input; its path is only a name.
    #[arg(long)]
    opened: bool,
    program: OsString,
}

#[derive(Serialize)]
struct GatewayStatus {
    running: bool,
    #[serde(flatten)]
    report: Option<GatewayReport>,
}

/// Replaces this process; returns only on error.
pub(super) fn exec(args: &GatewayExecArgs) -> anyhow::Result<ExitStatus> {
    let process_env = ProcessEnv::read()?;
    if let Some(rules) = process_env.var(PROVIDER_RULES_VARIABLE) {
        // The gateway starts providers in their own directory, with their socket and temporary files.
        let rules = from_argument(rules)?.write(&process_env.cwd).read(&package_dir(&args.program));
        enforce(&rules)?;
    }
    let become_it = if args.opened { become_provider } else { become_named_provider };
    Err(become_it(&args.program).into())
}

/// Some providers have files beside the program.
fn package_dir(program: &OsStr) -> PathBuf {
    Path::new(program).parent().unwrap_or_else(|| Path::new(program)).to_owned()
}

pub(super) async fn run(args: Args, process_env: &ProcessEnv) -> anyhow::Result<ExitStatus> {
    match args.command {
        Command::Status(args) => status(&args, process_env).await,
        Command::Stop(args) => stop(&args, process_env).await,
        Command::Forget(args) => forget(&args, process_env).await,
        Command::Serve(args) => {
            logging::init_logging(LogFormat::default(), logging::DEFAULT_FILTER, None)?;
            gateway::daemon::serve(process_env, &args.data.path(process_env), args.idle).await?;
            Ok(ExitStatus::Done)
        }
        Command::Exec(args) => exec(&args),
    }
}

async fn status(args: &GatewayArgs, process_env: &ProcessEnv) -> anyhow::Result<ExitStatus> {
    let report = match admin_client(args, process_env)? {
        Some(client) => Some(client.report().await?),
        None => None,
    };
    let status = GatewayStatus { running: report.is_some(), report };
    let said = status.report.as_ref().map(report_text);
    output::print_formatted(args.output, &status, || said.unwrap_or_else(|| "not running\n".to_owned()))?;
    Ok(ExitStatus::Done)
}

fn report_text(report: &GatewayReport) -> String {
    let mut lines = vec![format!("process {}, {} run(s)", report.pid, report.runs)];
    for provider in &report.providers {
        lines.push(format!(
            "provider {}: {} MB, {} call(s) in flight, {} s old, group {}",
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

async fn stop(args: &GatewayArgs, process_env: &ProcessEnv) -> anyhow::Result<ExitStatus> {
    match GatewayHandle::stop(&args.data.path(process_env)).await? {
        GatewayStopOutcome::NotRunning => output::print_message("the gateway was not running"),
        GatewayStopOutcome::Stopped => output::print_message("stopped the gateway"),
        GatewayStopOutcome::StopsAfterRuns => {
            bail!("the gateway still serves runs; it stops when they finish")
        }
    }
    Ok(ExitStatus::Done)
}

async fn forget(args: &GatewayForgetArgs, process_env: &ProcessEnv) -> anyhow::Result<ExitStatus> {
    let count = gateway::drop_workspace_entries(&args.data.path(process_env), &args.workspace).await?;
    output::print_message(&match count {
        0 => format!("the journal has no entries of {}", args.workspace),
        count => format!("dropped the journal entries of {count} change(s) of {}", args.workspace),
    });
    Ok(ExitStatus::Done)
}

/// Stops the gateway as part of a larger shutdown; silent if none runs.
pub(super) async fn stop_gateway(data: &Path) -> anyhow::Result<()> {
    match GatewayHandle::stop(data).await? {
        GatewayStopOutcome::NotRunning => {}
        GatewayStopOutcome::Stopped => output::print_message("stopped the provider gateway"),
        GatewayStopOutcome::StopsAfterRuns => {
            output::print_message("the provider gateway stops when its last run finishes");
        }
    }
    Ok(())
}

fn admin_client(args: &GatewayArgs, process_env: &ProcessEnv) -> anyhow::Result<Option<GatewayClient>> {
    let server = GatewayHandle::find_running(&args.data.path(process_env))?;
    Ok(server.map(|server| server.client()))
}
