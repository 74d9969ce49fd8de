//! One-shot use of the driver: `capt plan`, `apply` and `destroy` on manifests, without Kubernetes.

mod board;
mod doom;
mod engine;
mod error;
mod fetch;
mod graph;
mod outcome;
mod record;
mod repair;
mod runner;
mod site;
mod worker;

use std::{fs, path::Path};

pub use board::{Board, Line, Stage};
pub use doom::{Fates, StillNeeded, fates};
pub use engine::find_engine;
pub use error::WorkError;
pub use fetch::show as show_fetched;
pub use graph::{Circle, Graph};
pub use outcome::{Confirm, Doom, Goal, Outcome};
pub use record::{Record, all, holding};
pub use runner::{Finished, Runner, Task};
pub use site::{Belongs, Site, SiteError, workspace};
use terraform_driver::{
    render::{Mode, Rendered},
    workspace::{FileToWrite, files::FileError},
};
pub use worker::Worker;

/// Removes every workspace below a data directory; how many there were. For a local AWS whose memory is gone.
pub fn forget_all(data: &Path) -> Result<usize, FileError> {
    let root = data.join("workspaces");
    if !root.exists() {
        return Ok(0);
    }
    let fail = |source| FileError::new("list", &root, source);
    let mut count = 0;
    for namespace in fs::read_dir(&root).map_err(fail)? {
        count += fs::read_dir(namespace.map_err(fail)?.path()).map_err(fail)?.count();
    }
    fs::remove_dir_all(&root).map_err(|source| FileError::new("remove", &root, source))?;
    Ok(count)
}

/// The files of a rendered workspace; what was fetched lies below what was rendered.
pub fn files<'a>(
    rendered: &'a Rendered,
    fetched: &'a [(String, Vec<u8>)],
) -> impl Iterator<Item = FileToWrite<'a>> {
    let own = rendered.files.iter().map(|(path, contents)| FileToWrite {
        path,
        bytes: &contents.bytes,
        secret: contents.mode == Mode::Secret,
    });
    let others = fetched.iter().filter(|(path, _)| !rendered.files.contains_key(path));
    own.chain(others.map(|(path, bytes)| FileToWrite { path, bytes, secret: false }))
}
