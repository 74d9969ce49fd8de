//! On-disk log: an `SQLite` database in a directory, used by one thread of one process.
//!
//! `log` has a row per revision; a null value is a delete. Superseded rows up to `meta.compacted` may be missing; no
//! later row may be. A database in an unknown format is never modified.

mod lock;

use std::{
    fs,
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
    sync::Arc,
};

use rusqlite::{Connection, OpenFlags, OptionalExtension, TransactionBehavior, params};

use self::lock::DirLock;
use super::{
    error::StoreError,
    state::{self, StoreState},
    types::{HistoryLimits, StoreEvent},
};
use crate::{fsync, object::Document};

/// File name of the database.
pub const DATABASE_FILE: &str = "store.sqlite";

/// Version of the format described above.
const FORMAT_VERSION: i64 = 1;

const SCHEMA: &str = "
    CREATE TABLE log (revision INTEGER PRIMARY KEY, key TEXT NOT NULL, type_end INTEGER NOT NULL, value BLOB) STRICT;
    CREATE TABLE meta (name TEXT PRIMARY KEY, value INTEGER NOT NULL) STRICT, WITHOUT ROWID;
";

/// Size of the write-ahead log after which it is checkpointed. Checkpoints run after the writers have been
/// acknowledged.
const CHECKPOINT_BYTES: usize = 16 << 20;

/// Page size, to estimate the cost of a write in the write-ahead log.
const PAGE_BYTES: usize = 4096;

#[derive(Debug)]
pub struct DiskLog {
    connection: Connection,
    path: PathBuf,
    /// Approximate size of the write-ahead log in bytes.
    wal_bytes: usize,
    /// Held as long as the connection.
    _lock: DirLock,
}

impl DiskLog {
    /// Opens or creates the database and reads all of it.
    pub fn open(dir: &Path, settings: HistoryLimits) -> Result<(Self, StoreState), StoreError> {
        make_dir(dir)?;
        let lock = DirLock::acquire(dir)?;
        let path = dir.join(DATABASE_FILE);
        create_file(&path)?;
        let connection = connect(&path).map_err(|error| StoreError::sqlite("open", &path, error))?;
        initialize_schema(&connection, &path)?;
        let view = load(&connection, &path, settings)?;
        Ok((Self { connection, path, wal_bytes: 0, _lock: lock }, view))
    }

    /// Makes all events durable, or none.
    pub fn append(&mut self, events: &[StoreEvent]) -> Result<(), StoreError> {
        insert(&mut self.connection, events)
            .map_err(|error| StoreError::sqlite("write to", &self.path, error))?;
        self.wal_bytes += events.iter().map(wal_cost).sum::<usize>();
        Ok(())
    }

    /// Deletes superseded rows and deletes, all of them at or before `floor`.
    pub fn compact(&mut self, floor: u64, revisions: &[u64]) -> Result<(), StoreError> {
        delete_rows(&mut self.connection, floor, revisions)
            .map_err(|error| StoreError::sqlite("compact", &self.path, error))?;
        self.wal_bytes += (revisions.len() + 1) * PAGE_BYTES;
        Ok(())
    }

    /// Checkpoints the write-ahead log when it is long, so that it restarts.
    pub fn checkpoint(&mut self) {
        if self.wal_bytes < CHECKPOINT_BYTES {
            return;
        }
        let moved =
            self.connection.query_row("PRAGMA wal_checkpoint(RESTART)", [], |row| row.get::<_, i64>(0));
        // A failure loses nothing: the log grows until a later checkpoint succeeds.
        if let Err(error) = &moved {
            tracing::warn!(error = error as &dyn std::error::Error, "WAL checkpoint failed, retrying later");
        }
        self.wal_bytes = if moved.is_ok() { 0 } else { CHECKPOINT_BYTES / 2 };
    }

    /// Closes the database without a remaining write-ahead log.
    pub fn close(self) {
        if let Err((_, error)) = self.connection.close() {
            tracing::warn!(error = &error as &dyn std::error::Error, "failed to close the database cleanly");
        }
    }

    #[cfg(test)]
    pub fn connection(&self) -> &Connection {
        &self.connection
    }
}

fn wal_cost(event: &StoreEvent) -> usize {
    event.current.as_ref().map_or(0, |entry| entry.document.bytes().len()) + PAGE_BYTES
}

/// Accessible to the owner only: it contains Secrets.
fn make_dir(dir: &Path) -> Result<(), StoreError> {
    if dir.is_dir() {
        return Ok(());
    }
    fsync::create_dir_durable(dir).map_err(|error| StoreError::io("create", dir, error))
}

fn create_file(path: &Path) -> Result<(), StoreError> {
    let mut options = fs::OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false).mode(0o600);
    let is_new = !path.exists();
    options
        .open(path)
        .and_then(|_| if is_new { fsync::sync_parent_dir(path) } else { Ok(()) })
        .map_err(|error| StoreError::io("open", path, error))
}

fn connect(path: &Path) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags)?;
    // Exclusive before WAL: the WAL index is then in process memory, not in a shared file.
    connection.pragma_update(None, "locking_mode", "EXCLUSIVE")?;
    connection.pragma_update_and_check(None, "journal_mode", "WAL", |_| Ok(()))?;
    connection.pragma_update(None, "synchronous", "FULL")?;
    connection.pragma_update(None, "wal_autocheckpoint", 0)?;
    // No page is read twice.
    connection.pragma_update(None, "cache_size", -1024)?;
    Ok(connection)
}

/// Creates the tables of an empty database; rejects foreign databases.
fn initialize_schema(connection: &Connection, path: &Path) -> Result<(), StoreError> {
    let failed = |error| StoreError::sqlite("read", path, error);
    let tables: i64 =
        connection.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0)).map_err(failed)?;
    if tables == 0 {
        let script = format!(
            "BEGIN IMMEDIATE; {SCHEMA} INSERT INTO meta VALUES ('format', {FORMAT_VERSION}), ('compacted', 0); COMMIT;"
        );
        return connection.execute_batch(&script).map_err(|error| StoreError::sqlite("create", path, error));
    }
    let format = connection
        .query_row("SELECT value FROM meta WHERE name = 'format'", [], |row| row.get::<_, i64>(0))
        .optional()
        .map_err(|error| match error {
            rusqlite::Error::SqliteFailure(inner, _) if inner.extended_code == 1 => {
                corrupt_error(path, "it has no format")
            }
            error => failed(error),
        })?;
    match format {
        Some(FORMAT_VERSION) => Ok(()),
        Some(found) if found > FORMAT_VERSION => {
            Err(StoreError::Newer { path: path.to_owned(), found, known: FORMAT_VERSION })
        }
        _ => Err(corrupt_error(path, "it has no format")),
    }
}

fn corrupt_error(path: &Path, detail: impl Into<String>) -> StoreError {
    StoreError::Corrupt { path: path.to_owned(), detail: detail.into() }
}

struct LogRow {
    revision: u64,
    key: Arc<str>,
    document: Option<Document>,
}

/// Rebuilds the state and the history from the log.
fn load(connection: &Connection, path: &Path, settings: HistoryLimits) -> Result<StoreState, StoreError> {
    let failed = |error| StoreError::sqlite("read", path, error);
    let compacted = connection
        .query_row("SELECT value FROM meta WHERE name = 'compacted'", [], |row| row.get::<_, i64>(0))
        .map_err(failed)?
        .cast_unsigned();
    let mut view = StoreState::new(settings, compacted);
    let mut statement = connection
        .prepare("SELECT revision, key, type_end, value FROM log ORDER BY revision")
        .map_err(failed)?;
    for row in statement.query_map([], read_row).map_err(failed)? {
        let row = row.map_err(failed)?;
        if !row.document.as_ref().is_none_or(|document| document.has_revision(row.revision)) {
            return Err(corrupt_error(path, format!("revision {} holds another object", row.revision)));
        }
        replay(&mut view, compacted, row).map_err(|detail| corrupt_error(path, detail))?;
    }
    Ok(view)
}

fn read_row(row: &rusqlite::Row<'_>) -> rusqlite::Result<LogRow> {
    let revision = row.get::<_, i64>(0)?.cast_unsigned();
    let key: Arc<str> = row.get_ref(1)?.as_str()?.into();
    let type_end = row.get::<_, isize>(2)?.cast_unsigned();
    let value: Option<Vec<u8>> = row.get(3)?;
    Ok(LogRow { revision, key, document: value.map(|bytes| Document::from_stored(bytes, type_end)) })
}

fn replay(view: &mut StoreState, compacted: u64, row: LogRow) -> Result<(), String> {
    let LogRow { revision, key, document } = row;
    if revision <= compacted {
        view.restore(&key, revision, document);
        return Ok(());
    }
    if revision != view.revision() + 1 {
        return Err(format!("revision {} is missing", view.revision() + 1));
    }
    let before = view.get(&key).cloned();
    let event = state::build_event(revision, key, document, before)
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
            let document = event.current.as_ref().map(|entry| &entry.document);
            let type_end = document.map_or(0, Document::type_end);
            let value = document.map(|document| document.bytes().as_ref());
            let numbers = (event.revision.cast_signed(), type_end.cast_signed());
            statement.execute(params![numbers.0, &*event.key, numbers.1, value])?;
        }
    }
    transaction.commit()
}

fn delete_rows(connection: &mut Connection, floor: u64, revisions: &[u64]) -> rusqlite::Result<()> {
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
