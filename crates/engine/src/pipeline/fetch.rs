//! Remote root modules: reads a local directory, or downloads an address with `init -from-module`.

use std::{collections::BTreeMap, path::Path, time::Duration};

use terraform_driver::{
    command::{CommandBuilder, UserArgs},
    environment::Environment,
    exec::capture_output,
    render::{ModuleFetch, RenderRequest, RootSource},
    source::{SourceTree, SourceTreeError, is_larger_than, read_source},
    workspace::{
        WorkspaceDir,
        files::{FileError, create_private_dir, read_json, remove_optional, write_json},
    },
};
use thiserror::Error;

use super::data_directory::DataDirectory;
use super::data_directory::RunHome;

/// Why a root module cannot be fetched.
#[derive(Debug, Error)]
pub enum ModuleFetchError {
    /// The download failed.
    #[error("cannot fetch module {address}: {reason}")]
    Failed {
        /// The address, without credentials.
        address: String,
        /// Terraform's error output.
        reason: String,
    },
    /// The entrypoint has no terraform files.
    #[error("module {address} has no .tf file in {entrypoint:?}; correct forProvider.module or entrypoint")]
    NoConfiguration {
        /// The address, without credentials.
        address: String,
        /// The directory in the module.
        entrypoint: String,
    },
    /// The files are refused.
    #[error(transparent)]
    Tree(#[from] SourceTreeError),
    /// A file could not be read or written.
    #[error(transparent)]
    File(#[from] FileError),
}

/// A download is stopped when it takes this many times the limit of a module: a repository also has a history.
const DOWNLOAD_FACTOR: u64 = 16;

/// How often the size of a download is looked at.
const DOWNLOAD_INTERVAL: Duration = Duration::from_millis(500);

/// Files of the module. A local path is read on every call, a remote address is downloaded once.
pub(super) async fn fetch_module(
    data_dir: &DataDirectory,
    wanted: &ModuleFetch,
    workspace: &WorkspaceDir,
    environment: &Environment,
) -> Result<SourceTree, ModuleFetchError> {
    let ModuleFetch { source, entrypoint } = wanted;
    let limits = data_dir.size_limits().source;
    let tree = if let Some(local) = source.directory() {
        read_source(source, local, entrypoint, limits)?
    } else {
        let dir = workspace.meta_dir().join("source");
        let stamp = workspace.meta_dir().join("source.json");
        if read_json::<String>(&stamp)?.as_deref() != Some(source.address()) {
            remove_optional(&stamp)?;
            download(data_dir, wanted, &dir, environment).await?;
            write_json(&stamp, &source.address())?;
        }
        read_source(source, &dir, entrypoint, limits)?
    };
    let below = entrypoint_prefix(entrypoint);
    let is_root = |path: &str| {
        path.strip_prefix(&below).is_some_and(|name| !name.contains('/') && is_configuration_file(name))
    };
    if tree.files.iter().any(|(path, _)| is_root(path)) {
        Ok(tree)
    } else {
        Err(ModuleFetchError::NoConfiguration { address: source.to_string(), entrypoint: entrypoint.clone() })
    }
}

/// What a person should know about the files of a module.
pub(super) fn fetch_notes(wanted: &ModuleFetch, tree: &SourceTree) -> Vec<String> {
    let note = |path: &String| {
        format!(
            "ignored {path} of module {}: terraform was run there; the state of this workspace is its own",
            wanted.source
        )
    };
    tree.ignored.iter().map(note).collect()
}

/// Ends when a directory has become too large.
async fn grows_beyond(dir: &Path, limit: u64) {
    loop {
        tokio::time::sleep(DOWNLOAD_INTERVAL).await;
        let looked_at = dir.to_owned();
        let look = tokio::task::spawn_blocking(move || is_larger_than(&looked_at, limit));
        if look.await.unwrap_or_default() {
            return;
        }
    }
}

async fn download(
    data_dir: &DataDirectory,
    wanted: &ModuleFetch,
    dir: &Path,
    environment: &Environment,
) -> Result<(), ModuleFetchError> {
    let source = &wanted.source;
    let refused =
        |said: &str| ModuleFetchError::Failed { address: source.to_string(), reason: source.redact(said) };
    WorkspaceDir::at(dir).remove()?;
    create_private_dir(dir)?;
    let commands =
        CommandBuilder::new(data_dir.driver.engine(), dir, environment, UserArgs::default(), Duration::ZERO)
            .map_err(|error| refused(&error.to_string()))?;
    let init = commands.fetch(source);
    // A command line may fetch from any place that its user can read; nothing of the module is executed.
    let (program, args) = match data_dir.home {
        RunHome::User => (init.program.clone(), init.args.clone()),
        RunHome::Workspace => init.command_line(),
    };
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let size = data_dir.size_limits().source.size;
    let said = tokio::select! {
        said = capture_output(&program, &args, &init.env, dir, Duration::from_mins(10)) => {
            said.map_err(|error| refused(&error.to_string()))?
        }
        () = grows_beyond(dir, size.0.saturating_mul(DOWNLOAD_FACTOR)) => {
            WorkspaceDir::at(dir).remove()?;
            return Err(SourceTreeError::TooLarge { address: source.to_string(), limit: size }.into());
        }
    };
    if said.success {
        return Ok(());
    }
    let text = String::from_utf8_lossy(&said.stderr);
    let lines = text.lines().map(|line| line.trim_start_matches(['│', '╷', '╵', ' ']).trim());
    Err(refused(&lines.filter(|line| !line.is_empty()).collect::<Vec<_>>().join(" ")))
}

/// Hands the fetched root module to the renderer, which needs its variable types.
pub fn set_fetched_root(request: &mut RenderRequest, files: &[(String, Vec<u8>)], entrypoint: &str) {
    let below = entrypoint_prefix(entrypoint);
    if let RootSource::Remote { fetched, .. } = &mut request.source {
        let root: BTreeMap<String, Vec<u8>> = files
            .iter()
            .filter_map(|(path, bytes)| Some((path.strip_prefix(&below)?, bytes)))
            .filter(|(name, _)| !name.contains('/') && is_configuration_file(name))
            .map(|(name, bytes)| (name.to_owned(), bytes.clone()))
            .collect();
        *fetched = Some(root);
    }
}

fn entrypoint_prefix(entrypoint: &str) -> String {
    if entrypoint.is_empty() { String::new() } else { format!("{entrypoint}/") }
}

fn is_configuration_file(name: &str) -> bool {
    [".tf", ".tf.json", ".tofu", ".tofu.json"].iter().any(|ending| name.ends_with(ending))
}
