//! The Service ports that each Sandbox overrides.

use std::{collections::HashMap, sync::Arc};

use capt_kinds::sandbox::{
    DisconnectPolicy, ForkStatus, LocalProtocol, LocalWorkload, Mapping, Override as OverrideSpec, Sandbox,
    VirtualStatus,
};
use http::{HeaderName, HeaderValue, StatusCode};
use kube::ResourceExt as _;
use sandbox_router::table::{
    AppProtocol, Backend, DisconnectedPolicy, FallThrough, LocalTarget, ResponseCondition, ServicePort,
    SessionGateway, Target, UnavailableTarget,
};

use super::{ByName, RouteObjects, service_index::ServiceIndex};
use crate::{
    local_slots::{check_slot, precedence},
    local_status::active_session,
};

/// The override of a Service port under a Sandbox's key.
#[derive(Debug)]
pub(super) struct Override<'a> {
    pub(super) at: ServicePort,
    /// The overridden workload, in the same namespace.
    pub(super) baseline: &'a str,
    pub(super) state: OverrideState,
    /// The Service of the target, if there is one.
    pub(super) service: Option<&'a str>,
    /// For queue consumers: container port and Service of the fork.
    pub(super) queue_rule: Option<(u16, &'a str)>,
}

/// The target of an override.
#[derive(Debug)]
pub(super) enum OverrideState {
    /// It can take requests.
    Ready(Target),
    /// It has no ready pod.
    Unready(Arc<UnavailableTarget>),
}

impl Override<'_> {
    /// Whether the baseline answers and requests are only counted under the key.
    pub(super) fn is_virtual(&self) -> bool {
        matches!(self.state, OverrideState::Ready(Target::Virtual(_)))
    }
}

/// Overrides by namespace and name of the Sandbox.
pub(super) struct Overrides<'a> {
    all: ByName<'a, Vec<Override<'a>>>,
}

impl<'a> Overrides<'a> {
    pub(super) fn new(objects: &RouteObjects<'a>, index: &ServiceIndex<'a>) -> Self {
        let mut locals: ByName<'a, Vec<&'a LocalWorkload>> = HashMap::new();
        for local in &objects.locals {
            if local.metadata.deletion_timestamp.is_none() {
                let namespace = local.metadata.namespace.as_deref().unwrap_or_default();
                locals.entry((namespace, local.spec.sandbox_ref.name.as_str())).or_default().push(local);
            }
        }
        let mut all = HashMap::with_capacity(objects.sandboxes.len());
        for sandbox in &objects.sandboxes {
            let key = sandbox_key(sandbox);
            let own = locals.remove(&key).unwrap_or_default();
            all.insert(key, sandbox_overrides(sandbox, &slotted_locals(sandbox, own), index));
        }
        Self { all }
    }

    pub(super) fn get(&self, sandbox: &'a Sandbox) -> &[Override<'a>] {
        self.all.get(&sandbox_key(sandbox)).map_or(&[], Vec::as_slice)
    }
}

fn sandbox_key(sandbox: &Sandbox) -> (&str, &str) {
    let metadata = &sandbox.metadata;
    (metadata.namespace.as_deref().unwrap_or_default(), metadata.name.as_deref().unwrap_or_default())
}

/// The local workloads without conflicts, in a deterministic order.
fn slotted_locals<'a>(sandbox: &Sandbox, mut locals: Vec<&'a LocalWorkload>) -> Vec<&'a LocalWorkload> {
    locals.sort_by(|one, other| precedence(one).cmp(&precedence(other)));
    let has_place = |it: &&LocalWorkload| check_slot(it, sandbox, locals.iter().copied()).is_ok();
    locals.iter().copied().filter(has_place).collect()
}

fn sandbox_overrides<'a>(
    sandbox: &'a Sandbox,
    locals: &[&'a LocalWorkload],
    index: &ServiceIndex<'_>,
) -> Vec<Override<'a>> {
    let Some(status) = &sandbox.status else { return Vec::new() };
    let mut all = Vec::with_capacity(status.forks.len());
    for fork in &status.forks {
        // A fork removed from the spec is about to be deleted.
        if let Some(spec) = sandbox.spec.forks.iter().find(|it| it.name() == fork.name) {
            add_fork(sandbox, &spec.fork_of.name, fork, index, &mut all);
        }
    }
    for local in locals {
        add_local(sandbox, local, index, &mut all);
    }
    for one in &status.virtuals {
        if let Some(spec) = sandbox.spec.virtuals.iter().find(|it| it.name == one.name) {
            add_virtual(sandbox, &spec.workload.name, one, &mut all);
        }
    }
    all
}

/// Adds a virtual workload, unless a fork or a local workload of the same Sandbox overrides the port.
fn add_virtual<'a>(
    sandbox: &Sandbox,
    baseline: &'a str,
    one: &'a VirtualStatus,
    all: &mut Vec<Override<'a>>,
) {
    let (namespace, own) = sandbox_key(sandbox);
    for (service, port) in one.services.iter().flat_map(|it| it.ports.iter().map(move |port| (it, port))) {
        let Some(at) = service_port(namespace, &service.service, port.port) else { continue };
        if all.iter().all(|it| it.at != at) {
            let made = OverrideState::Ready(Target::new_virtual(namespace, own));
            all.push(Override {
                at,
                baseline,
                state: made,
                service: Some(&service.service),
                queue_rule: None,
            });
        }
    }
}

fn add_fork<'a>(
    sandbox: &Sandbox,
    baseline: &'a str,
    fork: &'a ForkStatus,
    index: &ServiceIndex<'_>,
    all: &mut Vec<Override<'a>>,
) {
    let (namespace, own) = sandbox_key(sandbox);
    for service in &fork.services {
        let missing = service.missing_ports.iter().map(|port| (*port, None));
        let ports = service.ports.iter().map(|it| (it.port, Some(it.target_port)));
        for (port, target) in ports.chain(missing) {
            let Some(at) = service_port(namespace, &service.from, port) else { continue };
            let name = target.and_then(|_| index.port_name(namespace, &service.to, port));
            let addresses = name.map(|it| index.addresses(namespace, &service.to, it)).unwrap_or_default();
            let made = if addresses.is_empty() {
                let why = unready_reason(fork, target.is_none());
                OverrideState::Unready(UnavailableTarget::unready(namespace, own, why).into())
            } else {
                OverrideState::Ready(Target::Backend(Backend::fork(namespace, own, addresses)))
            };
            let leading = target.map(|_| service.to.as_str());
            let rule = target.and_then(|it| Some((u16::try_from(it).ok()?, service.to.as_str())));
            all.push(Override { at, baseline, state: made, service: leading, queue_rule: rule });
        }
    }
}

fn unready_reason(fork: &ForkStatus, is_missing: bool) -> String {
    if is_missing {
        return format!("the fork {} has no container with this port", fork.name);
    }
    if fork.message.is_empty() {
        format!("the fork {} has no ready pod", fork.name)
    } else {
        format!("the fork {} has no ready pod: {}", fork.name, fork.message)
    }
}

/// Adds a local workload. It takes precedence over a fork of the same baseline.
fn add_local<'a>(
    sandbox: &Sandbox,
    local: &'a LocalWorkload,
    index: &ServiceIndex<'_>,
    all: &mut Vec<Override<'a>>,
) {
    let Some(status) = &local.status else { return };
    let namespace = sandbox_key(sandbox).0;
    for (service, port) in status.services.iter().flat_map(|it| it.ports.iter().map(move |port| (it, port))) {
        let mapping = local.spec.mappings.iter().find(|it| it.port == port.target_port);
        let at = service_port(namespace, &service.service, port.port);
        let (Some(mapping), Some(at)) = (mapping, at) else { continue };
        if index.service(namespace, &service.service).is_none() {
            continue;
        }
        let fork = all.iter().position(|it| it.at == at).map(|it| all.remove(it));
        let baseline = local.spec.from.name.as_str();
        if let Some(made) = local_target(local, mapping, fork.as_ref()) {
            let made = OverrideState::Ready(Target::Local(made.into()));
            all.push(Override { at, baseline, state: made, service: None, queue_rule: None });
        }
    }
}

fn local_target(
    local: &LocalWorkload,
    mapping: &Mapping,
    fork: Option<&Override<'_>>,
) -> Option<LocalTarget> {
    let namespace = local.metadata.namespace.as_deref().unwrap_or_default();
    let made = LocalTarget::new(namespace, &local.name_any(), u16::try_from(mapping.port).ok()?);
    let made = made
        .with_protocol(app_protocol(mapping.app_protocol))
        .with_condition(override_condition(local.spec.over.as_ref()));
    let made = made
        .with_fall_through(shadowed_target(fork))
        .with_disconnected_policy(disconnect_fallback(local, fork));
    Some(match session_gateway(local) {
        Some(gateway) => made.with_gateway(gateway),
        None => made,
    })
}

/// The target that would answer without the local workload.
fn shadowed_target(fork: Option<&Override<'_>>) -> FallThrough {
    match fork.map(|it| &it.state) {
        Some(OverrideState::Ready(target)) => {
            target.backend().cloned().map_or(FallThrough::Baseline, FallThrough::Fork)
        }
        Some(OverrideState::Unready(why)) => FallThrough::Unavailable(Arc::clone(why)),
        None => FallThrough::Baseline,
    }
}

/// The fallback while no agent is connected.
fn disconnect_fallback(local: &LocalWorkload, fork: Option<&Override<'_>>) -> DisconnectedPolicy {
    match local.spec.disconnect_policy {
        DisconnectPolicy::Baseline => DisconnectedPolicy::Baseline,
        DisconnectPolicy::Fork if fork.is_some() => DisconnectedPolicy::Before,
        DisconnectPolicy::Fork | DisconnectPolicy::Fail => DisconnectedPolicy::Fail,
    }
}

fn override_condition(over: Option<&OverrideSpec>) -> ResponseCondition {
    let Some(over) = over else { return ResponseCondition::Always };
    if let Some(line) = &over.require_header
        && let Some((name, value)) = line.split_once(':')
        && let (Ok(name), Ok(value)) =
            (HeaderName::try_from(name.to_ascii_lowercase()), HeaderValue::try_from(value.trim()))
    {
        return ResponseCondition::Header(name, value);
    }
    let codes = over.except_status.iter().flatten();
    let codes = codes.filter_map(|it| StatusCode::from_u16(u16::try_from(*it).ok()?).ok());
    ResponseCondition::ExceptStatus(codes.collect())
}

/// The router that holds the session, while connected or reconnecting. The address in an ended session must not be used: it may
/// belong to another pod by now.
fn session_gateway(local: &LocalWorkload) -> Option<SessionGateway> {
    let session = active_session(local.status.as_ref()?)?;
    let address = session.gateway_address.as_ref()?.parse().ok()?;
    Some(SessionGateway { name: session.gateway.clone()?, address })
}

fn app_protocol(said: LocalProtocol) -> AppProtocol {
    match said {
        LocalProtocol::Http => AppProtocol::Http,
        LocalProtocol::H2c => AppProtocol::H2c,
        LocalProtocol::Grpc => AppProtocol::Grpc,
        LocalProtocol::Tcp => AppProtocol::Tcp,
    }
}

fn service_port(namespace: &str, service: &str, port: i32) -> Option<ServicePort> {
    Some(ServicePort::new(namespace, service, u16::try_from(port).ok()?))
}
