//! Files beside the store: keys, the token, the kubeconfig. Only the owner may read them; each is written whole or not
//! at all.

use std::{
    fs, io,
    io::Write,
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
};

use crate::durable;

/// A file or directory could not be read or written.
#[derive(Debug, thiserror::Error)]
#[error("{}", path.display())]
pub struct FileError {
    path: PathBuf,
    #[source]
    source: io::Error,
}

fn at(path: &Path) -> impl FnOnce(io::Error) -> FileError + '_ {
    move |source| FileError { path: path.to_owned(), source }
}

/// Makes the directory and those above it; new ones are for the owner alone.
pub fn directory(path: &Path) -> Result<(), FileError> {
    durable::make_dir(path).map_err(at(path))
}

/// What the file holds; if there is none it is made first.
pub fn kept<E: From<FileError>>(
    path: &Path,
    make: impl FnOnce() -> Result<Vec<u8>, E>,
) -> Result<Vec<u8>, E> {
    match fs::read(path) {
        Ok(bytes) => Ok(bytes),
        Err(why) if why.kind() == io::ErrorKind::NotFound => {
            let bytes = make()?;
            write(path, &bytes)?;
            Ok(bytes)
        }
        Err(why) => Err(at(path)(why).into()),
    }
}

/// Writes a file that only the owner may read.
pub fn write(path: &Path, bytes: &[u8]) -> Result<(), FileError> {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}.tmp", uuid::Uuid::new_v4()));
    let part = path.with_file_name(name);
    let written = (|| {
        let mut file = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&part)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        fs::rename(&part, path)?;
        durable::sync_name(path)
    })();
    if written.is_err() {
        // The error that is told is the first one.
        fs::remove_file(&part).ok();
    }
    written.map_err(at(path))
}
