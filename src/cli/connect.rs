//! `capt connect`: routes traffic of a cluster workload to this machine.

mod connection_view;

use std::{fs, path::PathBuf, sync::Arc};

use anyhow::{Context as _, anyhow};
use capt_dataplane::connect::{
    DirectDialer, FileToken, KubeToken, PinnedDialer, PortForward, confirm_mappings, direct_tls,
    nodelay_client,
};
use capt_engine::process_env::ProcessEnv;
use capt_kinds::sandbox::LocalWorkload;
use capt_kube::k8s::{K8sError, KubeClient};
use kube::{Client, Config};
use sandbox_router::tunnel::{
    LocalMapping, TunnelProtocol, TunnelTimeouts, WorkloadName,
    agent::{self, Agent, AgentError, GatewayDialer, TcpDialer, TokenSource},
};
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

use super::{
    kube_api::describe_api_error,
    kube_target::KubeTarget,
    output::{self, ExitStatus},
};

/// Arguments of `capt connect`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  capt connect cart-local -n shop                     the mappings of the LocalWorkload, through the API server
  capt connect cart-local -n shop --map 8080=4000     the same, but the application listens on port 4000
  capt connect cart-local -n shop --takeover          replace the session of another user
  capt connect cart-local -n shop --address tunnel.dev.example.org:443     directly to a router, bypassing the API server

Opens no port on this machine, changes neither routes nor DNS, and needs no root. Only loopback addresses are dialled,
unless --map says otherwise; later changes of the LocalWorkload have no effect.")]
pub(super) struct Args {
    /// Name of the `LocalWorkload`.
    name: String,
    #[command(flatten)]
    access: KubeTarget,
    /// Namespace of the `LocalWorkload`.
    #[arg(short, long, value_name = "NAME", default_value = "default")]
    namespace: String,
    /// Local address of a port, overriding the `LocalWorkload`; may be repeated.
    #[arg(long, value_name = "PORT=[HOST:]PORT")]
    map: Vec<LocalMapping>,
    /// Replace the session of another connected user.
    #[arg(long)]
    takeover: bool,
    /// Address of the tunnel endpoint; by default the API server port-forwards to a router.
    #[arg(long, value_name = "HOST:PORT")]
    address: Option<String>,
    /// CA of the certificate at --address; defaults to the routers' own CA, read from the API server.
    #[arg(long, value_name = "FILE", requires = "address")]
    ca: Option<PathBuf>,
    /// Connect without TLS; only for a router on this machine.
    #[arg(long, requires = "address", conflicts_with = "ca")]
    plain: bool,
    /// File with the token to authenticate with, instead of the kubeconfig's.
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
}

pub(super) async fn run(args: &Args, process_env: &ProcessEnv) -> anyhow::Result<ExitStatus> {
    let config = args.access.config_or_default(process_env).await?;
    let tokens = token_source(args, &config, process_env)?;
    let client = nodelay_client(config).map_err(|error| describe_api_error(&error))?;
    let mappings = confirmed_mappings(args, &client).await?;
    for mapping in &mappings {
        output::print_message(&format!("port {} is mapped to {}", mapping.port, mapping.to_local()));
    }
    let agent = Agent::new(
        agent::AgentConfig {
            workload: WorkloadName::new(&args.namespace, &args.name),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            session: session_id(),
            takeover: args.takeover,
            mappings,
            times: TunnelTimeouts::default(),
        },
        tunnel_dialer(args, client, process_env).await?,
        tokens,
    );
    run_agent(&agent).await
}

/// Runs the agent and shows its state until it ends or a signal arrives.
async fn run_agent(agent: &Agent) -> anyhow::Result<ExitStatus> {
    let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    let stop = CancellationToken::new();
    let mut running = std::pin::pin!(agent.run(stop.clone()));
    let ended = tokio::select! {
        ended = &mut running => Some(ended),
        () = connection_view::show_connection(agent.watch()) => None,
        _ = terminate.recv() => None,
        _ = interrupt.recv() => None,
    };
    let ended = match ended {
        Some(ended) => ended,
        // Closes the session at the router, so that its callers fail over at once.
        None => {
            stop.cancel();
            tokio::select! {
                ended = &mut running => ended,
                // A second signal does not wait for a router that may be unreachable.
                _ = terminate.recv() => Ok(()),
                _ = interrupt.recv() => Ok(()),
            }
        }
    };
    match ended {
        Ok(()) => {
            output::print_message("disconnected");
            Ok(ExitStatus::Done)
        }
        Err(AgentError::Refused(why) | AgentError::Fenced(why)) => Err(anyhow!("{why}")),
    }
}

/// A random id of this process's session.
fn session_id() -> String {
    let mut id = String::new();
    for _ in 0..20 {
        id.push(fastrand::alphanumeric());
    }
    id
}

/// The mappings of the object, overridden by --map.
async fn confirmed_mappings(args: &Args, client: &Client) -> anyhow::Result<Vec<LocalMapping>> {
    // `Kube` retries a busy API server; the plain client does not.
    let kube = KubeClient::new(client.clone());
    let found = kube.get::<LocalWorkload>(Some(&args.namespace), &args.name).await;
    let found = found.map_err(|error| match error {
        K8sError::Unreachable { source, .. } => describe_api_error(&source),
        other => other.into(),
    })?;
    let found = found.ok_or_else(|| {
        anyhow!(
            "no LocalWorkload {}/{} found; `kubectl get lw -A` lists them, -n selects another namespace",
            args.namespace,
            args.name
        )
    })?;
    Ok(confirm_mappings(&found.spec.mappings, &args.map)?)
}

fn token_source(
    args: &Args,
    config: &Config,
    process_env: &ProcessEnv,
) -> anyhow::Result<Arc<dyn TokenSource>> {
    Ok(match &args.token_file {
        Some(path) => Arc::new(FileToken(process_env.absolute_path(path))),
        None => Arc::new(KubeToken::new(config)?),
    })
}

async fn tunnel_dialer(
    args: &Args,
    client: Client,
    process_env: &ProcessEnv,
) -> anyhow::Result<Arc<dyn GatewayDialer>> {
    let Some(address) = &args.address else {
        let forward = PortForward::new(client.clone(), &args.namespace);
        return Ok(Arc::new(PinnedDialer::new(forward, client, &args.namespace)));
    };
    if args.plain {
        require_loopback(address)?;
        return Ok(Arc::new(TcpDialer { address: address.clone() }));
    }
    let Some(ca) = &args.ca else {
        return Ok(Arc::new(DirectDialer::open(client, &args.namespace, address).await?));
    };
    let ca = process_env.absolute_path(ca);
    let pem = fs::read(&ca).with_context(|| format!("cannot read {}", ca.display()))?;
    let host = address.rsplit_once(':').map_or(address.as_str(), |(host, _)| host);
    let host = host.trim_start_matches('[').trim_end_matches(']');
    Ok(Arc::new(direct_tls(address, host, &pem, &ca.display().to_string())?))
}

/// Without TLS the token is sent in plain text, so only loopback addresses are allowed.
fn require_loopback(address: &str) -> anyhow::Result<()> {
    // Decided without DNS, which could resolve a name to another machine.
    let is_here = LocalMapping::new(1, address, TunnelProtocol::Tcp).is_ok_and(|it| it.is_loopback());
    if is_here {
        return Ok(());
    }
    Err(anyhow!(
        "--plain would send your token to {address} in plain text; use it only for a router on this machine, such as 127.0.0.1:8446"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_goes_without_tls_only_to_this_machine() {
        for here in ["127.0.0.1:8446", "[::1]:8446", "localhost:8446"] {
            assert!(require_loopback(here).is_ok(), "{here}");
        }
        for elsewhere in
            ["10.0.0.7:8446", "tunnel.example.org:443", "localhost.example.org:443", "0.0.0.0:1", "nonsense"]
        {
            assert!(require_loopback(elsewhere).is_err(), "{elsewhere}");
        }
    }
}
