//! `capt aws`: the local AWS of a data directory.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::bail;
use comfy_table::{Table, presets};
use serde::Serialize;
use terraform_driver::{
    run::Run,
    workspace::{FileLock, LockError, files::read_json},
};

use super::{
    Format,
    output::{self, ExitStatus},
};
use crate::{
    config::Outer,
    local::{
        admin::{Admin, Inventory},
        aws::LocalAws,
        place::Place,
        serve,
    },
    work::{Belongs, SiteError, all, forget_all, holding},
};

/// What to do with it.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Start it in the background, if it does not run.
    Start(Common),
    /// Stop it. It keeps what it holds in memory only: what was made in it is gone then.
    Stop(Stop),
    /// Whether it runs, and where.
    Status(Common),
    /// Everything that exists in it.
    Inventory(Common),
    /// Stop it and forget the workspaces that were made in it.
    Reset(Common),
    /// Serve in the foreground (what `start` runs in the background).
    Serve(Serve),
}

#[derive(Debug, clap::Args)]
struct Common {
    #[command(flatten)]
    data: super::DataDir,
    /// How to print.
    #[arg(short, long, value_enum, default_value_t)]
    output: Format,
}

#[derive(Debug, clap::Args)]
struct Stop {
    #[command(flatten)]
    common: Common,
    /// Stop it even while another capt works in the data directory; what that one does then fails.
    #[arg(long)]
    force: bool,
}

#[derive(Debug, clap::Args)]
struct Serve {
    #[command(flatten)]
    data: super::DataDir,
    /// A python with moto; the one in the cache directory otherwise.
    #[arg(long)]
    python: Option<PathBuf>,
    /// The port of the loopback interface; a free one if the usual one is taken.
    #[arg(long)]
    port: Option<u16>,
    /// End when nobody has called for so many hours.
    #[arg(long, default_value_t = 6)]
    idle_hours: u64,
}

#[derive(Serialize)]
struct Status {
    running: bool,
    endpoint: Option<String>,
    pid: Option<i32>,
    started: Option<jiff::Timestamp>,
}

pub(super) async fn run(args: Args, outer: &Outer) -> anyhow::Result<ExitStatus> {
    match args.command {
        Command::Start(args) => start(&args, outer).await,
        Command::Stop(args) => stop(&args, outer).await,
        Command::Status(args) => status(&args, outer).await,
        Command::Inventory(args) => inventory(&args, outer).await,
        Command::Reset(args) => reset(&args, outer).await,
        Command::Serve(args) => serve(args, outer).await,
    }
}

async fn start(args: &Common, outer: &Outer) -> anyhow::Result<ExitStatus> {
    let (server, started) = args.aws(outer).ensure(output::say).await?;
    let word = if started { "started" } else { "runs already" };
    output::say(&format!("the local AWS {word}: {} (process {})", server.endpoint, server.process.pid));
    Ok(ExitStatus::Done)
}

async fn stop(args: &Stop, outer: &Outer) -> anyhow::Result<ExitStatus> {
    let data = args.common.data.path(outer);
    let _ours = match take(&data, "`capt aws stop`") {
        _ if args.force => None,
        Err(LockError::Held { holder, .. }) => bail!(
            "the data directory {} is in use by {holder}, which may need the local AWS; wait until it is done, \
             or stop the local AWS all the same with --force",
            data.display()
        ),
        lock => lock?,
    };
    let text = if args.common.aws(outer).stop().await? {
        "the local AWS is stopped"
    } else {
        "the local AWS was not running"
    };
    output::say(text);
    Ok(ExitStatus::Done)
}

async fn status(args: &Common, outer: &Outer) -> anyhow::Result<ExitStatus> {
    let server = args.aws(outer).running().await?;
    let status = Status {
        running: server.is_some(),
        endpoint: server.as_ref().map(|server| server.endpoint.clone()),
        pid: server.as_ref().map(|server| server.process.pid),
        started: server.as_ref().map(|server| server.started),
    };
    output::print(args.output, &status, || match &server {
        Some(server) => format!(
            "running at {} (process {}, since {})\n",
            server.endpoint, server.process.pid, server.started
        ),
        None => "not running\n".to_owned(),
    })?;
    Ok(ExitStatus::Done)
}

async fn inventory(args: &Common, outer: &Outer) -> anyhow::Result<ExitStatus> {
    let inventory = match args.aws(outer).running().await? {
        Some(server) => Admin::at(server.endpoint).inventory().await?,
        None => {
            output::say("the local AWS is not running, so nothing exists in it");
            Inventory { items: Vec::new() }
        }
    };
    output::print(args.output, &inventory, || table(&inventory))?;
    Ok(ExitStatus::Done)
}

pub(super) fn table(inventory: &Inventory) -> String {
    if inventory.items.is_empty() {
        return "nothing exists\n".to_owned();
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

async fn reset(args: &Common, outer: &Outer) -> anyhow::Result<ExitStatus> {
    let data = args.data.path(outer);
    // Held to the end: an apply that began in between would lose its workspaces.
    let _ours = take(&data, "`capt aws reset`").map_err(|error| match error {
        LockError::Held { holder, .. } => SiteError::InUse { data: data.clone(), holder },
        LockError::File(error) => error.into(),
    })?;
    refuse_if_precious(&data)?;
    refuse_if_terraform_runs(&data)?;
    let aws = args.aws(outer);
    aws.stop().await?;
    aws.forget_memory()?;
    let forgotten = forget_all(&data)?;
    output::say(&format!(
        "the local AWS is stopped, and {forgotten} workspace(s) that were made in it are forgotten"
    ));
    Ok(ExitStatus::Done)
}

/// The data directory's lock. Where there is no directory nobody works, and none is made.
fn take(data: &Path, who: &str) -> Result<Option<FileLock>, LockError> {
    if !data.exists() {
        return Ok(None);
    }
    FileLock::take(&data.join("lock"), &format!("{who} (process {})", std::process::id())).map(Some)
}

/// What the local AWS held is gone with it; what a real account holds stays, and costs.
fn refuse_if_precious(data: &Path) -> anyhow::Result<()> {
    let Some(owner @ Belongs::Account(_)) = read_json(&data.join("cloud.json"))? else { return Ok(()) };
    let count = holding(data)?.len();
    if count > 0 {
        bail!(
            "the data directory {} belongs to {owner}, and {count} workspace(s) in it hold resources there that \
             only their states know of, so nothing is forgotten; destroy them first with `capt destroy FILE --aws \
             real --data {}`, or name the directory of a local AWS with --data",
            data.display(),
            data.display()
        );
    }
    Ok(())
}

/// A terraform whose caller went away still writes to its workspace.
pub(super) fn refuse_if_terraform_runs(data: &Path) -> anyhow::Result<()> {
    for (key, record) in all(data)? {
        if let Some(run) = Run::find_alive(&record.place(data, &key))? {
            bail!(
                "a terraform still runs in {}, and its workspace cannot be forgotten before it has ended; \
                 wait for it and run the same command again (what it says is in {})",
                record.place(data, &key).dir().display(),
                run.dir().path().display()
            );
        }
    }
    Ok(())
}

async fn serve(args: Serve, outer: &Outer) -> anyhow::Result<ExitStatus> {
    let place = Place::of(&args.data.path(outer));
    let python = match args.python {
        Some(python) => python,
        None => crate::local::venv::python(outer, output::say).await?,
    };
    output::say(&format!("serving; the address is in {}", place.server().display()));
    serve::serve(&place, python, args.port, Duration::from_secs(args.idle_hours * 3600)).await?;
    Ok(ExitStatus::Done)
}

impl Common {
    fn aws(&self, outer: &Outer) -> LocalAws {
        LocalAws::of(outer, &self.data.path(outer))
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
        let table = table(&inventory);
        let rows: Vec<Vec<&str>> = table.lines().map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(rows[0], ["SERVICE", "TYPE", "REGION", "NAME", "STATUS", "ID"]);
        assert_eq!(rows[1], ["ec2", "vpc", "eu-west-3", "demo", "-", "vpc-1"]);
    }
}
