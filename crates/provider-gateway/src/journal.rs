//! What was applied, on disk before terraform hears of it.
//!
//! One line of JSON for each beginning and each end of a change. An end is flushed to the disk before its answer goes
//! out, so whatever happens to terraform, to its state file or to us afterwards: what was made is written down. The
//! beginning is written, not flushed; a disk that has no room is noticed there, while nothing has been made yet.
//!
//! The file holds values of resources, secrets among them: 0600, in a directory that is 0700.

use std::{
    fs::{self, File},
    io::{self, Write},
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use base64::{Engine as _, prelude::BASE64_STANDARD};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use tokio::sync::{mpsc, oneshot};

use crate::{
    clock, disk,
    wire::{
        messages::{type_name, verdict},
        proto,
    },
};

/// A file that is larger at the start is put aside.
const LARGE: u64 = 64 << 20;
/// How many of those are kept.
const ASIDE: u32 = 4;

/// Whether a change begins or has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Stage {
    /// It was handed to the provider.
    Begun,
    /// The provider has answered.
    Done,
    /// The provider was gone before it answered: nobody knows what became of it.
    Lost,
}

/// One line. Values are the protocol's `DynamicValue`s in base64.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// The order, over all runs of a file.
    pub order: u64,
    /// When.
    pub time: Timestamp,
    /// The run.
    pub run: String,
    /// Whose.
    pub workspace: String,
    /// Joins a beginning with its end.
    pub call: u64,
    /// `ApplyResourceChange` or `ImportResourceState`.
    pub method: String,
    /// The resource's type.
    #[serde(rename = "type")]
    pub kind: String,
    /// Which.
    pub stage: Stage,
    /// What was there before.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub prior: String,
    /// What was to be made; of an import, the id.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub planned: String,
    /// What there is now; of an import, the whole answer.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub new: String,
    /// What the provider keeps to itself.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub private: String,
    /// Whether the provider said that it went wrong.
    #[serde(default)]
    pub failed: bool,
}

/// Who changes something.
#[derive(Debug, Clone)]
pub struct Change<'a> {
    /// The run.
    pub run: &'a str,
    /// Whose.
    pub workspace: &'a str,
    /// The call's name.
    pub method: &'a str,
    /// The call's message.
    pub request: &'a [u8],
}

/// The journal, open.
#[derive(Clone)]
pub struct Journal {
    path: PathBuf,
    orders: mpsc::Sender<Order>,
    next: Arc<AtomicU64>,
}

struct Order {
    entry: Entry,
    flush: bool,
    done: oneshot::Sender<Result<(), String>>,
}

impl Journal {
    /// Opens it for appending; a torn last line is cut off.
    pub fn open(path: &Path) -> io::Result<Self> {
        put_aside(path)?;
        let file = disk::append(path)?;
        mend(&file, path)?;
        let last = read(path)?.last().map_or(0, |entry| entry.order);
        Self::write_to(file, path, last)
    }

    fn write_to(file: File, path: &Path, last: u64) -> io::Result<Self> {
        let (orders, inbox) = mpsc::channel(1024);
        let thread = std::thread::Builder::new().name("journal".to_owned());
        let writer = Writer { file, order: last };
        thread.spawn(move || writer.write(inbox))?;
        Ok(Self { path: path.to_owned(), orders, next: Arc::new(AtomicU64::new(1)) })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Writes down that a change begins; the number that its end has to have.
    pub async fn begun(&self, change: &Change<'_>) -> Result<u64, String> {
        let call = self.next.fetch_add(1, Ordering::Relaxed);
        let mut entry = entry(change, call, Stage::Begun);
        entry.planned = if is_import(change) { field(change.request, 2) } else { field(change.request, 3) };
        entry.prior = if is_import(change) { String::new() } else { field(change.request, 2) };
        self.send(entry, false).await.map(|()| call)
    }

    /// Writes down how it ended, and returns when that is on the disk.
    pub async fn ended(&self, change: &Change<'_>, call: u64, answer: Option<&[u8]>) -> Result<(), String> {
        let mut entry = entry(change, call, if answer.is_some() { Stage::Done } else { Stage::Lost });
        if let Some(answer) = answer {
            let diagnostics = if is_import(change) { 2 } else { 3 };
            entry.failed = verdict(answer, diagnostics).is_ok_and(|verdict| verdict.error);
            entry.new = if is_import(change) { BASE64_STANDARD.encode(answer) } else { field(answer, 1) };
            entry.private = if is_import(change) { String::new() } else { field(answer, 2) };
            entry.planned =
                if is_import(change) { field(change.request, 2) } else { field(change.request, 3) };
        }
        self.send(entry, true).await
    }

    async fn send(&self, entry: Entry, flush: bool) -> Result<(), String> {
        let gone = || format!("{}: the writer of the journal is gone", self.path.display());
        let (done, heard) = oneshot::channel();
        self.orders.send(Order { entry, flush, done }).await.map_err(|_| gone())?;
        heard.await.map_err(|_| gone())?.map_err(|error| {
            format!("cannot write the journal {}: {error}; free some space there", self.path.display())
        })
    }
}

fn is_import(change: &Change<'_>) -> bool {
    change.method == "ImportResourceState"
}

fn entry(change: &Change<'_>, call: u64, stage: Stage) -> Entry {
    Entry {
        order: 0,
        time: clock::now(),
        run: change.run.to_owned(),
        workspace: change.workspace.to_owned(),
        call,
        method: change.method.to_owned(),
        kind: type_name(change.request).unwrap_or_default().to_owned(),
        stage,
        prior: String::new(),
        planned: String::new(),
        new: String::new(),
        private: String::new(),
        failed: false,
    }
}

fn field(message: &[u8], number: u64) -> String {
    proto::bytes(message, number)
        .ok()
        .flatten()
        .map(|bytes| BASE64_STANDARD.encode(bytes))
        .unwrap_or_default()
}

/// A thread of its own: a flush takes milliseconds, and everything that waits by then is flushed together.
struct Writer {
    file: File,
    order: u64,
}

impl Writer {
    fn write(mut self, mut inbox: mpsc::Receiver<Order>) {
        while let Some(first) = inbox.blocking_recv() {
            let mut waiting = vec![first];
            while let Ok(next) = inbox.try_recv() {
                waiting.push(next);
            }
            let written: Vec<_> = waiting
                .into_iter()
                .map(|Order { mut entry, flush, done }| {
                    self.order += 1;
                    entry.order = self.order;
                    (self.line(&entry), flush, done)
                })
                .collect();
            let flushed =
                if written.iter().any(|(_, flush, _)| *flush) { self.file.sync_data() } else { Ok(()) };
            for (outcome, flush, done) in written {
                let outcome = outcome.and_then(|()| match &flushed {
                    Err(error) if flush => Err(io::Error::new(error.kind(), error.to_string())),
                    _ => Ok(()),
                });
                // Who gave up waiting does not want to know.
                let _heard = done.send(outcome.map_err(|error| error.to_string()));
            }
        }
    }

    /// All of a line or nothing: the rest of a torn one would spoil the next.
    fn line(&mut self, entry: &Entry) -> io::Result<()> {
        let length = self.file.metadata()?.len();
        let mut line = serde_json::to_vec(entry)?;
        line.push(b'\n');
        self.file.write_all(&line).inspect_err(|_| {
            // What cannot be cut off now is cut off when the file is opened next.
            let _next_time = self.file.set_len(length);
        })
    }
}

/// The entries of a journal. A torn last line is no entry; neither is one that makes no sense.
pub fn read(path: &Path) -> io::Result<Vec<Entry>> {
    let bytes = match fs::read(path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let whole = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
    let lines = bytes.get(..whole).unwrap_or_default().split(|byte| *byte == b'\n');
    Ok(lines.filter_map(|line| serde_json::from_slice(line).ok()).collect())
}

fn mend(file: &File, path: &Path) -> io::Result<()> {
    let bytes = fs::read(path)?;
    let whole = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
    if whole < bytes.len() { file.set_len(whole as u64) } else { Ok(()) }
}

fn put_aside(path: &Path) -> io::Result<()> {
    if fs::metadata(path).is_ok_and(|data| data.len() > LARGE) {
        for number in (1..ASIDE).rev() {
            let (from, to) = (aside(path, number), aside(path, number + 1));
            if from.exists() {
                fs::rename(from, to)?;
            }
        }
        fs::rename(path, aside(path, 1))?;
    }
    Ok(())
}

fn aside(path: &Path, number: u32) -> PathBuf {
    path.with_extension(format!("{number}.jsonl"))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;
    use crate::wire::proto::put_bytes;

    fn request() -> Vec<u8> {
        let mut request = Vec::new();
        put_bytes(&mut request, 1, b"aws_vpc");
        put_bytes(&mut request, 2, b"prior");
        put_bytes(&mut request, 3, b"planned");
        request
    }

    fn change(request: &[u8]) -> Change<'_> {
        Change { run: "r", workspace: "default/x", method: "ApplyResourceChange", request }
    }

    #[tokio::test]
    async fn beginnings_and_ends_are_on_disk_in_their_order() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("journal.jsonl");
        let request = request();
        let mut answer = Vec::new();
        put_bytes(&mut answer, 1, b"new");
        put_bytes(&mut answer, 2, b"private");
        for round in 0..2 {
            let journal = Journal::open(&path).unwrap();
            let call = journal.begun(&change(&request)).await.unwrap();
            journal.ended(&change(&request), call, Some(&answer)).await.unwrap();
            let entries = read(&path).unwrap();
            assert_eq!(entries.len(), 2 * (round + 1));
            let last = entries.last().unwrap();
            assert_eq!(
                (last.order, last.stage, last.kind.as_str()),
                (2 * (round as u64 + 1), Stage::Done, "aws_vpc")
            );
            assert_eq!(BASE64_STANDARD.decode(&last.new).unwrap(), b"new");
            assert_eq!(BASE64_STANDARD.decode(&last.private).unwrap(), b"private");
        }
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    }

    #[tokio::test]
    async fn a_torn_line_is_cut_off() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("journal.jsonl");
        let request = request();
        Journal::open(&path).unwrap().begun(&change(&request)).await.unwrap();
        let mut bytes = fs::read(&path).unwrap();
        bytes.extend_from_slice(b"{\"order\":");
        fs::write(&path, bytes).unwrap();
        assert_eq!(read(&path).unwrap().len(), 1);
        Journal::open(&path).unwrap().begun(&change(&request)).await.unwrap();
        assert_eq!(read(&path).unwrap().len(), 2);
    }

    #[tokio::test]
    async fn a_full_disk_is_told_before_anything_is_made() {
        let path = Path::new("/dev/full");
        let journal = Journal::write_to(File::options().write(true).open(path).unwrap(), path, 0).unwrap();
        let request = request();
        let error = journal.begun(&change(&request)).await.unwrap_err();
        assert!(error.contains("/dev/full") && error.contains("free some space"), "{error}");
    }
}
