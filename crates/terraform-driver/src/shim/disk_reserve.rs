//! Disk space that is reserved before an apply, for what must be written when the disk is full.
//!
//! When the disk is full, terraform writes neither its state nor `errored.tfstate`, and prints the state to its log instead. Space
//! for that is allocated behind the end of the log, where nothing else can take it. As much again is in a file of its own, which is
//! removed when a write fails: for snapshots, `errored.tfstate` and the record of the exit.

use std::{
    fs::{self, File, OpenOptions},
    io,
    path::{Path, PathBuf},
};

use rustix::{
    fs::{FallocateFlags, fallocate},
    io::Errno,
};

use crate::{
    run::run_dir::RunDir,
    workspace::files::{FileError, open_append},
};

pub(super) struct DiskReserve {
    log: PathBuf,
    file: PathBuf,
}

impl DiskReserve {
    /// Allocates the space, or nothing if `bytes` is zero. Fails if the disk lacks it.
    pub(super) fn allocate(dir: &RunDir, bytes: u64) -> Result<Self, FileError> {
        let reserve = Self { log: dir.events_path(), file: dir.path().join("reserve") };
        if bytes > 0 {
            let log = open_append(&reserve.log)?;
            let allocated = allocate_blocks(&log, &reserve.log, bytes)
                .and_then(|()| allocate_blocks(&open_append(&reserve.file)?, &reserve.file, bytes));
            if let Err(error) = allocated {
                // The caller must be able to write down why the run did not start.
                reserve.release_all();
                return Err(error);
            }
        }
        Ok(reserve)
    }

    /// Releases the space for snapshots; returns whether there was any.
    pub(super) fn release(&self) -> bool {
        fs::remove_file(&self.file).is_ok()
    }

    /// Releases all space when the engine has ended.
    pub(super) fn release_all(&self) {
        self.release();
        // Truncating a file to its own length frees what is allocated behind it. A failure only keeps the space until the run
        // directory is removed.
        let log = OpenOptions::new().write(true).open(&self.log);
        let _kept = log.and_then(|log| log.set_len(log.metadata()?.len()));
    }
}

/// Allocates blocks without changing the length of the file. A filesystem that cannot do that reserves nothing.
fn allocate_blocks(file: &File, path: &Path, bytes: u64) -> Result<(), FileError> {
    match fallocate(file, FallocateFlags::KEEP_SIZE, 0, bytes) {
        Ok(()) | Err(Errno::OPNOTSUPP | Errno::NOSYS) => Ok(()),
        Err(error) => Err(FileError::new("reserve space in", path, io::Error::from(error))),
    }
}
