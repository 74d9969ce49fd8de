//! Eight concurrent writers on the same objects with every kind of write, and watches beside them.
//!
//! Every acknowledged write is in the final state, no update is lost, and every watch sees exactly the history: each
//! state once, in order, from any starting revision.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test that cannot go on stops, and says where"
)]

use std::collections::BTreeMap;

use embedded_kube::cluster::EmbeddedKube;
use futures::{StreamExt as _, TryStreamExt as _};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Api, Client, ResourceExt as _,
    api::{Patch, PatchParams, PostParams, WatchEvent, WatchParams},
};
use serde_json::json;

const WRITERS: usize = 8;
const OBJECTS: usize = 3;
const ROUNDS: usize = 30;

fn api(client: &Client) -> Api<ConfigMap> {
    Api::namespaced(client.clone(), "default")
}

fn count(map: &ConfigMap, key: &str) -> usize {
    map.data.as_ref().and_then(|data| data.get(key)).map_or(0, |text| text.parse().unwrap())
}

fn is_conflict(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.is_conflict())
}

/// Increments the shared counter by read-modify-write until there is no conflict.
async fn increment(maps: &Api<ConfigMap>, name: &str, writer: usize) {
    loop {
        let mut map = maps.get(name).await.unwrap();
        let next = count(&map, "shared") + 1;
        let written = if writer.is_multiple_of(2) {
            map.data.get_or_insert_default().insert("shared".into(), next.to_string());
            maps.replace(name, &PostParams::default(), &map).await
        } else {
            let version = map.resource_version().unwrap();
            let patch =
                json!({"metadata": {"resourceVersion": version}, "data": {"shared": next.to_string()}});
            maps.patch(name, &PatchParams::default(), &Patch::Merge(&patch)).await
        };
        match written {
            Ok(_) => return,
            Err(error) => assert!(is_conflict(&error), "{error}"),
        }
    }
}

/// Sets a field of this writer by a patch without a resourceVersion, which never conflicts.
async fn sign(maps: &Api<ConfigMap>, name: &str, writer: usize, round: usize) {
    let key = format!("writer-{writer}");
    let value = round.to_string();
    if writer.is_multiple_of(3) {
        let config = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {&key: value}});
        maps.patch(name, &PatchParams::apply(&key), &Patch::Apply(&config)).await.unwrap();
    } else if writer.is_multiple_of(2) {
        maps.patch(name, &PatchParams::default(), &Patch::Merge(&json!({"data": {&key: value}})))
            .await
            .unwrap();
    } else {
        maps.patch(name, &PatchParams::default(), &Patch::Strategic(&json!({"data": {&key: value}})))
            .await
            .unwrap();
    }
}

async fn write(client: Client, writer: usize) {
    let maps = api(&client);
    for round in 1..=ROUNDS {
        let name = format!("map-{}", (writer + round) % OBJECTS);
        sign(&maps, &name, writer, round).await;
        increment(&maps, &name, writer).await;
    }
}

/// All states that a watch from this version delivers, until each counter is complete.
async fn watched(
    client: Client,
    version: String,
    ends: BTreeMap<String, usize>,
) -> Vec<(String, u64, usize)> {
    let maps = api(&client);
    let mut events =
        maps.watch(&WatchParams::default().labels("test=writers"), &version).await.unwrap().boxed();
    let mut seen = Vec::new();
    let mut last: BTreeMap<String, usize> = BTreeMap::new();
    while ends.iter().any(|(name, end)| last.get(name) != Some(end)) {
        match events.try_next().await.unwrap().expect("the watch goes on") {
            WatchEvent::Added(map) | WatchEvent::Modified(map) => {
                last.insert(map.name_any(), count(&map, "shared"));
                let version = map.resource_version().unwrap().parse().unwrap();
                seen.push((map.name_any(), version, count(&map, "shared")));
            }
            other => panic!("unexpected {other:?}"),
        }
    }
    seen
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_update_is_lost_and_watches_tell_the_history() {
    let kube = EmbeddedKube::builder().in_memory().start().await.unwrap();
    let maps = api(&kube.client());
    let mut first = String::new();
    for number in 0..OBJECTS {
        let object = json!({"metadata": {"name": format!("map-{number}"), "labels": {"test": "writers"}}});
        let made =
            maps.create(&PostParams::default(), &serde_json::from_value(object).unwrap()).await.unwrap();
        first = made.resource_version().unwrap();
    }
    let ends: BTreeMap<String, usize> = (0..OBJECTS)
        .map(|number| {
            let writes = |writer| (1..=ROUNDS).filter(|round| (writer + round) % OBJECTS == number).count();
            (format!("map-{number}"), (0..WRITERS).map(writes).sum())
        })
        .collect();
    let live = tokio::spawn(watched(kube.client(), first.clone(), ends.clone()));
    let writers: Vec<_> = (0..WRITERS).map(|writer| tokio::spawn(write(kube.client(), writer))).collect();
    for writer in writers {
        writer.await.unwrap();
    }

    for (name, end) in &ends {
        assert_eq!(count(&maps.get(name).await.unwrap(), "shared"), *end, "increments of {name} were lost");
    }
    let live = live.await.unwrap();
    let replayed = watched(kube.client(), first, ends.clone()).await;
    let shortest = live.len().min(replayed.len());
    assert_eq!(live[..shortest], replayed[..shortest], "a watch that looks back tells what a live one told");
    assert!(live.windows(2).all(|pair| pair[0].1 < pair[1].1), "events are in order, each once");
    let middle = live[live.len() / 2].1;
    let later = watched(kube.client(), middle.to_string(), ends).await;
    assert_eq!(later.first(), live.get(live.len() / 2 + 1), "a watch begins right after its revision");
    for pair in live.iter().filter(|(name, ..)| name == "map-0").collect::<Vec<_>>().windows(2) {
        assert!(pair[1].2 == pair[0].2 || pair[1].2 == pair[0].2 + 1, "a counter jumped: {pair:?}");
    }
    kube.stop().await;
}
