//! Notices each write to the state file and takes a copy of it.

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
    run::record::RunSpec,
    state::Snapshots,
    workspace::files::{FileError, read_optional},
};

/// The state files of a working directory: the real one, and what terraform leaves when it cannot write it.
const STATES: [&str; 2] = ["terraform.tfstate", "errored.tfstate"];

pub(super) struct StateWatch {
    changes: Arc<Notify>,
    cwd: PathBuf,
    snapshots: Snapshots,
}

impl StateWatch {
    pub(super) fn new(spec: &RunSpec) -> Result<Self, ShimError> {
        let changes =
            watch(&spec.cwd).map_err(|source| ShimError::System { what: "watch the state file", source })?;
        Ok(Self { changes, cwd: spec.cwd.clone(), snapshots: Snapshots::at(&spec.snapshots) })
    }

    /// Resolves when the state file may have changed. Cancel-safe.
    pub(super) async fn changed(&self) {
        self.changes.notified().await;
    }

    /// Offers what is on disk now. A torn file is refused by the store; the write that completes it will
    /// bring us here again.
    pub(super) fn copy(&self) -> Result<(), FileError> {
        for name in STATES {
            if let Some(bytes) = read_optional(&self.cwd.join(name))?
                && !bytes.is_empty()
            {
                self.snapshots.offer(&bytes)?;
            }
        }
        Ok(())
    }
}

/// The directory is watched, not the file: it may not exist yet. The thread waits in the kernel and ends
/// with the process.
fn watch(cwd: &Path) -> io::Result<Arc<Notify>> {
    let fd = inotify::init(CreateFlags::CLOEXEC)?;
    let interesting = WatchFlags::MODIFY | WatchFlags::CLOSE_WRITE | WatchFlags::MOVED_TO;
    inotify::add_watch(&fd, cwd, interesting)?;
    let changes = Arc::new(Notify::new());
    let heard = Arc::clone(&changes);
    thread::Builder::new().name("state-watch".into()).spawn(move || listen(&fd, &heard))?;
    Ok(changes)
}

/// An error ends the listening, not the shim: the state is copied once more at the end of the run.
fn listen(fd: &OwnedFd, heard: &Notify) {
    let mut buffer = [MaybeUninit::uninit(); 4096];
    let mut reader = inotify::Reader::new(fd, &mut buffer);
    while let Ok(event) = reader.next() {
        if event
            .file_name()
            .is_some_and(|name| STATES.iter().any(|state| name.to_bytes() == state.as_bytes()))
        {
            heard.notify_one();
        }
    }
}
