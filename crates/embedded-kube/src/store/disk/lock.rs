//! One process at a time: a lock on a file beside the database, which the kernel drops with its holder.

use std::{
    fs::{File, OpenOptions, TryLockError},
    io::{Read, Write},
    os::unix::fs::OpenOptionsExt,
    path::Path,
};

use super::StoreError;

/// Name of the file. It stays when the lock is gone.
const FILE: &str = "lock";

#[derive(Debug)]
pub struct Lock {
    _file: File,
}

impl Lock {
    pub fn take(dir: &Path) -> Result<Self, StoreError> {
        let path = dir.join(FILE);
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false).mode(0o600);
        let mut file = options.open(&path).map_err(|error| StoreError::io("open", &path, error))?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(StoreError::InUse { dir: dir.to_owned(), holder: holder(&mut file) });
            }
            Err(TryLockError::Error(error)) => return Err(StoreError::io("lock", &path, error)),
        }
        // Only for the message to whoever comes second: it may fail.
        file.set_len(0).and_then(|()| writeln!(file, "{}", std::process::id())).ok();
        Ok(Self { _file: file })
    }
}

fn holder(file: &mut File) -> String {
    let mut text = String::new();
    file.read_to_string(&mut text).ok();
    match text.trim().parse::<u32>() {
        Ok(pid) if pid == std::process::id() => format!("this process ({pid})"),
        Ok(pid) => format!("process {pid}"),
        Err(_) => "another process".to_owned(),
    }
}
