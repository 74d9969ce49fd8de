//! Figures, on request: `cargo test -p embedded-kube --lib store::tests::bench -- --ignored --nocapture`.

use std::time::{Duration, Instant};

use futures::StreamExt;

use super::*;

fn micros(since: Instant) -> u64 {
    u64::try_from(since.elapsed().as_micros()).unwrap()
}

async fn creates(store: &Store, clients: usize, total: usize) -> (f64, Vec<Duration>) {
    let begin = Instant::now();
    let tasks: Vec<_> = (0..clients)
        .map(|client| {
            let store = store.clone();
            tokio::spawn(async move {
                let mut times = Vec::new();
                for number in 0..total / clients {
                    let key = format!("/configmaps/{clients}-{client}/{number}");
                    let begin = Instant::now();
                    store.write(&key, Precondition::Absent, draft("v".repeat(1000))).await.unwrap();
                    times.push(begin.elapsed());
                }
                times
            })
        })
        .collect();
    let mut times = Vec::new();
    for task in tasks {
        times.extend(task.await.unwrap());
    }
    times.sort();
    (f64::from(u32::try_from(total).unwrap()) / begin.elapsed().as_secs_f64(), times)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "prints figures"]
async fn figures() {
    let dir = tempfile::tempdir_in(".").unwrap();
    let store = at(dir.path()).await;
    for (clients, total) in [(1, 2000), (8, 10_000), (64, 20_000)] {
        let (rate, times) = creates(&store, clients, total).await;
        let (half, most) = (times[times.len() / 2], times[times.len() * 99 / 100]);
        println!("{clients:>3} clients: {rate:>8.0} creates/s, p50 {half:?}, p99 {most:?}");
    }
    let begin = Instant::now();
    let listed = store.list("/configmaps/", &ListOptions::default()).unwrap().entries.len();
    println!("list of {listed}: {:?}", begin.elapsed());

    let watches: Vec<_> = (0..200).map(|_| store.watch("/lease/", store.revision()).unwrap()).collect();
    let (begin, load) = (
        Instant::now(),
        tokio::spawn({
            let store = store.clone();
            async move { creates(&store, 9, 9000).await.0 }
        }),
    );
    let tasks: Vec<_> = watches
        .into_iter()
        .map(|watch| {
            tokio::spawn(
                watch
                    .take(200)
                    .map(move |item| {
                        let sent = data(&item.unwrap().current.unwrap().document).as_u64().unwrap();
                        micros(begin) - sent
                    })
                    .collect::<Vec<_>>(),
            )
        })
        .collect();
    for _ in 0..200 {
        // Measured from before the write, so the figure includes the write itself.
        put(&store, "/lease/a/x", micros(begin)).await;
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    let mut delays = Vec::new();
    for task in tasks {
        delays.extend(task.await.unwrap());
    }
    delays.sort_unstable();
    println!(
        "write to delivery, 200 watches under load: p50 {} µs, p99 {} µs; load ran at {:.0} creates/s",
        delays[delays.len() / 2],
        delays[delays.len() * 99 / 100],
        load.await.unwrap()
    );
    let size = std::fs::metadata(dir.path().join("store.sqlite")).unwrap().len();
    let begin = Instant::now();
    drop(store);
    println!("close: {:?}", begin.elapsed());
    let begin = Instant::now();
    let store = at(dir.path()).await;
    println!(
        "open with {} objects ({} KiB): {:?}",
        store.list("", &ListOptions::default()).unwrap().entries.len(),
        size >> 10,
        begin.elapsed()
    );
}
