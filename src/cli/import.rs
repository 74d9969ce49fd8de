//! `capt import`: files of Signadot as objects of ours.

use std::path::PathBuf;

use anyhow::Context as _;

use super::{
    files,
    output::{self, ExitStatus},
};
use crate::{
    config::Outer,
    manifest::Source,
    sandbox::import::{Imported, Options, import},
};

/// Which files.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  capt import sandbox.yaml | kubectl apply --server-side -f -")]
pub(super) struct Args {
    /// Sandbox and route group files of Signadot: YAML or JSON, directories of them, or `-` for standard input.
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// The namespace of route groups, and of workloads that name none.
    #[arg(long, short, default_value = "default", value_name = "NAMESPACE")]
    namespace: String,
    /// Take `spec.cluster` for a Cluster that this operator made.
    #[arg(long)]
    cluster_ref: bool,
}

pub(super) fn run(args: &Args, outer: &Outer) -> anyhow::Result<ExitStatus> {
    let options = Options { namespace: args.namespace.clone(), cluster_ref: args.cluster_ref };
    let (mut documents, mut refused) = (Vec::new(), false);
    let mut sources = Vec::new();
    for path in &args.files {
        sources.extend(files::read(path, outer)?);
    }
    for Source { name: shown, text } in sources {
        let read: Vec<serde_json::Value> =
            serde_saphyr::from_multiple(&text).with_context(|| format!("reading {shown} as YAML"))?;
        for document in &read {
            let Imported { objects, notes, problems } = import(document, &options);
            for note in notes {
                output::warn(&format!("{shown}: {note}"));
            }
            for problem in &problems {
                output::warn(&format!("{shown}: {problem}"));
            }
            refused |= !problems.is_empty();
            for object in &objects {
                documents.push(serde_saphyr::to_string(object).with_context(|| format!("writing {shown}"))?);
            }
        }
    }
    output::data(&documents.join("---\n"))?;
    Ok(if refused { ExitStatus::Refused } else { ExitStatus::Done })
}
