use serde_json::json;

use super::*;
use crate::namespace_context::NamespaceContext;

fn sandbox() -> Sandbox {
    serde_json::from_value(json!({
        "apiVersion": "sandbox.capt.x-k8s.io/v1alpha1", "kind": "Sandbox",
        "metadata": {"name": "pr-1", "namespace": "shop", "uid": "u1"},
        "spec": {"forks": [{"forkOf": {"kind": "Deployment", "name": "cart"}}]}
    }))
    .unwrap()
}

fn workload(name: &str, ports: &Value) -> Value {
    json!({
        "metadata": {"name": name, "namespace": "shop"},
        "spec": {"template": {
            "metadata": {"labels": {"app": "cart", "tier": "web"}},
            "spec": {"containers": [{"name": "app", "ports": ports}]}
        }}
    })
}

fn service(name: &str, spec: &Value) -> Service {
    serde_json::from_value(json!({"metadata": {"name": name, "namespace": "shop"}, "spec": spec})).unwrap()
}

fn made(services: &[Service]) -> ForkServices {
    let ports = json!([{"name": "web", "containerPort": 8080}, {"name": "rpc", "containerPort": 9090}]);
    fork_services(&sandbox(), &workload("cart", &ports), &workload("cart-pr-1-aaaa", &ports), services)
}

#[test]
fn every_service_of_the_baseline_gets_one_for_the_fork() {
    let services = [
        service(
            "cart",
            &json!({"selector": {"app": "cart"}, "ports": [
                {"name": "http", "port": 80, "targetPort": "web", "appProtocol": "http", "nodePort": 30080},
                {"name": "grpc", "port": 90, "targetPort": 9090}
            ]}),
        ),
        service("cart-too", &json!({"selector": {"tier": "web"}, "ports": [{"port": 8080}]})),
        service("other", &json!({"selector": {"app": "web"}, "ports": [{"port": 80}]})),
        service("by-hand", &json!({"ports": [{"port": 80}]})),
    ];
    let made = made(&services);
    assert_eq!(made.statuses.iter().map(|it| it.from.as_str()).collect::<Vec<_>>(), ["cart", "cart-too"]);
    let ports: Vec<_> = made.statuses[0].ports.iter().map(|it| (it.port, it.target_port)).collect();
    assert_eq!(ports, [(80, 8080), (90, 9090)]);
    assert_eq!(made.statuses[1].ports[0].target_port, 8080);
    let first = &made.services[0];
    assert_eq!(first.name_any(), made.statuses[0].to);
    assert!(first.name_any().starts_with("cart-pr-1-"), "{}", first.name_any());
    let spec = first.spec.as_ref().unwrap();
    assert_eq!(
        spec.selector,
        Some(BTreeMap::from([(names::FORK_LABEL.to_owned(), "cart-pr-1-aaaa".to_owned())]))
    );
    let port = &spec.ports.as_ref().unwrap()[0];
    assert_eq!((port.node_port, port.app_protocol.as_deref()), (None, Some("http")));
    assert_eq!(first.owner_references()[0].uid, "u1");
    assert!(is_managed(first));
}

#[test]
fn ports_that_the_fork_does_not_have_are_told() {
    let services = [service(
        "cart",
        &json!({"selector": {"app": "cart"}, "ports": [
            {"name": "http", "port": 80, "targetPort": "web"}, {"name": "admin", "port": 81, "targetPort": "gone"}
        ]}),
    )];
    let made = made(&services);
    assert_eq!(made.statuses[0].missing_ports, [81]);
    assert_eq!(made.statuses[0].ports.len(), 1);
}

#[test]
fn services_without_an_address_cannot_be_routed() {
    let services = [
        service(
            "headless",
            &json!({"selector": {"app": "cart"}, "clusterIP": "None", "ports": [{"port": 80}]}),
        ),
        service("name", &json!({"selector": {"app": "cart"}, "type": "ExternalName", "externalName": "x"})),
        service(
            "nothing",
            &json!({"selector": {"app": "cart"}, "ports": [{"port": 80, "targetPort": "gone"}]}),
        ),
    ];
    let made = made(&services);
    assert_eq!(made.services, []);
    let names: Vec<_> = made.unroutable.iter().map(|it| it.service.as_str()).collect();
    assert_eq!(names, ["headless", "name", "nothing"]);
}

#[test]
fn a_service_that_the_router_took_over_is_what_it_was() {
    let before = OriginalService {
        selector: BTreeMap::from([("app".to_owned(), "cart".to_owned())]),
        ports: vec![serde_json::from_value(json!({"port": 80, "targetPort": "web"})).unwrap()],
    };
    let mut taken = service(
        "cart",
        &json!({"selector": {"app": "router"}, "ports": [{"port": 80, "targetPort": 20001}]}),
    );
    taken
        .annotations_mut()
        .insert(names::ORIGINAL_ANNOTATION.into(), serde_json::to_string(&before).unwrap());
    let mut keeper =
        service("cart-sbxbase-aaaa", &json!({"selector": {"app": "cart"}, "ports": [{"port": 80}]}));
    keeper.labels_mut().insert(names::BASE_OF_LABEL.into(), "cart".into());
    assert!(is_taken_over(&taken) && !is_taken_over(&keeper));
    let made = made(&[taken, keeper]);
    assert_eq!(made.statuses.len(), 1);
    assert_eq!(made.statuses[0].ports, [ServicePortStatus { port: 80, target_port: 8080 }]);
}

#[test]
fn a_sandbox_uses_the_services_of_its_forks_and_of_its_virtual_workloads_until_it_goes() {
    let mut sandbox = sandbox();
    let status = json!({"forks": [{"name": "cart", "services": [{"from": "cart", "to": "cart-pr-1"}]}],
        "virtual": [{"name": "v", "services": [{"service": "web"}]}]});
    sandbox.status = serde_json::from_value(status).unwrap();
    assert_eq!(overridden_services(&sandbox).collect::<Vec<_>>(), ["cart", "web"]);
    sandbox.metadata.deletion_timestamp =
        Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(jiff::Timestamp::UNIX_EPOCH));
    assert_eq!(overridden_services(&sandbox).count(), 0);
}

#[test]
fn kept_labels_that_a_service_or_a_budget_follows_are_found() {
    let own = BTreeMap::from([(names::FORK_LABEL.to_owned(), "f".to_owned())]);
    let with = |key: &str, value: &str| {
        own.clone().into_iter().chain([(key.to_owned(), value.to_owned())]).collect::<Labels>()
    };
    let services = [service("cart", &json!({"selector": {"app": "cart"}, "ports": [{"port": 80}]}))];
    let budget = |name: &str, selector: &Value| {
        serde_json::from_value(json!({"metadata": {"name": name}, "spec": {"selector": selector}})).unwrap()
    };
    let budgets = [budget("carts", &json!({"matchLabels": {"tier": "web"}})), budget("all", &json!({}))];
    let around = NamespaceContext { services: &services, budgets: &budgets, ..NamespaceContext::default() };
    assert_eq!(misselecting_objects(&own, &own, &around), Vec::<String>::new());
    assert_eq!(misselecting_objects(&with("app", "cart"), &own, &around), ["Service cart"]);
    assert_eq!(misselecting_objects(&with("tier", "web"), &own, &around), ["PodDisruptionBudget carts"]);
    assert_eq!(misselecting_objects(&with("team", "x"), &own, &around), Vec::<String>::new());
}
