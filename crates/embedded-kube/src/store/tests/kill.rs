//! A writer that is killed at any instant loses no acknowledged write.
//!
//! The writer is this test binary, started again; it prints each acknowledgement and is killed meanwhile.

use std::{
    collections::{BTreeMap, HashMap},
    io::{BufRead, BufReader, Write as _},
    process::{Command, Stdio},
    sync::mpsc,
    time::Duration,
};

use futures::{FutureExt, StreamExt};

use super::{history::Random, *};

const DIR: &str = "EMBEDDED_KUBE_KILL_DIR";
const HISTORY: &str = "EMBEDDED_KUBE_KILL_HISTORY";

#[test]
#[ignore = "is the process that the test below kills"]
#[expect(clippy::disallowed_methods, reason = "the parent test passes the directory by environment variable")]
fn child() {
    let Ok(dir) = std::env::var(DIR) else { return };
    let history = std::env::var(HISTORY).unwrap().parse().unwrap();
    let settings = HistoryLimits { events: history, ..HistoryLimits::default() };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let store = Store::open(StoreLocation::Dir(dir.into()), settings).await.unwrap();
        let seed = store.revision() * 10;
        futures::future::join_all((0..6).map(|task| tokio::spawn(write_for_ever(store.clone(), seed, task))))
            .await;
    });
}

/// Every task has its own keys, so the last line about a key is its last acknowledged write.
async fn write_for_ever(store: Store, seed: u64, task: u64) {
    let mut random = Random(seed + task);
    loop {
        let key = format!("/pods/{task}/{}", random.below(5));
        let deletes = random.below(4) == 0 && store.get(&key).is_some();
        let value = (!deletes).then(|| "v".repeat(random.below(30_000)));
        let size = value.as_ref().map_or(-1, |value| i64::try_from(value.len()).unwrap());
        let written = store.write(&key, Precondition::Any, value.and_then(draft)).await.unwrap();
        let mut out = std::io::stdout().lock();
        writeln!(out, "acknowledged {} {key} {size}", written.revision).unwrap();
        out.flush().unwrap();
    }
}

/// Acknowledged writes by revision: the key and the size of its value, -1 for a delete.
type Acknowledged = BTreeMap<u64, (String, i64)>;

/// When a writer is killed.
enum KillAfter {
    /// After this many acknowledgements.
    Answers(usize),
    /// After this time, even if it has not opened its store yet.
    Time(Duration),
}

#[expect(clippy::disallowed_methods, reason = "the writer must be a separate process that can be killed")]
fn write_and_kill(dir: &Path, history: usize, life: &KillAfter) -> Acknowledged {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["store::tests::kill::child", "--exact", "--ignored", "--nocapture"])
        .env(DIR, dir)
        .env(HISTORY, history.to_string())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let output = BufReader::new(child.stdout.take().unwrap());
    let (sender, lines) = mpsc::channel();
    std::thread::spawn(move || output.lines().map_while(Result::ok).try_for_each(|it| sender.send(it)));
    let mut heard = Vec::new();
    match life {
        KillAfter::Time(life) => std::thread::sleep(*life),
        KillAfter::Answers(count) => {
            while heard.iter().filter(|line: &&String| line.starts_with("acknowledged")).count() < *count {
                heard.push(lines.recv_timeout(Duration::from_mins(2)).expect("the writer goes on"));
            }
        }
    }
    child.kill().unwrap();
    child.wait().unwrap();
    let mut told = Acknowledged::new();
    for line in heard.into_iter().chain(lines) {
        let words: Vec<_> = line.split(' ').collect();
        // The last line may be truncated; the test harness prints lines of its own.
        if let ["acknowledged", revision, key, size] = words[..]
            && let Ok(size) = size.parse()
        {
            told.insert(revision.parse().unwrap(), (key.to_owned(), size));
        }
    }
    told
}

fn size(entry: Option<&Entry>) -> i64 {
    entry.map_or(-1, |entry| i64::try_from(data(&entry.document).as_str().unwrap().len()).unwrap())
}

/// Adds writes that were stored but not acknowledged, at most one per task: the next round builds on them.
fn check(store: &Store, told: &mut Acknowledged) {
    let mut watch = store.watch("", store.oldest_revision()).unwrap();
    let history: Acknowledged = std::iter::from_fn(|| watch.next().now_or_never())
        .map(|item| item.unwrap().unwrap())
        .map(|event| (event.revision, (event.key.to_string(), size(event.current.as_ref()))))
        .collect();
    for (revision, told) in told.range(store.oldest_revision() + 1..) {
        assert_eq!(history.get(revision), Some(told), "revision {revision} was acknowledged");
    }
    let last: HashMap<_, _> = told.iter().map(|(revision, (key, size))| (key, (*revision, *size))).collect();
    for (key, (revision, told)) in last {
        let newer = history.iter().any(|(other, (changed, _))| other > &revision && changed == key);
        let now = size(store.get(key).as_ref());
        assert!(newer || now == told, "{key} at {revision} had size {told}, and has {now}");
    }
    told.extend(history);
}

#[rstest]
#[case::with_all_history(10_000)]
#[case::with_compaction(50)]
fn a_kill_loses_no_acknowledged_write(#[case] history: usize) {
    let dir = tempfile::tempdir().unwrap();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let settings = HistoryLimits { events: history, ..HistoryLimits::default() };
    let mut random = Random(u64::from(std::process::id()));
    let mut told = Acknowledged::new();
    for round in 0..8 {
        let life = match round % 4 {
            3 => KillAfter::Time(Duration::from_millis(30 + random.below(400) as u64)),
            _ => KillAfter::Answers(20 + random.below(200)),
        };
        told.extend(write_and_kill(dir.path(), history, &life));
        let store =
            runtime.block_on(Store::open(StoreLocation::Dir(dir.path().to_owned()), settings)).unwrap();
        assert!(store.revision() >= told.keys().last().copied().unwrap_or(1), "round {round}");
        check(&store, &mut told);
        // Every other round starts from the state after a kill rather than after a clean close.
        if round % 2 == 0 {
            runtime.block_on(store.close());
        }
    }
    assert!(told.len() > 100, "only {} writes were acknowledged", told.len());
}
