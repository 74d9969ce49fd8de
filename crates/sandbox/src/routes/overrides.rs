//! What each sandbox overrides.

use std::{collections::HashMap, sync::Arc};

use http::{HeaderName, HeaderValue, StatusCode};
use kube::ResourceExt as _;
use sandbox_router::table::{
    AppProtocol, Backend, Before, Gateway, Local, Otherwise, ServicePort, Target, Unavailable, When,
};

use super::{ByName, Objects, index::Index};
use crate::{
    api::{
        DisconnectPolicy, ForkStatus, LocalProtocol, LocalWorkload, Mapping, Override as OverrideSpec,
        Sandbox, VirtualStatus,
    },
    local_place::{age, place},
    local_status::live,
};

/// Who answers a port of a Service under a sandbox's key.
#[derive(Debug)]
pub(super) struct Override<'a> {
    pub(super) at: ServicePort,
    /// The workload of the same namespace that it stands in for.
    pub(super) baseline: &'a str,
    pub(super) made: Made,
    /// The Service that leads there, if one does.
    pub(super) service: Option<&'a str>,
    /// Where a consumer of queues finds it: the port of the container, and the Service that leads there.
    pub(super) rule: Option<(u16, &'a str)>,
}

/// Who answers.
#[derive(Debug)]
pub(super) enum Made {
    /// Somebody.
    Ready(Target),
    /// Nobody yet.
    Unready(Arc<Unavailable>),
}

impl Override<'_> {
    /// Whether the baseline answers, and the key is only known.
    pub(super) fn is_virtual(&self) -> bool {
        matches!(self.made, Made::Ready(Target::Virtual(_)))
    }
}

/// What each sandbox overrides, by namespace and name.
pub(super) struct Overrides<'a> {
    all: ByName<'a, Vec<Override<'a>>>,
}

impl<'a> Overrides<'a> {
    pub(super) fn new(objects: &Objects<'a>, index: &Index<'a>) -> Self {
        let mut locals: ByName<'a, Vec<&'a LocalWorkload>> = HashMap::new();
        for local in &objects.locals {
            if local.metadata.deletion_timestamp.is_none() {
                let namespace = local.metadata.namespace.as_deref().unwrap_or_default();
                locals.entry((namespace, local.spec.sandbox_ref.name.as_str())).or_default().push(local);
            }
        }
        let mut all = HashMap::with_capacity(objects.sandboxes.len());
        for sandbox in &objects.sandboxes {
            let key = name(sandbox);
            let own = locals.remove(&key).unwrap_or_default();
            all.insert(key, of_sandbox(sandbox, &placed(sandbox, own), index));
        }
        Self { all }
    }

    pub(super) fn of(&self, sandbox: &'a Sandbox) -> &[Override<'a>] {
        self.all.get(&name(sandbox)).map_or(&[], Vec::as_slice)
    }
}

fn name(sandbox: &Sandbox) -> (&str, &str) {
    let metadata = &sandbox.metadata;
    (metadata.namespace.as_deref().unwrap_or_default(), metadata.name.as_deref().unwrap_or_default())
}

/// Those that have a place, in an order that is the same wherever this is asked.
fn placed<'a>(sandbox: &Sandbox, mut locals: Vec<&'a LocalWorkload>) -> Vec<&'a LocalWorkload> {
    locals.sort_by(|one, other| age(one).cmp(&age(other)));
    let has_place = |it: &&LocalWorkload| place(it, sandbox, locals.iter().copied()).is_ok();
    locals.iter().copied().filter(has_place).collect()
}

fn of_sandbox<'a>(
    sandbox: &'a Sandbox,
    locals: &[&'a LocalWorkload],
    index: &Index<'_>,
) -> Vec<Override<'a>> {
    let Some(status) = &sandbox.status else { return Vec::new() };
    let mut all = Vec::with_capacity(status.forks.len());
    for fork in &status.forks {
        // A fork that the spec no longer has goes away.
        if let Some(spec) = sandbox.spec.forks.iter().find(|it| it.name() == fork.name) {
            of_fork(sandbox, &spec.fork_of.name, fork, index, &mut all);
        }
    }
    for local in locals {
        of_local(sandbox, local, index, &mut all);
    }
    for one in &status.virtuals {
        if let Some(spec) = sandbox.spec.virtuals.iter().find(|it| it.name == one.name) {
            of_virtual(sandbox, &spec.workload.name, one, &mut all);
        }
    }
    all
}

/// Where a fork or a local workload of the same sandbox answers, there is nothing virtual.
fn of_virtual<'a>(sandbox: &Sandbox, baseline: &'a str, one: &'a VirtualStatus, all: &mut Vec<Override<'a>>) {
    let (namespace, own) = name(sandbox);
    for (service, port) in one.services.iter().flat_map(|it| it.ports.iter().map(move |port| (it, port))) {
        let Some(at) = service_port(namespace, &service.service, port.port) else { continue };
        if all.iter().all(|it| it.at != at) {
            let made = Made::Ready(Target::virtual_of(namespace, own));
            all.push(Override { at, baseline, made, service: Some(&service.service), rule: None });
        }
    }
}

fn of_fork<'a>(
    sandbox: &Sandbox,
    baseline: &'a str,
    fork: &'a ForkStatus,
    index: &Index<'_>,
    all: &mut Vec<Override<'a>>,
) {
    let (namespace, own) = name(sandbox);
    for service in &fork.services {
        let missing = service.missing_ports.iter().map(|port| (*port, None));
        let ports = service.ports.iter().map(|it| (it.port, Some(it.target_port)));
        for (port, target) in ports.chain(missing) {
            let Some(at) = service_port(namespace, &service.from, port) else { continue };
            let name = target.and_then(|_| index.port_name(namespace, &service.to, port));
            let addresses = name.map(|it| index.addresses(namespace, &service.to, it)).unwrap_or_default();
            let made = if addresses.is_empty() {
                let why = why_unready(fork, target.is_none());
                Made::Unready(Unavailable::unready(namespace, own, why).into())
            } else {
                Made::Ready(Target::Backend(Backend::fork(namespace, own, addresses)))
            };
            let leading = target.map(|_| service.to.as_str());
            let rule = target.and_then(|it| Some((u16::try_from(it).ok()?, service.to.as_str())));
            all.push(Override { at, baseline, made, service: leading, rule });
        }
    }
}

fn why_unready(fork: &ForkStatus, is_missing: bool) -> String {
    if is_missing {
        return format!("the fork {} has no container with this port", fork.name);
    }
    if fork.message.is_empty() {
        format!("the fork {} has no pod that is ready", fork.name)
    } else {
        format!("the fork {} has no pod that is ready: {}", fork.name, fork.message)
    }
}

/// A local workload stands before the fork of the same baseline, if there is one.
fn of_local<'a>(sandbox: &Sandbox, local: &'a LocalWorkload, index: &Index<'_>, all: &mut Vec<Override<'a>>) {
    let Some(status) = &local.status else { return };
    let namespace = name(sandbox).0;
    for (service, port) in status.services.iter().flat_map(|it| it.ports.iter().map(move |port| (it, port))) {
        let mapping = local.spec.mappings.iter().find(|it| it.port == port.target_port);
        let at = service_port(namespace, &service.service, port.port);
        let (Some(mapping), Some(at)) = (mapping, at) else { continue };
        if index.service(namespace, &service.service).is_none() {
            continue;
        }
        let fork = all.iter().position(|it| it.at == at).map(|it| all.remove(it));
        let baseline = local.spec.from.name.as_str();
        if let Some(made) = target(local, mapping, fork.as_ref()) {
            let made = Made::Ready(Target::Local(made.into()));
            all.push(Override { at, baseline, made, service: None, rule: None });
        }
    }
}

fn target(local: &LocalWorkload, mapping: &Mapping, fork: Option<&Override<'_>>) -> Option<Local> {
    let namespace = local.metadata.namespace.as_deref().unwrap_or_default();
    let made = Local::new(namespace, &local.name_any(), u16::try_from(mapping.port).ok()?);
    let made = made.speaks(protocol(mapping.app_protocol)).when(when(local.spec.over.as_ref()));
    let made = made.before(before(fork)).otherwise(otherwise(local, fork));
    Some(match gateway(local) {
        Some(gateway) => made.behind(gateway),
        None => made,
    })
}

/// What would answer without the local process.
fn before(fork: Option<&Override<'_>>) -> Before {
    match fork.map(|it| &it.made) {
        Some(Made::Ready(target)) => target.backend().cloned().map_or(Before::Baseline, Before::Fork),
        Some(Made::Unready(why)) => Before::Unavailable(Arc::clone(why)),
        None => Before::Baseline,
    }
}

/// What answers while nobody is connected.
fn otherwise(local: &LocalWorkload, fork: Option<&Override<'_>>) -> Otherwise {
    match local.spec.disconnect_policy {
        DisconnectPolicy::Baseline => Otherwise::Baseline,
        DisconnectPolicy::Fork if fork.is_some() => Otherwise::Before,
        DisconnectPolicy::Fork | DisconnectPolicy::Fail => Otherwise::Fail,
    }
}

fn when(over: Option<&OverrideSpec>) -> When {
    let Some(over) = over else { return When::Always };
    if let Some(line) = &over.require_header
        && let Some((name, value)) = line.split_once(':')
        && let (Ok(name), Ok(value)) =
            (HeaderName::try_from(name.to_ascii_lowercase()), HeaderValue::try_from(value.trim()))
    {
        return When::Header(name, value);
    }
    let codes = over.except_status.iter().flatten();
    let codes = codes.filter_map(|it| StatusCode::from_u16(u16::try_from(*it).ok()?).ok());
    When::ExceptStatus(codes.collect())
}

/// The router that holds the connection, while there is one or it is expected back. A session that is over leads nowhere:
/// its router may be gone, and its address another's.
fn gateway(local: &LocalWorkload) -> Option<Gateway> {
    let session = live(local.status.as_ref()?)?;
    let address = session.gateway_address.as_ref()?.parse().ok()?;
    Some(Gateway { name: session.gateway.clone()?, address })
}

fn protocol(said: LocalProtocol) -> AppProtocol {
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
