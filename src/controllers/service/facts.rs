//! What is there.

use std::{collections::BTreeSet, time::Duration};

use k8s_openapi::api::{
    coordination::v1::Lease,
    core::v1::{Namespace, Pod, Service},
    discovery::v1::EndpointSlice,
};
use kube::{ResourceExt as _, core::DeserializeGuard};
use sandbox::{
    api::{LocalWorkload, Sandbox, names},
    service::{Routing, is_ours, is_taken_over, is_used_by, routing},
};

use super::{Context, build};
use crate::{k8s::K8sError, sandbox::LISTENERS_ANNOTATION};

/// What is there.
#[derive(Debug, Clone, Default)]
pub(super) struct Facts {
    pub(super) service: Service,
    /// Whether its owner wants its traffic to go to the router.
    pub(super) wanted: bool,
    /// The Service that keeps its selector.
    pub(super) keeper: Option<Service>,
    /// The addresses behind the Service that are ready.
    pub(super) own: BTreeSet<String>,
    /// Those behind the keeper.
    pub(super) kept: BTreeSet<String>,
    /// The ports at which each ready router listens.
    pub(super) routers: Vec<BTreeSet<u16>>,
    /// Router's ports that other Services of the namespace have.
    pub(super) used: BTreeSet<u16>,
    /// How long there has been no ready router.
    pub(super) without_router: Option<Duration>,
    /// How long ago somebody took the Service back.
    pub(super) since_revert: Option<Duration>,
}

/// `None` if the Service has nothing to do with us.
pub(super) async fn gather(service: &Service, ctx: &Context) -> Result<Option<Facts>, K8sError> {
    let kube = &ctx.common.kube;
    let namespace = service.namespace().unwrap_or_default();
    let home: Option<Namespace> = match &ctx.common.settings.namespace {
        Some(_) => None,
        None => kube.get(None, &namespace).await?,
    };
    let wanted = match wish(service, home.as_ref()) {
        Some(Routing::Enabled) => true,
        Some(Routing::WhileActive) => is_used(service, ctx).await?,
        None => false,
    };
    let annotated = service.annotations().contains_key(names::LISTEN_ANNOTATION) || is_taken_over(service);
    let keeper: Option<Service> = if wanted || annotated {
        kube.get(Some(&namespace), &build::keeper_name(service)).await?
    } else {
        // Somebody stopped wanting it: what was made is still to be removed.
        let of = format!("{}={}", names::BASE_OF_LABEL, service.name_any());
        kube.list(Some(&namespace), &of).await?.into_iter().next()
    };
    if !wanted && !annotated && keeper.is_none() {
        return Ok(None);
    }
    let routers = routers(&namespace, ctx).await?;
    let path = format!("{namespace}/{}", service.name_any());
    Ok(Some(Facts {
        service: service.clone(),
        wanted,
        own: ready(&namespace, &service.name_any(), ctx).await?,
        kept: match &keeper {
            Some(keeper) => ready(&namespace, &keeper.name_any(), ctx).await?,
            None => BTreeSet::new(),
        },
        keeper,
        used: used(&namespace, service, ctx).await?,
        without_router: ctx.memory.without_router(&namespace, !routers.is_empty()),
        since_revert: ctx.memory.since_revert(&path),
        routers,
    }))
}

/// The Service's own word counts, and else that of its namespace, which can only be for good.
fn wish(service: &Service, namespace: Option<&Namespace>) -> Option<Routing> {
    let own = service.annotations();
    let word = if own.contains_key(names::ROUTING_ANNOTATION) {
        routing(own)
    } else {
        routing(namespace?.annotations()).filter(|it| *it == Routing::Enabled)
    };
    word.filter(|_| build::why_not(service).is_none())
}

/// Whether a sandbox or a local workload stands in for what is behind a Service.
async fn is_used(service: &Service, ctx: &Context) -> Result<bool, K8sError> {
    let (home, name) = (service.namespace(), service.name_any());
    let all: Vec<DeserializeGuard<Sandbox>> = ctx.common.kube.list(home.as_deref(), "").await?;
    if all.iter().filter_map(|it| it.0.as_ref().ok()).any(|it| is_used_by(it, &name)) {
        return Ok(true);
    }
    let all: Vec<DeserializeGuard<LocalWorkload>> = ctx.common.kube.list(home.as_deref(), "").await?;
    let leads = |it: &LocalWorkload| {
        let services = it.status.iter().flat_map(|it| &it.services);
        it.metadata.deletion_timestamp.is_none() && services.into_iter().any(|it| it.service == name)
    };
    Ok(all.iter().filter_map(|it| it.0.as_ref().ok()).any(leads))
}

async fn ready(namespace: &str, service: &str, ctx: &Context) -> Result<BTreeSet<String>, K8sError> {
    let of = format!("kubernetes.io/service-name={service}");
    let slices: Vec<EndpointSlice> = ctx.common.kube.list(Some(namespace), &of).await?;
    let endpoints = slices.into_iter().flat_map(|it| it.endpoints);
    let ready = endpoints.filter(|it| it.conditions.as_ref().and_then(|it| it.ready).unwrap_or(true));
    Ok(ready.flat_map(|it| it.addresses).collect())
}

/// Routers that take requests, each with the ports at which its Lease says that it listens.
async fn routers(namespace: &str, ctx: &Context) -> Result<Vec<BTreeSet<u16>>, K8sError> {
    let pods: Vec<Pod> = ctx.common.kube.list(Some(namespace), names::ROUTER_LABEL).await?;
    let leases: Vec<Lease> = ctx.common.kube.list(Some(namespace), names::ROUTER_LABEL).await?;
    let ports = |name: &str| {
        let lease = leases.iter().find(|it| it.name_any() == name);
        let text = lease.and_then(|it| it.annotations().get(LISTENERS_ANNOTATION));
        let ports = text.map(|it| it.split(',').filter_map(|port| port.parse().ok()).collect());
        ports.unwrap_or_default()
    };
    Ok(pods.iter().filter(|it| is_ready(it)).map(|it| ports(&it.name_any())).collect())
}

fn is_ready(pod: &Pod) -> bool {
    let conditions = pod.status.as_ref().and_then(|it| it.conditions.as_ref());
    let ready = conditions.into_iter().flatten().any(|it| it.type_ == "Ready" && it.status == "True");
    ready && pod.metadata.deletion_timestamp.is_none()
}

async fn used(namespace: &str, own: &Service, ctx: &Context) -> Result<BTreeSet<u16>, K8sError> {
    let all: Vec<Service> = ctx.common.kube.list(Some(namespace), "").await?;
    let others = all.iter().filter(|it| it.metadata.uid != own.metadata.uid && !is_ours(it));
    Ok(others.flat_map(|it| build::announced(it).into_values()).collect())
}
