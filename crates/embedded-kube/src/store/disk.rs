//! The history on disk: one `SQLite` database in one directory, used by one thread of one process.
//!
//! `log` has a row per revision; a value that is missing is a delete. Rows up to `meta.compacted` that later ones replace
//! may be gone; of those after it none may be missing. What is here never changes what it does not understand.

mod lock;

use std::{
    fs,
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
    sync::Arc,
};

use rusqlite::{Connection, OpenFlags, OptionalExtension, TransactionBehavior, params};

use self::lock::Lock;
use super::{
    error::StoreError,
    view::{self, View},
    words::{Settings, StoreEvent},
};
use crate::{durable, object::Document};

/// Name of the database in its directory.
pub const FILE: &str = "store.sqlite";

/// Version of what is described above.
const FORMAT: i64 = 1;

const SCHEMA: &str = "
    CREATE TABLE log (revision INTEGER PRIMARY KEY, key TEXT NOT NULL, type_end INTEGER NOT NULL, value BLOB) STRICT;
    CREATE TABLE meta (name TEXT PRIMARY KEY, value INTEGER NOT NULL) STRICT, WITHOUT ROWID;
";

/// Bytes of write-ahead log after which it is moved into the database. Ours to choose the moment: after the writers
/// have their answers.
const CHECKPOINT_BYTES: usize = 16 << 20;

/// A page of the database, as a measure of what a write costs in the write-ahead log.
const PAGE: usize = 4096;

#[derive(Debug)]
pub struct Disk {
    connection: Connection,
    path: PathBuf,
    /// Bytes in the write-ahead log, about.
    logged: usize,
    /// Held as long as the connection.
    _lock: Lock,
}

impl Disk {
    /// Opens or makes the database, and reads all of it.
    pub fn open(dir: &Path, settings: Settings) -> Result<(Self, View), StoreError> {
        make_dir(dir)?;
        let lock = Lock::take(dir)?;
        let path = dir.join(FILE);
        make_file(&path)?;
        let connection = connect(&path).map_err(|error| StoreError::sqlite("open", &path, error))?;
        prepare(&connection, &path)?;
        let view = load(&connection, &path, settings)?;
        Ok((Self { connection, path, logged: 0, _lock: lock }, view))
    }

    /// Makes all of them durable, or none.
    pub fn append(&mut self, events: &[StoreEvent]) -> Result<(), StoreError> {
        insert(&mut self.connection, events)
            .map_err(|error| StoreError::sqlite("write to", &self.path, error))?;
        self.logged += events.iter().map(bytes_logged).sum::<usize>();
        Ok(())
    }

    /// Deletes rows that are replaced or deletes themselves, all of them at or before `floor`.
    pub fn compact(&mut self, floor: u64, revisions: &[u64]) -> Result<(), StoreError> {
        sweep(&mut self.connection, floor, revisions)
            .map_err(|error| StoreError::sqlite("compact", &self.path, error))?;
        self.logged += (revisions.len() + 1) * PAGE;
        Ok(())
    }

    /// Moves the write-ahead log into the database when it is long, so that it begins anew.
    pub fn checkpoint(&mut self) {
        if self.logged < CHECKPOINT_BYTES {
            return;
        }
        let moved =
            self.connection.query_row("PRAGMA wal_checkpoint(RESTART)", [], |row| row.get::<_, i64>(0));
        // Nothing is lost if it fails: the log only grows until a later one succeeds.
        if let Err(error) = &moved {
            tracing::warn!(error = error as &dyn std::error::Error, "the write-ahead log stays for now");
        }
        self.logged = if moved.is_ok() { 0 } else { CHECKPOINT_BYTES / 2 };
    }

    /// Leaves a database without a write-ahead log.
    pub fn close(self) {
        if let Err((_, error)) = self.connection.close() {
            tracing::warn!(error = &error as &dyn std::error::Error, "the store was not closed cleanly");
        }
    }

    #[cfg(test)]
    pub fn connection(&self) -> &Connection {
        &self.connection
    }
}

fn bytes_logged(event: &StoreEvent) -> usize {
    event.now.as_ref().map_or(0, |entry| entry.document.bytes().len()) + PAGE
}

/// Secrets are inside: nobody but the owner may look.
fn make_dir(dir: &Path) -> Result<(), StoreError> {
    if dir.is_dir() {
        return Ok(());
    }
    durable::make_dir(dir).map_err(|error| StoreError::io("make", dir, error))
}

fn make_file(path: &Path) -> Result<(), StoreError> {
    let mut options = fs::OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false).mode(0o600);
    let is_new = !path.exists();
    options
        .open(path)
        .and_then(|_| if is_new { durable::sync_name(path) } else { Ok(()) })
        .map_err(|error| StoreError::io("open", path, error))
}

fn connect(path: &Path) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags)?;
    // Exclusive before WAL: the index of the log is then in our memory, not in a shared file.
    connection.pragma_update(None, "locking_mode", "EXCLUSIVE")?;
    connection.pragma_update_and_check(None, "journal_mode", "WAL", |_| Ok(()))?;
    connection.pragma_update(None, "synchronous", "FULL")?;
    connection.pragma_update(None, "wal_autocheckpoint", 0)?;
    // Nothing is read twice.
    connection.pragma_update(None, "cache_size", -1024)?;
    Ok(connection)
}

/// Makes the tables of an empty database; refuses what is not ours.
fn prepare(connection: &Connection, path: &Path) -> Result<(), StoreError> {
    let failed = |error| StoreError::sqlite("read", path, error);
    let tables: i64 =
        connection.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0)).map_err(failed)?;
    if tables == 0 {
        let script = format!(
            "BEGIN IMMEDIATE; {SCHEMA} INSERT INTO meta VALUES ('format', {FORMAT}), ('compacted', 0); COMMIT;"
        );
        return connection.execute_batch(&script).map_err(|error| StoreError::sqlite("set up", path, error));
    }
    let format = connection
        .query_row("SELECT value FROM meta WHERE name = 'format'", [], |row| row.get::<_, i64>(0))
        .optional()
        .map_err(|error| match error {
            rusqlite::Error::SqliteFailure(inner, _) if inner.extended_code == 1 => {
                corrupt(path, "it has no format")
            }
            error => failed(error),
        })?;
    match format {
        Some(FORMAT) => Ok(()),
        Some(found) if found > FORMAT => {
            Err(StoreError::Newer { path: path.to_owned(), found, known: FORMAT })
        }
        _ => Err(corrupt(path, "it has no format")),
    }
}

fn corrupt(path: &Path, detail: impl Into<String>) -> StoreError {
    StoreError::Corrupt { path: path.to_owned(), detail: detail.into() }
}

struct Row {
    revision: u64,
    key: Arc<str>,
    document: Option<Document>,
}

/// The state and the history from the log.
fn load(connection: &Connection, path: &Path, settings: Settings) -> Result<View, StoreError> {
    let failed = |error| StoreError::sqlite("read", path, error);
    let compacted = connection
        .query_row("SELECT value FROM meta WHERE name = 'compacted'", [], |row| row.get::<_, i64>(0))
        .map_err(failed)?
        .cast_unsigned();
    let mut view = View::new(settings, compacted);
    let mut statement = connection
        .prepare("SELECT revision, key, type_end, value FROM log ORDER BY revision")
        .map_err(failed)?;
    for row in statement.query_map([], read).map_err(failed)? {
        let row = row.map_err(failed)?;
        if !row.document.as_ref().is_none_or(|document| document.is_stamped(row.revision)) {
            return Err(corrupt(path, format!("revision {} holds another object", row.revision)));
        }
        replay(&mut view, compacted, row).map_err(|detail| corrupt(path, detail))?;
    }
    Ok(view)
}

fn read(row: &rusqlite::Row<'_>) -> rusqlite::Result<Row> {
    let revision = row.get::<_, i64>(0)?.cast_unsigned();
    let key: Arc<str> = row.get_ref(1)?.as_str()?.into();
    let type_end = row.get::<_, isize>(2)?.cast_unsigned();
    let value: Option<Vec<u8>> = row.get(3)?;
    Ok(Row { revision, key, document: value.map(|bytes| Document::stored(bytes, type_end)) })
}

fn replay(view: &mut View, compacted: u64, row: Row) -> Result<(), String> {
    let Row { revision, key, document } = row;
    if revision <= compacted {
        view.restore(&key, revision, document);
        return Ok(());
    }
    if revision != view.revision() + 1 {
        return Err(format!("revision {} is missing", view.revision() + 1));
    }
    let before = view.get(&key).cloned();
    let event = view::event(revision, key, document, before)
        .ok_or_else(|| format!("revision {revision} deletes what is not there"))?;
    view.apply(event);
    view.trim();
    Ok(())
}

fn insert(connection: &mut Connection, events: &[StoreEvent]) -> rusqlite::Result<()> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    {
        let mut statement = transaction.prepare_cached("INSERT INTO log VALUES (?1, ?2, ?3, ?4)")?;
        for event in events {
            let document = event.now.as_ref().map(|entry| &entry.document);
            let type_end = document.map_or(0, Document::type_end);
            let value = document.map(|document| document.bytes().as_ref());
            let numbers = (event.revision.cast_signed(), type_end.cast_signed());
            statement.execute(params![numbers.0, &*event.key, numbers.1, value])?;
        }
    }
    transaction.commit()
}

fn sweep(connection: &mut Connection, floor: u64, revisions: &[u64]) -> rusqlite::Result<()> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    transaction.execute(
        "UPDATE meta SET value = ?1 WHERE name = 'compacted' AND value < ?1",
        [floor.cast_signed()],
    )?;
    {
        let mut statement = transaction.prepare_cached("DELETE FROM log WHERE revision = ?1")?;
        for revision in revisions {
            statement.execute([revision.cast_signed()])?;
        }
    }
    transaction.commit()
}
