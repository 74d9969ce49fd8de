//! `make bench`: what the operator does to an API server, to memory and to people's patience.
//!
//! A missed target is a verdict in the table and no failure: machines differ. What cannot be measured is a failure.

mod engine;
mod fleet;
mod quickstart;
mod scale;
#[path = "../driver/table.rs"]
#[allow(dead_code, reason = "the bench of the driver uses all of it")]
mod table;
mod world;

use std::{
    env,
    io::{self, Write},
    process::ExitCode,
    time::Instant,
};

use anyhow::Context;
use capt::config::Outer;

fn main() -> ExitCode {
    if let Some(code) = engine::stand_in() {
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
            say(&format!("cannot measure: {error:#}"));
            ExitCode::FAILURE
        }
    }
}

async fn run() -> anyhow::Result<()> {
    let (begun, outer) = (Instant::now(), Outer::read()?);
    let mut table = table::Table::default();
    let only = outer.var("CAPT_BENCH_ONLY").unwrap_or_default();
    if only != "scale" {
        quickstart::measure(&outer, &mut table).context("the quickstart")?;
    }
    if only != "quickstart" {
        scale::measure(&outer, &mut table).await.context("many clusters")?;
    }
    let load = std::fs::read_to_string("/proc/loadavg")?;
    let load = load.split_whitespace().next().unwrap_or("?");
    let mut out = io::stdout().lock();
    writeln!(out, "load {load} at the end\n{table}\nmeasured in {} s", begun.elapsed().as_secs())?;
    Ok(())
}

/// Talk goes to standard error, the table to standard output. Nobody is left to tell if that fails.
fn say(text: &str) {
    let _nobody_listens = writeln!(io::stderr(), "{text}");
}
