//! The command line: one file a subcommand, each with its `Args` and `run`.

mod access;
mod apply;
mod approve;
mod aws;
mod client;
mod completions;
mod connect;
mod crds;
mod destroy;
mod down;
mod files;
mod gateway;
mod history;
mod import;
mod init;
mod kube;
mod kubeconfig;
mod log;
mod logs;
mod memory;
mod objects;
mod operate;
mod output;
mod plan;
mod progress;
mod render;
mod report;
mod router;
mod run;
mod setup;
mod shim;
mod show;
mod status;
mod stop;
mod time;
mod tree;
mod up;
mod version;
mod watch;
mod work;

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    path::{Path, PathBuf},
    process::ExitCode,
};

use clap::{Parser, Subcommand};
pub use output::{ExitStatus, Format};
use tokio::signal::unix::{SignalKind, signal};

use crate::config::Outer;

/// EKS clusters with Fargate from Kubernetes objects, by running Terraform itself.
#[derive(Debug, Parser)]
#[command(name = "capt", version, propagate_version = true, max_term_width = 110)]
#[command(after_help = "\
Examples:
  capt up -f examples/quickstart.yaml            everything on this machine: API, operator, local AWS
  capt status -w                                 what exists, while it changes
  capt logs demo-vpc -f                          what terraform says
  capt down                                      undo it, and prove that nothing is left
  capt run --leader-elect                        the operator, in a cluster
  capt apply examples/quickstart.yaml            the same without Kubernetes
  capt render examples/quickstart.yaml -o out    the terraform directories, without running anything
  capt aws inventory                             everything that exists in the local AWS

Exit codes: 0 done, 1 refused by the input or the cloud, 2 usage, 3 interrupted, 70 a bug of ours.")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Make what the files ask for, without Kubernetes.
    Apply(apply::Args),
    /// Approve a plan that destroys or replaces what is protected.
    Approve(approve::Args),
    /// The local AWS: start, stop, status, inventory.
    Aws(aws::Args),
    /// Print the CRDs, or write them to a directory.
    Crds(crds::Args),
    /// Print a completion script for a shell.
    Completions(completions::Args),
    /// Answer for a workload of a cluster from this machine.
    Connect(Box<connect::Args>),
    /// Destroy what the files asked for, without Kubernetes.
    Destroy(destroy::Args),
    /// Delete what `up` made, prove that nothing is left, and stop.
    Down(down::Args),
    /// The shared providers of a data directory: whether they run, and how they are.
    Gateway(gateway::Args),
    /// The past runs of a workspace.
    History(history::Args),
    /// Turn sandbox and route group files of Signadot into objects.
    Import(import::Args),
    /// The first process of a container: start the operator, start it again, bury its children.
    Init(init::Args),
    /// The Kubernetes API alone: serve it from a data directory.
    Kube(kube::Args),
    /// Print the kubeconfig of a cluster.
    Kubeconfig(kubeconfig::Args),
    /// What terraform said in the newest run of a workspace.
    Logs(logs::Args),
    /// Show what would change.
    Plan(plan::Args),
    /// Write the terraform directories, without AWS and without terraform.
    Render(render::Args),
    /// The data plane of sandboxes: sends requests with a routing key to forks, and all others to the services.
    Router(Box<router::Args>),
    /// The operator, in a cluster or with a kubeconfig.
    Run(Box<run::Args>),
    /// Own one terraform command (internal).
    #[command(hide = true)]
    Shim(shim::Args),
    /// What exists, as a tree, with progress and errors.
    Status(status::Args),
    /// End the background process of `up`, and keep everything.
    Stop(stop::Args),
    /// Start everything on this machine, apply some files, and follow them until they are ready.
    Up(up::Args),
    /// What `up` runs in the background (internal).
    #[command(hide = true)]
    UpServe(up::ServeArgs),
    /// What this is, and which terraform and providers it found.
    Version(version::Args),
}

/// Where everything is kept.
#[derive(Debug, Clone, clap::Args)]
struct DataDir {
    /// The data directory: states, rendered workspaces, the local AWS.
    #[arg(long = "data", value_name = "DIR", env = "CAPT_DATA", default_value = ".capt")]
    data: PathBuf,
}

impl DataDir {
    fn path(&self, outer: &Outer) -> PathBuf {
        outer.absolute(&self.data)
    }

    /// What has to be added to a command that is to find the same directory.
    fn flag(&self, outer: &Outer) -> String {
        let is_found = self.data == Path::new(".capt") || outer.var("CAPT_DATA").is_some();
        if is_found { String::new() } else { format!(" --data {}", self.data.display()) }
    }
}

/// Runs the command line.
pub fn main() -> ExitCode {
    // An argument error ends here with exit code 2.
    let cli = Cli::parse();
    let status = catch_unwind(AssertUnwindSafe(|| dispatch(cli.command))).unwrap_or_else(|_| {
        output::say(
            "This is a bug in capt. Nothing that terraform finished is lost: run the same command again.",
        );
        ExitStatus::Bug
    });
    ExitCode::from(status.code())
}

fn dispatch(command: Command) -> ExitStatus {
    let outcome = match command {
        Command::Init(args) => init::run(&args),
        Command::Shim(args) => shim::run(&args),
        Command::Gateway(gateway::Args { command: gateway::Command::Exec(args) }) => gateway::exec(&args),
        other => runtime(&other).and_then(|runtime| {
            let outcome = runtime.block_on(run(other));
            // A detached run must not wait for what still listens to it.
            runtime.shutdown_background();
            outcome
        }),
    };
    outcome.unwrap_or_else(|error| {
        output::error(&error);
        if error.is::<Interrupted>() { ExitStatus::Interrupted } else { ExitStatus::Refused }
    })
}

/// The person changed their mind before anything was begun.
#[derive(Debug, thiserror::Error)]
#[error("interrupted; the same command continues")]
struct Interrupted;

/// Work that can be left at any moment, because the next command begins it again.
async fn interruptible<T>(work: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    tokio::select! {
        done = work => done,
        _ = terminate.recv() => Err(Interrupted.into()),
        _ = interrupt.recv() => Err(Interrupted.into()),
    }
}

/// The operator gets a thread per core, everybody else is well with two.
fn runtime(command: &Command) -> anyhow::Result<tokio::runtime::Runtime> {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    if !matches!(command, Command::Run(_) | Command::Up(_) | Command::UpServe(_)) {
        builder.worker_threads(2);
    }
    Ok(builder.enable_all().build()?)
}

async fn run(command: Command) -> anyhow::Result<ExitStatus> {
    let outer = Outer::read()?;
    match command {
        Command::Apply(args) => Box::pin(apply::run(&args, &outer)).await,
        Command::Approve(args) => Box::pin(approve::run(&args, &outer)).await,
        Command::Aws(args) => aws::run(args, &outer).await,
        Command::Crds(args) => crds::run(&args),
        Command::Completions(args) => completions::run(&args),
        Command::Import(args) => import::run(&args, &outer),
        Command::Connect(args) => Box::pin(connect::run(&args, &outer)).await,
        Command::Destroy(args) => Box::pin(destroy::run(&args, &outer)).await,
        Command::Down(args) => Box::pin(down::run(&args, &outer)).await,
        Command::Gateway(args) => gateway::run(args, &outer).await,
        Command::History(args) => Box::pin(history::run(&args, &outer)).await,
        Command::Kube(args) => kube::run(&args, &outer).await,
        Command::Kubeconfig(args) => Box::pin(kubeconfig::run(&args, &outer)).await,
        Command::Logs(args) => logs::run(&args, &outer).await,
        Command::Plan(args) => Box::pin(plan::run(&args, &outer)).await,
        Command::Render(args) => render::run(&args, &outer),
        Command::Router(args) => Box::pin(router::run(&args)).await,
        Command::Run(args) => Box::pin(run::run(&args, &outer)).await,
        Command::Status(args) => Box::pin(status::run(&args, &outer)).await,
        Command::Stop(args) => Box::pin(stop::run(&args, &outer)).await,
        Command::Up(args) => Box::pin(up::run(&args, &outer)).await,
        Command::UpServe(args) => Box::pin(up::run_server(&args, &outer)).await,
        Command::Version(args) => version::run(&args, &outer).await,
        // These have runtimes of their own.
        Command::Init(args) => init::run(&args),
        Command::Shim(args) => shim::run(&args),
    }
}
