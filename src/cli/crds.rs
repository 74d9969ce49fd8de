//! `capt crds`: prints or writes the CRDs.

use std::path::PathBuf;

use anyhow::Context;
use capt_kinds::api::{crd_file_name, crd_yaml, crds};
use terraform_driver::workspace::files::{create_private_dir, write_atomic};

use super::output::{self, ExitStatus};

/// Arguments of `capt crds`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  capt crds | kubectl apply --server-side -f -\n  capt crds --write crds")]
pub(super) struct Args {
    /// Write one file per kind into this directory instead of printing them.
    #[arg(long, value_name = "DIR")]
    write: Option<PathBuf>,
}

pub(super) fn run(args: &Args) -> anyhow::Result<ExitStatus> {
    if let Some(dir) = &args.write {
        create_private_dir(dir).context("writing the CRDs")?;
    }
    let mut all = Vec::new();
    for crd in crds() {
        let yaml = crd_yaml(&crd)?;
        match &args.write {
            Some(dir) => {
                let path = dir.join(crd_file_name(&crd));
                write_atomic(&path, yaml.as_bytes(), false).context("writing the CRDs")?;
            }
            None => all.push(yaml),
        }
    }
    if args.write.is_none() {
        output::print_data(&all.join("---\n"))?;
    }
    Ok(ExitStatus::Done)
}
