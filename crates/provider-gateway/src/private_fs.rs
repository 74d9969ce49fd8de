//! Files and directories that only we can read.

use std::{
    fs::{self, DirBuilder, File, OpenOptions},
    io::{self, Write},
    os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt},
    path::Path,
};

/// Makes a directory that nobody else can enter, and refuses one that somebody else owns.
pub fn private_dir(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)?;
    let data = fs::metadata(path)?;
    if data.uid() != rustix::process::geteuid().as_raw() {
        return Err(io::Error::new(
            io::ErrorKind::PermissionDenied,
            "the directory belongs to somebody else",
        ));
    }
    if data.permissions().mode() & 0o077 != 0 {
        fs::set_permissions(path, fs::Permissions::from_mode(0o700))?;
    }
    Ok(())
}

/// A new directory that nobody else can enter, and that goes with its handle. Without a word it would be everybody's.
pub fn temporary_dir(prefix: &str, parent: &Path) -> io::Result<tempfile::TempDir> {
    let ours = fs::Permissions::from_mode(0o700);
    tempfile::Builder::new().prefix(prefix).permissions(ours).tempdir_in(parent)
}

/// Replaces a file in one step, 0600.
pub fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let parent = path.parent().unwrap_or_else(|| Path::new("."));
    let mut temporary = tempfile::Builder::new().prefix(".gw-").tempfile_in(parent)?;
    temporary.write_all(bytes)?;
    temporary.as_file().sync_all()?;
    temporary.persist(path).map_err(|error| error.error)?;
    Ok(())
}

/// Opens a file to append to, 0600.
pub fn append(path: &Path) -> io::Result<File> {
    let file = OpenOptions::new().create(true).append(true).read(true).mode(0o600).open(path)?;
    if !file.metadata()?.is_file() {
        // A device has no end that could be looked for, and permissions that are not ours to change.
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a file"));
    }
    file.set_permissions(fs::Permissions::from_mode(0o600))?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_made_is_for_us_alone() {
        let dir = tempfile::tempdir().unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        let temporary = temporary_dir("x", dir.path()).unwrap();
        assert_eq!(mode(temporary.path()), 0o700);
        let (open, file) = (dir.path().join("open"), dir.path().join("file"));
        fs::create_dir(&open).unwrap();
        fs::set_permissions(&open, fs::Permissions::from_mode(0o755)).unwrap();
        private_dir(&open).unwrap();
        assert_eq!(mode(&open), 0o700);
        replace(&file, b"x").unwrap();
        assert_eq!(mode(&file), 0o600);
        fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
        append(&file).unwrap();
        assert_eq!(mode(&file), 0o600);
    }
}
