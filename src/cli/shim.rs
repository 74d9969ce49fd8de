//! `capt shim`: supervises one terraform command (internal).

use std::path::PathBuf;

use super::output::ExitStatus;

/// Arguments of `capt shim`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The run's directory.
    run_dir: PathBuf,
}

/// Single-threaded: one shim runs per terraform process.
pub(super) fn run(args: &Args) -> anyhow::Result<ExitStatus> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(terraform_driver::shim::main(&args.run_dir))?;
    Ok(ExitStatus::Done)
}
