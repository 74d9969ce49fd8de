//! A kube-rs controller with watches, finalizers and leader election under injected faults.
//!
//! Two replicas compete for a lease; the leader keeps a child for every parent and cleans up behind a finalizer.
//! Meanwhile parents are created and deleted, calls fail, hang or are dropped before or after they took effect, watches
//! break and history expires. When the faults end, the state must converge. Six seconds in an ordinary test run,
//! `SOAK_SECONDS=120` in CI.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stderr,
    reason = "a test that cannot go on stops, and says where"
)]

mod controller;
mod lease;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use embedded_kube::{
    cluster::EmbeddedKube,
    fault_injection::{ApiCall, Effect, Fault, FaultId},
    request::{User, Verb},
};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Api, Client,
    api::{DeleteParams, ListParams, PostParams},
};
use serde_json::json;
use tokio_util::sync::CancellationToken;

const NAMES: usize = 40;
/// Only bounds a hang.
const PATIENCE: Duration = Duration::from_mins(3);

#[expect(clippy::disallowed_methods, reason = "how long is the caller's choice")]
fn seconds() -> u64 {
    std::env::var("SOAK_SECONDS").ok().and_then(|text| text.parse().ok()).unwrap_or(6)
}

fn admin() -> User {
    User { name: "soak".into(), groups: vec!["system:masters".into()], ..User::default() }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_controller_converges_after_any_trouble() {
    let kube = EmbeddedKube::builder().in_memory().history(2000).start().await.unwrap();
    let cancel = CancellationToken::new();
    let leaders = Arc::new(lease::LeadershipLog::default());
    let replicas: Vec<_> = ["soak-a", "soak-b"]
        .map(|name| {
            let client = kube.client_with_agent(admin(), &format!("{name}/1"));
            tokio::spawn(controller::replica(client, name, Arc::clone(&leaders), cancel.clone()))
        })
        .into();
    let faults = trouble(&kube);
    let acted = || faults.iter().map(|id| kube.faults().trigger_count(*id)).sum::<u64>();
    let writes = churn(&kube, Duration::from_secs(seconds()), acted).await;
    let acted = acted();
    kube.faults().clear();
    settle(&kube.client()).await;
    cancel.cancel();
    for replica in replicas {
        replica.await.unwrap();
    }
    assert!(leaders.terms() > 0, "nobody ever led");
    assert_eq!(leaders.overlaps(), 0, "two replicas led at once");
    eprintln!("soak: {writes} writes, {acted} faults, {} terms", leaders.terms());
    kube.stop().await;
}

/// Injects a fault into roughly one in ten calls of the controllers.
fn trouble(kube: &EmbeddedKube) -> Vec<FaultId> {
    let every = |nth: u64, picks: fn(&ApiCall) -> bool| {
        let count = AtomicU64::new(0);
        move |call: &ApiCall| {
            call.agent.starts_with("soak-")
                && picks(call)
                && count.fetch_add(1, Ordering::Relaxed) % nth == nth - 1
        }
    };
    let faults = kube.faults();
    let all = [
        Fault::fail(every(11, |_| true), 500),
        Fault::fail(every(13, ApiCall::is_write), 409),
        Fault::new(every(17, ApiCall::is_write), Effect::DropAfter),
        Fault::new(every(19, |_| true), Effect::DropBefore),
        Fault::new(every(23, |_| true), Effect::Delay(Duration::from_millis(150))),
        Fault::new(every(2, |call| call.verb == Verb::Watch), Effect::BreakWatchAfter(15)),
    ];
    all.into_iter().map(|fault| faults.add(fault)).collect()
}

/// Creates and deletes parents for this long, and until enough faults have triggered. This client has no faults, so
/// each of its writes must succeed.
async fn churn(kube: &EmbeddedKube, long: Duration, acted: impl Fn() -> u64) -> u64 {
    let parents: Api<ConfigMap> = Api::namespaced(kube.client(), "default");
    let until = Instant::now() + long;
    let mut writes = 0;
    while Instant::now() < until || writes <= 50 || acted() <= 20 {
        assert!(
            Instant::now() < until + PATIENCE,
            "too little happened: {writes} writes, {} faults",
            acted()
        );
        let number = usize::try_from(writes).unwrap() * 7 % NAMES;
        let name = format!("parent-{number}");
        match parents.get_opt(&name).await.unwrap() {
            Some(_) => {
                parents.delete(&name, &DeleteParams::default()).await.map(|_| ()).or_else(gone).unwrap();
            }
            None => {
                let object = json!({"metadata": {"name": name, "labels": {"soak": "parent"}}, "data": {"round": writes.to_string()}});
                parents
                    .create(&PostParams::default(), &serde_json::from_value(object).unwrap())
                    .await
                    .unwrap();
            }
        }
        writes += 1;
        if writes % 90 == 0 {
            kube.faults().break_watches();
        }
        if writes % 200 == 0 {
            kube.faults().expire_history();
        }
        tokio::time::sleep(Duration::from_millis(15)).await;
    }
    writes
}

fn gone(why: kube::Error) -> Result<(), kube::Error> {
    match why {
        kube::Error::Api(status) if status.is_not_found() => Ok(()),
        other => Err(other),
    }
}

/// Every parent has its child, and no child is without its parent.
async fn settle(client: &Client) {
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), "default");
    let deadline = Instant::now() + PATIENCE;
    loop {
        let (parents, children) = seen(&maps).await;
        let wanted: BTreeMap<String, String> = parents.clone();
        let ended = maps.list(&ListParams::default().labels("soak=parent")).await.unwrap();
        let ending = ended.items.iter().any(|map| map.metadata.deletion_timestamp.is_some());
        if wanted == children && !ending {
            return;
        }
        let strange: BTreeSet<_> = wanted.keys().chain(children.keys()).collect();
        assert!(
            Instant::now() < deadline,
            "not settled: {strange:?}\nparents {parents:?}\nchildren {children:?}"
        );
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// Name → uid of the parents, and name of the parent → uid of the owner of the children.
async fn seen(maps: &Api<ConfigMap>) -> (BTreeMap<String, String>, BTreeMap<String, String>) {
    let parents = maps.list(&ListParams::default().labels("soak=parent")).await.unwrap();
    let children = maps.list(&ListParams::default().labels("soak=child")).await.unwrap();
    let parents = parents
        .items
        .into_iter()
        .map(|map| (map.metadata.name.unwrap(), map.metadata.uid.unwrap()))
        .collect();
    let children = children.items.into_iter().map(|map| {
        let owner = map.metadata.owner_references.unwrap().remove(0);
        (owner.name, owner.uid)
    });
    (parents, children.collect())
}
