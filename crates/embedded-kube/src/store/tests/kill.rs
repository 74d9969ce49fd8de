//! A writer that is killed at any instant has lost no write that it was told of.
//!
//! The writer is this test binary, started again; it prints each answer, and is killed while it does.

use std::{
    collections::{BTreeMap, HashMap},
    io::{BufRead, BufReader, Write as _},
    process::{Command, Stdio},
    sync::mpsc,
    time::Duration,
};

use futures::{FutureExt, StreamExt};

use super::{past::Random, *};

const DIR: &str = "EMBEDDED_KUBE_KILL_DIR";
const HISTORY: &str = "EMBEDDED_KUBE_KILL_HISTORY";

#[test]
#[ignore = "is the process that the test below kills"]
#[expect(clippy::disallowed_methods, reason = "the other test says by the environment where to write")]
fn child() {
    let Ok(dir) = std::env::var(DIR) else { return };
    let history = std::env::var(HISTORY).unwrap().parse().unwrap();
    let settings = Settings { history, ..Settings::default() };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let store = Store::open(Place::Dir(dir.into()), settings).await.unwrap();
        let seed = store.revision() * 10;
        futures::future::join_all((0..6).map(|task| tokio::spawn(write_for_ever(store.clone(), seed, task))))
            .await;
    });
}

/// Every task has its own keys, so the last line about a key is about its last acknowledged write.
async fn write_for_ever(store: Store, seed: u64, task: u64) {
    let mut random = Random(seed + task);
    loop {
        let key = format!("/pods/{task}/{}", random.below(5));
        let deletes = random.below(4) == 0 && store.get(&key).is_some();
        let value = (!deletes).then(|| "v".repeat(random.below(30_000)));
        let size = value.as_ref().map_or(-1, |value| i64::try_from(value.len()).unwrap());
        let written = store.write(&key, Expect::Any, value.and_then(draft)).await.unwrap();
        let mut out = std::io::stdout().lock();
        writeln!(out, "acknowledged {} {key} {size}", written.revision).unwrap();
        out.flush().unwrap();
    }
}

/// What the child was told: by revision, the key and the size of its value, -1 for a delete.
type Told = BTreeMap<u64, (String, i64)>;

/// When a writer is killed.
enum Life {
    /// After so many answers.
    Answers(usize),
    /// After this time, whatever it has done by then: it may not even have opened its store.
    Time(Duration),
}

#[expect(clippy::disallowed_methods, reason = "the writer must be another process, to be killed")]
fn write_and_kill(dir: &Path, history: usize, life: &Life) -> Told {
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
        Life::Time(life) => std::thread::sleep(*life),
        Life::Answers(count) => {
            while heard.iter().filter(|line: &&String| line.starts_with("acknowledged")).count() < *count {
                heard.push(lines.recv_timeout(Duration::from_mins(2)).expect("the writer goes on"));
            }
        }
    }
    child.kill().unwrap();
    child.wait().unwrap();
    let mut told = Told::new();
    for line in heard.into_iter().chain(lines) {
        let words: Vec<_> = line.split(' ').collect();
        // The last line may be cut; the harness prints lines of its own.
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

/// Adds what was stored but not told, at most one write of each task: the next round builds on it.
fn check(store: &Store, told: &mut Told) {
    let mut watch = store.watch("", store.oldest()).unwrap();
    let history: Told = std::iter::from_fn(|| watch.next().now_or_never())
        .map(|item| item.unwrap().unwrap())
        .map(|event| (event.revision, (event.key.to_string(), size(event.now.as_ref()))))
        .collect();
    for (revision, told) in told.range(store.oldest() + 1..) {
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
    let settings = Settings { history, ..Settings::default() };
    let mut random = Random(u64::from(std::process::id()));
    let mut told = Told::new();
    for round in 0..8 {
        let life = match round % 4 {
            3 => Life::Time(Duration::from_millis(30 + random.below(400) as u64)),
            _ => Life::Answers(20 + random.below(200)),
        };
        told.extend(write_and_kill(dir.path(), history, &life));
        let store = runtime.block_on(Store::open(Place::Dir(dir.path().to_owned()), settings)).unwrap();
        assert!(store.revision() >= told.keys().last().copied().unwrap_or(1), "round {round}");
        check(&store, &mut told);
        // Every other time, the next one finds what the kill left rather than what a clean end made of it.
        if round % 2 == 0 {
            runtime.block_on(store.close());
        }
    }
    assert!(told.len() > 100, "only {} writes were acknowledged", told.len());
}
