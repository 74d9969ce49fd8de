//! `capt router`: the sandbox router of one namespace.

mod limits;

use std::{
    net::{IpAddr, SocketAddr},
    path::PathBuf,
    time::Duration,
};

use capt_dataplane::router;
use capt_kube::k8s::{KubeClient, KubeconfigSource, connect};
use sandbox_router::proxy;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

use self::limits::LimitArgs;
use super::{
    logging::{self, LogFormat},
    output::ExitStatus,
    time,
};

/// Arguments of `capt router`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Kubeconfig; defaults to KUBECONFIG, ~/.kube/config or the in-cluster configuration.
    #[arg(long, value_name = "FILE", env = "CAPT_KUBECONFIG")]
    kubeconfig: Option<PathBuf>,
    /// Context of the kubeconfig.
    #[arg(long, value_name = "NAME", env = "CAPT_CONTEXT")]
    context: Option<String>,
    /// Namespace whose Services it routes: the pod's own.
    #[arg(short, long, value_name = "NAME", env = "POD_NAMESPACE")]
    namespace: String,
    /// Read nothing of other namespaces: groups with members in several have no routes here.
    #[arg(long, env = "CAPT_ROUTER_OWN_NAMESPACE_ONLY")]
    own_namespace_only: bool,
    /// Name of the router pod.
    #[arg(long, value_name = "NAME", env = "POD_NAME")]
    name: String,
    /// UID of the router pod, which owns its Lease.
    #[arg(long, value_name = "UID", env = "POD_UID")]
    uid: Option<String>,
    /// IP address of the router pod, where other routers reach it.
    #[arg(long, value_name = "ADDRESS", env = "POD_IP")]
    pod_address: Option<IpAddr>,
    /// Listen address for the Services it has taken over.
    #[arg(long, value_name = "ADDRESS", default_value = "0.0.0.0", env = "CAPT_ROUTER_ADDRESS")]
    address: IpAddr,
    /// Listen address for previews, and for requests that name a service in `RunHooks`.
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "0.0.0.0:8080", env = "CAPT_ROUTER_FRONT")]
    front: SocketAddr,
    /// Listen address for health, metrics and route explanations.
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "0.0.0.0:8081", env = "CAPT_ROUTER_ADMIN")]
    admin: SocketAddr,
    /// Listen address for the tunnels of developer machines.
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "0.0.0.0:8446", env = "CAPT_ROUTER_TUNNEL")]
    tunnel: SocketAddr,
    /// Domain of preview hosts.
    #[arg(long, value_name = "DOMAIN", env = "CAPT_PREVIEW_DOMAIN")]
    domain: Option<String>,
    /// Worker threads; defaults to one per core.
    #[arg(long, value_name = "N", env = "CAPT_ROUTER_WORKERS")]
    workers: Option<usize>,
    /// Omit the response header that names the route.
    #[arg(long, env = "CAPT_ROUTER_HIDE_ROUTE")]
    hide_route: bool,
    /// Whether simple HTTP/1.1 requests take the router's own fast path instead of the general HTTP implementation.
    #[arg(long, value_enum, value_name = "on|off", default_value_t, env = "CAPT_ROUTER_HTTP1_FAST_PATH")]
    http1_fast_path: FastPathSwitch,
    /// For simulated clusters: pods are local processes, at 127.x.y.z for the pod IP 10.x.y.z.
    #[arg(long, env = "CAPT_ROUTER_LOOPBACK_PODS")]
    loopback_pods: bool,
    #[command(flatten)]
    limits: LimitArgs,
    /// How long it keeps serving after it reports not ready.
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = time::parse_duration)]
    linger: Duration,
    /// How long requests in flight may take after that.
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = time::parse_duration)]
    drain: Duration,
    /// Log format.
    #[arg(long, value_enum, default_value_t, env = "CAPT_LOG_FORMAT")]
    log_format: LogFormat,
    /// Log filter, such as `info` or `capt=debug`.
    #[arg(long, value_name = "FILTER", default_value = logging::DEFAULT_FILTER, env = "CAPT_LOG", hide_default_value = true)]
    log: String,
}

/// Value of `--http1-fast-path`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, clap::ValueEnum)]
enum FastPathSwitch {
    #[default]
    On,
    Off,
}

pub(super) async fn run(args: &Args) -> anyhow::Result<ExitStatus> {
    logging::init_logging(args.log_format, &args.log, None)?;
    router::nofile_limit::raise_nofile_limit();
    let place = KubeconfigSource { kubeconfig: args.kubeconfig.clone(), context: args.context.clone() };
    let kube = KubeClient::new(connect(&place).await?);
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
    router::run(kube, router_settings(args), stop).await?;
    Ok(ExitStatus::Done)
}

fn router_settings(args: &Args) -> router::RouterSettings {
    let cores = || std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let proxy = proxy::ProxySettings {
        name: args.name.clone(),
        address: args.address,
        host_listener: Some(args.front),
        admin: Some(args.admin),
        workers: args.workers.unwrap_or_else(cores),
        show_route: !args.hide_route,
        loopback_pods: args.loopback_pods,
        http1_fast_path: args.http1_fast_path == FastPathSwitch::On,
        drain: args.drain,
        limits: args.limits.proxy_limits(),
        ..proxy::ProxySettings::default()
    };
    router::RouterSettings {
        namespace: args.namespace.clone(),
        own_namespace_only: args.own_namespace_only,
        name: args.name.clone(),
        uid: args.uid.clone(),
        address: args.pod_address,
        domain: args.domain.clone(),
        tunnel: Some(args.tunnel),
        linger: args.linger,
        proxy,
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Command {
        #[command(flatten)]
        args: Args,
    }

    #[test]
    fn the_fast_path_can_be_switched_off() {
        let cases: [(&[&str], bool); 3] =
            [(&[], true), (&["--http1-fast-path=on"], true), (&["--http1-fast-path=off"], false)];
        for (flags, expected) in cases {
            let common = ["router", "--namespace", "shop", "--name", "router-1"];
            let command = Command::try_parse_from(common.iter().chain(flags)).unwrap();
            assert_eq!(router_settings(&command.args).proxy.http1_fast_path, expected, "{flags:?}");
        }
    }
}
