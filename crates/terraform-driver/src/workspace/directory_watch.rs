//! Waits for changes in a directory, without polling.

use std::{io, mem::MaybeUninit, path::Path, sync::Arc, thread};

use rustix::{
    fd::OwnedFd,
    fs::inotify::{self, CreateFlags, ReadFlags, WatchFlags},
};
use tokio::sync::Notify;

/// An inotify watch of one directory. Its thread blocks in the kernel, and ends with the watch.
#[derive(Debug)]
pub struct DirectoryWatch {
    inotify: Arc<OwnedFd>,
    watch: i32,
    changes: Arc<Notify>,
}

impl DirectoryWatch {
    /// Watches for files that are written completely or moved into the directory. Fails on filesystems and in containers without
    /// inotify.
    pub fn new(dir: &Path) -> io::Result<Self> {
        let inotify = Arc::new(inotify::init(CreateFlags::CLOEXEC)?);
        let watch = inotify::add_watch(&*inotify, dir, WatchFlags::CLOSE_WRITE | WatchFlags::MOVED_TO)?;
        let changes = Arc::new(Notify::new());
        let (events, heard) = (Arc::clone(&inotify), Arc::clone(&changes));
        let forward = move || forward_events(&events, &heard);
        thread::Builder::new().name("directory-watch".into()).spawn(forward)?;
        Ok(Self { inotify, watch, changes })
    }

    /// Resolves after a change; several changes may be one. Cancel-safe.
    pub async fn changed(&self) {
        self.changes.notified().await;
    }
}

impl Drop for DirectoryWatch {
    fn drop(&mut self) {
        // Fails if the directory is gone; then the kernel has removed the watch, and its thread has ended.
        let _gone = inotify::remove_watch(&*self.inotify, self.watch);
    }
}

/// Forwards events until the watch is removed, which is an event, too.
fn forward_events(events: &OwnedFd, heard: &Notify) {
    let mut buffer = [MaybeUninit::uninit(); 4096];
    let mut reader = inotify::Reader::new(events, &mut buffer);
    while let Ok(event) = reader.next() {
        if event.events().contains(ReadFlags::IGNORED) {
            return;
        }
        heard.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workspace::files::write_atomic;

    #[tokio::test]
    async fn each_file_that_is_written_wakes_the_watch() {
        let dir = tempfile::tempdir().unwrap();
        let watch = DirectoryWatch::new(dir.path()).unwrap();
        for name in ["one", "two", "two"] {
            write_atomic(&dir.path().join(name), name.as_bytes(), true).unwrap();
            watch.changed().await;
        }
    }

    #[tokio::test]
    async fn the_thread_ends_with_the_watch() {
        let dir = tempfile::tempdir().unwrap();
        let watch = DirectoryWatch::new(dir.path()).unwrap();
        let changes = Arc::clone(&watch.changes);
        drop(watch);
        while Arc::strong_count(&changes) > 1 {
            tokio::task::yield_now().await;
        }
    }

    #[test]
    fn a_directory_that_is_missing_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        assert!(DirectoryWatch::new(&dir.path().join("missing")).is_err());
    }
}
