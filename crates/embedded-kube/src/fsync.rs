//! Names that survive a power cut: a file that is synced is lost all the same if its directory does not know it.

use std::{fs, io, os::unix::fs::DirBuilderExt, path::Path};

/// Makes a directory and those above it, for the owner alone, and all of their names durable.
pub fn make_dir(dir: &Path) -> io::Result<()> {
    let missing: Vec<&Path> =
        dir.ancestors().filter(|one| !one.as_os_str().is_empty()).take_while(|one| !one.is_dir()).collect();
    fs::DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
    missing.into_iter().try_for_each(sync_name)
}

/// Makes the name of a file or directory durable.
pub fn sync_name(path: &Path) -> io::Result<()> {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    fs::File::open(parent.unwrap_or_else(|| Path::new(".")))?.sync_all()
}
