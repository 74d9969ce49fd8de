//! Files and directories that only the current user can access.

use std::{
    fs::{self, DirBuilder, File, OpenOptions},
    io,
    os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt},
    path::Path,
};

use capt_util::durable_file;

use crate::random_token;

/// Creates a directory with mode 0700; fails if another user owns it.
pub fn create_private_dir(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)?;
    let data = fs::metadata(path)?;
    if data.uid() != rustix::process::geteuid().as_raw() {
        return Err(io::Error::new(
            io::ErrorKind::PermissionDenied,
            "the directory is owned by another user",
        ));
    }
    if data.permissions().mode() & 0o077 != 0 {
        fs::set_permissions(path, fs::Permissions::from_mode(0o700))?;
    }
    Ok(())
}

/// Creates a directory with mode 0700 that is removed with its handle. The default mode would let others in.
pub fn create_temporary_dir(prefix: &str, parent: &Path) -> io::Result<tempfile::TempDir> {
    let ours = fs::Permissions::from_mode(0o700);
    tempfile::Builder::new().prefix(prefix).permissions(ours).tempdir_in(parent)
}

/// Creates a directory with mode 0700 whose name nobody guesses, and that is removed with its handle.
pub fn create_secret_dir(parent: &Path) -> io::Result<tempfile::TempDir> {
    let ours = fs::Permissions::from_mode(0o700);
    let name = random_token::name_token()?;
    tempfile::Builder::new().prefix(&name).rand_bytes(0).permissions(ours).tempdir_in(parent)
}

/// Replaces a file atomically, with mode 0600.
pub fn write_atomic(path: &Path, bytes: &[u8]) -> io::Result<()> {
    durable_file::write_atomic(path, bytes, 0o600)
}

/// Opens a file for appending, with mode 0600.
pub fn open_append(path: &Path) -> io::Result<File> {
    let file = OpenOptions::new().create(true).append(true).read(true).mode(0o600).open(path)?;
    if !file.metadata()?.is_file() {
        // A device has no end to look for, and its permissions must not be changed.
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"));
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
        let temporary = create_temporary_dir("x", dir.path()).unwrap();
        assert_eq!(mode(temporary.path()), 0o700);
        let (open, file) = (dir.path().join("open"), dir.path().join("file"));
        fs::create_dir(&open).unwrap();
        fs::set_permissions(&open, fs::Permissions::from_mode(0o755)).unwrap();
        create_private_dir(&open).unwrap();
        assert_eq!(mode(&open), 0o700);
        write_atomic(&file, b"x").unwrap();
        assert_eq!(mode(&file), 0o600);
        fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
        open_append(&file).unwrap();
        assert_eq!(mode(&file), 0o600);
    }
}
