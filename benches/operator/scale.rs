//! Many clusters at once; then one edit after another; then nothing.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant, SystemTime},
};

use anyhow::{Context, ensure};
use capt_engine::process_env::ProcessEnv;
use capt_kinds::api::CaptCluster;
use kube::{
    Api,
    api::{Patch, PatchParams},
};
use serde_json::json;

use crate::{
    fake_terraform,
    operator_harness::{OperatorHarness, PARALLEL},
    print_line,
    table::{Table, Verdict},
};

/// How many edits are timed, each of a cluster of its own: a second one would wait for the run of the first.
const EDITS: usize = 100;

/// How long an apply takes: fifteen minutes at a three hundredth.
const APPLY_DURATION: Duration = Duration::from_secs(3);

/// What the operator calls itself before the API server.
const AGENT: &str = "capt";

/// What was counted while the clusters were made.
#[derive(Default)]
struct RequestCounts {
    most_engines: usize,
    writes: usize,
    /// Writes to each object.
    by_object: BTreeMap<String, usize>,
    /// Everything that was asked, by what it was.
    by_request: BTreeMap<String, usize>,
}

impl RequestCounts {
    fn collect(&mut self, fleet: &OperatorHarness) -> anyhow::Result<()> {
        self.most_engines = self.most_engines.max(fleet.count_terraform_processes()?);
        let log = fleet.kube.request_log();
        for write in log.writes_by(AGENT) {
            self.writes += 1;
            // What is created under a name that the server chooses is an object of its own.
            let new = if write.name.is_empty() { self.writes.to_string() } else { write.name };
            let object = format!("{} {new}", write.resource);
            *self.by_object.entry(object).or_default() += 1;
        }
        for one in log.all().iter().filter(|one| one.agent.starts_with(AGENT)) {
            let what = format!("{:?} {} {}", one.verb, one.resource, one.subresource);
            *self.by_request.entry(what).or_default() += 1;
        }
        log.clear();
        Ok(())
    }

    /// What was asked most.
    fn print_most_frequent(&self) {
        let mut asked: Vec<(&String, &usize)> = self.by_request.iter().collect();
        asked.sort_by_key(|(_, times)| std::cmp::Reverse(**times));
        for (what, times) in asked.iter().take(12) {
            print_line(&format!("  {times:>7} {what}"));
        }
    }
}

/// Fills in the rows.
pub(crate) async fn measure(process_env: &ProcessEnv, table: &mut Table) -> anyhow::Result<()> {
    let clusters = env_number(process_env, "CAPT_BENCH_CLUSTERS", 200)?;
    let quiet = Duration::from_secs(env_number(process_env, "CAPT_BENCH_QUIET", 300)?.try_into()?);
    let mut fleet = OperatorHarness::start(APPLY_DURATION).await?;
    measure_creation(&mut fleet, clusters, table).await?;
    measure_busy_reconciles(&mut fleet, clusters, table).await?;
    measure_edits(&mut fleet, clusters, table).await?;
    measure_idle(&mut fleet, quiet, table).await
}

async fn measure_creation(
    fleet: &mut OperatorHarness,
    clusters: usize,
    table: &mut Table,
) -> anyhow::Result<()> {
    print_line(&format!("making {clusters} clusters, {PARALLEL} runs at a time"));
    fleet.create_clusters(clusters).await?;
    let (begun, mut counted) = (Instant::now(), RequestCounts::default());
    let mut told = 0;
    fleet
        .wait_until(Duration::from_mins(30), "all clusters are ready", async |fleet| {
            counted.collect(fleet)?;
            let ready = fleet.count_ready().await?;
            if ready >= told + clusters.div_ceil(10) {
                told = ready;
                print_line(&format!("  {ready} are ready after {} s", begun.elapsed().as_secs()));
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
        Verdict::from_met(most <= PARALLEL),
    );
    let memory = fleet.peak_memory()?;
    table.add(
        "  memory of the operator, at most",
        &format!("{memory} MB"),
        "200 MB",
        Verdict::from_met(memory <= 200),
    );
    add_rates(&counted, took, table);
    counted.print_most_frequent();
    let all = ReconcileCounts::read(fleet).await?;
    let text = format!("{:.2} % of {}", all.share(), all.all);
    // Five runs end each second here; the target is for runs of fifteen minutes.
    table.add("  reconciles below 50 ms in this rush", &text, "", Verdict::None);
    Ok(())
}

/// Writes for each object of ours and second.
fn add_rates(counted: &RequestCounts, took: f64, table: &mut Table) {
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
        Verdict::from_met(mean <= 0.2),
    );
}

/// How many reconciles there were, and how many of them took less than 50 ms.
#[derive(Debug, Clone, Copy)]
struct ReconcileCounts {
    all: f64,
    short: f64,
}

impl ReconcileCounts {
    async fn read(fleet: &OperatorHarness) -> anyhow::Result<Self> {
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

/// Reconcile durations while the maximum number of runs is active, for a minute each, and all objects are touched.
async fn measure_busy_reconciles(
    fleet: &mut OperatorHarness,
    clusters: usize,
    table: &mut Table,
) -> anyhow::Result<()> {
    let runs = PARALLEL.min(clusters);
    print_line(&format!("{runs} runs of a minute"));
    fleet.set_apply_duration(Duration::from_mins(1))?;
    let api: Api<CaptCluster> = Api::namespaced(fleet.kube.client(), "default");
    for number in 0..runs {
        let tag = json!({"spec": {"vpcConfig": {"tags": {"busy": number.to_string()}}}});
        api.patch(&format!("c{number:03}"), &PatchParams::default(), &Patch::Merge(&tag)).await?;
    }
    fleet
        .wait_until(Duration::from_mins(1), "all runs are active", async |fleet| {
            Ok(fleet.count_terraform_processes()? == runs)
        })
        .await?;
    // The plans are done with; what is left are applies that speak now and then.
    tokio::time::sleep(Duration::from_secs(5)).await;
    let before = ReconcileCounts::read(fleet).await?;
    for number in 0..clusters {
        let touch = json!({"metadata": {"annotations": {"example.com/touched": number.to_string()}}});
        api.patch(&format!("c{number:03}"), &PatchParams::default(), &Patch::Merge(&touch)).await?;
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let active = fleet.count_terraform_processes()?;
    ensure!(active == runs, "{active} runs are active and not {runs}: the figure would say nothing");
    let seen = ReconcileCounts::read(fleet).await?.since(before);
    table.add(
        &format!("reconciles below 50 ms while {runs} runs are active"),
        &format!("{:.2} % of {}", seen.share(), seen.all),
        "99 %",
        Verdict::from_met(seen.share() >= 99.0),
    );
    fleet.set_apply_duration(APPLY_DURATION)?;
    fleet
        .wait_until(Duration::from_mins(3), "the runs have ended", async |fleet| {
            Ok(fleet.count_terraform_processes()? == 0)
        })
        .await?;
    Ok(())
}

/// From an edit to the first word of terraform.
#[expect(clippy::disallowed_methods, reason = "the stand-in's diary has the time of the clock")]
async fn measure_edits(
    fleet: &mut OperatorHarness,
    clusters: usize,
    table: &mut Table,
) -> anyhow::Result<()> {
    let count = EDITS.min(clusters);
    print_line(&format!("{count} edits"));
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
            .wait_until(Duration::from_mins(1), "terraform starts", async |_| {
                let diary = fake_terraform::read_starts(&world)?;
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
        Verdict::from_met(p99 < Duration::from_secs(2)),
    );
    Ok(())
}

/// What is written when nothing happens.
async fn measure_idle(fleet: &mut OperatorHarness, quiet: Duration, table: &mut Table) -> anyhow::Result<()> {
    fleet
        .wait_until(Duration::from_mins(5), "everything has settled", async |fleet| {
            fleet.kube.request_log().clear();
            tokio::time::sleep(Duration::from_secs(10)).await;
            Ok(fleet.count_terraform_processes()? == 0 && foreign_writes(fleet).is_empty())
        })
        .await?;
    print_line(&format!("nothing happens for {} s", quiet.as_secs()));
    fleet.kube.request_log().clear();
    tokio::time::sleep(quiet).await;
    let others = foreign_writes(fleet);
    let tokens = fleet.kube.request_log().writes_by(AGENT).len() - others.len();
    let text = format!("{} (and {tokens} tokens renewed)", others.len());
    table.add(
        &format!("writes in {} s of nothing", quiet.as_secs()),
        &text,
        "0",
        Verdict::from_met(others.is_empty()),
    );
    for other in others.iter().take(5) {
        print_line(&format!("  written: {other}"));
    }
    Ok(())
}

/// Writes that are no renewal of a token, which has to happen.
fn foreign_writes(fleet: &OperatorHarness) -> Vec<String> {
    let writes = fleet.kube.request_log().writes_by(AGENT);
    let names = writes.iter().map(|it| format!("{} {}", it.resource, it.name));
    names.filter(|it| !(it.starts_with("secrets ") && it.ends_with("-kubeconfig"))).collect()
}

fn env_number(process_env: &ProcessEnv, name: &str, usual: usize) -> anyhow::Result<usize> {
    let Some(text) = process_env.var(name) else { return Ok(usual) };
    text.parse().with_context(|| format!("{name} is {text:?}; set it to a number"))
}
