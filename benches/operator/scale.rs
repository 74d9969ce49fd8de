//! Many clusters at once; then one edit after another; then nothing.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant, SystemTime},
};

use anyhow::Context;
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

/// What the operator calls itself before the API server.
const AGENT: &str = "capt";

/// What was counted while the clusters were made.
#[derive(Default)]
struct Counted {
    most_engines: usize,
    writes: usize,
    /// Writes to each object.
    by_object: BTreeMap<String, usize>,
}

impl Counted {
    fn take(&mut self, fleet: &Fleet) -> anyhow::Result<()> {
        self.most_engines = self.most_engines.max(fleet.engines()?);
        let log = fleet.kube.requests();
        for write in log.writes_by(AGENT) {
            self.writes += 1;
            let object = format!("{} {}", write.resource, write.name);
            *self.by_object.entry(object).or_default() += 1;
        }
        log.clear();
        Ok(())
    }
}

/// Fills in the rows.
pub(crate) async fn measure(outer: &Outer, table: &mut Table) -> anyhow::Result<()> {
    let clusters = number(outer, "CAPT_BENCH_CLUSTERS", 200)?;
    let quiet = Duration::from_secs(number(outer, "CAPT_BENCH_QUIET", 300)?.try_into()?);
    // Fifteen minutes at a three hundredth.
    let mut fleet = Fleet::start(Duration::from_secs(3)).await?;
    make(&mut fleet, clusters, table).await?;
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
    reconciles(fleet, table).await
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

/// How long reconciles took, while runs were active.
async fn reconciles(fleet: &Fleet, table: &mut Table) -> anyhow::Result<()> {
    let metrics = fleet.metrics().await?;
    let sum = |name: &str, also: &str| -> f64 {
        metrics
            .iter()
            .filter(|(line, _)| line.starts_with(name) && line.contains(also))
            .map(|(_, it)| it)
            .sum()
    };
    let all = sum("reconcile_duration_seconds_count", "");
    let short = sum("reconcile_duration_seconds_bucket", "le=\"0.05\"");
    let share = 100.0 * short / all;
    table.add(
        "  reconciles below 50 ms",
        &format!("{share:.2} % of {all}"),
        "99 %",
        Verdict::of(share >= 99.0),
    );
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
