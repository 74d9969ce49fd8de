//! `capt router`: the data plane of one namespace.
//!
//! It watches what routes are made of, makes the table with the same pure function as the controllers, puts it into force,
//! and says in its Lease which table that is and where it listens. While the API server is away the last table stays. It
//! is not ready before it has seen everything once.

pub mod descriptors;
mod lease;

use std::{
    collections::BTreeMap,
    future::pending,
    net::{IpAddr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use anyhow::Context as _;
use futures::FutureExt as _;
use sandbox_router::{
    proxy::{Proxy, Settings as ProxySettings},
    tunnel::{Times, gateway::Gateway},
};
use tokio::{
    net::TcpListener,
    sync::watch,
    task::JoinSet,
    time::{sleep, timeout},
};
use tokio_util::sync::CancellationToken;

use self::lease::{InForce, Publisher};
use super::tunnel::{ApiServer, Late, Router, expected, report};
use super::watched::{View, Watched, Watches};
use crate::k8s::Kube;

/// Changes that come together make one table.
const TOGETHER: Duration = Duration::from_millis(20);

/// What a router is told.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The namespace whose Services it serves.
    pub namespace: String,
    /// Of its pod, and of its Lease.
    pub name: String,
    /// Of its pod: the Lease goes with it.
    pub uid: Option<String>,
    /// Where the other routers reach it.
    pub address: Option<IpAddr>,
    /// The domain of preview hosts.
    pub domain: Option<String>,
    /// Where developers' machines connect.
    pub tunnel: Option<SocketAddr>,
    /// How long it goes on after it said that it stops: who balances has to learn of it.
    pub linger: Duration,
    /// The proxy's own.
    pub proxy: ProxySettings,
}

/// Runs until `stop`, and then until its requests have ended.
pub async fn run(kube: Kube, settings: Settings, stop: CancellationToken) -> anyhow::Result<()> {
    let gateway = Gateway::new(Arc::new(ApiServer::new(kube.clone())), Times::default());
    let proxy = ProxySettings { name: settings.name.clone(), ..settings.proxy.clone() };
    let proxy = Proxy::start(proxy, Arc::new(Arc::clone(&gateway)))?;
    let ended = CancellationToken::new();
    let mut tasks = open_door(&kube, &settings, &gateway, &ended).await?;
    let publisher = Publisher::new(kube.clone(), &settings);
    let (tell, told) = watch::channel(None);
    let mut followed = std::pin::pin!(follow(&kube, &settings, (&proxy, &gateway), tell));
    let outcome = tokio::select! {
        followed = &mut followed => followed,
        // It ends with who tells it.
        () = publisher.keep(told) => Ok(()),
        Some(broken) = tasks.join_next() => match broken {
            Ok(()) => Err(anyhow::anyhow!("a part of the router ended by itself; this is a bug in capt")),
            Err(error) => Err(anyhow::Error::from(error).context("a part of the router broke")),
        },
        () = stop.cancelled() => Ok(()),
    };
    // Who balances learns of it first, and agents go to another router while this one still answers; then nobody comes any
    // more; then the last ones leave.
    proxy.retire();
    gateway.retire();
    if outcome.is_ok() {
        // With tables that say where they went. One that ends early ends nothing else.
        let _lingered = timeout(settings.linger, followed.then(|_| pending::<()>())).await;
    }
    proxy.stop().await;
    publisher.withdraw().await;
    ended.cancel();
    while tasks.join_next().await.is_some() {}
    outcome
}

/// Serves agents, and tells of them, until it is `ended`.
async fn open_door(
    kube: &Kube,
    settings: &Settings,
    gateway: &Arc<Gateway>,
    ended: &CancellationToken,
) -> anyhow::Result<JoinSet<()>> {
    let mut tasks = JoinSet::new();
    let Some(address) = settings.tunnel else { return Ok(tasks) };
    let listener = TcpListener::bind(address).await.with_context(|| format!("cannot listen at {address}"))?;
    let late = Arc::new(Late::default());
    let tls = Arc::new(late.config().context("cannot serve the tunnel with TLS")?);
    tasks.spawn(Arc::clone(gateway).serve(listener, Some(tls), ended.clone()));
    tasks.spawn(late.keep(kube.clone(), settings.namespace.clone(), ended.clone()));
    let me = Router { name: settings.name.clone(), address: settings.address.map(|it| it.to_string()) };
    let here = Some(settings.namespace.clone());
    tasks.spawn(report(kube.clone(), here, Arc::clone(gateway), me, ended.clone()));
    Ok(tasks)
}

/// Makes a table of what is there, again and again.
async fn follow(
    kube: &Kube,
    settings: &Settings,
    (proxy, gateway): (&Proxy, &Gateway),
    in_force: watch::Sender<Option<InForce>>,
) -> anyhow::Result<()> {
    let (mut watches, mut changes) = Watches::new(
        |error| tracing::warn!(%error, "a watch of the router has trouble; the last table stays"),
    );
    let here = Some(settings.namespace.as_str());
    let seen = Watched::new(&mut watches, kube.client(), None, here);
    seen.ready().await.context("a watch ended before it began")?;
    // Before the first request: this may be a container that was started anew, and its agents are on their way back.
    for expected in seen.locals().iter().filter_map(|it| expected(it, &settings.name)) {
        gateway.expect(&expected);
    }
    let view = View { domain: settings.domain.as_deref(), scope: here };
    let mut listeners: Option<Vec<u16>> = None;
    loop {
        changes.mark_unchanged();
        let made = seen.routes(view);
        let revision = made.revisions.get(&settings.namespace).cloned().unwrap_or_default();
        if listeners.is_none() || made.table.revision() != proxy.table().revision() {
            let wanted = made.table.listeners().map(|(port, _)| port).collect::<Vec<_>>();
            let applied = proxy.apply(made.table).await;
            let is_open = |port: &u16| applied.failed.iter().all(|(failed, _)| failed != port);
            let open = wanted.into_iter().filter(is_open).collect::<Vec<_>>();
            tracing::info!(revision, listeners = open.len(), "a table is in force");
            listeners = Some(open);
        }
        let now = Some(InForce { revision, listeners: listeners.clone().unwrap_or_default() });
        in_force.send_if_modified(|said| std::mem::replace(said, now.clone()) != now);
        changes.changed().await.context("the watches ended")?;
        sleep(TOGETHER).await;
    }
}

/// Labels of everything that is a router's.
fn labels() -> BTreeMap<String, String> {
    BTreeMap::from([(sandbox::api::names::ROUTER_LABEL.to_owned(), super::ROUTER.to_owned())])
}
