//! Lists at past revisions, and the limits of the history.

use std::collections::BTreeMap;

use super::*;

fn at_revision(at: u64) -> ListOptions {
    ListOptions { revision: Some(at), ..ListOptions::default() }
}

#[tokio::test]
async fn a_list_at_an_older_revision_shows_what_was_there() {
    let store = memory().await;
    put(&store, "/pods/a/changed", "old").await;
    put(&store, "/pods/a/deleted", "old").await;
    put(&store, "/pods/a/same", "old").await;
    put(&store, "/pods/a/changed", "new").await;
    remove(&store, "/pods/a/deleted").await;
    put(&store, "/pods/a/added", "new").await;
    put(&store, "/pods/a/changed", "newer").await;
    let then = store.list("/pods/", &at_revision(4)).unwrap();
    assert_eq!(then.revision, 4);
    assert_eq!(keys(&then), ["/pods/a/changed", "/pods/a/deleted", "/pods/a/same"]);
    assert!(then.entries.iter().all(|(_, entry)| data(&entry.document) == "old"));
    assert_eq!(keys(&store.list("/pods/", &at_revision(1)).unwrap()), Vec::<&str>::new());
    assert_eq!(
        store.list("/pods/", &at_revision(99)).unwrap(),
        store.list("/pods/", &ListOptions::default()).unwrap()
    );
}

#[tokio::test]
async fn pages_of_one_revision_fit_together_while_others_write() {
    let store = memory().await;
    for number in 0..50 {
        put(&store, &format!("/pods/a/{number:03}"), "old").await;
    }
    let at = store.revision();
    let mut seen = Vec::new();
    let mut after = None;
    loop {
        let page = ListOptions { after: after.clone(), limit: Some(7), revision: Some(at) };
        let snapshot = store.list("/pods/", &page).unwrap();
        assert_eq!(snapshot.remaining + (seen.len() + snapshot.entries.len()) as u64, 50);
        for (key, entry) in &snapshot.entries {
            assert_eq!(data(&entry.document), "old");
            seen.push(key.clone());
        }
        after = seen.last().map(ToString::to_string);
        put(&store, &format!("/pods/a/{:03}", seen.len()), "new").await;
        put(&store, &format!("/pods/a/{:03}x", seen.len()), "new").await;
        if !snapshot.has_more {
            break;
        }
        remove(&store, &format!("/pods/a/{:03}", 49 - seen.len() / 7)).await;
    }
    let expected: Vec<_> = (0..50).map(|number| format!("/pods/a/{number:03}")).collect();
    assert_eq!(seen.iter().map(ToString::to_string).collect::<Vec<_>>(), expected);
}

/// A reference model: after random writes, every available revision lists what the model had then.
#[tokio::test]
async fn every_revision_in_the_window_can_be_listed() {
    let settings = HistoryLimits { events: 100, ..HistoryLimits::default() };
    let store = Store::open(StoreLocation::Memory, settings).await.unwrap();
    let mut model = BTreeMap::new();
    let mut states = BTreeMap::from([(1, model.clone())]);
    let mut random = Random(7);
    for _ in 0..400 {
        let key = format!("/{}/a/{}", ["pods", "secrets"][random.below(2)], random.below(12));
        if random.below(3) == 0 && model.contains_key(&key) {
            remove(&store, &key).await;
            model.remove(&key);
        } else {
            let revision = put(&store, &key, 0).await;
            model.insert(key, revision);
        }
        states.insert(store.revision(), model.clone());
    }
    assert_eq!(store.oldest_revision(), store.revision() - 100);
    for (revision, state) in states {
        let listed = store.list("/pods/", &at_revision(revision));
        if revision < store.oldest_revision() {
            assert_eq!(listed, Err(Expired { oldest: store.oldest_revision() }));
            continue;
        }
        let listed: Vec<_> = listed
            .unwrap()
            .entries
            .into_iter()
            .map(|(key, entry)| (key.to_string(), entry.revision))
            .collect();
        let expected: Vec<_> = state.into_iter().filter(|(key, _)| key.starts_with("/pods/")).collect();
        assert_eq!(listed, expected, "at {revision}");
    }
}

#[tokio::test]
async fn large_values_shorten_the_history() {
    let settings = HistoryLimits { bytes: 100_000, ..HistoryLimits::default() };
    let store = Store::open(StoreLocation::Memory, settings).await.unwrap();
    for _ in 0..100 {
        put(&store, "/pods/a/x", "v".repeat(10_000)).await;
    }
    let kept = store.revision() - store.oldest_revision();
    assert!((5..10).contains(&kept), "{kept} events are kept");
}

/// A small reproducible generator.
pub struct Random(pub u64);

impl Random {
    pub fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % bound
    }
}
