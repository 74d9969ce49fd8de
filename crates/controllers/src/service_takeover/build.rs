//! Builds the base Service and the patches of a Service. Pure.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use capt_dataplane::{REVERTS_ANNOTATION, ROUTER_LABEL_VALUE};
use capt_kinds::sandbox::names;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{Service, ServicePort, ServiceSpec};
use k8s_openapi::apimachinery::pkg::{
    apis::meta::v1::{ObjectMeta, OwnerReference},
    util::intstr::IntOrString,
};
use kube::{Resource as _, ResourceExt as _};
use sandbox::{
    digest::sha256,
    service::{OriginalService, is_taken_over, original_service},
};
use serde_json::{Value, json};

/// Range of the router's listener ports.
const LISTENER_PORTS: std::ops::Range<u16> = 20_000..30_000;

/// The selector of the routers' pods.
pub(super) fn router_selector() -> BTreeMap<String, String> {
    BTreeMap::from([(names::ROUTER_LABEL.to_owned(), ROUTER_LABEL_VALUE.to_owned())])
}

/// Whether a Service selects the routers, regardless of its annotations.
pub(super) fn selects_routers(service: &Service) -> bool {
    service.spec.as_ref().and_then(|it| it.selector.as_ref()) == Some(&router_selector())
}

/// Whether the takeover patch is intact: the Service selects the routers and targets their listener ports.
pub(super) fn is_intact(service: &Service) -> bool {
    let announced = announced_listeners(service);
    let ports = service.spec.iter().flat_map(|it| it.ports.iter().flatten());
    selects_routers(service)
        && ports.into_iter().all(|it| it.target_port == listener_target_port(&announced, it.port))
}

/// The listener port for a port of a Service, as a `targetPort`.
fn listener_target_port(announced: &BTreeMap<String, u16>, port: i32) -> Option<IntOrString> {
    announced.get(&port.to_string()).map(|it| IntOrString::Int(i32::from(*it)))
}

/// The spec that the owner of a Service intends, including changes made while it was taken over.
pub(super) fn owner_intent(service: &Service) -> OriginalService {
    let (before, announced) = (original_service(service), announced_listeners(service));
    let spec = service.spec.clone().unwrap_or_default();
    let selector = match spec.selector {
        Some(now) if is_taken_over(service) => owner_selector(now, before.selector),
        _ => before.selector,
    };
    let one = |port: ServicePort| {
        let known = before.ports.iter().find(|it| it.port == port.port);
        match known {
            Some(known) if port.target_port == listener_target_port(&announced, port.port) => {
                ServicePort { target_port: known.target_port.clone(), ..port }
            }
            _ => port,
        }
    };
    OriginalService { selector, ports: spec.ports.unwrap_or_default().into_iter().map(one).collect() }
}

/// The selector that the owner intends. `kubectl apply`, Helm and Argo CD merge selectors label by label and keep our router
/// label next to theirs; no pod has both.
fn owner_selector(
    mut now: BTreeMap<String, String>,
    before: BTreeMap<String, String>,
) -> BTreeMap<String, String> {
    now.remove(names::ROUTER_LABEL);
    if now.is_empty() { before } else { now }
}

/// The listener port for each port of a Service, from its annotation.
pub(super) fn announced_listeners(service: &Service) -> BTreeMap<String, u16> {
    let text = service.annotations().get(names::LISTEN_ANNOTATION);
    text.and_then(|it| serde_json::from_str(it).ok()).unwrap_or_default()
}

/// Assigns a listener port to each port of a Service: keeps announced ones and picks free ones. Derived from names, so that the
/// result is reproducible.
pub(super) fn allocate_listeners(service: &Service, used: &BTreeSet<u16>) -> BTreeMap<String, u16> {
    let before = announced_listeners(service);
    let mut taken = used.clone();
    let mut all = BTreeMap::new();
    for port in owner_intent(service).ports {
        let name = port.port.to_string();
        let kept = before.get(&name).copied().filter(|it| LISTENER_PORTS.contains(it) && !taken.contains(it));
        let Some(listen) = kept.or_else(|| free_listener_port(service, &name, &taken)) else { continue };
        taken.insert(listen);
        all.insert(name, listen);
    }
    all
}

fn free_listener_port(service: &Service, port: &str, taken: &BTreeSet<u16>) -> Option<u16> {
    let hash = sha256(&format!("{}/{}:{port}", service.namespace().unwrap_or_default(), service.name_any()));
    let count = LISTENER_PORTS.end - LISTENER_PORTS.start;
    let first = u16::from_str_radix(&hash[..4], 16).unwrap_or_default() % count;
    (0..count).map(|at| LISTENER_PORTS.start + (first + at) % count).find(|it| !taken.contains(it))
}

/// The name of the base Service.
pub(super) fn base_service_name(service: &Service) -> String {
    let name = service.name_any();
    let hash = &sha256(&format!("{}/{name}", service.namespace().unwrap_or_default()))[..6];
    let begin: String = name.chars().take(63 - "-sbxbase-".len() - hash.len()).collect();
    format!("{}-sbxbase-{hash}", begin.trim_end_matches('-'))
}

/// How often a Service was reverted by other clients.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct RevertHistory {
    pub(super) count: u32,
    /// Field manager of the last revert.
    pub(super) by: String,
    /// Time of the last revert.
    pub(super) at: Option<Timestamp>,
}

impl RevertHistory {
    /// Whether the last revert is at least this long ago.
    pub(super) fn is_older_than(&self, now: Timestamp, quiet: Duration) -> bool {
        let since = self.at.map(|at| now.duration_since(at));
        since.is_none_or(|it| it >= SignedDuration::try_from(quiet).unwrap_or(SignedDuration::MAX))
    }

    fn annotations(&self) -> Option<BTreeMap<String, String>> {
        let mut all = BTreeMap::from([
            (REVERTS_ANNOTATION.to_owned(), self.count.to_string()),
            (names::REVERTED_BY_ANNOTATION.to_owned(), self.by.clone()),
        ]);
        all.extend(self.at.map(|at| (names::REVERTED_AT_ANNOTATION.to_owned(), at.to_string())));
        (self.count > 0).then_some(all)
    }
}

/// The revert history, from the annotations of the base Service.
pub(super) fn read_reverts(base_service: Option<&Service>) -> RevertHistory {
    let text = |name: &str| base_service.and_then(|it| it.annotations().get(name));
    RevertHistory {
        count: text(REVERTS_ANNOTATION).and_then(|it| it.parse().ok()).unwrap_or(0),
        by: text(names::REVERTED_BY_ANNOTATION).cloned().unwrap_or_default(),
        at: text(names::REVERTED_AT_ANNOTATION).and_then(|it| it.parse().ok()),
    }
}

/// The base Service: the original selector and ports, owned by the Service.
pub(super) fn base_service(service: &Service, reverts: &RevertHistory) -> Service {
    let OriginalService { selector, ports } = owner_intent(service);
    let owner = OwnerReference {
        api_version: Service::api_version(&()).into_owned(),
        kind: Service::kind(&()).into_owned(),
        name: service.name_any(),
        uid: service.metadata.uid.clone().unwrap_or_default(),
        controller: Some(true),
        block_owner_deletion: Some(false),
    };
    let ports = ports.into_iter().map(|port| ServicePort { node_port: None, ..port });
    Service {
        metadata: ObjectMeta {
            name: Some(base_service_name(service)),
            namespace: service.namespace(),
            labels: Some(BTreeMap::from([(names::BASE_OF_LABEL.to_owned(), service.name_any())])),
            annotations: reverts.annotations(),
            owner_references: Some(vec![owner]),
            ..ObjectMeta::default()
        },
        spec: Some(ServiceSpec {
            type_: Some("ClusterIP".to_owned()),
            selector: Some(selector),
            ports: Some(ports.collect()),
            publish_not_ready_addresses: service.spec.as_ref().and_then(|it| it.publish_not_ready_addresses),
            ..ServiceSpec::default()
        }),
        status: None,
    }
}

/// Whether a base Service has the intended selector and ports.
pub(super) fn is_base_service_current(base_service: &Service, service: &Service) -> bool {
    let part = |it: &Service| {
        let spec = it.spec.clone().unwrap_or_default();
        let port = |it: ServicePort| (it.port, it.name, it.target_port, it.app_protocol);
        let ports = spec.ports.unwrap_or_default().into_iter().map(port).collect::<Vec<_>>();
        (spec.selector, ports)
    };
    part(base_service) == part(&self::base_service(service, &RevertHistory::default()))
}

/// The takeover patch. `resourceVersion` makes it fail if the Service changed in the meantime.
pub(super) fn takeover_patch(service: &Service, listeners: &BTreeMap<String, u16>) -> Value {
    let before = owner_intent(service);
    let port = |port: &ServicePort| {
        let listen = listener_target_port(listeners, port.port);
        ServicePort { target_port: listen.or_else(|| port.target_port.clone()), ..port.clone() }
    };
    let ports = before.ports.iter().map(port).collect::<Vec<_>>();
    let original = serde_json::to_string(&before).unwrap_or_default();
    json!({
        "metadata": {
            "resourceVersion": service.resource_version(),
            "annotations": { names::ORIGINAL_ANNOTATION: original },
        },
        "spec": { "selector": exact_selector_patch(service, &router_selector()), "ports": ports },
    })
}

/// The patch that restores the intended spec.
pub(super) fn restore_patch(service: &Service) -> Value {
    let OriginalService { selector, ports } = owner_intent(service);
    json!({
        "metadata": {
            "resourceVersion": service.resource_version(),
            "annotations": { names::ORIGINAL_ANNOTATION: null, names::LISTEN_ANNOTATION: null },
        },
        "spec": { "selector": exact_selector_patch(service, &selector), "ports": ports },
    })
}

/// A selector for a merge patch, which keeps keys that it does not name: keys to remove are set to null.
fn exact_selector_patch(service: &Service, selector: &BTreeMap<String, String>) -> Value {
    let now = service.spec.as_ref().and_then(|it| it.selector.clone()).unwrap_or_default();
    let gone = now.into_keys().map(|key| (key, Value::Null));
    let stays = selector.iter().map(|(key, value)| (key.clone(), json!(value)));
    gone.chain(stays).collect::<BTreeMap<_, _>>().into_iter().collect::<serde_json::Map<_, _>>().into()
}

/// The field manager, other than us, that last wrote the selector or a target port. The manager of the selector is preferred: a
/// selector has one manager at a time, while the creator keeps owning parts of the ports, and timestamps have whole seconds.
pub(super) fn last_foreign_manager(service: &Service, us: &str) -> Option<String> {
    let managed = service.metadata.managed_fields.iter().flatten();
    let others = managed.filter(|it| it.manager.as_deref() != Some(us));
    let guilty = others.filter_map(|it| {
        let spec = it.fields_v1.as_ref()?.0.get("f:spec")?;
        let selector = spec.get("f:selector").is_some();
        let ports = spec.get("f:ports").and_then(Value::as_object);
        let target = ports.is_some_and(|all| all.values().any(|port| port.get("f:targetPort").is_some()));
        (selector || target).then_some((selector, it.time.as_ref().map(|it| it.0), it.manager.clone()))
    });
    guilty.max_by(|a, b| (a.0, a.1).cmp(&(b.0, b.1)))?.2
}
