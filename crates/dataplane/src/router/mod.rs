//! `capt router`: the router of one namespace.
//!
//! Watches the inputs of the route table, builds it with the same pure function as the controllers, applies it to the proxy,
//! and publishes its revision and the listener ports in a Lease. Keeps the last table while the API server is unavailable.
//! Not ready before all watches are synced.

mod admin_access;
mod lease;
pub mod nofile_limit;

use std::{
    collections::BTreeMap,
    future::pending,
    net::{IpAddr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use anyhow::Context as _;
use capt_kube::k8s::KubeClient;
use futures::FutureExt as _;
use sandbox_router::{
    proxy::{Proxy, ProxySettings},
    tunnel::{TunnelTimeouts, gateway::Gateway},
};
use tokio::{
    net::TcpListener,
    sync::watch,
    task::JoinSet,
    time::{sleep, timeout},
};
use tokio_util::sync::CancellationToken;

use self::{
    admin_access::RouteReaders,
    lease::{AppliedTable, LeasePublisher},
};
use super::route_inputs::{RouteInputs, TableScope, WatchSet};
use super::tunnel::{ApiServerAuthority, LateCertificate, RouterIdentity, expected_session, report_sessions};

/// Changes within this window lead to a single table.
const TABLE_DEBOUNCE: Duration = Duration::from_millis(20);

/// Settings of a router.
#[derive(Debug, Clone)]
pub struct RouterSettings {
    /// The namespace whose Services it serves.
    pub namespace: String,
    /// Whether it reads nothing of other namespaces. Groups with members in several namespaces have no routes here then.
    pub own_namespace_only: bool,
    /// Name of its pod and its Lease.
    pub name: String,
    /// Uid of its pod, which owns the Lease.
    pub uid: Option<String>,
    /// Address at which the other routers reach it.
    pub address: Option<IpAddr>,
    /// The domain of preview hosts.
    pub domain: Option<String>,
    /// Listen address for agents.
    pub tunnel: Option<SocketAddr>,
    /// How long it keeps serving after it became unready, until load balancers have noticed.
    pub linger: Duration,
    /// Settings of the proxy.
    pub proxy: ProxySettings,
}

/// Runs until `stop`, then until its requests have finished.
pub async fn run(kube: KubeClient, settings: RouterSettings, stop: CancellationToken) -> anyhow::Result<()> {
    let gateway = Gateway::new(Arc::new(ApiServerAuthority::new(kube.clone())), TunnelTimeouts::default());
    let proxy = ProxySettings {
        name: settings.name.clone(),
        admin_authorizer: Some(Arc::new(RouteReaders::new(kube.clone(), &settings.namespace))),
        ..settings.proxy.clone()
    };
    let proxy = Proxy::start(proxy, Arc::new(Arc::clone(&gateway)))?;
    let ended = CancellationToken::new();
    let mut tasks = serve_tunnel(&kube, &settings, &gateway, &ended).await?;
    let publisher = LeasePublisher::new(kube.clone(), &settings);
    let (tell, told) = watch::channel(None);
    let mut followed = std::pin::pin!(apply_tables(&kube, &settings, (&proxy, &gateway), tell));
    let outcome = tokio::select! {
        followed = &mut followed => followed,
        // Ends when the sender is dropped.
        () = publisher.run(told) => Ok(()),
        Some(broken) = tasks.join_next() => match broken {
            Ok(()) => Err(anyhow::anyhow!("a router task ended unexpectedly; this is a bug in capt")),
            Err(error) => Err(anyhow::Error::from(error).context("a router task failed")),
        },
        () = stop.cancelled() => Ok(()),
    };
    // Drain order: load balancers stop selecting this router and agents move to another one while it still answers; then it
    // refuses new connections; then the last requests finish.
    proxy.retire();
    gateway.retire();
    if outcome.is_ok() {
        // Keep applying tables, which contain the new routers of the agents; an error there must not end the drain.
        let _lingered = timeout(settings.linger, followed.then(|_| pending::<()>())).await;
    }
    proxy.stop().await;
    publisher.withdraw().await;
    ended.cancel();
    while tasks.join_next().await.is_some() {}
    outcome
}

/// Serves agents and reports their sessions until `ended`.
async fn serve_tunnel(
    kube: &KubeClient,
    settings: &RouterSettings,
    gateway: &Arc<Gateway>,
    ended: &CancellationToken,
) -> anyhow::Result<JoinSet<()>> {
    let mut tasks = JoinSet::new();
    let Some(address) = settings.tunnel else { return Ok(tasks) };
    let listener = TcpListener::bind(address).await.with_context(|| format!("cannot listen on {address}"))?;
    let late = Arc::new(LateCertificate::default());
    let tls = Arc::new(late.server_config().context("cannot serve the tunnel with TLS")?);
    tasks.spawn(Arc::clone(gateway).serve(listener, Some(tls), ended.clone()));
    tasks.spawn(late.run(kube.clone(), settings.namespace.clone(), ended.clone()));
    let me =
        RouterIdentity { name: settings.name.clone(), address: settings.address.map(|it| it.to_string()) };
    let here = Some(settings.namespace.clone());
    tasks.spawn(report_sessions(kube.clone(), here, Arc::clone(gateway), me, ended.clone()));
    Ok(tasks)
}

/// Builds and applies a table after every change.
async fn apply_tables(
    kube: &KubeClient,
    settings: &RouterSettings,
    (proxy, gateway): (&Proxy, &Gateway),
    in_force: watch::Sender<Option<AppliedTable>>,
) -> anyhow::Result<()> {
    let (mut watches, mut changes) =
        WatchSet::new(|error| tracing::warn!(%error, "watch error, keeping the last route table"));
    let here = Some(settings.namespace.as_str());
    let readable = here.filter(|_| settings.own_namespace_only);
    let seen = RouteInputs::new(&mut watches, kube.client(), readable, here);
    seen.wait_ready().await.context("a watch ended before its first list")?;
    // Before the first request: after a container restart, the agents of this router are reconnecting.
    for expected in seen.locals().iter().filter_map(|it| expected_session(it, &settings.name)) {
        gateway.expect_session(&expected);
    }
    let view = TableScope { domain: settings.domain.as_deref(), namespace: here };
    let mut listeners: Option<Vec<u16>> = None;
    loop {
        changes.mark_unchanged();
        let made = seen.build_routes(view);
        let revision = made.revisions.get(&settings.namespace).cloned().unwrap_or_default();
        if listeners.is_none() || made.table.revision() != proxy.table().revision() {
            let wanted = made.table.listeners().map(|(port, _)| port).collect::<Vec<_>>();
            let applied = proxy.apply(made.table).await;
            let is_open = |port: &u16| applied.failed.iter().all(|(failed, _)| failed != port);
            let open = wanted.into_iter().filter(is_open).collect::<Vec<_>>();
            tracing::info!(revision, listeners = open.len(), "route table applied");
            listeners = Some(open);
        }
        let now = Some(AppliedTable { revision, listeners: listeners.clone().unwrap_or_default() });
        in_force.send_if_modified(|said| std::mem::replace(said, now.clone()) != now);
        changes.changed().await.context("the watches ended")?;
        sleep(TABLE_DEBOUNCE).await;
    }
}

/// Labels of the objects of a router.
fn labels() -> BTreeMap<String, String> {
    BTreeMap::from([(
        capt_kinds::sandbox::names::ROUTER_LABEL.to_owned(),
        super::ROUTER_LABEL_VALUE.to_owned(),
    )])
}
