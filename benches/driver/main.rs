//! `make bench`: overhead of the driver over bare terraform, rendering time and event parsing rate.
//!
//! One run prints one table. A missed target is a verdict in the table and no failure: machines differ. What
//! cannot be measured is a failure.

mod bare_terraform;
mod capt;
mod events;
mod machine;
mod overhead;
mod process;
mod render;
mod table;
mod terraform_wrapper;

use std::{
    env,
    io::{self, Write},
    process::ExitCode,
    time::Instant,
};

use anyhow::Context;
use capt_engine::process_env::ProcessEnv;
use table::Table;

fn main() -> ExitCode {
    if let Some(code) = terraform_wrapper::run_as_wrapper() {
        return code;
    }
    // `cargo test --all-targets` starts benches too, without this argument.
    if !env::args().any(|arg| arg == "--bench") {
        return ExitCode::SUCCESS;
    }
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            print_line(&format!("cannot measure: {error:#}"));
            ExitCode::FAILURE
        }
    }
}

fn run() -> anyhow::Result<()> {
    let begun = Instant::now();
    let process_env = ProcessEnv::read()?;
    let capt = capt::Capt::new(&process_env)?;
    let mut table = Table::default();
    render::measure(&mut table).context("the quickstart's render time")?;
    events::measure(&mut table).context("the speed of reading events")?;
    overhead::measure(&capt, read_rounds(&process_env)?, &mut table).context("the driver's overhead")?;
    let mut out = io::stdout().lock();
    writeln!(
        out,
        "{}\n{table}\nmeasured in {} s",
        machine::describe_machine(&capt)?,
        begun.elapsed().as_secs()
    )?;
    Ok(())
}

/// How often the runs with the AWS provider are repeated; the cheap ones are repeated twice as often.
fn read_rounds(process_env: &ProcessEnv) -> anyhow::Result<usize> {
    let text = process_env.var("CAPT_BENCH_ROUNDS").unwrap_or("3");
    let rounds = text.parse().ok().filter(|rounds| *rounds > 0);
    rounds.with_context(|| format!("CAPT_BENCH_ROUNDS is {text:?}; set it to a number above 0"))
}

/// Prints progress to standard error; the table goes to standard output. Write errors are ignored.
fn print_line(text: &str) {
    let _nobody_listens = writeln!(io::stderr(), "{text}");
}
