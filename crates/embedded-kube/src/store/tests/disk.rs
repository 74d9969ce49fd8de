//! Durability of a directory, and the errors of an unusable one.

use std::{fs, io, time::Duration};

use futures::{FutureExt, StreamExt};
use rusqlite::Connection;

use super::{super::disk::DATABASE_FILE, history::Random, *};

async fn open(dir: &Path) -> Result<Store, StoreError> {
    Store::open(StoreLocation::Dir(dir.to_owned()), HistoryLimits::default()).await
}

async fn refusal(dir: &Path) -> StoreError {
    open(dir).await.expect_err("it cannot be opened")
}

/// Everything that a reader can observe: the state, and the history with previous values.
fn whole(store: &Store) -> (Snapshot, u64, Vec<StoreEvent>) {
    let mut watch = store.watch("", store.oldest_revision()).unwrap();
    let history =
        std::iter::from_fn(|| watch.next().now_or_never()).map(|item| item.unwrap().unwrap()).collect();
    (store.list("", &ListOptions::default()).unwrap(), store.oldest_revision(), history)
}

/// Runs a closure on the store's own connection.
async fn probe<T: Send + 'static>(store: &Store, look: impl FnOnce(&Connection) -> T + Send + 'static) -> T {
    store.probe(look).await
}

async fn rows(store: &Store) -> i64 {
    probe(store, |connection| connection.query_row("SELECT count(*) FROM log", [], |row| row.get(0)).unwrap())
        .await
}

async fn stir(store: &Store, random: &mut Random, writes: usize) {
    for _ in 0..writes {
        let key = format!("/pods/a/{}", random.below(20));
        if random.below(4) == 0 && store.get(&key).is_some() {
            remove(store, &key).await;
        } else {
            put(store, &key, "v".repeat(random.below(6000))).await;
        }
    }
}

#[rstest]
#[case::of_all(HistoryLimits::default(), 300)]
#[case::bounded_by_events(HistoryLimits { events: 50, ..HistoryLimits::default() }, 1500)]
#[case::bounded_by_bytes(HistoryLimits { bytes: 200_000, ..HistoryLimits::default() }, 1500)]
#[tokio::test]
async fn a_second_start_shows_the_same_state_and_the_same_history(
    #[case] settings: HistoryLimits,
    #[case] writes: usize,
) {
    let dir = tempfile::tempdir().unwrap();
    let place = StoreLocation::Dir(dir.path().join("new/deep"));
    let store = Store::open(place.clone(), settings).await.unwrap();
    stir(&store, &mut Random(1), writes).await;
    let before = whole(&store);
    assert!(before.2.len() > 10);
    drop(store);
    let store = Store::open(place.clone(), settings).await.unwrap();
    assert_eq!(whole(&store), before);
    let next = put(&store, "/pods/a/x", 0).await;
    assert_eq!(next, before.0.revision + 1);
    assert_eq!(
        fs::read_dir(dir.path().join("new/deep")).unwrap().count(),
        3,
        "database, its log and the lock"
    );
    store.close().await;
    assert_eq!(fs::read_dir(dir.path().join("new/deep")).unwrap().count(), 2, "the log is gone");
}

/// A kill test cannot show that a write survives a power failure.
#[tokio::test]
async fn every_commit_is_synced() {
    let dir = tempfile::tempdir().unwrap();
    let store = at(dir.path()).await;
    let (mode, level) = probe(&store, |connection| {
        let mode: String = connection.query_row("PRAGMA journal_mode", [], |row| row.get(0)).unwrap();
        let level: i64 = connection.query_row("PRAGMA synchronous", [], |row| row.get(0)).unwrap();
        (mode, level)
    })
    .await;
    assert_eq!((mode.as_str(), level), ("wal", 2));
}

#[tokio::test]
async fn forgotten_history_stays_forgotten() {
    let dir = tempfile::tempdir().unwrap();
    let store = at(dir.path()).await;
    put(&store, "/pods/a/x", 1).await;
    put(&store, "/pods/a/y", 1).await;
    remove(&store, "/pods/a/y").await;
    store.expire_history();
    store.close().await;
    let store = at(dir.path()).await;
    assert_eq!(
        (store.revision(), store.oldest_revision()),
        (4, 4),
        "the revision is that of a row that is gone"
    );
    assert_eq!(store.watch("", 3).unwrap_err(), Expired { oldest: 4 });
    assert_eq!(keys(&store.list("", &ListOptions::default()).unwrap()), ["/pods/a/x"]);
    assert_eq!(rows(&store).await, 1);
}

#[tokio::test]
async fn the_database_does_not_grow_with_updates_of_the_same_objects() {
    let dir = tempfile::tempdir().unwrap();
    let settings = HistoryLimits { events: 100, ..HistoryLimits::default() };
    let store = Store::open(StoreLocation::Dir(dir.path().to_owned()), settings).await.unwrap();
    let mut most = 0;
    for round in 0..60 {
        let writes = (0..100).map(|number| {
            let (store, key) = (store.clone(), format!("/pods/a/{}", number % 10));
            async move { store.write(&key, Precondition::Any, draft("v".repeat(3000))).await.unwrap() }
        });
        futures::future::join_all(writes).await;
        if round == 29 {
            most = fs::metadata(dir.path().join(DATABASE_FILE)).unwrap().len();
        }
    }
    assert!(rows(&store).await < 100 + 10 + 1100, "{} rows", rows(&store).await);
    let used = fs::metadata(dir.path().join(DATABASE_FILE)).unwrap().len();
    assert!(used <= most.max(8 << 20), "{most} bytes after half of the writes, {used} after all");
    let log = fs::metadata(dir.path().join(format!("{DATABASE_FILE}-wal"))).unwrap().len();
    assert!(log < 32 << 20, "the write-ahead log has {log} bytes");
    drop(store);
    let store = Store::open(StoreLocation::Dir(dir.path().to_owned()), settings).await.unwrap();
    assert_eq!((store.revision(), store.oldest_revision()), (6001, 5901));
    assert_eq!(store.list("", &ListOptions::default()).unwrap().entries.len(), 10);
}

#[tokio::test]
async fn compaction_keeps_what_lives_however_old() {
    let dir = tempfile::tempdir().unwrap();
    let settings = HistoryLimits { events: 5, ..HistoryLimits::default() };
    let store = Store::open(StoreLocation::Dir(dir.path().to_owned()), settings).await.unwrap();
    put(&store, "/pods/a/old", "kept").await;
    for number in 0..700 {
        put(&store, "/pods/a/busy", number).await;
    }
    for number in 0..400 {
        put(&store, &format!("/pods/b/{number}"), number).await;
        remove(&store, &format!("/pods/b/{number}")).await;
    }
    store.expire_history();
    assert!(rows(&store).await < 520, "{}", rows(&store).await);
    store.close().await;
    let store = Store::open(StoreLocation::Dir(dir.path().to_owned()), settings).await.unwrap();
    assert_eq!(keys(&store.list("", &ListOptions::default()).unwrap()), ["/pods/a/busy", "/pods/a/old"]);
    assert_eq!(data(&store.get("/pods/a/old").unwrap().document), "kept");
    assert_eq!(store.revision(), 1 + 1 + 700 + 800);
}

/// More garbage than one compaction takes: pairs of a value and its delete, after some rows that shift the boundary.
async fn litter(store: &Store, shift: usize) {
    for number in 0..=shift {
        put(store, "/pods/a/kept", number).await;
    }
    let writes = (0..1200).map(async |number| {
        let key = format!("/pods/b/{number}");
        put(store, &key, number).await;
        remove(store, &key).await;
    });
    futures::future::join_all(writes).await;
}

#[rstest]
#[tokio::test]
async fn what_was_deleted_stays_so_if_the_process_ends_amid_the_tidying(#[values(0, 1, 2, 3)] shift: usize) {
    let dir = tempfile::tempdir().unwrap();
    let store = at(dir.path()).await;
    litter(&store, shift).await;
    store.close().await;
    let connection = Connection::open(dir.path().join(DATABASE_FILE)).unwrap();
    let script = "UPDATE meta SET value = (SELECT max(revision) FROM log) WHERE name = 'compacted'";
    connection.execute_batch(script).unwrap();
    drop(connection);
    for _ in 0..4 {
        let store = at(dir.path()).await;
        assert_eq!(keys(&store.list("", &ListOptions::default()).unwrap()), ["/pods/a/kept"]);
        store.expire_history();
        store.close().await;
    }
    assert_eq!(rows(&at(dir.path()).await).await, 1);
}

#[rstest]
#[tokio::test]
async fn what_was_deleted_stays_so_if_the_tidying_fails_once(#[values(0, 1)] shift: usize) {
    let dir = tempfile::tempdir().unwrap();
    let store = at(dir.path()).await;
    litter(&store, shift).await;
    let read_only = |on: bool| move |db: &Connection| db.pragma_update(None, "query_only", on).unwrap();
    probe(&store, read_only(true)).await;
    store.expire_history();
    probe(&store, read_only(false)).await;
    store.expire_history();
    assert!(rows(&store).await < 1400, "the second time it succeeds");
    store.close().await;
    let store = at(dir.path()).await;
    assert_eq!(keys(&store.list("", &ListOptions::default()).unwrap()), ["/pods/a/kept"]);
}

#[tokio::test]
async fn a_write_without_space_is_refused_and_the_next_one_with_space_succeeds() {
    let dir = tempfile::tempdir().unwrap();
    let store = at(dir.path()).await;
    put(&store, "/pods/a/x", "before").await;
    let mut watch = store.watch("", store.revision()).unwrap();
    probe(&store, |connection| connection.pragma_update(None, "max_page_count", 10).unwrap()).await;
    let big = || store.write("/pods/a/x", Precondition::Any, draft("v".repeat(100_000)));
    for _ in 0..3 {
        let refused = big().await;
        assert!(matches!(refused, Err(WriteError::Io(StoreError::Full { .. }))), "{refused:?}");
    }
    assert_eq!(store.revision(), 2);
    assert_eq!(data(&store.get("/pods/a/x").unwrap().document), "before");
    put(&store, "/pods/a/small", "fits").await;
    probe(&store, |connection| connection.pragma_update(None, "max_page_count", 1_000_000).unwrap()).await;
    assert_eq!(big().await.unwrap().revision, 4);
    let told: Vec<_> = watch.by_ref().take(2).map(|item| item.unwrap().revision).collect().await;
    assert_eq!(told, [3, 4]);
    let before = whole(&store);
    drop(store);
    assert_eq!(whole(&at(dir.path()).await), before);
}

#[tokio::test]
#[ignore = "needs TMPDIR on a file system of a few MiB"]
async fn a_file_system_that_fills_up_is_survived() {
    let dir = tempfile::tempdir().unwrap();
    let ballast = dir.path().join("ballast");
    fs::write(&ballast, vec![1; 1 << 20]).unwrap();
    let store = at(dir.path()).await;
    let mut acknowledged = 0;
    let error = loop {
        match store
            .write(&format!("/pods/a/{acknowledged}"), Precondition::Absent, draft("v".repeat(20_000)))
            .await
        {
            Ok(_) => acknowledged += 1,
            Err(error) => break error,
        }
        assert!(acknowledged < 5000, "the file system is too large for this test");
    };
    assert!(matches!(error, WriteError::Io(StoreError::Full { .. })), "{error:?}");
    assert_eq!(store.revision(), 1 + acknowledged);
    fs::remove_file(&ballast).unwrap();
    put(&store, "/pods/a/x", "v".repeat(20_000)).await;
    let before = whole(&store);
    drop(store);
    assert_eq!(whole(&at(dir.path()).await), before);
}

#[tokio::test]
async fn a_directory_has_one_holder_and_the_second_is_told_who() {
    let dir = tempfile::tempdir().unwrap();
    let store = at(dir.path()).await;
    let error = refusal(dir.path()).await;
    assert!(matches!(error, StoreError::InUse { .. }));
    let expected = format!("is in use by this process ({}); stop that process or", std::process::id());
    assert!(error.to_string().contains(&expected), "{error}");
    put(&store, "/pods/a/x", 0).await;
    drop(store);
    at(dir.path()).await;
}

#[tokio::test]
async fn a_newer_format_is_refused_and_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    at(dir.path()).await.close().await;
    let path = dir.path().join(DATABASE_FILE);
    let connection = Connection::open(&path).unwrap();
    connection.execute_batch("UPDATE meta SET value = 7 WHERE name = 'format'").unwrap();
    drop(connection);
    let before = fs::read(&path).unwrap();
    let error = refusal(dir.path()).await;
    assert!(matches!(error, StoreError::Newer { found: 7, known: 1, .. }), "{error:?}");
    assert!(error.to_string().contains("has format 7"), "{error}");
    assert_eq!(fs::read(&path).unwrap(), before);
}

#[rstest]
#[case::text(b"this is no database, but long enough to look like something".repeat(100))]
#[case::zeros_after_nothing(vec![0; 8192])]
#[tokio::test]
async fn a_file_that_is_no_database_is_refused_and_left_alone(#[case] bytes: Vec<u8>) {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join(DATABASE_FILE), &bytes).unwrap();
    let error = refusal(dir.path()).await;
    assert!(matches!(error, StoreError::Corrupt { .. }), "{error:?}");
    assert_eq!(fs::read(dir.path().join(DATABASE_FILE)).unwrap(), bytes);
}

#[rstest]
#[case::somebody_elses("CREATE TABLE other (x)")]
#[case::without_format("DROP TABLE meta")]
#[case::without_rows("DROP TABLE log")]
#[case::with_a_gap("DELETE FROM log WHERE revision = 3")]
#[case::with_a_wrong_row("UPDATE log SET value = x'7b7d' WHERE revision = 3")]
#[case::with_a_row_moved("UPDATE log SET type_end = -3 WHERE revision = 3")]
#[case::with_a_delete_of_nothing("INSERT INTO log VALUES (12, 'y', 0, NULL)")]
#[case::with_negative_revisions("UPDATE log SET revision = -revision")]
#[tokio::test]
async fn a_database_that_is_not_what_we_wrote_is_refused(#[case] script: &str) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join(DATABASE_FILE);
    if !script.starts_with("CREATE") {
        let store = at(dir.path()).await;
        for number in 0..10 {
            put(&store, "/pods/a/x", number).await;
        }
        store.close().await;
    }
    Connection::open(&path).unwrap().execute_batch(script).unwrap();
    let error = refusal(dir.path()).await;
    assert!(matches!(error, StoreError::Corrupt { .. } | StoreError::Sqlite { .. }), "{error:?}");
    assert!(matches!(refusal(dir.path()).await, StoreError::Corrupt { .. } | StoreError::Sqlite { .. }));
}

#[tokio::test]
async fn damage_anywhere_in_the_file_is_never_a_panic() {
    let dir = tempfile::tempdir().unwrap();
    let store = at(dir.path()).await;
    stir(&store, &mut Random(3), 60).await;
    let whole_before = whole(&store);
    store.close().await;
    let good = fs::read(dir.path().join(DATABASE_FILE)).unwrap();
    let mut random = Random(9);
    for _ in 0..60 {
        let mut bad = good.clone();
        let start = random.below(bad.len());
        let end = (start + 1 + random.below(5000)).min(bad.len());
        bad[start..end].iter_mut().for_each(|byte| *byte ^= 0x5a);
        if random.below(4) == 0 {
            bad.truncate(start);
        }
        let copy = tempfile::tempdir().unwrap();
        fs::write(copy.path().join(DATABASE_FILE), &bad).unwrap();
        match open(copy.path()).await {
            Ok(store) => assert!(store.revision() <= whole_before.0.revision),
            Err(error) => assert!(!matches!(error, StoreError::Closed), "the writer panicked"),
        }
    }
}

#[tokio::test]
async fn a_place_that_cannot_be_is_refused_in_one_sentence() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("file");
    fs::write(&file, "").unwrap();
    for path in [file.clone(), file.join("below")] {
        let error = refusal(&path).await;
        assert!(matches!(error, StoreError::Io { .. }), "{error:?}");
        assert!(error.to_string().starts_with("cannot "), "{error}");
    }
}

#[rstest]
#[case(io::ErrorKind::StorageFull, "no space left on device")]
#[case(io::ErrorKind::ReadOnlyFilesystem, "is not writable")]
#[case(io::ErrorKind::PermissionDenied, "is not writable")]
#[case(io::ErrorKind::Other, "cannot open")]
fn errors_of_the_system_say_what_to_do(#[case] kind: io::ErrorKind, #[case] expected: &str) {
    let error = StoreError::io("open", Path::new("data"), kind.into());
    assert!(error.to_string().contains(expected), "{error}");
}

#[tokio::test]
async fn only_the_owner_can_read_what_is_stored() {
    use std::os::unix::fs::PermissionsExt;
    let parent = tempfile::tempdir().unwrap();
    let dir = parent.path().join("data");
    let store = at(&dir).await;
    put(&store, "/secrets/a/x", 0).await;
    assert_eq!(fs::metadata(&dir).unwrap().permissions().mode() & 0o777, 0o700);
    for file in fs::read_dir(&dir).unwrap() {
        let file = file.unwrap();
        assert_eq!(file.metadata().unwrap().permissions().mode() & 0o077, 0, "{:?}", file.file_name());
    }
}

#[tokio::test]
async fn dropping_the_last_handle_frees_the_directory_at_once() {
    let dir = tempfile::tempdir().unwrap();
    for round in 0..20 {
        let store = at(dir.path()).await;
        assert_eq!(store.revision(), 1 + round);
        let other = store.clone();
        drop(store);
        let write = tokio::spawn(async move { put(&other, "/pods/a/x", round).await });
        tokio::time::timeout(Duration::from_mins(2), write).await.unwrap().unwrap();
    }
}
