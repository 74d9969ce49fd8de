//! `capt connect`: answers for a workload of the cluster from this machine.

mod show;

use std::{fs, path::PathBuf, sync::Arc};

use anyhow::{Context as _, anyhow};
use kube::{Client, Config};
use sandbox::api::LocalWorkload;
use sandbox_router::tunnel::{
    Mapping, Protocol, Times, Workload,
    agent::{self, Agent, Dial, End, Tcp, Tokens},
};
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

use super::{
    access::Access,
    client::explain,
    output::{self, ExitStatus},
};
use crate::{
    config::Outer,
    k8s::{K8sError, Kube},
    sandbox::connect::{FileToken, KubeToken, PortForward, Published, confirm, prompt, tls},
};

/// What to answer for, and how to reach the router.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  capt connect cart-local -n shop                     what the LocalWorkload maps, through the API server
  capt connect cart-local -n shop --map 8080=4000     the same, but the application listens on port 4000
  capt connect cart-local -n shop --takeover          although somebody else is connected
  capt connect cart-local -n shop --address tunnel.dev.example.org:443     to a router, without the API server between

No port of this machine is opened, no route and no name server is changed, and no root is needed. Only what stays on
this machine is dialled, unless --map says otherwise; what the LocalWorkload says later changes nothing.")]
pub(super) struct Args {
    /// The `LocalWorkload`.
    name: String,
    #[command(flatten)]
    access: Access,
    /// Its namespace.
    #[arg(short, long, value_name = "NAME", default_value = "default")]
    namespace: String,
    /// Where the application of a port listens, instead of where the `LocalWorkload` says; may be given again.
    #[arg(long, value_name = "PORT=[HOST:]PORT")]
    map: Vec<Mapping>,
    /// Take the place of another user who is connected.
    #[arg(long)]
    takeover: bool,
    /// The address of the tunnel, if it has one of its own; otherwise the API server forwards to a router.
    #[arg(long, value_name = "HOST:PORT")]
    address: Option<String>,
    /// Who signs the certificate at --address, if not the routers' own authority, which the API server tells.
    #[arg(long, value_name = "FILE", requires = "address")]
    ca: Option<PathBuf>,
    /// Without TLS: for a router on this machine.
    #[arg(long, requires = "address", conflicts_with = "ca")]
    plain: bool,
    /// A file with the token to show, instead of the kubeconfig's.
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
}

pub(super) async fn run(args: &Args, outer: &Outer) -> anyhow::Result<ExitStatus> {
    let config = args.access.config_or_usual(outer).await?;
    let tokens = tokens(args, &config, outer)?;
    let client = prompt(config).map_err(|error| explain(&error))?;
    let mappings = mappings(args, &client).await?;
    for mapping in &mappings {
        output::say(&format!("port {} goes to {}", mapping.port, mapping.to_local()));
    }
    let agent = Agent::new(
        agent::Config {
            workload: Workload::new(&args.namespace, &args.name),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            session: session(),
            takeover: args.takeover,
            mappings,
            times: Times::default(),
        },
        dial(args, client, outer).await?,
        tokens,
    );
    follow(&agent).await
}

/// Shows what the agent does until it ends, or until somebody ends it.
async fn follow(agent: &Agent) -> anyhow::Result<ExitStatus> {
    let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    let stop = CancellationToken::new();
    let mut running = std::pin::pin!(agent.run(stop.clone()));
    let ended = tokio::select! {
        ended = &mut running => Some(ended),
        () = show::show(agent.watch()) => None,
        _ = terminate.recv() => None,
        _ = interrupt.recv() => None,
    };
    let ended = match ended {
        Some(ended) => ended,
        // The router is told, so that nobody waits for us.
        None => {
            stop.cancel();
            tokio::select! {
                ended = &mut running => ended,
                // Who asks twice does not want to wait for a router that may be away.
                _ = terminate.recv() => Ok(()),
                _ = interrupt.recv() => Ok(()),
            }
        }
    };
    match ended {
        Ok(()) => {
            output::say("disconnected");
            Ok(ExitStatus::Done)
        }
        Err(End::Refused(why) | End::Fenced(why)) => Err(anyhow!("{why}")),
    }
}

/// Names this process.
fn session() -> String {
    let mut id = String::new();
    for _ in 0..20 {
        id.push(fastrand::alphanumeric());
    }
    id
}

/// What the object proposes, and the command line confirms.
async fn mappings(args: &Args, client: &Client) -> anyhow::Result<Vec<Mapping>> {
    // The client itself tries nothing again, and an API server may be busy for a moment.
    let kube = Kube::new(client.clone());
    let found = kube.get::<LocalWorkload>(Some(&args.namespace), &args.name).await;
    let found = found.map_err(|error| match error {
        K8sError::Unreachable { source, .. } => explain(&source),
        other => other.into(),
    })?;
    let found = found.ok_or_else(|| {
        anyhow!(
            "there is no LocalWorkload {}/{}; `kubectl get lw -A` lists them, -n names another namespace",
            args.namespace,
            args.name
        )
    })?;
    Ok(confirm(&found.spec.mappings, &args.map)?)
}

fn tokens(args: &Args, config: &Config, outer: &Outer) -> anyhow::Result<Arc<dyn Tokens>> {
    Ok(match &args.token_file {
        Some(path) => Arc::new(FileToken(outer.absolute(path))),
        None => Arc::new(KubeToken::new(config)?),
    })
}

async fn dial(args: &Args, client: Client, outer: &Outer) -> anyhow::Result<Arc<dyn Dial>> {
    let Some(address) = &args.address else {
        return Ok(Arc::new(PortForward::new(client, &args.namespace)));
    };
    if args.plain {
        only_here(address)?;
        return Ok(Arc::new(Tcp { address: address.clone() }));
    }
    let Some(ca) = &args.ca else {
        return Ok(Arc::new(Published::open(client, &args.namespace, address).await?));
    };
    let ca = outer.absolute(ca);
    let pem = fs::read(&ca).with_context(|| format!("cannot read {}", ca.display()))?;
    let host = address.rsplit_once(':').map_or(address.as_str(), |(host, _)| host);
    let host = host.trim_start_matches('[').trim_end_matches(']');
    Ok(Arc::new(tls(address, host, &pem, &ca.display().to_string())?))
}

/// Without TLS the token can be read on the way: so there has to be none.
fn only_here(address: &str) -> anyhow::Result<()> {
    // What is on this machine is not asked of a name server, which could say otherwise.
    let is_here = Mapping::new(1, address, Protocol::Tcp).is_ok_and(|it| it.is_loopback());
    if is_here {
        return Ok(());
    }
    Err(anyhow!(
        "--plain would send your token to {address} in the clear; it is for a router on this machine, such as 127.0.0.1:8446"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_goes_without_tls_only_to_this_machine() {
        for here in ["127.0.0.1:8446", "[::1]:8446", "localhost:8446"] {
            assert!(only_here(here).is_ok(), "{here}");
        }
        for elsewhere in
            ["10.0.0.7:8446", "tunnel.example.org:443", "localhost.example.org:443", "0.0.0.0:1", "nonsense"]
        {
            assert!(only_here(elsewhere).is_err(), "{elsewhere}");
        }
    }
}
