//! The command line: one file per subcommand, each with its `Args` and `run`.

#![cfg_attr(
    not(feature = "local"),
    allow(dead_code, unused_imports, reason = "helpers that only the subcommands of `local` call")
)]

mod apply;
mod approve;
#[cfg(feature = "local")]
mod aws;
mod completions;
mod confine;
mod connect;
mod crds;
mod destroy;
#[cfg(feature = "local")]
mod down;
mod gateway;
mod history;
mod import;
mod init;
#[cfg(feature = "local")]
mod kube;
mod kube_api;
mod kube_target;
mod kubeconfig;
mod live_view;
mod logging;
mod logs;
mod manifest_files;
mod manifest_objects;
mod memory;
mod object_watch;
mod operator_setup;
mod output;
mod plan;
mod progress;
mod render;
mod report;
mod router;
mod run;
mod run_setup;
mod run_workspaces;
mod scheduling;
mod shim;
mod state;
mod status;
#[cfg(feature = "local")]
mod stop;
mod time;
mod tree;
#[cfg(feature = "local")]
mod up;
mod version;

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    path::{Path, PathBuf},
    process::ExitCode,
};

use capt_engine::process_env::ProcessEnv;
use clap::{Parser, Subcommand};
pub use output::{ExitStatus, OutputFormat};
use tokio::signal::unix::{SignalKind, signal};

#[cfg(feature = "local")]
const AFTER_HELP: &str = "\
Examples:
  capt up -f examples/quickstart.yaml            run everything locally: Kubernetes API, operator, local AWS
  capt status -w                                 watch the object tree
  capt logs demo-vpc -f                          follow the terraform output of a workspace
  capt down                                      delete everything and verify that nothing is left
  capt run --leader-elect                        run the operator in a cluster
  capt apply examples/quickstart.yaml            apply without Kubernetes
  capt render examples/quickstart.yaml -o out    write the terraform directories without running terraform
  capt aws inventory                             list the resources of the local AWS

Exit codes: 0 success, 1 invalid input or AWS error, 2 usage error, 3 interrupted, 70 internal error.";
#[cfg(not(feature = "local"))]
const AFTER_HELP: &str = "\
Examples:
  capt status -w                                 watch the object tree
  capt logs demo-vpc -f                          follow the terraform output of a workspace
  capt run --leader-elect                        run the operator in a cluster
  capt apply examples/quickstart.yaml            apply without Kubernetes
  capt render examples/quickstart.yaml -o out    write the terraform directories without running terraform

Exit codes: 0 success, 1 invalid input or AWS error, 2 usage error, 3 interrupted, 70 internal error.";

/// Create EKS clusters with Fargate from Kubernetes objects by running Terraform.
#[derive(Debug, Parser)]
#[command(name = "capt", version, propagate_version = true, max_term_width = 110)]
#[command(after_help = AFTER_HELP)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Apply manifests without Kubernetes.
    Apply(apply::Args),
    /// Approve a plan that destroys or replaces protected resources.
    Approve(approve::Args),
    /// Manage the local AWS: start, stop, status, inventory, reset.
    #[cfg(feature = "local")]
    Aws(aws::Args),
    /// Print the CRDs, or write them to a directory.
    Crds(crds::Args),
    /// Print a completion script for a shell.
    Completions(completions::Args),
    /// Run a program that may use only some files and ports (internal).
    #[command(hide = true)]
    Confine(confine::Args),
    /// Route traffic of a cluster workload to this machine.
    Connect(Box<connect::Args>),
    /// Destroy what was applied from manifests, without Kubernetes.
    Destroy(destroy::Args),
    /// Delete everything that `up` created, verify that nothing is left, and stop.
    #[cfg(feature = "local")]
    Down(down::Args),
    /// Inspect or stop the provider gateway of a data directory.
    Gateway(gateway::Args),
    /// List the finished runs of a workspace.
    History(history::Args),
    /// Convert Signadot sandbox and route group files to Kubernetes objects.
    Import(import::Args),
    /// Container init process: start the operator, restart it, reap orphaned children.
    Init(init::Args),
    /// Serve the embedded Kubernetes API of a data directory.
    #[cfg(feature = "local")]
    Kube(kube::Args),
    /// Print the kubeconfig of a cluster.
    Kubeconfig(kubeconfig::Args),
    /// Print the terraform output of the newest run of a workspace.
    Logs(logs::Args),
    /// Show what `apply` would change.
    Plan(plan::Args),
    /// Write the terraform directories; needs neither AWS nor terraform.
    Render(render::Args),
    /// Run the sandbox router: route requests with a routing key to forks and all others to the baseline services.
    Router(Box<router::Args>),
    /// Run the operator, in a cluster or with a kubeconfig.
    Run(Box<run::Args>),
    /// Supervise one terraform command (internal).
    #[command(hide = true)]
    Shim(shim::Args),
    /// List, read, replace and restore the Terraform states of workspaces.
    State(state::Args),
    /// Show the object tree with progress and errors.
    Status(status::Args),
    /// Stop the background process of `up` and keep all objects and states.
    #[cfg(feature = "local")]
    Stop(stop::Args),
    /// Run everything on this machine, apply manifests, and wait until they are ready.
    #[cfg(feature = "local")]
    Up(up::Args),
    /// The background process of `up` (internal).
    #[command(hide = true)]
    #[cfg(feature = "local")]
    UpServe(up::ServeArgs),
    /// Print the version of capt and the terraform and providers it found.
    Version(version::Args),
}

/// The data directory flag.
#[derive(Debug, Clone, clap::Args)]
struct DataDirArg {
    /// The data directory: states, rendered workspaces, the local AWS.
    #[arg(long = "data", value_name = "DIR", env = "CAPT_DATA", default_value = ".capt")]
    data: PathBuf,
}

impl DataDirArg {
    fn path(&self, process_env: &ProcessEnv) -> PathBuf {
        process_env.absolute_path(&self.data)
    }

    /// The flag that makes another command use the same directory; empty if the default or the variable already does.
    fn command_flag(&self, process_env: &ProcessEnv) -> String {
        let is_found = self.data == Path::new(".capt") || process_env.var("CAPT_DATA").is_some();
        if is_found { String::new() } else { format!(" --data {}", self.data.display()) }
    }
}

/// Runs the command line.
pub fn main() -> ExitCode {
    // An argument error ends here with exit code 2.
    let cli = Cli::parse();
    let status = catch_unwind(AssertUnwindSafe(|| dispatch(cli.command))).unwrap_or_else(|_| {
        output::print_message(
            "internal error: this is a bug in capt. The Terraform state is intact; run the same command again",
        );
        ExitStatus::Bug
    });
    ExitCode::from(status.code())
}

fn dispatch(command: Command) -> ExitStatus {
    if holds_secrets(&command) {
        // Best effort: a kernel that refuses it is no reason to stop.
        let _refused = isolation::process::forbid_inspection();
    }
    let outcome = match command {
        Command::Confine(args) => confine::run(&args),
        Command::Init(args) => init::run(&args),
        Command::Shim(args) => shim::run(&args),
        Command::Gateway(gateway::Args { command: gateway::Command::Exec(args) }) => gateway::exec(&args),
        other => build_runtime(&other).and_then(|runtime| {
            let outcome = runtime.block_on(run_command(other));
            // Tasks that still follow a detached run must not delay the exit.
            runtime.shutdown_background();
            outcome
        }),
    };
    outcome.unwrap_or_else(|error| {
        output::print_error(&error);
        if error.is::<Interrupted>() { ExitStatus::Interrupted } else { ExitStatus::Refused }
    })
}

/// A signal arrived before any change was made.
#[derive(Debug, thiserror::Error)]
#[error("interrupted; run the same command again to continue")]
struct Interrupted;

/// Runs idempotent preparation that a signal may abort at any point.
async fn interruptible<T>(work: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    tokio::select! {
        done = work => done,
        _ = terminate.recv() => Err(Interrupted.into()),
        _ = interrupt.recv() => Err(Interrupted.into()),
    }
}

/// Whether other processes of the user, such as a run, must not read the environment and the memory of this process.
fn holds_secrets(command: &Command) -> bool {
    match command {
        Command::Init(_) | Command::Shim(_) => true,
        Command::Gateway(args) => matches!(args.command, gateway::Command::Serve(_)),
        other => runs_operator(other),
    }
}

fn runs_operator(command: &Command) -> bool {
    match command {
        Command::Run(_) => true,
        #[cfg(feature = "local")]
        Command::Up(_) | Command::UpServe(_) => true,
        _ => false,
    }
}

/// The operator gets one worker thread per core; every other command gets two.
fn build_runtime(command: &Command) -> anyhow::Result<tokio::runtime::Runtime> {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    if !runs_operator(command) {
        builder.worker_threads(2);
    }
    Ok(builder.enable_all().build()?)
}

async fn run_command(command: Command) -> anyhow::Result<ExitStatus> {
    let process_env = ProcessEnv::read()?;
    match command {
        Command::Apply(args) => Box::pin(apply::run(&args, &process_env)).await,
        Command::Approve(args) => Box::pin(approve::run(&args, &process_env)).await,
        #[cfg(feature = "local")]
        Command::Aws(args) => aws::run(args, &process_env).await,
        Command::Crds(args) => crds::run(&args),
        Command::Completions(args) => completions::run(&args),
        Command::Import(args) => import::run(&args, &process_env),
        Command::Connect(args) => Box::pin(connect::run(&args, &process_env)).await,
        Command::Destroy(args) => Box::pin(destroy::run(&args, &process_env)).await,
        #[cfg(feature = "local")]
        Command::Down(args) => Box::pin(down::run(&args, &process_env)).await,
        Command::Gateway(args) => gateway::run(args, &process_env).await,
        Command::History(args) => Box::pin(history::run(&args, &process_env)).await,
        #[cfg(feature = "local")]
        Command::Kube(args) => kube::run(&args, &process_env).await,
        Command::Kubeconfig(args) => Box::pin(kubeconfig::run(&args, &process_env)).await,
        Command::Logs(args) => logs::run(&args, &process_env).await,
        Command::Plan(args) => Box::pin(plan::run(&args, &process_env)).await,
        Command::Render(args) => render::run(&args, &process_env),
        Command::Router(args) => Box::pin(router::run(&args)).await,
        Command::Run(args) => Box::pin(run::run(&args, &process_env)).await,
        Command::State(args) => Box::pin(state::run(args, &process_env)).await,
        Command::Status(args) => Box::pin(status::run(&args, &process_env)).await,
        #[cfg(feature = "local")]
        Command::Stop(args) => Box::pin(stop::run(&args, &process_env)).await,
        #[cfg(feature = "local")]
        Command::Up(args) => Box::pin(up::run(&args, &process_env)).await,
        #[cfg(feature = "local")]
        Command::UpServe(args) => Box::pin(up::run_server(&args, &process_env)).await,
        Command::Version(args) => version::run(&args, &process_env).await,
        // These build their own runtimes.
        Command::Init(args) => init::run(&args),
        Command::Confine(args) => confine::run(&args),
        Command::Shim(args) => shim::run(&args),
    }
}
