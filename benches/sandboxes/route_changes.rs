//! One change of the routes after another, each timed until every router answers by the new table.

use std::{
    collections::HashMap,
    time::{Duration, Instant},
};

use anyhow::Context;
use serde_json::{Value, json};

use crate::{
    harness::{SERVICES, SandboxHarness},
    test_namespace::fork_spec,
    timeline::Milestone,
};

/// What changes the routes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum RouteChange {
    Routed,
    Endpoints,
    GroupMade,
    GroupDeleted,
    SandboxDeleted,
}

impl RouteChange {
    pub(crate) const ALL: [Self; 5] =
        [Self::Routed, Self::Endpoints, Self::GroupMade, Self::GroupDeleted, Self::SandboxDeleted];

    pub(crate) const fn label(self) -> &'static str {
        match self {
            Self::Routed => "a sandbox gets its fork",
            Self::Endpoints => "the fork has its first pod",
            Self::GroupMade => "a route group is made",
            Self::GroupDeleted => "a route group is deleted",
            Self::SandboxDeleted => "a sandbox is deleted",
        }
    }
}

/// What was measured.
#[derive(Default)]
pub(crate) struct ChangeTimes {
    times: HashMap<RouteChange, Vec<Duration>>,
    /// From the answer to a create until the Sandbox is ready, without the start of its pod.
    pub(crate) ready: Vec<Duration>,
}

impl ChangeTimes {
    pub(crate) fn times_of(&self, kind: RouteChange) -> &[Duration] {
        self.times.get(&kind).map(Vec::as_slice).unwrap_or_default()
    }

    pub(crate) fn all(&self) -> Vec<Duration> {
        self.times.values().flatten().copied().collect()
    }

    fn record(&mut self, kind: RouteChange, from: Instant, to: Instant) {
        self.times.entry(kind).or_default().push(to.saturating_duration_since(from));
    }

    /// A Sandbox comes, a group finds it, the group goes, and the Sandbox too.
    pub(crate) async fn measure(&mut self, town: &SandboxHarness, round: usize) -> anyhow::Result<()> {
        let name = format!("round-{round}");
        let (service, fork) = (SERVICES[round % SERVICES.len()], format!("fork/shop/{name}"));
        let it = BenchRound { harness: town, name: &name, service, fork: &fork };
        self.measure_sandbox(&it).await?;
        self.measure_group(&it).await?;
        town.namespace.delete("Sandbox", &name).await;
        let asked = Instant::now();
        self.record(
            RouteChange::SandboxDeleted,
            asked,
            it.wait_on_all_routers(&it.key(), is_baseline).await?,
        );
        town.namespace.wait_until_deleted("Sandbox", &name).await;
        // The request log is not used here.
        town.operator.kube.request_log().clear();
        Ok(())
    }

    /// Makes a Sandbox, and waits until it is ready.
    async fn measure_sandbox(&mut self, it: &BenchRound<'_>) -> anyhow::Result<()> {
        let (shop, diary, name) = (&it.harness.namespace, &it.harness.timeline, it.name);
        let mut spec = fork_spec(it.service, &json!({"images": [{"image": format!("repo/fork:{name}")}]}));
        spec["routingKey"] = json!(it.key());
        let meta = json!({"name": name, "labels": {"round": name}});
        shop.create_object("Sandbox", json!({"metadata": meta, "spec": spec})).await?;
        let asked = Instant::now();
        let routed = diary.time_of(Milestone::Routed, name).await?;
        self.record(
            RouteChange::Routed,
            routed,
            it.wait_on_all_routers(&it.key(), |answer| it.is_routed_to_fork(answer)).await?,
        );
        let found = shop.get("Sandbox", name).await.context("it is gone")?;
        let to = found["status"]["forks"][0]["services"][0]["to"].as_str().context("no Service")?;
        let endpoints = diary.time_of(Milestone::Endpoints, to).await?;
        let sent = it
            .wait_on_all_routers(&it.key(), |answer| it.is_routed_to_fork(answer) && answer["to"].is_array())
            .await?;
        // Pods can be ready before the operator has said whose they are.
        self.record(RouteChange::Endpoints, endpoints.max(routed), sent);
        let ready = diary.time_of(Milestone::Ready, name).await?;
        let (made, started) =
            (diary.time_of(Milestone::PodMade, name).await?, diary.time_of(Milestone::PodReady, name).await?);
        let pod = started.saturating_duration_since(made);
        self.ready.push(ready.saturating_duration_since(asked).saturating_sub(pod));
        Ok(())
    }

    /// Makes a group and deletes it.
    async fn measure_group(&mut self, it: &BenchRound<'_>) -> anyhow::Result<()> {
        let (shop, name, key) = (&it.harness.namespace, it.name, format!("group-{}", it.name));
        let spec = json!({"match": {"label": {"key": "round", "value": name}}, "routingKey": key});
        shop.create_object("RouteGroup", json!({"metadata": {"name": name}, "spec": spec})).await?;
        let asked = Instant::now();
        self.record(
            RouteChange::GroupMade,
            asked,
            it.wait_on_all_routers(&key, |answer| it.is_routed_to_fork(answer)).await?,
        );
        shop.delete("RouteGroup", name).await;
        let asked = Instant::now();
        self.record(RouteChange::GroupDeleted, asked, it.wait_on_all_routers(&key, is_baseline).await?);
        Ok(())
    }
}

/// A Sandbox of its own for each round.
struct BenchRound<'a> {
    harness: &'a SandboxHarness,
    name: &'a str,
    service: &'a str,
    /// What a router calls its fork.
    fork: &'a str,
}

impl BenchRound<'_> {
    fn key(&self) -> String {
        format!("key-{}", self.name)
    }

    fn is_routed_to_fork(&self, answer: &Value) -> bool {
        answer["route"] == self.fork
    }

    /// When every router answers a request with a key like this.
    async fn wait_on_all_routers(&self, key: &str, is: impl Fn(&Value) -> bool) -> anyhow::Result<Instant> {
        self.harness.wait_on_all_routers(self.service, key, is).await
    }
}

fn is_baseline(answer: &Value) -> bool {
    answer["route"] == "baseline"
}
