//! The command line: one file a subcommand, each with its `Args` and `run`.

mod apply;
mod aws;
mod client;
mod completions;
mod crds;
mod destroy;
mod files;
mod init;
mod kube;
mod objects;
mod output;
mod plan;
mod progress;
mod render;
mod report;
mod setup;
mod shim;
mod time;
mod tree;
mod version;
mod work;

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    path::PathBuf,
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
  capt apply examples/quickstart.yaml            make everything in it, in the local AWS
  capt plan examples/quickstart.yaml             what would change
  capt render examples/quickstart.yaml -o out    the terraform directories, without running anything
  capt destroy examples/quickstart.yaml          undo it
  capt aws inventory                             everything that exists in the local AWS
  capt kube                                      a Kubernetes API without a cluster, for kubectl

Exit codes: 0 done, 1 refused by the input or the cloud, 2 usage, 3 interrupted, 70 a bug of ours.")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Make what the files ask for.
    Apply(apply::Args),
    /// The local AWS: start, stop, status, inventory.
    Aws(aws::Args),
    /// Print the CRDs, or write them to a directory.
    Crds(crds::Args),
    /// Print a completion script for a shell.
    Completions(completions::Args),
    /// Destroy what the files asked for.
    Destroy(destroy::Args),
    /// The first process of a container: start the operator, start it again, bury its children.
    Init(init::Args),
    /// The Kubernetes API alone: serve it from a data directory.
    Kube(kube::Args),
    /// Show what would change.
    Plan(plan::Args),
    /// Write the terraform directories, without AWS and without terraform.
    Render(render::Args),
    /// Own one terraform command (internal).
    #[command(hide = true)]
    Shim(shim::Args),
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
        other => runtime().and_then(|runtime| {
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

fn runtime() -> anyhow::Result<tokio::runtime::Runtime> {
    Ok(tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?)
}

async fn run(command: Command) -> anyhow::Result<ExitStatus> {
    let outer = Outer::read()?;
    match command {
        Command::Apply(args) => Box::pin(apply::run(&args, &outer)).await,
        Command::Aws(args) => aws::run(args, &outer).await,
        Command::Crds(args) => crds::run(&args),
        Command::Completions(args) => completions::run(&args),
        Command::Destroy(args) => Box::pin(destroy::run(&args, &outer)).await,
        Command::Kube(args) => kube::run(&args, &outer).await,
        Command::Plan(args) => Box::pin(plan::run(&args, &outer)).await,
        Command::Render(args) => render::run(&args, &outer),
        Command::Version(args) => version::run(&args, &outer).await,
        // These have runtimes of their own.
        Command::Init(args) => init::run(&args),
        Command::Shim(args) => shim::run(&args),
    }
}
