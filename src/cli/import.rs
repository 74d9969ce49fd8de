//! `capt import`: converts Signadot files to Kubernetes objects.

use std::path::PathBuf;

use anyhow::Context as _;
use capt_dataplane::import::{ImportOptions, ImportResult, import_document};
use capt_engine::process_env::ProcessEnv;
use capt_model::manifest::ManifestSource;

use super::{
    manifest_files,
    output::{self, ExitStatus},
};

/// Arguments of `capt import`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  capt import sandbox.yaml | kubectl apply --server-side -f -")]
pub(super) struct Args {
    /// Signadot sandbox and route group files: YAML or JSON, directories of them, or `-` for standard input.
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Namespace of route groups, and of workloads without one.
    #[arg(long, short, default_value = "default", value_name = "NAMESPACE")]
    namespace: String,
    /// Interpret `spec.cluster` as a Cluster managed by this operator.
    #[arg(long)]
    cluster_ref: bool,
}

pub(super) fn run(args: &Args, process_env: &ProcessEnv) -> anyhow::Result<ExitStatus> {
    let options = ImportOptions { namespace: args.namespace.clone(), cluster_ref: args.cluster_ref };
    let (mut documents, mut refused) = (Vec::new(), false);
    let mut sources = Vec::new();
    for path in &args.files {
        sources.extend(manifest_files::read_sources(path, process_env)?);
    }
    for ManifestSource { name: shown, text } in sources {
        let read: Vec<serde_json::Value> =
            serde_saphyr::from_multiple(&text).with_context(|| format!("reading {shown} as YAML"))?;
        for document in &read {
            let ImportResult { objects, notes, problems } = import_document(document, &options);
            for note in notes {
                output::print_warning(&format!("{shown}: {note}"));
            }
            for problem in &problems {
                output::print_warning(&format!("{shown}: {problem}"));
            }
            refused |= !problems.is_empty();
            for object in &objects {
                documents.push(serde_saphyr::to_string(object).with_context(|| format!("writing {shown}"))?);
            }
        }
    }
    output::print_data(&documents.join("---\n"))?;
    Ok(if refused { ExitStatus::Refused } else { ExitStatus::Done })
}
