//! `make bench`: API server load, memory and latency of the operator.
//!
//! A missed target is a verdict in the table and no failure: machines differ. What cannot be measured is a failure.

mod fake_cloud;
mod fake_terraform;
mod operator_harness;
mod quickstart;
mod scale;
#[path = "../driver/table.rs"]
#[allow(dead_code, reason = "the bench of the driver uses all of it")]
mod table;

use std::{
    env,
    io::{self, Write},
    process::ExitCode,
    time::Instant,
};

use anyhow::Context;
use capt_engine::process_env::ProcessEnv;

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
    let mut table = table::Table::default();
    let only = process_env.var("CAPT_BENCH_ONLY").unwrap_or_default();
    if only != "scale" {
        quickstart::measure(&process_env, &mut table).context("the quickstart")?;
    }
    if only != "quickstart" {
        scale::measure(&process_env, &mut table).await.context("many clusters")?;
    }
    let load = std::fs::read_to_string("/proc/loadavg")?;
    let load = load.split_whitespace().next().unwrap_or("?");
    let mut out = io::stdout().lock();
    writeln!(out, "load {load} at the end\n{table}\nmeasured in {} s", begun.elapsed().as_secs())?;
    Ok(())
}

/// Prints progress to standard error; the table goes to standard output. Write errors are ignored.
fn print_line(text: &str) {
    let _nobody_listens = writeln!(io::stderr(), "{text}");
}
