//! `capt completions`: a script for a shell.

use clap::CommandFactory;
use clap_complete::Shell;

use super::{
    Cli,
    output::{self, ExitStatus},
};

/// For which shell.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  source <(capt completions bash)")]
pub(super) struct Args {
    /// The shell.
    shell: Shell,
}

pub(super) fn run(args: &Args) -> anyhow::Result<ExitStatus> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "capt", &mut script);
    output::data(&String::from_utf8_lossy(&script))?;
    Ok(ExitStatus::Done)
}
