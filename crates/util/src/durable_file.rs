//! Files that survive a kill or a full disk with either the old or the new contents.

use std::{
    fs::{File, Permissions},
    io::{self, Write},
    os::unix::fs::PermissionsExt,
    path::Path,
};

/// Replaces the contents of `path` atomically: a temporary file beside it is written, given `mode`, flushed to the disk and renamed.
pub fn write_atomic(path: &Path, bytes: &[u8], mode: u32) -> io::Result<()> {
    let parent = parent_of(path);
    let mut temporary = tempfile::Builder::new().prefix(".capt-").tempfile_in(parent)?;
    temporary.write_all(bytes)?;
    temporary.as_file().set_permissions(Permissions::from_mode(mode))?;
    temporary.as_file().sync_all()?;
    temporary.persist(path).map_err(|error| error.error)?;
    sync_dir(parent);
    Ok(())
}

/// Makes the creation, renaming or removal of a file durable by flushing its directory. Filesystems that cannot flush a directory
/// order the rename after the data themselves, so an error is ignored.
pub fn sync_dir(path: &Path) {
    if let Ok(dir) = File::open(path) {
        let _unsupported_here = dir.sync_all();
    }
}

fn parent_of(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_file_is_replaced_with_its_mode_and_nothing_else_is_left() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("state");
        write_atomic(&path, b"old", 0o644).unwrap();
        write_atomic(&path, b"new", 0o600).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"new");
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_file_that_cannot_be_written_keeps_its_contents() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("state");
        fs::create_dir(&path).unwrap();
        fs::write(path.join("inside"), b"kept").unwrap();
        write_atomic(&path, b"new", 0o600).unwrap_err();
        assert_eq!(fs::read(path.join("inside")).unwrap(), b"kept");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1, "no temporary file is left");
    }

    #[test]
    fn a_name_without_a_directory_is_in_the_current_one() {
        assert_eq!(parent_of(Path::new("state")), Path::new("."));
        assert_eq!(parent_of(Path::new("a/state")), Path::new("a"));
    }
}
