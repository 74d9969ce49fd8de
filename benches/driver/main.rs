//! `make bench`: what the driver costs on top of bare terraform, how fast it renders and how fast it reads.
//!
//! One run prints one table. A missed target is a verdict in the table and no failure: machines differ. What
//! cannot be measured is a failure.

mod bare;
mod capt;
mod events;
mod machine;
mod meter;
mod overhead;
mod process;
mod render;
mod table;

use std::{
    env,
    io::{self, Write},
    process::ExitCode,
    time::Instant,
};

use ::capt::config::Outer;
use anyhow::Context;
use table::Table;

fn main() -> ExitCode {
    if let Some(code) = meter::stand_in() {
        return code;
    }
    // `cargo test --all-targets` starts benches too, without this argument.
    if !env::args().any(|arg| arg == "--bench") {
        return ExitCode::SUCCESS;
    }
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            say(&format!("cannot measure: {error:#}"));
            ExitCode::FAILURE
        }
    }
}

fn run() -> anyhow::Result<()> {
    let begun = Instant::now();
    let outer = Outer::read()?;
    let capt = capt::Capt::new(&outer)?;
    let mut table = Table::default();
    render::measure(&mut table).context("the quickstart's render time")?;
    events::measure(&mut table).context("the speed of reading events")?;
    overhead::measure(&capt, rounds(&outer)?, &mut table).context("the driver's overhead")?;
    let mut out = io::stdout().lock();
    writeln!(out, "{}\n{table}\nmeasured in {} s", machine::describe(&capt)?, begun.elapsed().as_secs())?;
    Ok(())
}

/// How often the runs with the AWS provider are repeated; the cheap ones are repeated twice as often.
fn rounds(outer: &Outer) -> anyhow::Result<usize> {
    let text = outer.var("CAPT_BENCH_ROUNDS").unwrap_or("3");
    let rounds = text.parse().ok().filter(|rounds| *rounds > 0);
    rounds.with_context(|| format!("CAPT_BENCH_ROUNDS is {text:?}; set it to a number above 0"))
}

/// Talk goes to standard error, the table to standard output. Nobody is left to tell if that fails.
fn say(text: &str) {
    let _nobody_listens = writeln!(io::stderr(), "{text}");
}
