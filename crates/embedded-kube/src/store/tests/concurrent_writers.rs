//! Eight writers on the same few keys, with concurrent readers and watches: whatever the interleaving, all observations
//! must form one history.

use std::{
    collections::BTreeMap,
    sync::atomic::{AtomicBool, Ordering},
};

use futures::StreamExt;
use tokio::sync::mpsc;

use super::{history::Random, *};

const WRITERS: u64 = 8;
const PREFIXES: [&str; 4] = ["", "/pods/", "/pods/a/", "/secrets/"];

/// An acknowledged write.
#[derive(Debug)]
struct AcknowledgedWrite {
    revision: u64,
    key: String,
    expect: Precondition,
    /// `None` for a delete.
    value: Option<String>,
}

struct WatchRecord {
    prefix: &'static str,
    after: u64,
    events: Vec<StoreEvent>,
}

fn key(random: &mut Random) -> String {
    format!("/{}/{}/{}", ["pods", "secrets"][random.below(2)], ["a", "b"][random.below(2)], random.below(2))
}

/// Writes with preconditions from its own reads; checks the invariants after each reply.
async fn write_some(store: Store, seed: u64, writes: usize) -> Vec<AcknowledgedWrite> {
    let mut random = Random(seed);
    let mut told = Vec::new();
    for number in 0..writes {
        let key = key(&mut random);
        let current = store.get(&key).map(|entry| entry.revision);
        let expect = match (random.below(8), current) {
            (0, _) => Precondition::Any,
            (_, None) => Precondition::Absent,
            (_, Some(revision)) => Precondition::Revision(revision),
        };
        let deletes = random.below(5) == 0 && expect != Precondition::Absent;
        let value = (!deletes).then(|| format!("{seed}-{number}"));
        match store.write(&key, expect, value.clone().and_then(draft)).await {
            Ok(written) => {
                let revision = written.revision;
                assert!(store.revision() >= revision, "an acknowledged write is visible");
                let now = store.get(&key).map(|entry| entry.revision);
                assert!(now.is_none_or(|now| now >= revision), "{key} went back to {now:?} from {revision}");
                told.push(AcknowledgedWrite { revision, key, expect, value });
            }
            Err(WriteError::Conflict(winner)) => {
                let winner = winner.map(|entry| entry.revision);
                assert!(winner <= Some(store.revision()), "whoever lost can read the winner");
                match expect {
                    Precondition::Absent => assert!(winner.is_some()),
                    Precondition::Any => assert!(deletes && winner.is_none()),
                    Precondition::Revision(revision) => {
                        assert_ne!(winner, Some(revision));
                        assert_ne!(store.get(&key).map(|entry| entry.revision), Some(revision));
                    }
                }
            }
            Err(error) => panic!("{error}"),
        }
    }
    told
}

async fn watch_some(store: Store, seed: u64, begun: mpsc::Sender<()>) -> WatchRecord {
    let mut random = Random(seed);
    let prefix = PREFIXES[random.below(4)];
    tokio::time::sleep(std::time::Duration::from_micros(random.below(30_000) as u64)).await;
    let after = random.below(usize::try_from(store.revision()).unwrap() + 3) as u64;
    let watch = store.watch(prefix, after).unwrap();
    drop((store, begun));
    let events = watch.map(|item| item.unwrap()).collect().await;
    WatchRecord { prefix, after, events }
}

/// Lists current and past states during the writes.
async fn list_some(store: Store, seed: u64, stop: Arc<AtomicBool>) -> Vec<(&'static str, Snapshot)> {
    let mut random = Random(seed);
    let mut lists = Vec::new();
    while !stop.load(Ordering::Relaxed) {
        let prefix = PREFIXES[random.below(4)];
        let newest = usize::try_from(store.revision()).unwrap();
        let at = (random.below(2) == 0).then(|| 1 + random.below(newest) as u64);
        let snapshot = store.list(prefix, &ListOptions { revision: at, ..ListOptions::default() }).unwrap();
        assert!(snapshot.revision >= at.unwrap_or(newest as u64));
        lists.push((prefix, snapshot));
        tokio::time::sleep(std::time::Duration::from_micros(200)).await;
    }
    lists
}

fn check_history(history: &[StoreEvent], mut told: Vec<AcknowledgedWrite>) {
    told.sort_by_key(|told| told.revision);
    assert_eq!(history.len(), told.len(), "as many events as acknowledged writes");
    for (number, (event, told)) in history.iter().zip(&told).enumerate() {
        assert_eq!(event.revision, number as u64 + 2, "no gaps");
        assert_eq!((event.revision, &*event.key), (told.revision, told.key.as_str()));
        let value = event.current.as_ref().map(|entry| data(&entry.document).as_str().unwrap().to_owned());
        assert_eq!(value, told.value);
        let before = event.previous.as_ref().map(|entry| entry.revision);
        match told.expect {
            Precondition::Absent => assert_eq!(before, None),
            Precondition::Revision(revision) => assert_eq!(before, Some(revision), "an update was lost"),
            Precondition::Any => {}
        }
    }
}

fn check_lists(history: &[StoreEvent], mut lists: Vec<(&'static str, Snapshot)>) {
    lists.sort_by_key(|(_, snapshot)| snapshot.revision);
    let mut events = history.iter().peekable();
    let mut model = BTreeMap::new();
    for (prefix, snapshot) in lists {
        while let Some(event) = events.next_if(|event| event.revision <= snapshot.revision) {
            match &event.current {
                Some(entry) => drop(model.insert(event.key.clone(), entry.clone())),
                None => drop(model.remove(&event.key)),
            }
        }
        let expected: Vec<_> = model
            .iter()
            .filter(|(key, _)| key.starts_with(prefix))
            .map(|(key, entry)| (key.clone(), entry.clone()))
            .collect();
        assert_eq!(snapshot.entries, expected, "{prefix:?} at {}", snapshot.revision);
    }
}

#[rstest]
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn everybody_is_told_the_same_history(
    #[values(false, true)] on_disk: bool,
    #[values(1, 2, 3, 4)] seed: u64,
) {
    let (_dir, place) = place(on_disk);
    let store = Store::open(place.clone(), HistoryLimits::default()).await.unwrap();
    let stop = Arc::new(AtomicBool::new(false));
    let first = store.watch("", 1).unwrap();
    let history = tokio::spawn(first.map(|item| item.unwrap()).collect::<Vec<_>>());
    let (begun, mut all_begun) = mpsc::channel(1);
    let watch = |number| tokio::spawn(watch_some(store.clone(), seed * 1000 + number, begun.clone()));
    let watches: Vec<_> = (0..16).map(watch).collect();
    drop(begun);
    let lists = tokio::spawn(list_some(store.clone(), seed, stop.clone()));
    let writers: Vec<_> = (0..WRITERS)
        .map(|number| tokio::spawn(write_some(store.clone(), seed * 100 + number, 150)))
        .collect();
    let mut told = Vec::new();
    for writer in writers {
        told.extend(writer.await.unwrap());
    }
    assert!(told.len() > 100);
    stop.store(true, Ordering::Relaxed);
    let lists = lists.await.unwrap();
    assert_eq!(all_begun.recv().await, None, "every watch has begun");
    let last = store.list("", &ListOptions::default()).unwrap();
    store.close().await;

    let history = history.await.unwrap();
    check_history(&history, told);
    check_lists(&history, lists);
    for watch in watches {
        let WatchRecord { prefix, after, events } = watch.await.unwrap();
        let expected: Vec<_> =
            history.iter().filter(|event| event.revision > after && event.key.starts_with(prefix)).collect();
        assert_eq!(events.iter().collect::<Vec<_>>(), expected, "{prefix:?} after {after}");
    }
    if on_disk {
        let store = Store::open(place, HistoryLimits::default()).await.unwrap();
        assert_eq!(store.list("", &ListOptions::default()).unwrap(), last);
        let again = store.watch("", 1).unwrap();
        drop(store);
        assert_eq!(again.map(|item| item.unwrap()).collect::<Vec<_>>().await, history);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_many_increments_none_is_lost() {
    let (_dir, place) = place(true);
    let store = Store::open(place, HistoryLimits { events: 20, ..HistoryLimits::default() }).await.unwrap();
    put(&store, "/pods/a/counter", 0).await;
    let increment = |store: Store| async move {
        loop {
            let entry = store.get("/pods/a/counter").unwrap();
            let next = data(&entry.document).as_u64().unwrap() + 1;
            match store.write("/pods/a/counter", Precondition::Revision(entry.revision), draft(next)).await {
                Ok(_) => return,
                Err(WriteError::Conflict(_)) => {}
                Err(error) => panic!("{error}"),
            }
        }
    };
    let tasks: Vec<_> = (0..WRITERS)
        .map(|_| {
            let store = store.clone();
            tokio::spawn(async move {
                for _ in 0..100 {
                    increment(store.clone()).await;
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    assert_eq!(data(&store.get("/pods/a/counter").unwrap().document), WRITERS * 100);
    assert_eq!(store.revision(), 2 + WRITERS * 100);
}
