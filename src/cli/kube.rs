//! `capt kube`: serves the embedded Kubernetes API without an operator.

use std::net::SocketAddr;

use capt_engine::process_env::ProcessEnv;
use tokio::signal::unix::{SignalKind, signal};

use super::output::{self, ExitStatus};
use crate::local::embedded_api;

/// Arguments of `capt kube`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  capt kube --data .capt                    serve until Ctrl-C; prints the path of the kubeconfig
  export KUBECONFIG=.capt/kube/kubeconfig   then, in another terminal
  kubectl apply -f crds/
  kubectl apply -f examples/

Objects persist in DIR/kube. A restart serves them again at the same address.")]
pub(super) struct Args {
    #[command(flatten)]
    data: super::DataDirArg,
    /// Listen address; defaults to the previous one, or to a free loopback port.
    #[arg(long, value_name = "ADDRESS:PORT")]
    listen: Option<SocketAddr>,
    /// Do not install the Cluster CRD; for use with Cluster API itself.
    #[arg(long)]
    bare: bool,
}

pub(super) async fn run(args: &Args, process_env: &ProcessEnv) -> anyhow::Result<ExitStatus> {
    let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    if args.listen.is_some_and(|address| !address.ip().is_loopback()) {
        output::print_warning(
            "this address is reachable from other machines; anyone with the kubeconfig has full access",
        );
    }
    let dir = embedded_api::api_dir(&args.data.path(process_env));
    let kube = embedded_api::start_api(&dir, args.listen, args.bare).await?;
    let path = kube.kubeconfig_path().map(|path| path.display().to_string()).unwrap_or_default();
    output::print_message(&format!(
        "serving the Kubernetes API until Ctrl-C; its objects persist in {}",
        dir.display()
    ));
    output::print_data(&format!("{path}\n"))?;
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
    kube.stop().await;
    Ok(ExitStatus::Done)
}
