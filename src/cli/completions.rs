//! `capt completions`: prints a shell completion script.

use clap::CommandFactory;
use clap_complete::Shell;

use super::{
    Cli,
    output::{self, ExitStatus},
};

/// Arguments of `capt completions`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  source <(capt completions bash)")]
pub(super) struct Args {
    /// The shell.
    shell: Shell,
}

pub(super) fn run(args: &Args) -> anyhow::Result<ExitStatus> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "capt", &mut script);
    output::print_data(&String::from_utf8_lossy(&script))?;
    Ok(ExitStatus::Done)
}
