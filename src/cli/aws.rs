//! `capt aws`: manages the local AWS of a data directory.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::bail;
use capt_engine::{
    daemon_files::DaemonFiles,
    pipeline::{CloudBinding, DataDirectoryError, list_workspaces_with_resources, remove_all_workspaces},
    process_env::ProcessEnv,
};
use comfy_table::{Table, presets};
use serde::Serialize;
use terraform_driver::workspace::{FileLock, LockError, files::read_json};

use super::{
    OutputFormat,
    operator_setup::refuse_if_terraform_runs,
    output::{self, ExitStatus},
};
use crate::local::{
    admin::{AdminClient, Inventory},
    aws_daemon::LocalAwsDaemon,
    aws_server,
};

/// Arguments of `capt aws`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Start it in the background unless it is running.
    Start(LocalAwsArgs),
    /// Stop it. Its resources are kept in memory only and are lost.
    Stop(LocalAwsStopArgs),
    /// Print whether it runs, and its endpoint.
    Status(LocalAwsArgs),
    /// List all resources in it.
    Inventory(LocalAwsArgs),
    /// Stop it and forget the workspaces that were applied to it.
    Reset(LocalAwsArgs),
    /// Run it in the foreground (`start` runs this in the background).
    Serve(LocalAwsServeArgs),
}

#[derive(Debug, clap::Args)]
struct LocalAwsArgs {
    #[command(flatten)]
    data: super::DataDirArg,
    /// Output format.
    #[arg(short, long, value_enum, default_value_t)]
    output: OutputFormat,
}

#[derive(Debug, clap::Args)]
struct LocalAwsStopArgs {
    #[command(flatten)]
    common: LocalAwsArgs,
    /// Stop it even while another capt process uses the data directory; runs of that process then fail.
    #[arg(long)]
    force: bool,
}

#[derive(Debug, clap::Args)]
struct LocalAwsServeArgs {
    #[command(flatten)]
    data: super::DataDirArg,
    /// Python interpreter with moto installed; defaults to the virtual environment in the cache directory.
    #[arg(long)]
    python: Option<PathBuf>,
    /// Port on the loopback interface; a free port if the default one is in use.
    #[arg(long)]
    port: Option<u16>,
    /// Exit after this many hours without a request.
    #[arg(long, default_value_t = 6)]
    idle_hours: u64,
}

#[derive(Serialize)]
struct LocalAwsStatus {
    running: bool,
    endpoint: Option<String>,
    pid: Option<i32>,
    started: Option<jiff::Timestamp>,
}

pub(super) async fn run(args: Args, process_env: &ProcessEnv) -> anyhow::Result<ExitStatus> {
    match args.command {
        Command::Start(args) => start(&args, process_env).await,
        Command::Stop(args) => stop(&args, process_env).await,
        Command::Status(args) => status(&args, process_env).await,
        Command::Inventory(args) => inventory(&args, process_env).await,
        Command::Reset(args) => reset(&args, process_env).await,
        Command::Serve(args) => serve(args, process_env).await,
    }
}

async fn start(args: &LocalAwsArgs, process_env: &ProcessEnv) -> anyhow::Result<ExitStatus> {
    let (server, started) = args.daemon(process_env).ensure_running(output::print_message).await?;
    let word = if started { "started" } else { "is already running" };
    output::print_message(&format!(
        "the local AWS {word}: {} (process {})",
        server.endpoint, server.process.pid
    ));
    Ok(ExitStatus::Done)
}

async fn stop(args: &LocalAwsStopArgs, process_env: &ProcessEnv) -> anyhow::Result<ExitStatus> {
    let data = args.common.data.path(process_env);
    let _ours = match lock_data_dir(&data, "`capt aws stop`") {
        _ if args.force => None,
        Err(LockError::Held { holder, .. }) => bail!(
            "the data directory {} is in use by {holder}, which may need the local AWS; wait until it finishes, \
            or stop the local AWS anyway with --force",
            data.display()
        ),
        lock => lock?,
    };
    let text = if args.common.daemon(process_env).stop().await? {
        "stopped the local AWS"
    } else {
        "the local AWS was not running"
    };
    output::print_message(text);
    Ok(ExitStatus::Done)
}

async fn status(args: &LocalAwsArgs, process_env: &ProcessEnv) -> anyhow::Result<ExitStatus> {
    let server = args.daemon(process_env).running().await?;
    let status = LocalAwsStatus {
        running: server.is_some(),
        endpoint: server.as_ref().map(|server| server.endpoint.clone()),
        pid: server.as_ref().map(|server| server.process.pid),
        started: server.as_ref().map(|server| server.started),
    };
    output::print_formatted(args.output, &status, || match &server {
        Some(server) => format!(
            "running at {} (process {}, since {})\n",
            server.endpoint, server.process.pid, server.started
        ),
        None => "not running\n".to_owned(),
    })?;
    Ok(ExitStatus::Done)
}

async fn inventory(args: &LocalAwsArgs, process_env: &ProcessEnv) -> anyhow::Result<ExitStatus> {
    let inventory = match args.daemon(process_env).running().await? {
        Some(server) => AdminClient::new(server.endpoint).inventory().await?,
        None => {
            output::print_message("the local AWS is not running, so it has no resources");
            Inventory { items: Vec::new() }
        }
    };
    output::print_formatted(args.output, &inventory, || inventory_table(&inventory))?;
    Ok(ExitStatus::Done)
}

pub(super) fn inventory_table(inventory: &Inventory) -> String {
    if inventory.items.is_empty() {
        return "no resources\n".to_owned();
    }
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_header(["SERVICE", "TYPE", "REGION", "NAME", "STATUS", "ID"]);
    for item in &inventory.items {
        let dash = || "-".to_owned();
        let shown = |text: &Option<String>| text.clone().filter(|text| !text.is_empty()).unwrap_or_else(dash);
        table.add_row([
            item.service.clone(),
            item.kind.clone(),
            shown(&item.region),
            shown(&item.name),
            shown(&item.status),
            item.id.clone(),
        ]);
    }
    let lines: Vec<String> = table.lines().map(|line| line.trim_end().to_owned()).collect();
    lines.join("\n") + "\n"
}

async fn reset(args: &LocalAwsArgs, process_env: &ProcessEnv) -> anyhow::Result<ExitStatus> {
    let data = args.data.path(process_env);
    // Held until the end: an apply that starts in between would lose its workspaces.
    let _ours = lock_data_dir(&data, "`capt aws reset`").map_err(|error| match error {
        LockError::Held { holder, .. } => DataDirectoryError::InUse { data: data.clone(), holder },
        LockError::File(error) => error.into(),
    })?;
    refuse_if_account_holds_resources(&data)?;
    refuse_if_terraform_runs(&data)?;
    let aws = args.daemon(process_env);
    aws.stop().await?;
    aws.forget_instance()?;
    let forgotten = remove_all_workspaces(&data)?;
    output::print_message(&format!(
        "stopped the local AWS and forgot {forgotten} workspace(s) that were applied to it"
    ));
    Ok(ExitStatus::Done)
}

/// Locks the data directory; `None` if it does not exist.
fn lock_data_dir(data: &Path, who: &str) -> Result<Option<FileLock>, LockError> {
    if !data.exists() {
        return Ok(None);
    }
    FileLock::acquire(&data.join("lock"), &format!("{who} (process {})", std::process::id())).map(Some)
}

/// Resources of a real account would survive, unmanaged and billed.
fn refuse_if_account_holds_resources(data: &Path) -> anyhow::Result<()> {
    let Some(owner @ CloudBinding::Account(_)) = read_json(&data.join("cloud.json"))? else { return Ok(()) };
    let count = list_workspaces_with_resources(data)?.len();
    if count > 0 {
        bail!(
            "the data directory {} belongs to {owner}, and {count} workspace(s) in it hold resources that only \
            their states track; destroy them first with `capt destroy FILE --aws real --data {}`, or pass the data \
            directory of a local AWS with --data",
            data.display(),
            data.display()
        );
    }
    Ok(())
}

async fn serve(args: LocalAwsServeArgs, process_env: &ProcessEnv) -> anyhow::Result<ExitStatus> {
    let place = DaemonFiles::of_local_aws(&args.data.path(process_env));
    let python = match args.python {
        Some(python) => python,
        None => crate::local::venv::ensure_python(process_env, output::print_message).await?,
    };
    output::print_message(&format!("serving; the endpoint is recorded in {}", place.server_file().display()));
    aws_server::serve(&place, python, args.port, Duration::from_secs(args.idle_hours * 3600)).await?;
    Ok(ExitStatus::Done)
}

impl LocalAwsArgs {
    fn daemon(&self, process_env: &ProcessEnv) -> LocalAwsDaemon {
        LocalAwsDaemon::new(process_env, &self.data.path(process_env))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_inventory_tells_in_which_region_things_are() {
        let reported = serde_json::json!({"items": [
            {"service": "ec2", "type": "vpc", "region": "eu-west-3", "id": "vpc-1", "name": "demo", "status": ""},
        ]});
        let inventory: Inventory = serde_json::from_value(reported).unwrap();
        assert_eq!(serde_json::to_value(&inventory).unwrap()["items"][0]["region"], "eu-west-3");
        let table = inventory_table(&inventory);
        let rows: Vec<Vec<&str>> = table.lines().map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(rows[0], ["SERVICE", "TYPE", "REGION", "NAME", "STATUS", "ID"]);
        assert_eq!(rows[1], ["ec2", "vpc", "eu-west-3", "demo", "-", "vpc-1"]);
    }
}
