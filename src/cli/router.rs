//! `capt router`: the data plane of sandboxes, for one namespace.

use std::{
    net::{IpAddr, SocketAddr},
    path::PathBuf,
    time::Duration,
};

use sandbox_router::proxy;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

use super::{
    log::{self, LogFormat},
    output::ExitStatus,
    time,
};
use crate::{
    k8s::{Kube, Where, connect},
    sandbox::router,
};

/// Where it runs, and how.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The kubeconfig; that of the machine, or of the pod around us, otherwise.
    #[arg(long, value_name = "FILE", env = "CAPT_KUBECONFIG")]
    kubeconfig: Option<PathBuf>,
    /// The context of the kubeconfig.
    #[arg(long, value_name = "NAME", env = "CAPT_CONTEXT")]
    context: Option<String>,
    /// The namespace whose Services it serves: its pod's own.
    #[arg(short, long, value_name = "NAME", env = "POD_NAMESPACE")]
    namespace: String,
    /// The name of its pod.
    #[arg(long, value_name = "NAME", env = "POD_NAME")]
    name: String,
    /// The uid of its pod: its Lease goes with it.
    #[arg(long, value_name = "UID", env = "POD_UID")]
    uid: Option<String>,
    /// The address of its pod, where the other routers reach it.
    #[arg(long, value_name = "ADDRESS", env = "POD_IP")]
    pod_address: Option<IpAddr>,
    /// Where it listens for the Services that it took over.
    #[arg(long, value_name = "ADDRESS", default_value = "0.0.0.0", env = "CAPT_ROUTER_ADDRESS")]
    address: IpAddr,
    /// Where it listens for previews, and for callers that name a service in `Host`.
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "0.0.0.0:8080", env = "CAPT_ROUTER_FRONT")]
    front: SocketAddr,
    /// Where health, metrics and explanations are served.
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "0.0.0.0:8081", env = "CAPT_ROUTER_ADMIN")]
    admin: SocketAddr,
    /// Where developers' machines connect.
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "0.0.0.0:8446", env = "CAPT_ROUTER_TUNNEL")]
    tunnel: SocketAddr,
    /// The domain of preview hosts.
    #[arg(long, value_name = "DOMAIN", env = "CAPT_PREVIEW_DOMAIN")]
    domain: Option<String>,
    /// Threads for requests; one for each core otherwise.
    #[arg(long, value_name = "N", env = "CAPT_ROUTER_WORKERS")]
    workers: Option<usize>,
    /// Do not say in answers who gave them.
    #[arg(long, env = "CAPT_ROUTER_HIDE_ROUTE")]
    hide_route: bool,
    /// Pods are processes of this machine, at 127.x.y.z for an address 10.x.y.z: where a cluster is only played.
    #[arg(long, env = "CAPT_ROUTER_LOOPBACK_PODS")]
    loopback_pods: bool,
    /// How long it goes on after it said that it is no longer ready.
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = time::duration)]
    linger: Duration,
    /// How long requests may take to end after that.
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = time::duration)]
    drain: Duration,
    /// How the log is written.
    #[arg(long, value_enum, default_value_t, env = "CAPT_LOG_FORMAT")]
    log_format: LogFormat,
    /// What is logged, such as `info` or `capt=debug`.
    #[arg(long, value_name = "FILTER", default_value = log::USUAL, env = "CAPT_LOG", hide_default_value = true)]
    log: String,
}

pub(super) async fn run(args: &Args) -> anyhow::Result<ExitStatus> {
    log::begin(args.log_format, &args.log, None)?;
    router::descriptors::raise();
    let place = Where { kubeconfig: args.kubeconfig.clone(), context: args.context.clone() };
    let kube = Kube::new(connect(&place).await?);
    let stop = CancellationToken::new();
    let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    let asked = stop.clone();
    tokio::spawn(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        asked.cancel();
    });
    router::run(kube, settings(args), stop).await?;
    Ok(ExitStatus::Done)
}

fn settings(args: &Args) -> router::Settings {
    let cores = || std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let proxy = proxy::Settings {
        name: args.name.clone(),
        address: args.address,
        front: Some(args.front),
        admin: Some(args.admin),
        workers: args.workers.unwrap_or_else(cores),
        show_route: !args.hide_route,
        loopback_pods: args.loopback_pods,
        drain: args.drain,
        ..proxy::Settings::default()
    };
    router::Settings {
        namespace: args.namespace.clone(),
        name: args.name.clone(),
        uid: args.uid.clone(),
        address: args.pod_address,
        domain: args.domain.clone(),
        tunnel: Some(args.tunnel),
        linger: args.linger,
        proxy,
    }
}
