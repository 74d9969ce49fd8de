//! One change of the routes after another, each timed until every router answers by the new table.

use std::{
    collections::HashMap,
    time::{Duration, Instant},
};

use anyhow::Context;
use serde_json::{Value, json};

use crate::{
    diary::Seen,
    shop::forking,
    town::{SERVICES, Town},
};

/// What changes the routes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Kind {
    Routed,
    Endpoints,
    GroupMade,
    GroupDeleted,
    SandboxDeleted,
}

impl Kind {
    pub(crate) const ALL: [Self; 5] =
        [Self::Routed, Self::Endpoints, Self::GroupMade, Self::GroupDeleted, Self::SandboxDeleted];

    pub(crate) const fn words(self) -> &'static str {
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
pub(crate) struct Changes {
    times: HashMap<Kind, Vec<Duration>>,
    /// From the answer to a create until the Sandbox is ready, without the start of its pod.
    pub(crate) ready: Vec<Duration>,
}

impl Changes {
    pub(crate) fn of(&self, kind: Kind) -> &[Duration] {
        self.times.get(&kind).map(Vec::as_slice).unwrap_or_default()
    }

    pub(crate) fn all(&self) -> Vec<Duration> {
        self.times.values().flatten().copied().collect()
    }

    fn note(&mut self, kind: Kind, from: Instant, to: Instant) {
        self.times.entry(kind).or_default().push(to.saturating_duration_since(from));
    }

    /// A Sandbox comes, a group finds it, the group goes, and the Sandbox too.
    pub(crate) async fn measure(&mut self, town: &Town, round: usize) -> anyhow::Result<()> {
        let name = format!("round-{round}");
        let (service, fork) = (SERVICES[round % SERVICES.len()], format!("fork/shop/{name}"));
        let it = Round { town, name: &name, service, fork: &fork };
        self.sandbox(&it).await?;
        self.group(&it).await?;
        town.shop.delete("Sandbox", &name).await;
        let asked = Instant::now();
        self.note(Kind::SandboxDeleted, asked, it.until(&it.key(), is_baseline).await?);
        town.shop.until_gone("Sandbox", &name).await;
        // Nobody counts the requests here.
        town.fleet.kube.requests().clear();
        Ok(())
    }

    /// Makes a Sandbox, and waits until it is ready.
    async fn sandbox(&mut self, it: &Round<'_>) -> anyhow::Result<()> {
        let (shop, diary, name) = (&it.town.shop, &it.town.diary, it.name);
        let mut spec = forking(it.service, &json!({"images": [{"image": format!("repo/fork:{name}")}]}));
        spec["routingKey"] = json!(it.key());
        let meta = json!({"name": name, "labels": {"round": name}});
        shop.make("Sandbox", json!({"metadata": meta, "spec": spec})).await?;
        let asked = Instant::now();
        let routed = diary.when(Seen::Routed, name).await?;
        self.note(Kind::Routed, routed, it.until(&it.key(), |answer| it.leads(answer)).await?);
        let found = shop.get("Sandbox", name).await.context("it is gone")?;
        let to = found["status"]["forks"][0]["services"][0]["to"].as_str().context("no Service")?;
        let endpoints = diary.when(Seen::Endpoints, to).await?;
        let sent = it.until(&it.key(), |answer| it.leads(answer) && answer["to"].is_array()).await?;
        // Pods can be ready before the operator has said whose they are.
        self.note(Kind::Endpoints, endpoints.max(routed), sent);
        let ready = diary.when(Seen::Ready, name).await?;
        let (made, started) =
            (diary.when(Seen::PodMade, name).await?, diary.when(Seen::PodReady, name).await?);
        let pod = started.saturating_duration_since(made);
        self.ready.push(ready.saturating_duration_since(asked).saturating_sub(pod));
        Ok(())
    }

    /// Makes a group and deletes it.
    async fn group(&mut self, it: &Round<'_>) -> anyhow::Result<()> {
        let (shop, name, key) = (&it.town.shop, it.name, format!("group-{}", it.name));
        let spec = json!({"match": {"label": {"key": "round", "value": name}}, "routingKey": key});
        shop.make("RouteGroup", json!({"metadata": {"name": name}, "spec": spec})).await?;
        let asked = Instant::now();
        self.note(Kind::GroupMade, asked, it.until(&key, |answer| it.leads(answer)).await?);
        shop.delete("RouteGroup", name).await;
        let asked = Instant::now();
        self.note(Kind::GroupDeleted, asked, it.until(&key, is_baseline).await?);
        Ok(())
    }
}

/// A Sandbox of its own for each round.
struct Round<'a> {
    town: &'a Town,
    name: &'a str,
    service: &'a str,
    /// What a router calls its fork.
    fork: &'a str,
}

impl Round<'_> {
    fn key(&self) -> String {
        format!("key-{}", self.name)
    }

    fn leads(&self, answer: &Value) -> bool {
        answer["route"] == self.fork
    }

    /// When every router answers a request with a key like this.
    async fn until(&self, key: &str, is: impl Fn(&Value) -> bool) -> anyhow::Result<Instant> {
        self.town.everywhere(self.service, key, is).await
    }
}

fn is_baseline(answer: &Value) -> bool {
    answer["route"] == "baseline"
}
