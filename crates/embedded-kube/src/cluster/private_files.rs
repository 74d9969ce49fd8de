//! Private files next to the store: keys, the token, the kubeconfig. They are readable by the owner only and written
//! atomically.

use std::{
    fs, io,
    io::Write,
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
};

use crate::fsync;

/// A file or directory could not be read or written.
#[derive(Debug, thiserror::Error)]
#[error("{}", path.display())]
pub struct FileError {
    path: PathBuf,
    #[source]
    source: io::Error,
}

fn with_path(path: &Path) -> impl FnOnce(io::Error) -> FileError + '_ {
    move |source| FileError { path: path.to_owned(), source }
}

/// Creates the directory and its parents; new ones have mode 0700.
pub fn create_dir(path: &Path) -> Result<(), FileError> {
    fsync::create_dir_durable(path).map_err(with_path(path))
}

/// Reads the file; creates it first if it does not exist.
pub fn load_or_create<E: From<FileError>>(
    path: &Path,
    make: impl FnOnce() -> Result<Vec<u8>, E>,
) -> Result<Vec<u8>, E> {
    match fs::read(path) {
        Ok(bytes) => Ok(bytes),
        Err(why) if why.kind() == io::ErrorKind::NotFound => {
            let bytes = make()?;
            write_private(path, &bytes)?;
            Ok(bytes)
        }
        Err(why) => Err(with_path(path)(why).into()),
    }
}

/// Writes a file with mode 0600.
pub fn write_private(path: &Path, bytes: &[u8]) -> Result<(), FileError> {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}.tmp", uuid::Uuid::new_v4()));
    let part = path.with_file_name(name);
    let written = (|| {
        let mut file = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&part)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        fs::rename(&part, path)?;
        fsync::sync_parent_dir(path)
    })();
    if written.is_err() {
        // The first error is reported.
        fs::remove_file(&part).ok();
    }
    written.map_err(with_path(path))
}
