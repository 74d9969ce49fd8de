//! `capt kubeconfig`: prints the kubeconfig of a workload cluster.

use capt_engine::process_env::ProcessEnv;

use super::{
    kube_api,
    kube_target::KubeTarget,
    output::{self, ExitStatus},
};

/// Arguments of `capt kubeconfig`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  capt kubeconfig demo > demo.kubeconfig && kubectl --kubeconfig demo.kubeconfig get namespaces
  kubectl --kubeconfig <(capt kubeconfig demo) get namespaces      if kubectl reads the file only once

The token expires after some minutes; run the same command again for a fresh one.")]
pub(super) struct Args {
    /// Name of the Cluster.
    name: String,
    #[command(flatten)]
    access: KubeTarget,
    /// Namespace of the Cluster.
    #[arg(short, long, value_name = "NAME", default_value = "default")]
    namespace: String,
}

pub(super) async fn run(args: &Args, process_env: &ProcessEnv) -> anyhow::Result<ExitStatus> {
    let client = args.access.client(process_env).await?;
    let text = kube_api::read_kubeconfig(&client, &args.namespace, &args.name).await?;
    output::print_data(&text)?;
    Ok(ExitStatus::Done)
}
