//! Many clusters at once; then one edit after another; then nothing.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant, SystemTime},
};

use anyhow::{Context, ensure};
use capt::{api::CaptCluster, config::Outer};
use kube::{
    Api,
    api::{Patch, PatchParams},
};
use serde_json::json;

use crate::{
    engine,
    fleet::{Fleet, PARALLEL},
    say,
    table::{Table, Verdict},
};

/// How many edits are timed, each of a cluster of its own: a second one would wait for the run of the first.
const EDITS: usize = 100;

/// How long an apply takes: fifteen minutes at a three hundredth.
const RUN: Duration = Duration::from_secs(3);

/// What the operator calls itself before the API server.
const AGENT: &str = "capt";

/// What was counted while the clusters were made.
#[derive(Default)]
struct Counted {
    most_engines: usize,
    writes: usize,
    /// Writes to each object.
    by_object: BTreeMap<String, usize>,
    /// Everything that was asked, by what it was.
    asked: BTreeMap<String, usize>,
}

impl Counted {
    fn take(&mut self, fleet: &Fleet) -> anyhow::Result<()> {
        self.most_engines = self.most_engines.max(fleet.engines()?);
        let log = fleet.kube.requests();
        for write in log.writes_by(AGENT) {
            self.writes += 1;
            // What is created under a name that the server chooses is an object of its own.
            let new = if write.name.is_empty() { self.writes.to_string() } else { write.name };
            let object = format!("{} {new}", write.resource);
            *self.by_object.entry(object).or_default() += 1;
        }
        for one in log.all().iter().filter(|one| one.agent.starts_with(AGENT)) {
            let what = format!("{:?} {} {}", one.verb, one.resource, one.subresource);
            *self.asked.entry(what).or_default() += 1;
        }
        log.clear();
        Ok(())
    }

    /// What was asked most.
    fn say(&self) {
        let mut asked: Vec<(&String, &usize)> = self.asked.iter().collect();
        asked.sort_by_key(|(_, times)| std::cmp::Reverse(**times));
        for (what, times) in asked.iter().take(12) {
            say(&format!("  {times:>7} {what}"));
        }
    }
}

/// Fills in the rows.
pub(crate) async fn measure(outer: &Outer, table: &mut Table) -> anyhow::Result<()> {
    let clusters = number(outer, "CAPT_BENCH_CLUSTERS", 200)?;
    let quiet = Duration::from_secs(number(outer, "CAPT_BENCH_QUIET", 300)?.try_into()?);
    let mut fleet = Fleet::start(RUN).await?;
    make(&mut fleet, clusters, table).await?;
    busy(&mut fleet, clusters, table).await?;
    edits(&mut fleet, clusters, table).await?;
    nothing(&mut fleet, quiet, table).await
}

async fn make(fleet: &mut Fleet, clusters: usize, table: &mut Table) -> anyhow::Result<()> {
    say(&format!("making {clusters} clusters, {PARALLEL} runs at a time"));
    fleet.ask_for(clusters).await?;
    let (begun, mut counted) = (Instant::now(), Counted::default());
    let mut told = 0;
    fleet
        .until(Duration::from_mins(30), "all clusters are ready", async |fleet| {
            counted.take(fleet)?;
            let ready = fleet.ready().await?;
            if ready >= told + clusters.div_ceil(10) {
                told = ready;
                say(&format!("  {ready} are ready after {} s", begun.elapsed().as_secs()));
            }
            Ok(ready == clusters)
        })
        .await?;
    let took = begun.elapsed().as_secs_f64();
    table.add(
        &format!("{clusters} clusters, {} runs of 3 s: wall", 3 * clusters),
        &format!("{took:.0} s"),
        "",
        Verdict::None,
    );
    let most = counted.most_engines;
    table.add(
        "  terraform processes at once, at most",
        &most.to_string(),
        &format!("{PARALLEL}"),
        Verdict::of(most <= PARALLEL),
    );
    let memory = fleet.peak_memory()?;
    table.add(
        "  memory of the operator, at most",
        &format!("{memory} MB"),
        "200 MB",
        Verdict::of(memory <= 200),
    );
    rates(&counted, took, table);
    counted.say();
    let all = Reconciles::so_far(fleet).await?;
    let text = format!("{:.2} % of {}", all.share(), all.all);
    // Five runs end each second here; the target is for runs of fifteen minutes.
    table.add("  reconciles below 50 ms in this rush", &text, "", Verdict::None);
    Ok(())
}

/// Writes for each object of ours and second.
fn rates(counted: &Counted, took: f64, table: &mut Table) {
    let [writes, objects] =
        [counted.writes, counted.by_object.len()].map(|it| f64::from(u32::try_from(it).unwrap_or(u32::MAX)));
    let mean = writes / objects / took;
    let worst = counted.by_object.iter().max_by_key(|(_, writes)| **writes);
    let worst = worst.map_or_else(String::new, |(name, writes)| {
        format!(", at most {:.3} ({name})", f64::from(u32::try_from(*writes).unwrap_or(u32::MAX)) / took)
    });
    table.add(
        "  writes for each object and second",
        &format!("{mean:.3}{worst}"),
        "0.2",
        Verdict::of(mean <= 0.2),
    );
}

/// How many reconciles there were, and how many of them took less than 50 ms.
#[derive(Debug, Clone, Copy)]
struct Reconciles {
    all: f64,
    short: f64,
}

impl Reconciles {
    async fn so_far(fleet: &Fleet) -> anyhow::Result<Self> {
        let metrics = fleet.metrics().await?;
        let sum = |name: &str, also: &str| -> f64 {
            let of_it = metrics.iter().filter(|(line, _)| line.starts_with(name) && line.contains(also));
            of_it.map(|(_, it)| it).sum()
        };
        Ok(Self {
            all: sum("reconcile_duration_seconds_count", ""),
            short: sum("reconcile_duration_seconds_bucket", "le=\"0.05\""),
        })
    }

    fn since(self, then: Self) -> Self {
        Self { all: self.all - then.all, short: self.short - then.short }
    }

    fn share(self) -> f64 {
        100.0 * self.short / self.all
    }
}

/// How long reconciles take while as many runs are active as may be, for a minute each, and somebody touches all objects.
async fn busy(fleet: &mut Fleet, clusters: usize, table: &mut Table) -> anyhow::Result<()> {
    let runs = PARALLEL.min(clusters);
    say(&format!("{runs} runs of a minute"));
    fleet.take(Duration::from_mins(1))?;
    let api: Api<CaptCluster> = Api::namespaced(fleet.kube.client(), "default");
    for number in 0..runs {
        let tag = json!({"spec": {"vpcConfig": {"tags": {"busy": number.to_string()}}}});
        api.patch(&format!("c{number:03}"), &PatchParams::default(), &Patch::Merge(&tag)).await?;
    }
    fleet
        .until(Duration::from_mins(1), "all runs are active", async |fleet| Ok(fleet.engines()? == runs))
        .await?;
    // The plans are done with; what is left are applies that speak now and then.
    tokio::time::sleep(Duration::from_secs(5)).await;
    let before = Reconciles::so_far(fleet).await?;
    for number in 0..clusters {
        let touch = json!({"metadata": {"annotations": {"example.com/touched": number.to_string()}}});
        api.patch(&format!("c{number:03}"), &PatchParams::default(), &Patch::Merge(&touch)).await?;
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let active = fleet.engines()?;
    ensure!(active == runs, "{active} runs are active and not {runs}: the figure would say nothing");
    let seen = Reconciles::so_far(fleet).await?.since(before);
    table.add(
        &format!("reconciles below 50 ms while {runs} runs are active"),
        &format!("{:.2} % of {}", seen.share(), seen.all),
        "99 %",
        Verdict::of(seen.share() >= 99.0),
    );
    fleet.take(RUN)?;
    fleet
        .until(Duration::from_mins(3), "the runs have ended", async |fleet| Ok(fleet.engines()? == 0))
        .await?;
    Ok(())
}

/// From an edit to the first word of terraform.
#[expect(clippy::disallowed_methods, reason = "the stand-in's diary has the time of the clock")]
async fn edits(fleet: &mut Fleet, clusters: usize, table: &mut Table) -> anyhow::Result<()> {
    let count = EDITS.min(clusters);
    say(&format!("{count} edits"));
    let api: Api<CaptCluster> = Api::namespaced(fleet.kube.client(), "default");
    let mut times = Vec::with_capacity(count);
    for edit in 0..count {
        let name = format!("c{edit:03}");
        let at = SystemTime::now();
        let tag = json!({"spec": {"vpcConfig": {"tags": {"edit": edit.to_string()}}}});
        api.patch(&name, &PatchParams::default(), &Patch::Merge(&tag)).await?;
        let world = fleet.world.clone();
        let mut started = None;
        fleet
            .until(Duration::from_mins(1), "terraform starts", async |_| {
                let diary = engine::diary(&world)?;
                let mine =
                    diary.iter().filter(|(workspace, _, then)| workspace.starts_with(&name) && *then >= at);
                started = mine.map(|(_, _, then)| *then).min();
                Ok(started.is_some())
            })
            .await?;
        times.push(started.context("it started")?.duration_since(at)?);
    }
    times.sort();
    let (p50, p99) = (times[count / 2], times[count * 99 / 100]);
    let text = format!("p50 {} ms, p99 {} ms", p50.as_millis(), p99.as_millis());
    table.add(
        "edit to the start of terraform",
        &text,
        "p99 < 2 s",
        Verdict::of(p99 < Duration::from_secs(2)),
    );
    Ok(())
}

/// What is written when nothing happens.
async fn nothing(fleet: &mut Fleet, quiet: Duration, table: &mut Table) -> anyhow::Result<()> {
    fleet
        .until(Duration::from_mins(5), "everything has settled", async |fleet| {
            fleet.kube.requests().clear();
            tokio::time::sleep(Duration::from_secs(10)).await;
            Ok(fleet.engines()? == 0 && others(fleet).is_empty())
        })
        .await?;
    say(&format!("nothing happens for {} s", quiet.as_secs()));
    fleet.kube.requests().clear();
    tokio::time::sleep(quiet).await;
    let others = others(fleet);
    let tokens = fleet.kube.requests().writes_by(AGENT).len() - others.len();
    let text = format!("{} (and {tokens} tokens renewed)", others.len());
    table.add(
        &format!("writes in {} s of nothing", quiet.as_secs()),
        &text,
        "0",
        Verdict::of(others.is_empty()),
    );
    for other in others.iter().take(5) {
        say(&format!("  written: {other}"));
    }
    Ok(())
}

/// Writes that are no renewal of a token, which has to happen.
fn others(fleet: &Fleet) -> Vec<String> {
    let writes = fleet.kube.requests().writes_by(AGENT);
    let names = writes.iter().map(|it| format!("{} {}", it.resource, it.name));
    names.filter(|it| !(it.starts_with("secrets ") && it.ends_with("-kubeconfig"))).collect()
}

fn number(outer: &Outer, name: &str, usual: usize) -> anyhow::Result<usize> {
    let Some(text) = outer.var(name) else { return Ok(usual) };
    text.parse().with_context(|| format!("{name} is {text:?}; set it to a number"))
}
