//! The work on one workspace, from what is asked to what is. Both the command line and the operator do it with this.
//!
//! What waits, what is shown and who is asked differs between the two; a [`Host`] says it.

mod adopt;
mod assignment;
pub mod bundle;
mod check;
mod engine;
mod error;
mod fetch;
mod host;
mod outcome;
mod ready;
mod record;
mod repair;
mod site;
mod validate;
mod worker;

use std::{fs, path::Path};

pub use assignment::Assignment;
pub use engine::find_engine;
pub use error::WorkError;
pub use fetch::show as show_fetched;
pub use host::{Guard, Host};
pub use outcome::{Doom, Goal, Outcome};
pub use record::{Args, Record, all, holding};
pub use site::{Belongs, Site, SiteError, workspace};
use terraform_driver::{
    render::{Mode, Rendered},
    workspace::{FileToWrite, files::FileError},
};
pub use validate::validate;
pub use worker::{Destruction, Worker};

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
