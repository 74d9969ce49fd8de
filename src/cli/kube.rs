//! `capt kube`: the embedded Kubernetes API, alone.

use std::net::SocketAddr;

use tokio::signal::unix::{SignalKind, signal};

use super::output::{self, ExitStatus};
use crate::{config::Outer, local::kube};

/// Where it keeps its objects, and where it listens.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  capt kube --data .capt                    serve until Ctrl-C; prints the path of a kubeconfig
  export KUBECONFIG=.capt/kube/kubeconfig   then, in another terminal
  kubectl apply -f crds/
  kubectl apply -f examples/

Objects are kept in DIR/kube. The same command shows them again, at the same address.")]
pub(super) struct Args {
    #[command(flatten)]
    data: super::DataDir,
    /// Listen here instead of where it listened last, or on a free port of the loopback interface.
    #[arg(long, value_name = "ADDRESS:PORT")]
    listen: Option<SocketAddr>,
    /// Begin without the Cluster kind of Cluster API; for those who install Cluster API itself.
    #[arg(long)]
    bare: bool,
}

pub(super) async fn run(args: &Args, outer: &Outer) -> anyhow::Result<ExitStatus> {
    let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    if args.listen.is_some_and(|address| !address.ip().is_loopback()) {
        output::warn(
            "this address can be reached from elsewhere; whoever has the kubeconfig may do everything",
        );
    }
    let dir = kube::dir(&args.data.path(outer));
    let kube = kube::start(&dir, args.listen, args.bare).await?;
    let path = kube.kubeconfig_path().map(|path| path.display().to_string()).unwrap_or_default();
    output::say(&format!("the Kubernetes API serves; Ctrl-C ends it, its objects stay in {}", dir.display()));
    output::data(&format!("{path}\n"))?;
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
    kube.stop().await;
    Ok(ExitStatus::Done)
}
