//! `capt state`: lists, reads, replaces and restores the Terraform states of workspaces, in the state store of an operator or in a
//! data directory.

mod api_states;
mod dead_operator;
mod directory_states;
mod edit;
mod table;
mod version;

use std::path::PathBuf;

use anyhow::{Context as _, anyhow};
use capt_engine::process_env::ProcessEnv;
use capt_model::workspaces::WorkspaceKey;
use terraform_driver::clock;

use self::{
    api_states::ApiStates,
    directory_states::DirectoryStates,
    edit::{EditOptions, StateEdit},
    version::{OpenWorkspace, StateVersionRow, WorkspaceRow},
};
use super::{
    OutputFormat,
    kube_target::KubeTarget,
    output::{self, ExitStatus},
};
use crate::local::up_daemon::UpDaemon;

/// Arguments of `capt state`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  capt state list                                   all workspaces of `capt up`, or of the data directory
  capt state list --context prod -o json            those of an operator in a cluster
  capt state pull demo-vpc > demo-vpc.tfstate       contains secrets
  capt state versions demo-vpc                      what can be restored
  capt state restore demo-vpc 12
  capt state push demo-vpc demo-vpc.tfstate

With --kubeconfig or --context, and where `capt up` runs, the states are those in the Secrets of
the operator; otherwise those in the data directory. Nothing is changed while a run of the
workspace is active, and every change is recorded.")]
pub(super) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// List the workspaces with their states.
    #[command(after_help = "Example:\n  capt state list -n prod -o json")]
    List(ListArgs),
    /// Print the current state to standard output; it contains secrets.
    #[command(after_help = "Example:\n  capt state pull demo-vpc > demo-vpc.tfstate")]
    Pull(WorkspaceArgs),
    /// Put the state of a file in the place of the current one, which is kept.
    #[command(
        after_help = "Examples:\n  capt state push demo-vpc fixed.tfstate\n  capt state push demo-vpc - < \
                            fixed.tfstate\n\nThe serial is raised, so that nothing older is preferred to it."
    )]
    Push(PushArgs),
    /// List the versions that are kept.
    #[command(after_help = "Example:\n  capt state versions demo-vpc")]
    Versions(VersionsArgs),
    /// Put a version that is kept in the place of the current one, which is kept too.
    #[command(
        after_help = "Examples:\n  capt state restore demo-vpc 12\n  capt state restore demo-vpc 12-0a1b2c3d"
    )]
    Restore(RestoreArgs),
    /// Remove the lock of a workspace if its owner is provably dead.
    #[command(after_help = "Example:\n  capt state unlock demo-vpc --context prod")]
    Unlock(WorkspaceArgs),
}

#[derive(Debug, clap::Args)]
struct ListArgs {
    #[command(flatten)]
    access: KubeTarget,
    /// Only this namespace.
    #[arg(short, long, value_name = "NAME")]
    namespace: Option<String>,
    /// Output format.
    #[arg(short, long, value_enum, default_value_t)]
    output: OutputFormat,
}

#[derive(Debug, clap::Args)]
struct WorkspaceArgs {
    /// The workspace: name of its `WorkspaceTemplateApply` or of its directory.
    name: String,
    #[command(flatten)]
    access: KubeTarget,
    /// Namespace of the workspace.
    #[arg(short, long, value_name = "NAME", default_value = "default")]
    namespace: String,
}

#[derive(Debug, clap::Args)]
struct PushArgs {
    #[command(flatten)]
    workspace: WorkspaceArgs,
    /// The state file, or `-` for standard input.
    file: PathBuf,
    /// Accept another lineage, and a state without resources in the place of one with some.
    #[arg(long)]
    force: bool,
}

#[derive(Debug, clap::Args)]
struct VersionsArgs {
    #[command(flatten)]
    workspace: WorkspaceArgs,
    /// Output format.
    #[arg(short, long, value_enum, default_value_t)]
    output: OutputFormat,
}

#[derive(Debug, clap::Args)]
struct RestoreArgs {
    #[command(flatten)]
    workspace: WorkspaceArgs,
    /// The version: its id or its serial, as `capt state versions` prints them.
    #[arg(id = "STATE_VERSION", value_name = "VERSION")]
    version: String,
    /// Accept another lineage, and a state without resources in the place of one with some.
    #[arg(long)]
    force: bool,
}

impl WorkspaceArgs {
    /// The workspace as it was named: `NAME` or `NAMESPACE/NAME`.
    fn key(&self) -> WorkspaceKey {
        let (namespace, name) = self.name.split_once('/').unwrap_or((&self.namespace, &self.name));
        WorkspaceKey::new(namespace, name)
    }
}

pub(super) async fn run(args: Args, process_env: &ProcessEnv) -> anyhow::Result<ExitStatus> {
    match args.command {
        Command::List(args) => list(&args, process_env).await?,
        Command::Pull(args) => pull(&args, process_env).await?,
        Command::Push(args) => push(&args, process_env).await?,
        Command::Versions(args) => versions(&args, process_env).await?,
        Command::Restore(args) => restore(&args, process_env).await?,
        Command::Unlock(args) => {
            let source = StateSource::open(&args.access, process_env).await?;
            output::print_message(&source.unlock(&args.key()).await?);
        }
    }
    Ok(ExitStatus::Done)
}

async fn list(args: &ListArgs, process_env: &ProcessEnv) -> anyhow::Result<()> {
    let source = StateSource::open(&args.access, process_env).await?;
    let rows = source.list(args.namespace.as_deref()).await?;
    Ok(output::print_formatted(args.output, &rows, || table::workspaces(&rows, clock::now()))?)
}

async fn pull(args: &WorkspaceArgs, process_env: &ProcessEnv) -> anyhow::Result<()> {
    let source = StateSource::open(&args.access, process_env).await?;
    let workspace = source.inspect(&args.key()).await?;
    let current = workspace.current().ok_or_else(|| {
        anyhow!("{} has no state yet; `capt state versions` lists what is kept of it", workspace.key)
    })?;
    let bytes = source.read(&workspace, current).await?;
    Ok(output::print_data(&String::from_utf8_lossy(&bytes))?)
}

async fn versions(args: &VersionsArgs, process_env: &ProcessEnv) -> anyhow::Result<()> {
    let source = StateSource::open(&args.workspace.access, process_env).await?;
    let found = source.inspect(&args.workspace.key()).await?.versions;
    Ok(output::print_formatted(args.output, &found, || table::versions(&found, clock::now()))?)
}

async fn push(args: &PushArgs, process_env: &ProcessEnv) -> anyhow::Result<()> {
    let bytes = read_file(&args.file, process_env)?;
    let what = if args.file.as_os_str() == "-" {
        "the state on standard input".to_owned()
    } else {
        args.file.display().to_string()
    };
    // A file that is no state is refused whatever runs.
    edit::check_file(&bytes, &what)?;
    let source = StateSource::open(&args.workspace.access, process_env).await?;
    let (key, options) = (args.workspace.key(), EditOptions { verb: "pushed", force: args.force });
    let _guard = source.begin_edit(&key, args.force).await?;
    let workspace = source.inspect(&key).await?;
    finish(&source, &workspace, StateEdit::new(&workspace, (&bytes, &what), options)?).await
}

async fn restore(args: &RestoreArgs, process_env: &ProcessEnv) -> anyhow::Result<()> {
    let source = StateSource::open(&args.workspace.access, process_env).await?;
    let (key, options) = (args.workspace.key(), EditOptions { verb: "restored", force: args.force });
    let _guard = source.begin_edit(&key, args.force).await?;
    let workspace = source.inspect(&key).await?;
    let version = workspace.find(&args.version)?;
    let bytes = source.read(&workspace, version).await?;
    let what = format!("version {}", version.id);
    finish(&source, &workspace, StateEdit::new(&workspace, (&bytes, &what), options)?).await
}

/// Makes a change, and says what it was.
async fn finish(source: &StateSource, workspace: &OpenWorkspace, edit: StateEdit) -> anyhow::Result<()> {
    let next = source.replace(workspace, &edit).await?;
    output::print_message(&format!("{}: {}; {next}", workspace.key, edit.summary()));
    Ok(())
}

fn read_file(file: &std::path::Path, process_env: &ProcessEnv) -> anyhow::Result<Vec<u8>> {
    if file.as_os_str() == "-" {
        let mut bytes = Vec::new();
        std::io::Read::read_to_end(&mut std::io::stdin(), &mut bytes)
            .context("cannot read standard input")?;
        return Ok(bytes);
    }
    let path = process_env.absolute_path(file);
    std::fs::read(&path).with_context(|| format!("cannot read {}", file.display()))
}

/// Where the states are.
enum StateSource {
    /// In the Secrets of an operator.
    Api(Box<ApiStates>),
    /// In a data directory.
    Directory(DirectoryStates),
}

/// Keeps others out while a state is replaced.
type EditGuard = Option<directory_states::DirectoryLocks>;

impl StateSource {
    async fn open(access: &KubeTarget, process_env: &ProcessEnv) -> anyhow::Result<Self> {
        let person = process_env.var("USER").map(str::to_owned);
        let data = access.data.path(process_env);
        let is_named = access.kubeconfig.is_some() || access.context.is_some();
        if is_named || UpDaemon::new(process_env, &data).running()?.is_some() {
            let client = access.client(process_env).await?;
            let local_data = (!is_named).then_some(data);
            return Ok(Self::Api(Box::new(ApiStates::new(client, local_data, person))));
        }
        Ok(Self::Directory(DirectoryStates { data, person }))
    }

    async fn list(&self, namespace: Option<&str>) -> anyhow::Result<Vec<WorkspaceRow>> {
        match self {
            Self::Api(states) => states.list(namespace).await,
            Self::Directory(states) => states.list(namespace),
        }
    }

    async fn inspect(&self, key: &WorkspaceKey) -> anyhow::Result<OpenWorkspace> {
        match self {
            Self::Api(states) => states.inspect(key).await,
            Self::Directory(states) => states.inspect(key),
        }
    }

    async fn read(&self, workspace: &OpenWorkspace, version: &StateVersionRow) -> anyhow::Result<Vec<u8>> {
        match self {
            Self::Api(states) => states.read(workspace, version).await,
            Self::Directory(_) => version.read_file(),
        }
    }

    /// Refuses while a run is active, and keeps a new one from starting as far as that is possible.
    async fn begin_edit(&self, key: &WorkspaceKey, force: bool) -> anyhow::Result<EditGuard> {
        match self {
            Self::Api(states) => states.require_idle(key).await.map(|()| None),
            Self::Directory(states) => states.lock(key, force).map(Some),
        }
    }

    /// Replaces the current state; returns what happens next.
    async fn replace(&self, workspace: &OpenWorkspace, edit: &StateEdit) -> anyhow::Result<String> {
        match self {
            Self::Api(states) => states.replace(workspace, edit).await,
            Self::Directory(states) => states.replace(workspace, edit),
        }
    }

    async fn unlock(&self, key: &WorkspaceKey) -> anyhow::Result<String> {
        match self {
            Self::Api(states) => states.unlock(key).await,
            Self::Directory(states) => states.unlock(key),
        }
    }
}
