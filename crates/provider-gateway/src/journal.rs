//! Journal of applied changes, on disk before Terraform gets the response.
//!
//! One JSON line for the start and one for the end of each change. The end is flushed to disk before the response is
//! sent, so created resources are recorded whatever happens to Terraform, its state file or the gateway. The start is
//! written without a flush; a full disk is detected there, before anything is created.
//!
//! The file contains resource values, including secrets: mode 0600, in a directory with mode 0700.

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
    clock, private_fs,
    wire::{
        messages::{read_diagnostics, type_name},
        protobuf,
    },
};

/// Files above this size are rotated at start.
const ROTATE_SIZE: u64 = 64 << 20;
/// Number of rotated files to keep.
const MAX_ROTATED_FILES: u32 = 4;

/// Stage of a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum ChangeStage {
    /// Sent to the provider.
    Begun,
    /// The provider responded.
    Done,
    /// The provider exited before it responded: the outcome is unknown.
    Lost,
}

/// One line of the journal. Values are `DynamicValue` messages in base64.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct JournalEntry {
    /// Sequence number within the file.
    pub order: u64,
    /// Time of the entry.
    pub time: Timestamp,
    /// The run.
    pub run: String,
    /// Workspace name.
    pub workspace: String,
    /// Matches the start of a change with its end.
    pub call: u64,
    /// `ApplyResourceChange` or `ImportResourceState`.
    pub method: String,
    /// The resource's type.
    #[serde(rename = "type")]
    pub kind: String,
    /// Stage of the change.
    pub stage: ChangeStage,
    /// Prior state.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub prior: String,
    /// Planned state; the id for an import.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub planned: String,
    /// New state; the whole response for an import.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub new: String,
    /// Private data of the provider.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub private: String,
    /// Whether the provider returned an error.
    #[serde(default)]
    pub failed: bool,
}

/// A call that changes a resource.
#[derive(Debug, Clone)]
pub struct ChangeCall<'a> {
    /// The run.
    pub run: &'a str,
    /// Workspace name.
    pub workspace: &'a str,
    /// Name of the method.
    pub method: &'a str,
    /// The request message.
    pub request: &'a [u8],
}

/// The open journal.
#[derive(Clone)]
pub struct Journal {
    path: PathBuf,
    writes: mpsc::Sender<WriteRequest>,
    next_call: Arc<AtomicU64>,
}

struct WriteRequest {
    entry: JournalEntry,
    flush: bool,
    done: oneshot::Sender<Result<(), String>>,
}

impl Journal {
    /// Opens the journal for appending; truncates a torn last line.
    pub fn open(path: &Path) -> io::Result<Self> {
        rotate(path)?;
        let file = private_fs::open_append(path)?;
        truncate_torn_line(&file, path)?;
        let last = read_entries(path)?.last().map_or(0, |entry| entry.order);
        Self::spawn_writer(file, path, last)
    }

    fn spawn_writer(file: File, path: &Path, last: u64) -> io::Result<Self> {
        let (orders, inbox) = mpsc::channel(1024);
        let thread = std::thread::Builder::new().name("journal".to_owned());
        let writer = JournalWriter { file, order: last };
        thread.spawn(move || writer.run(inbox))?;
        Ok(Self { path: path.to_owned(), writes: orders, next_call: Arc::new(AtomicU64::new(1)) })
    }

    /// Path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Records the start of a change; returns the call number for [`Self::ended`].
    pub async fn record_start(&self, change: &ChangeCall<'_>) -> Result<u64, String> {
        let call = self.next_call.fetch_add(1, Ordering::Relaxed);
        let mut entry = new_entry(change, call, ChangeStage::Begun);
        entry.planned =
            if is_import(change) { field_base64(change.request, 2) } else { field_base64(change.request, 3) };
        entry.prior = if is_import(change) { String::new() } else { field_base64(change.request, 2) };
        self.send(entry, false).await.map(|()| call)
    }

    /// Records the end of a change; returns after it is flushed to disk.
    pub async fn record_end(
        &self,
        change: &ChangeCall<'_>,
        call: u64,
        answer: Option<&[u8]>,
    ) -> Result<(), String> {
        let mut entry =
            new_entry(change, call, if answer.is_some() { ChangeStage::Done } else { ChangeStage::Lost });
        if let Some(answer) = answer {
            let diagnostics = if is_import(change) { 2 } else { 3 };
            entry.failed = read_diagnostics(answer, diagnostics).is_ok_and(|verdict| verdict.error);
            entry.new =
                if is_import(change) { BASE64_STANDARD.encode(answer) } else { field_base64(answer, 1) };
            entry.private = if is_import(change) { String::new() } else { field_base64(answer, 2) };
            entry.planned = if is_import(change) {
                field_base64(change.request, 2)
            } else {
                field_base64(change.request, 3)
            };
        }
        self.send(entry, true).await
    }

    async fn send(&self, entry: JournalEntry, flush: bool) -> Result<(), String> {
        let gone = || format!("{}: the journal writer has stopped", self.path.display());
        let (done, heard) = oneshot::channel();
        self.writes.send(WriteRequest { entry, flush, done }).await.map_err(|_| gone())?;
        heard.await.map_err(|_| gone())?.map_err(|error| {
            format!("cannot write the journal {}: {error}; free some space there", self.path.display())
        })
    }
}

fn is_import(change: &ChangeCall<'_>) -> bool {
    change.method == "ImportResourceState"
}

fn new_entry(change: &ChangeCall<'_>, call: u64, stage: ChangeStage) -> JournalEntry {
    JournalEntry {
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

fn field_base64(message: &[u8], number: u64) -> String {
    protobuf::bytes_field(message, number)
        .ok()
        .flatten()
        .map(|bytes| BASE64_STANDARD.encode(bytes))
        .unwrap_or_default()
}

/// Writer thread: a flush takes milliseconds, so all waiting entries are flushed together.
struct JournalWriter {
    file: File,
    order: u64,
}

impl JournalWriter {
    fn run(mut self, mut inbox: mpsc::Receiver<WriteRequest>) {
        while let Some(first) = inbox.blocking_recv() {
            let mut waiting = vec![first];
            while let Ok(next) = inbox.try_recv() {
                waiting.push(next);
            }
            let written: Vec<_> = waiting
                .into_iter()
                .map(|WriteRequest { mut entry, flush, done }| {
                    self.order += 1;
                    entry.order = self.order;
                    (self.write_entry(&entry), flush, done)
                })
                .collect();
            let flushed =
                if written.iter().any(|(_, flush, _)| *flush) { self.file.sync_data() } else { Ok(()) };
            for (outcome, flush, done) in written {
                let outcome = outcome.and_then(|()| match &flushed {
                    Err(error) if flush => Err(io::Error::new(error.kind(), error.to_string())),
                    _ => Ok(()),
                });
                // The receiver may have been cancelled.
                let _heard = done.send(outcome.map_err(|error| error.to_string()));
            }
        }
    }

    /// Writes a whole line or nothing: the rest of a torn line would corrupt the next.
    fn write_entry(&mut self, entry: &JournalEntry) -> io::Result<()> {
        let length = self.file.metadata()?.len();
        let mut line = serde_json::to_vec(entry)?;
        line.push(b'\n');
        self.file.write_all(&line).inspect_err(|_| {
            // If truncation fails, the torn line is removed at the next open.
            let _next_time = self.file.set_len(length);
        })
    }
}

/// Reads the entries of a journal. Torn and invalid lines are skipped.
pub fn read_entries(path: &Path) -> io::Result<Vec<JournalEntry>> {
    let bytes = match fs::read(path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let whole = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
    let lines = bytes.get(..whole).unwrap_or_default().split(|byte| *byte == b'\n');
    Ok(lines.filter_map(|line| serde_json::from_slice(line).ok()).collect())
}

fn truncate_torn_line(file: &File, path: &Path) -> io::Result<()> {
    let bytes = fs::read(path)?;
    let whole = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
    if whole < bytes.len() { file.set_len(whole as u64) } else { Ok(()) }
}

fn rotate(path: &Path) -> io::Result<()> {
    if fs::metadata(path).is_ok_and(|data| data.len() > ROTATE_SIZE) {
        for number in (1..MAX_ROTATED_FILES).rev() {
            let (from, to) = (rotated_path(path, number), rotated_path(path, number + 1));
            if from.exists() {
                fs::rename(from, to)?;
            }
        }
        fs::rename(path, rotated_path(path, 1))?;
    }
    Ok(())
}

fn rotated_path(path: &Path, number: u32) -> PathBuf {
    path.with_extension(format!("{number}.jsonl"))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;
    use crate::wire::protobuf::put_bytes;

    fn request() -> Vec<u8> {
        let mut request = Vec::new();
        put_bytes(&mut request, 1, b"aws_vpc");
        put_bytes(&mut request, 2, b"prior");
        put_bytes(&mut request, 3, b"planned");
        request
    }

    fn change(request: &[u8]) -> ChangeCall<'_> {
        ChangeCall { run: "r", workspace: "default/x", method: "ApplyResourceChange", request }
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
            let call = journal.record_start(&change(&request)).await.unwrap();
            journal.record_end(&change(&request), call, Some(&answer)).await.unwrap();
            let entries = read_entries(&path).unwrap();
            assert_eq!(entries.len(), 2 * (round + 1));
            let last = entries.last().unwrap();
            assert_eq!(
                (last.order, last.stage, last.kind.as_str()),
                (2 * (round as u64 + 1), ChangeStage::Done, "aws_vpc")
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
        Journal::open(&path).unwrap().record_start(&change(&request)).await.unwrap();
        let mut bytes = fs::read(&path).unwrap();
        bytes.extend_from_slice(b"{\"order\":");
        fs::write(&path, bytes).unwrap();
        assert_eq!(read_entries(&path).unwrap().len(), 1);
        Journal::open(&path).unwrap().record_start(&change(&request)).await.unwrap();
        assert_eq!(read_entries(&path).unwrap().len(), 2);
    }

    #[tokio::test]
    async fn a_full_disk_is_told_before_anything_is_made() {
        let path = Path::new("/dev/full");
        let journal =
            Journal::spawn_writer(File::options().write(true).open(path).unwrap(), path, 0).unwrap();
        let request = request();
        let error = journal.record_start(&change(&request)).await.unwrap_err();
        assert!(error.contains("/dev/full") && error.contains("free some space"), "{error}");
    }
}
