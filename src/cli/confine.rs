//! `capt confine`: becomes a program that is confined (internal). The shim runs terraform through it.

use std::{collections::BTreeMap, ffi::OsString, path::PathBuf};

use capt_engine::process_env::ProcessEnv;
use isolation::process::{become_confined, from_argument};
use terraform_driver::run::{REATTACH_VARIABLE, with_provider_pid};

use super::output::ExitStatus;

/// Arguments of `capt confine`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// What it may use, as JSON.
    rules: String,
    /// The program.
    program: PathBuf,
    /// Its arguments.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<OsString>,
}

/// Replaces this process; returns only on error.
pub(super) fn run(args: &Args) -> anyhow::Result<ExitStatus> {
    let rules = from_argument(&args.rules)?;
    let process_env = ProcessEnv::read()?;
    // The process keeps its id.
    let reattach =
        process_env.var(REATTACH_VARIABLE).and_then(|it| with_provider_pid(it, std::process::id()));
    let changes: BTreeMap<String, String> =
        reattach.map(|value| (REATTACH_VARIABLE.to_owned(), value)).into_iter().collect();
    Err(become_confined(&rules, &args.program, &args.arguments, &changes).into())
}
