//! The keeper of a selector, and the patches of a Service. Pure.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::{Service, ServicePort, ServiceSpec};
use k8s_openapi::apimachinery::pkg::{
    apis::meta::v1::{ObjectMeta, OwnerReference},
    util::intstr::IntOrString,
};
use kube::{Resource as _, ResourceExt as _};
use sandbox::{
    api::names,
    digest::sha256,
    service::{Original, original},
};
use serde_json::{Value, json};

use crate::sandbox::{REVERTS_ANNOTATION, ROUTER};

/// The router's ports for Services.
const PORTS: std::ops::Range<u16> = 20_000..30_000;

/// Why the traffic of a Service cannot go through a router.
pub(super) fn why_not(service: &Service) -> Option<&'static str> {
    let Some(spec) = &service.spec else { return Some("it has no spec") };
    if spec.type_.as_deref() == Some("ExternalName") {
        return Some("it is an ExternalName: its clients never ask the cluster for an address");
    }
    if spec.cluster_ip.as_deref() == Some("None") {
        return Some("it is headless: its clients go to the pods themselves");
    }
    if spec.selector.as_ref().is_none_or(BTreeMap::is_empty) {
        return Some("it has no selector: somebody else says where its traffic goes");
    }
    let ports = spec.ports.as_deref().unwrap_or_default();
    let other = ports.iter().any(|it| it.protocol.as_deref().is_some_and(|it| it != "TCP"));
    if ports.is_empty() || other { Some("a router takes TCP alone") } else { None }
}

/// The selector of the routers' pods.
pub(super) fn routers() -> BTreeMap<String, String> {
    BTreeMap::from([(names::ROUTER_LABEL.to_owned(), ROUTER.to_owned())])
}

/// Whether the traffic of a Service goes to the routers, whatever its annotations say.
pub(super) fn leads_to_routers(service: &Service) -> bool {
    service.spec.as_ref().and_then(|it| it.selector.as_ref()) == Some(&routers())
}

/// What a Service is for its owner, after whatever its owner did to it while it was taken over.
pub(super) fn meant(service: &Service) -> Original {
    let (before, announced) = (original(service), announced(service));
    let spec = service.spec.clone().unwrap_or_default();
    let selector =
        if leads_to_routers(service) { before.selector } else { spec.selector.unwrap_or_default() };
    let one = |port: ServicePort| {
        let known = before.ports.iter().find(|it| it.port == port.port);
        let ours = announced.get(&port.port.to_string()).map(|it| IntOrString::Int(i32::from(*it)));
        match known {
            Some(known) if port.target_port == ours => {
                ServicePort { target_port: known.target_port.clone(), ..port }
            }
            _ => port,
        }
    };
    Original { selector, ports: spec.ports.unwrap_or_default().into_iter().map(one).collect() }
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

/// The Service that keeps a Service's selector. It goes when the Service goes.
pub(super) fn keeper(service: &Service, reverts: u32) -> Service {
    let Original { selector, ports } = meant(service);
    let owner = OwnerReference {
        api_version: Service::api_version(&()).into_owned(),
        kind: Service::kind(&()).into_owned(),
        name: service.name_any(),
        uid: service.metadata.uid.clone().unwrap_or_default(),
        controller: Some(true),
        block_owner_deletion: Some(false),
    };
    let annotations =
        (reverts > 0).then(|| BTreeMap::from([(REVERTS_ANNOTATION.to_owned(), reverts.to_string())]));
    let ports = ports.into_iter().map(|port| ServicePort { node_port: None, ..port });
    Service {
        metadata: ObjectMeta {
            name: Some(keeper_name(service)),
            namespace: service.namespace(),
            labels: Some(BTreeMap::from([(names::BASE_OF_LABEL.to_owned(), service.name_any())])),
            annotations,
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
    part(keeper) == part(&self::keeper(service, 0))
}

/// How often somebody took a Service back.
pub(super) fn reverts(keeper: Option<&Service>) -> u32 {
    let text = keeper.and_then(|it| it.annotations().get(REVERTS_ANNOTATION));
    text.and_then(|it| it.parse().ok()).unwrap_or(0)
}

/// One patch that sends the traffic to the routers. It is refused if somebody changed the Service meanwhile.
pub(super) fn take(service: &Service, listeners: &BTreeMap<String, u16>) -> Value {
    let before = meant(service);
    let port = |port: &ServicePort| {
        let listen = listeners.get(&port.port.to_string()).map(|it| IntOrString::Int(i32::from(*it)));
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
