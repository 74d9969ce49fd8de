//! `make bench`: route propagation latency, and the cost of a thousand Sandboxes.
//!
//! The operator and two routers are processes of their own; the API server is in this one, and so is the node that plays
//! the kubelet. A missed target is a verdict in the table and no failure: machines differ. What cannot be measured is one.

#[path = "../operator/fake_cloud.rs"]
mod fake_cloud;
#[path = "../../tests/sandbox/fake_node.rs"]
#[allow(clippy::unwrap_used, reason = "the tests' own node")]
mod fake_node;
#[path = "../operator/fake_terraform.rs"]
#[allow(dead_code, reason = "the bench of the operator uses all of it")]
mod fake_terraform;
#[path = "../operator/operator_harness.rs"]
#[allow(dead_code, reason = "the bench of the operator uses all of it")]
mod operator_harness;
#[path = "../driver/table.rs"]
#[allow(dead_code, reason = "the bench of the driver uses all of it")]
mod table;
#[path = "../../tests/sandbox/test_namespace.rs"]
#[allow(dead_code, clippy::unwrap_used, clippy::panic, reason = "the tests' own shop, which uses more of it")]
mod test_namespace;

mod harness;
mod route_changes;
mod router_process;
mod timeline;

use std::{
    env,
    io::{self, Write},
    process::ExitCode,
    time::{Duration, Instant},
};

use anyhow::Context;
use capt_engine::process_env::ProcessEnv;

use crate::{
    harness::SandboxHarness,
    route_changes::{ChangeTimes, RouteChange},
    table::{Table, Verdict},
};

fn main() -> ExitCode {
    if let Some(code) = fake_terraform::run_as_fake() {
        return code;
    }
    // `cargo test --all-targets` starts benches too, without this argument.
    if !env::args().any(|arg| arg == "--bench") {
        return ExitCode::SUCCESS;
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    match runtime.context("starting threads").and_then(|runtime| runtime.block_on(run())) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            print_line(&format!("cannot measure: {error:#}"));
            ExitCode::FAILURE
        }
    }
}

async fn run() -> anyhow::Result<()> {
    let (begun, process_env) = (Instant::now(), ProcessEnv::read()?);
    let sandboxes = env_number(&process_env, "CAPT_BENCH_SANDBOXES", 1000)?;
    let rounds = env_number(&process_env, "CAPT_BENCH_CHANGES", 250)?.div_ceil(RouteChange::ALL.len());
    let mut table = Table::default();
    let mut town = SandboxHarness::start().await.context("starting everything")?;
    let took = town.create_sandboxes(sandboxes).await?;
    let figure = format!("{sandboxes} sandboxes asked for at once: all ready after");
    table.add(&figure, &table::seconds(took), "", Verdict::None);
    let mut changes = ChangeTimes::default();
    for round in 0..rounds {
        changes.measure(&town, round).await.with_context(|| format!("round {round}"))?;
    }
    add_propagation(&changes, &mut table);
    add_creation(&changes, &mut table);
    add_memory(&mut town, sandboxes, &mut table)?;
    let load = std::fs::read_to_string("/proc/loadavg")?;
    let load = load.split_whitespace().next().unwrap_or("?");
    let mut out = io::stdout().lock();
    writeln!(out, "load {load} at the end\n{table}\nmeasured in {} s", begun.elapsed().as_secs())?;
    Ok(())
}

fn add_propagation(changes: &ChangeTimes, table: &mut Table) {
    let all = changes.all();
    let (p50, p99) = percentiles(&all);
    let text = format!("p50 {}, p99 {}", table::seconds(p50), table::seconds(p99));
    let met = Verdict::from_met(p99 <= Duration::from_millis(250));
    table.add(&format!("{} route changes, in force in both routers", all.len()), &text, "p99 ≤ 250 ms", met);
    for kind in RouteChange::ALL {
        let (p50, p99) = percentiles(changes.times_of(kind));
        let text = format!("p50 {}, p99 {}", table::seconds(p50), table::seconds(p99));
        table.add(&format!("  {}", kind.label()), &text, "", Verdict::None);
    }
}

fn add_creation(changes: &ChangeTimes, table: &mut Table) {
    let (p50, p99) = percentiles(&changes.ready);
    let text = format!("p50 {}, p99 {}", table::seconds(p50), table::seconds(p99));
    let met = Verdict::from_met(p99 <= Duration::from_millis(1500));
    table.add("sandbox asked for to ready, without the start of its pod", &text, "p99 ≤ 1.5 s", met);
}

fn add_memory(town: &mut SandboxHarness, sandboxes: usize, table: &mut Table) -> anyhow::Result<()> {
    let operator = town.operator.peak_memory()?;
    table.add(
        &format!("memory of the operator with {sandboxes} sandboxes, at most"),
        &format!("{operator} MB"),
        "150 MB",
        Verdict::from_met(operator <= 150),
    );
    let router = town.router_memory()?;
    table.add("memory of a router, at most", &format!("{router} MB"), "", Verdict::None);
    Ok(())
}

/// The middle one, and the one that is worse than all but a hundredth.
fn percentiles(times: &[Duration]) -> (Duration, Duration) {
    let mut times = times.to_vec();
    times.sort();
    let at = |share: usize| times.get(times.len() * share / 100).copied().unwrap_or_default();
    (at(50), at(99))
}

fn env_number(process_env: &ProcessEnv, name: &str, usual: usize) -> anyhow::Result<usize> {
    let Some(text) = process_env.var(name) else { return Ok(usual) };
    text.parse().with_context(|| format!("{name} is {text:?}; set it to a number"))
}

/// Prints progress to standard error; the table goes to standard output. Write errors are ignored.
fn print_line(text: &str) {
    let _nobody_listens = writeln!(io::stderr(), "{text}");
}
