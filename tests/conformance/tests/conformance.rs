//! `cargo test -p conformance --test conformance -- [FILTER…] [--list] [--record] [--real-only] [--embedded-only]`
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test says what is wrong by panicking"
)]

mod cases;

use std::process::ExitCode;

use conformance::{Plan, config::Settings, run};

#[tokio::main]
async fn main() -> ExitCode {
    let plan = Plan { cases: cases::all(), settings: Settings::read() };
    match run(plan).await {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("the suite could not run: {error:#}");
            ExitCode::FAILURE
        }
    }
}
