//! `capt kubeconfig`: how to reach a cluster that was made.

use super::{
    access::Access,
    client,
    output::{self, ExitStatus},
};
use crate::config::Outer;

/// Of which.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  capt kubeconfig demo > demo.kubeconfig && kubectl --kubeconfig demo.kubeconfig get namespaces
  kubectl --kubeconfig <(capt kubeconfig demo) get namespaces      where kubectl reads it only once

Its token is good for some minutes; the same command prints a fresh one.")]
pub(super) struct Args {
    /// The Cluster.
    name: String,
    #[command(flatten)]
    access: Access,
    /// Its namespace.
    #[arg(short, long, value_name = "NAME", default_value = "default")]
    namespace: String,
}

pub(super) async fn run(args: &Args, outer: &Outer) -> anyhow::Result<ExitStatus> {
    let client = args.access.client(outer).await?;
    let text = client::kubeconfig(&client, &args.namespace, &args.name).await?;
    output::data(&text)?;
    Ok(ExitStatus::Done)
}
