//! Roots that come from elsewhere: a directory of this machine, or an address that terraform can fetch.

use std::{collections::BTreeMap, path::Path, time::Duration};

use terraform_driver::{
    command::{Commands, UserArgs},
    environment::Environment,
    exec::capture,
    render::{Fetch, Request, Source},
    workspace::{
        Workspace,
        files::{FileError, private_dir, read_json, write_json},
    },
};
use thiserror::Error;

use super::site::Site;

/// Why the source cannot be had.
#[derive(Debug, Error)]
pub enum FetchError {
    /// Nothing is there.
    #[error("the module {address} cannot be fetched: {said}")]
    Refused {
        /// The address.
        address: String,
        /// What terraform says.
        said: String,
    },
    /// The path holds no terraform.
    #[error(
        "the module {address} has no .tf file in {entrypoint:?}; correct forProvider.module or entrypoint"
    )]
    Empty {
        /// The address.
        address: String,
        /// The directory in it.
        entrypoint: String,
    },
    /// A file could not be read or written.
    #[error(transparent)]
    File(#[from] FileError),
}

type Files = Vec<(String, Vec<u8>)>;

/// The files of the source. A path is read every time, an address is fetched once.
pub(super) async fn fetch(
    site: &Site,
    wanted: &Fetch,
    workspace: &Workspace,
    environment: &Environment,
) -> Result<Files, FetchError> {
    let files = if wanted.is_local_path() {
        Workspace::read_tree(Path::new(&wanted.address))?
    } else {
        let dir = workspace.meta().join("source");
        let stamp = workspace.meta().join("source.json");
        if read_json::<String>(&stamp)?.as_ref() != Some(&wanted.address) {
            download(site, wanted, &dir, environment).await?;
            write_json(&stamp, &wanted.address)?;
        }
        Workspace::read_tree(&dir)?
    };
    let below = prefix(&wanted.entrypoint);
    let is_root =
        |path: &str| path.strip_prefix(&below).is_some_and(|name| !name.contains('/') && is_terraform(name));
    if files.iter().any(|(path, _)| is_root(path)) {
        Ok(files)
    } else {
        Err(FetchError::Empty { address: wanted.address.clone(), entrypoint: wanted.entrypoint.clone() })
    }
}

async fn download(
    site: &Site,
    wanted: &Fetch,
    dir: &Path,
    environment: &Environment,
) -> Result<(), FetchError> {
    let refused = |said: String| FetchError::Refused { address: wanted.address.clone(), said };
    Workspace::at(dir).remove()?;
    private_dir(dir)?;
    let commands = Commands::new(&site.driver.engine, dir, environment, UserArgs::default(), Duration::ZERO)
        .map_err(|error| refused(error.to_string()))?;
    let init = commands.fetch(&wanted.address);
    let args: Vec<&str> = init.args.iter().map(String::as_str).collect();
    let said = capture(&init.program, &args, &init.env, dir, Duration::from_mins(10))
        .await
        .map_err(|error| refused(error.to_string()))?;
    if said.success {
        return Ok(());
    }
    let text = String::from_utf8_lossy(&said.stderr);
    let lines = text.lines().map(|line| line.trim_start_matches(['│', '╷', '╵', ' ']).trim());
    Err(refused(lines.filter(|line| !line.is_empty()).collect::<Vec<_>>().join(" ")))
}

/// Gives the renderer the files of the root module, so that it knows the types of the variables.
pub fn show(request: &mut Request, files: &[(String, Vec<u8>)], entrypoint: &str) {
    let below = prefix(entrypoint);
    if let Source::Remote { fetched, .. } = &mut request.source {
        let root: BTreeMap<String, Vec<u8>> = files
            .iter()
            .filter_map(|(path, bytes)| Some((path.strip_prefix(&below)?, bytes)))
            .filter(|(name, _)| !name.contains('/') && is_terraform(name))
            .map(|(name, bytes)| (name.to_owned(), bytes.clone()))
            .collect();
        *fetched = Some(root);
    }
}

fn prefix(entrypoint: &str) -> String {
    if entrypoint.is_empty() { String::new() } else { format!("{entrypoint}/") }
}

fn is_terraform(name: &str) -> bool {
    [".tf", ".tf.json", ".tofu", ".tofu.json"].iter().any(|ending| name.ends_with(ending))
}
