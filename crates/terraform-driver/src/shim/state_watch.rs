//! Watches the state file with inotify and takes a snapshot after each write.

use std::{
    io,
    mem::MaybeUninit,
    path::{Path, PathBuf},
    sync::Arc,
    thread,
};

use rustix::{
    fd::OwnedFd,
    fs::inotify::{self, CreateFlags, WatchFlags},
};
use tokio::sync::Notify;

use super::ShimError;
use crate::{
    run::run_dir::RunSpec,
    state::StateSnapshots,
    workspace::files::{FileError, read_optional},
};

/// State files of a working directory: the regular one, and the one that terraform writes if that fails.
const STATE_FILES: [&str; 2] = ["terraform.tfstate", "errored.tfstate"];

pub(super) struct StateWatch {
    changes: Arc<Notify>,
    cwd: PathBuf,
    snapshots: StateSnapshots,
}

impl StateWatch {
    pub(super) fn new(spec: &RunSpec) -> Result<Self, ShimError> {
        let changes = watch_directory(&spec.cwd)
            .map_err(|source| ShimError::System { what: "watch the state file", source })?;
        Ok(Self { changes, cwd: spec.cwd.clone(), snapshots: StateSnapshots::at(&spec.snapshots) })
    }

    /// Resolves when the state file may have changed. Cancel-safe.
    pub(super) async fn changed(&self) {
        self.changes.notified().await;
    }

    /// Stores snapshots of the current files. A truncated file is rejected; the write that completes it triggers another snapshot.
    pub(super) fn snapshot(&self) -> Result<(), FileError> {
        for name in STATE_FILES {
            if let Some(bytes) = read_optional(&self.cwd.join(name))?
                && !bytes.is_empty()
            {
                self.snapshots.store_written(&bytes)?;
            }
        }
        Ok(())
    }
}

/// Watches the directory, because the file may not exist yet. The thread blocks in the kernel and ends with the process.
fn watch_directory(cwd: &Path) -> io::Result<Arc<Notify>> {
    let fd = inotify::init(CreateFlags::CLOEXEC)?;
    let interesting = WatchFlags::MODIFY | WatchFlags::CLOSE_WRITE | WatchFlags::MOVED_TO;
    inotify::add_watch(&fd, cwd, interesting)?;
    let changes = Arc::new(Notify::new());
    let heard = Arc::clone(&changes);
    thread::Builder::new().name("state-watch".into()).spawn(move || forward_inotify_events(&fd, &heard))?;
    Ok(changes)
}

/// Forwards inotify events. An error ends only the watch: a final snapshot is taken at the end of the run.
fn forward_inotify_events(fd: &OwnedFd, heard: &Notify) {
    let mut buffer = [MaybeUninit::uninit(); 4096];
    let mut reader = inotify::Reader::new(fd, &mut buffer);
    while let Ok(event) = reader.next() {
        if event
            .file_name()
            .is_some_and(|name| STATE_FILES.iter().any(|state| name.to_bytes() == state.as_bytes()))
        {
            heard.notify_one();
        }
    }
}
