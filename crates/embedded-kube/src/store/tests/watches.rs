//! Watches.

use std::time::Duration;

use futures::{FutureExt, StreamExt};

use super::*;

fn next(watch: &mut Watch) -> Option<Result<StoreEvent, Expired>> {
    watch.next().now_or_never().map(|item| item.expect("the watch goes on"))
}

fn revisions(watch: &mut Watch) -> Vec<u64> {
    std::iter::from_fn(|| next(watch)).map(|item| item.unwrap().revision).collect()
}

#[tokio::test]
async fn a_watch_tells_the_past_after_its_revision_and_then_the_present() {
    let store = memory().await;
    put(&store, "/pods/a/x", "one").await;
    put(&store, "/pods/a/x", "two").await;
    remove(&store, "/pods/a/x").await;
    let mut watch = store.watch("/pods/", 2).unwrap();
    let event = next(&mut watch).unwrap().unwrap();
    assert_eq!((event.revision, &*event.key), (3, "/pods/a/x"));
    assert_eq!(event.previous.unwrap().revision, 2);
    assert_eq!(data(&event.current.unwrap().document), "two");
    assert_eq!(event.deleted, None);
    let event = next(&mut watch).unwrap().unwrap();
    assert_eq!((event.revision, event.current), (4, None));
    assert_eq!(data(&event.previous.unwrap().document), "two");
    assert_eq!(version(&event.deleted.unwrap()), "4");
    assert_eq!(next(&mut watch), None);
    put(&store, "/pods/a/y", "new").await;
    let event = next(&mut watch).unwrap().unwrap();
    assert_eq!((event.revision, event.previous), (5, None));
}

#[tokio::test]
async fn a_watch_hears_of_its_prefix_alone() {
    let store = memory().await;
    let mut all = store.watch("", 0).unwrap();
    let mut pods = store.watch("/pods/", 1).unwrap();
    let mut namespace = store.watch("/pods/a/", 1).unwrap();
    let mut one = store.watch("/pods/a/x", 1).unwrap();
    for key in ["/pods/a/x", "/pods/a/y", "/pods/b/x", "/secrets/a/x", "apps/pods/a/x"] {
        put(&store, key, 0).await;
    }
    assert_eq!(revisions(&mut all), [2, 3, 4, 5, 6]);
    assert_eq!(revisions(&mut pods), [2, 3, 4]);
    assert_eq!(revisions(&mut namespace), [2, 3]);
    assert_eq!(revisions(&mut one), [2]);
}

#[tokio::test]
async fn a_watch_from_a_revision_to_come_waits_for_the_one_after_it() {
    let store = memory().await;
    let mut watch = store.watch("/pods/", 3).unwrap();
    put(&store, "/pods/a/x", 2).await;
    assert_eq!(revisions(&mut watch), Vec::<u64>::new());
    put(&store, "/pods/a/x", 3).await;
    put(&store, "/pods/a/x", 4).await;
    assert_eq!(revisions(&mut watch), [4]);
}

#[tokio::test]
async fn progress_is_what_a_bookmark_may_promise() {
    let store = memory().await;
    let mut watch = store.watch("/pods/", 1).unwrap();
    assert_eq!(watch.progress(), 1);
    put(&store, "/secrets/a/x", 0).await;
    assert_eq!(watch.progress(), 2, "nothing of ours up to here");
    put(&store, "/pods/a/x", 0).await;
    put(&store, "/secrets/a/x", 0).await;
    put(&store, "/pods/a/x", 0).await;
    put(&store, "/secrets/a/x", 0).await;
    assert_eq!(watch.progress(), 2, "3 is ours and not yet told");
    assert_eq!(next(&mut watch).unwrap().unwrap().revision, 3);
    assert_eq!(watch.progress(), 4);
    assert_eq!(next(&mut watch).unwrap().unwrap().revision, 5);
    assert_eq!(watch.progress(), 6);
}

#[tokio::test]
async fn a_slow_watch_expires_and_ends_while_a_quiet_one_goes_on() {
    let settings = HistoryLimits { events: 10, ..HistoryLimits::default() };
    let store = Store::open(StoreLocation::Memory, settings).await.unwrap();
    let mut slow = store.watch("/pods/", 1).unwrap();
    let mut quiet = store.watch("/secrets/", 1).unwrap();
    for number in 0..11 {
        put(&store, "/pods/a/x", number).await;
    }
    assert_eq!(slow.next().await, Some(Err(Expired { oldest: 2 })));
    assert_eq!(slow.next().await, None);
    put(&store, "/secrets/a/x", 0).await;
    assert_eq!(revisions(&mut quiet), [13]);
    assert_eq!(store.watch("/pods/", 2).unwrap_err(), Expired { oldest: 3 });
    assert_eq!(revisions(&mut store.watch("/pods/", 3).unwrap()), (4..13).collect::<Vec<_>>());
}

#[tokio::test]
async fn a_watch_that_is_far_behind_gets_everything_in_portions() {
    let store = memory().await;
    let mut watch = store.watch("/pods/", 1).unwrap();
    for number in 0..300 {
        put(&store, "/pods/a/x", number).await;
        put(&store, "/secrets/a/x", number).await;
    }
    assert_eq!(revisions(&mut watch), (2..602).step_by(2).collect::<Vec<_>>());
}

#[tokio::test]
async fn expired_history_ends_watches_that_are_behind_and_no_others() {
    let store = memory().await;
    let mut behind = store.watch("/pods/", 1).unwrap();
    let mut current = store.watch("/pods/", 1).unwrap();
    put(&store, "/pods/a/x", 0).await;
    assert_eq!(revisions(&mut current), [2]);
    store.expire_history();
    assert_eq!(next(&mut behind), Some(Err(Expired { oldest: 2 })));
    assert_eq!(store.watch("/pods/", 1).unwrap_err(), Expired { oldest: 2 });
    put(&store, "/pods/a/x", 0).await;
    assert_eq!(revisions(&mut current), [3]);
    assert_eq!(store.oldest_revision(), 2);
}

#[tokio::test]
async fn a_dropped_watch_leaves_nothing_behind() {
    let store = memory().await;
    let watches: Vec<_> = (0..20).map(|_| store.watch("/pods/", 1).unwrap()).collect();
    assert_eq!(store.0.shared.view.read().watchers.len(), 20);
    drop(watches);
    assert_eq!(store.0.shared.view.read().watchers.len(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hundreds_of_watches_are_told_at_once() {
    let store = memory().await;
    let tasks: Vec<_> = (0..400)
        .map(|number| {
            let prefix = if number % 2 == 0 { "/pods/".to_owned() } else { format!("/pods/{number}/") };
            let watch = store.watch(&prefix, 1).unwrap();
            tokio::spawn(
                watch
                    .take(if number % 2 == 0 { 400 } else { 1 })
                    .map(|item| item.unwrap().revision)
                    .collect::<Vec<_>>(),
            )
        })
        .collect();
    for number in 0..400 {
        put(&store, &format!("/pods/{number}/x"), 0).await;
    }
    for (number, task) in tasks.into_iter().enumerate() {
        let told = tokio::time::timeout(Duration::from_mins(2), task).await.unwrap().unwrap();
        let expected = if number % 2 == 0 { (2..402).collect() } else { vec![number as u64 + 2] };
        assert_eq!(told, expected);
    }
}
