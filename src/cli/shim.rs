//! `capt shim`: owns one terraform command. Not for people.

use std::path::PathBuf;

use super::output::ExitStatus;

/// Where the run is prepared.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The run's directory.
    run_dir: PathBuf,
}

/// A single thread is enough, and there is one of these for every terraform.
pub(super) fn run(args: &Args) -> anyhow::Result<ExitStatus> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(terraform_driver::shim::main(&args.run_dir))?;
    Ok(ExitStatus::Done)
}
