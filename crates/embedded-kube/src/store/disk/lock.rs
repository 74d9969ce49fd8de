//! An exclusive lock on a file next to the database, which the kernel releases with its holder.

use std::{
    fs::{File, OpenOptions, TryLockError},
    io::{Read, Write},
    os::unix::fs::OpenOptionsExt,
    path::Path,
};

use super::StoreError;

/// Name of the lock file. It is not removed.
const LOCK_FILE: &str = "lock";

#[derive(Debug)]
pub struct DirLock {
    _file: File,
}

impl DirLock {
    pub fn acquire(dir: &Path) -> Result<Self, StoreError> {
        let path = dir.join(LOCK_FILE);
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false).mode(0o600);
        let mut file = options.open(&path).map_err(|error| StoreError::io("open", &path, error))?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(StoreError::InUse { dir: dir.to_owned(), holder: read_holder(&mut file) });
            }
            Err(TryLockError::Error(error)) => return Err(StoreError::io("lock", &path, error)),
        }
        // Only for the error message of another process: failures are ignored.
        file.set_len(0).and_then(|()| writeln!(file, "{}", std::process::id())).ok();
        Ok(Self { _file: file })
    }
}

fn read_holder(file: &mut File) -> String {
    let mut text = String::new();
    file.read_to_string(&mut text).ok();
    match text.trim().parse::<u32>() {
        Ok(pid) if pid == std::process::id() => format!("this process ({pid})"),
        Ok(pid) => format!("process {pid}"),
        Err(_) => "another process".to_owned(),
    }
}
