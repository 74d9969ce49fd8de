//! The keeper of a selector, and the patches of a Service. Pure.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{Service, ServicePort, ServiceSpec};
use k8s_openapi::apimachinery::pkg::{
    apis::meta::v1::{ObjectMeta, OwnerReference},
    util::intstr::IntOrString,
};
use kube::{Resource as _, ResourceExt as _};
use sandbox::{
    api::names,
    digest::sha256,
    service::{Original, is_taken_over, original},
};
use serde_json::{Value, json};

use crate::sandbox::{REVERTS_ANNOTATION, ROUTER};

/// The router's ports for Services.
const PORTS: std::ops::Range<u16> = 20_000..30_000;

/// The selector of the routers' pods.
pub(super) fn routers() -> BTreeMap<String, String> {
    BTreeMap::from([(names::ROUTER_LABEL.to_owned(), ROUTER.to_owned())])
}

/// Whether the traffic of a Service goes to the routers, whatever its annotations say.
pub(super) fn leads_to_routers(service: &Service) -> bool {
    service.spec.as_ref().and_then(|it| it.selector.as_ref()) == Some(&routers())
}

/// Whether a Service that was taken over is as it was left: its traffic goes to the routers, to the ports at which they
/// listen for it.
pub(super) fn is_held(service: &Service) -> bool {
    let announced = announced(service);
    let ports = service.spec.iter().flat_map(|it| it.ports.iter().flatten());
    leads_to_routers(service) && ports.into_iter().all(|it| it.target_port == listener(&announced, it.port))
}

/// The router's port for a port of a Service, as a Service says it.
fn listener(announced: &BTreeMap<String, u16>, port: i32) -> Option<IntOrString> {
    announced.get(&port.to_string()).map(|it| IntOrString::Int(i32::from(*it)))
}

/// What a Service is for its owner, after whatever its owner did to it while it was taken over.
pub(super) fn meant(service: &Service) -> Original {
    let (before, announced) = (original(service), announced(service));
    let spec = service.spec.clone().unwrap_or_default();
    let selector = match spec.selector {
        Some(now) if is_taken_over(service) => meant_selector(now, before.selector),
        _ => before.selector,
    };
    let one = |port: ServicePort| {
        let known = before.ports.iter().find(|it| it.port == port.port);
        match known {
            Some(known) if port.target_port == listener(&announced, port.port) => {
                ServicePort { target_port: known.target_port.clone(), ..port }
            }
            _ => port,
        }
    };
    Original { selector, ports: spec.ports.unwrap_or_default().into_iter().map(one).collect() }
}

/// The selector that an owner means. `kubectl apply`, Helm and Argo CD merge selectors label by label and leave ours beside
/// theirs: nobody has both, and the owner asked for none of ours.
fn meant_selector(
    mut now: BTreeMap<String, String>,
    before: BTreeMap<String, String>,
) -> BTreeMap<String, String> {
    now.remove(names::ROUTER_LABEL);
    if now.is_empty() { before } else { now }
}

/// The router's port for each port of a Service, as its annotation says.
pub(super) fn announced(service: &Service) -> BTreeMap<String, u16> {
    let text = service.annotations().get(names::LISTEN_ANNOTATION);
    text.and_then(|it| serde_json::from_str(it).ok()).unwrap_or_default()
}

/// The router's port for each port of a Service: those it has, and others that nobody has. Made from names, so that they
/// are the same when they are made again.
pub(super) fn listeners(service: &Service, used: &BTreeSet<u16>) -> BTreeMap<String, u16> {
    let before = announced(service);
    let mut taken = used.clone();
    let mut all = BTreeMap::new();
    for port in meant(service).ports {
        let name = port.port.to_string();
        let kept = before.get(&name).copied().filter(|it| PORTS.contains(it) && !taken.contains(it));
        let Some(listen) = kept.or_else(|| free(service, &name, &taken)) else { continue };
        taken.insert(listen);
        all.insert(name, listen);
    }
    all
}

fn free(service: &Service, port: &str, taken: &BTreeSet<u16>) -> Option<u16> {
    let hash = sha256(&format!("{}/{}:{port}", service.namespace().unwrap_or_default(), service.name_any()));
    let count = PORTS.end - PORTS.start;
    let first = u16::from_str_radix(&hash[..4], 16).unwrap_or_default() % count;
    (0..count).map(|at| PORTS.start + (first + at) % count).find(|it| !taken.contains(it))
}

/// The name of the Service that keeps a Service's selector.
pub(super) fn keeper_name(service: &Service) -> String {
    let name = service.name_any();
    let hash = &sha256(&format!("{}/{name}", service.namespace().unwrap_or_default()))[..6];
    let begin: String = name.chars().take(63 - "-sbxbase-".len() - hash.len()).collect();
    format!("{}-sbxbase-{hash}", begin.trim_end_matches('-'))
}

/// How often somebody took a Service back.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Reverts {
    pub(super) count: u32,
    /// Who did last.
    pub(super) by: String,
    /// When that was.
    pub(super) at: Option<Timestamp>,
}

impl Reverts {
    /// Whether the last one is as long ago as this.
    pub(super) fn is_over(&self, now: Timestamp, quiet: Duration) -> bool {
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

/// How often somebody took a Service back, as its keeper says.
pub(super) fn reverts(keeper: Option<&Service>) -> Reverts {
    let text = |name: &str| keeper.and_then(|it| it.annotations().get(name));
    Reverts {
        count: text(REVERTS_ANNOTATION).and_then(|it| it.parse().ok()).unwrap_or(0),
        by: text(names::REVERTED_BY_ANNOTATION).cloned().unwrap_or_default(),
        at: text(names::REVERTED_AT_ANNOTATION).and_then(|it| it.parse().ok()),
    }
}

/// The Service that keeps a Service's selector. It goes when the Service goes.
pub(super) fn keeper(service: &Service, reverts: &Reverts) -> Service {
    let Original { selector, ports } = meant(service);
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
            name: Some(keeper_name(service)),
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

/// Whether a keeper keeps what it should.
pub(super) fn keeps(keeper: &Service, service: &Service) -> bool {
    let part = |it: &Service| {
        let spec = it.spec.clone().unwrap_or_default();
        let port = |it: ServicePort| (it.port, it.name, it.target_port, it.app_protocol);
        let ports = spec.ports.unwrap_or_default().into_iter().map(port).collect::<Vec<_>>();
        (spec.selector, ports)
    };
    part(keeper) == part(&self::keeper(service, &Reverts::default()))
}

/// One patch that sends the traffic to the routers. It is refused if somebody changed the Service meanwhile.
pub(super) fn take(service: &Service, listeners: &BTreeMap<String, u16>) -> Value {
    let before = meant(service);
    let port = |port: &ServicePort| {
        let listen = listener(listeners, port.port);
        ServicePort { target_port: listen.or_else(|| port.target_port.clone()), ..port.clone() }
    };
    let ports = before.ports.iter().map(port).collect::<Vec<_>>();
    let original = serde_json::to_string(&before).unwrap_or_default();
    json!({
        "metadata": {
            "resourceVersion": service.resource_version(),
            "annotations": { names::ORIGINAL_ANNOTATION: original },
        },
        "spec": { "selector": exactly(service, &routers()), "ports": ports },
    })
}

/// One patch that gives a Service back as it was.
pub(super) fn restore(service: &Service) -> Value {
    let Original { selector, ports } = meant(service);
    json!({
        "metadata": {
            "resourceVersion": service.resource_version(),
            "annotations": { names::ORIGINAL_ANNOTATION: null, names::LISTEN_ANNOTATION: null },
        },
        "spec": { "selector": exactly(service, &selector), "ports": ports },
    })
}

/// A merge patch leaves what it does not name: so it names what must go.
fn exactly(service: &Service, selector: &BTreeMap<String, String>) -> Value {
    let now = service.spec.as_ref().and_then(|it| it.selector.clone()).unwrap_or_default();
    let gone = now.into_keys().map(|key| (key, Value::Null));
    let stays = selector.iter().map(|(key, value)| (key.clone(), json!(value)));
    gone.chain(stays).collect::<BTreeMap<_, _>>().into_iter().collect::<serde_json::Map<_, _>>().into()
}

/// Who wrote the selector or a target port last, if it was not us. A selector has one owner at a time, so its owner is the
/// better guess: whoever made the Service owns a part of its ports for ever, and times have no fractions.
pub(super) fn culprit(service: &Service, us: &str) -> Option<String> {
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
