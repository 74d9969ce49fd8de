//! Durable directory entries: a synced file is still lost on a power failure unless its directory is synced too.

use std::{fs, io, os::unix::fs::DirBuilderExt, path::Path};

/// Creates a directory and its parents with mode 0700 and syncs every new directory entry.
pub fn create_dir_durable(dir: &Path) -> io::Result<()> {
    let missing: Vec<&Path> =
        dir.ancestors().filter(|one| !one.as_os_str().is_empty()).take_while(|one| !one.is_dir()).collect();
    fs::DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
    missing.into_iter().try_for_each(sync_parent_dir)
}

/// Syncs the parent directory of a file or directory.
pub fn sync_parent_dir(path: &Path) -> io::Result<()> {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    fs::File::open(parent.unwrap_or_else(|| Path::new(".")))?.sync_all()
}
