//! `cargo test -p conformance --test conformance -- [FILTER…] [--list] [--record] [--real-only] [--embedded-only]`
#![allow(clippy::print_stderr, reason = "this is the program's own voice")]
#![allow(
    clippy::needless_pass_by_value,
    clippy::similar_names,
    reason = "the cases hand over literals, and speak of paths and patches"
)]

mod cases;

use std::process::ExitCode;

use conformance::{SuitePlan, config::Settings, run};

#[tokio::main]
async fn main() -> ExitCode {
    let plan = SuitePlan { cases: cases::all(), settings: Settings::read() };
    match run(plan).await {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("the suite could not run: {error:#}");
            ExitCode::FAILURE
        }
    }
}
