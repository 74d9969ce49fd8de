use std::collections::HashMap;

use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use super::{
    legacy_endpoints,
    pod_endpoint::{TriggerTimes, ports},
    slices,
};

fn service() -> Value {
    json!({
        "metadata": {"name": "web", "namespace": "a", "uid": "s", "labels": {"team": "x"}, "creationTimestamp": "2026-01-01T00:00:00Z"},
        "spec": {
            "clusterIP": "10.96.0.7", "ipFamilies": ["IPv4"], "selector": {"app": "web"},
            "ports": [
                {"name": "http", "port": 80, "targetPort": "web", "protocol": "TCP"},
                {"name": "admin", "port": 81, "targetPort": 9000, "protocol": "TCP"},
            ],
        },
    })
}

fn pod(name: &str, ip: &str, is_ready: bool) -> Value {
    json!({
        "metadata": {"name": name, "namespace": "a", "uid": format!("uid-{name}"), "labels": {"app": "web"}},
        "spec": {"nodeName": "n1", "containers": [{"ports": [{"name": "web", "containerPort": 8080, "protocol": "TCP"}]}]},
        "status": {"phase": "Running", "podIP": ip, "podIPs": [{"ip": ip}], "conditions": [
            {"type": "Ready", "status": if is_ready { "True" } else { "False" }, "lastTransitionTime": "2026-01-01T00:00:05Z"},
        ]},
    })
}

fn nodes() -> HashMap<String, String> {
    HashMap::from([("n1".to_owned(), "z1".to_owned())])
}

fn stored(mut slice: Value, name: &str) -> Value {
    slice["metadata"]["name"] = name.into();
    slice
}

#[test]
fn a_service_without_pods_has_one_empty_slice_and_keeps_it() {
    let changes = slices::plan_slices(&service(), &[], Vec::new(), &nodes());
    assert_eq!(
        changes.create,
        [json!({
            "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
            "metadata": {
                "generateName": "web-", "namespace": "a",
                "labels": {
                    "team": "x", "kubernetes.io/service-name": "web",
                    "endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io",
                },
                "ownerReferences": [{
                    "apiVersion": "v1", "kind": "Service", "name": "web", "uid": "s",
                    "controller": true, "blockOwnerDeletion": true,
                }],
            },
            "addressType": "IPv4",
        })]
    );
    let mut kept = stored(changes.create[0].clone(), "web-1");
    kept["endpoints"] = Value::Null;
    kept["ports"] = Value::Null;
    assert_eq!(slices::plan_slices(&service(), &[], vec![kept], &nodes()), slices::SliceChanges::default());
}

#[test]
fn pods_fill_a_slice_with_their_ports_and_conditions() {
    let mut leaving = pod("b", "10.0.0.2", true);
    leaving["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
    let pods = [pod("a", "10.0.0.1", true), leaving, pod("c", "10.0.0.3", false)];
    let changes = slices::plan_slices(&service(), &pods, Vec::new(), &nodes());
    let slice = &changes.create[0];
    assert_eq!(
        slice["ports"],
        json!([
            {"name": "http", "port": 8080, "protocol": "TCP"},
            {"name": "admin", "port": 9000, "protocol": "TCP"},
        ])
    );
    assert_eq!(
        slice["endpoints"][0],
        json!({
            "addresses": ["10.0.0.1"], "conditions": {"ready": true, "serving": true, "terminating": false},
            "targetRef": {"kind": "Pod", "namespace": "a", "name": "a", "uid": "uid-a"}, "nodeName": "n1", "zone": "z1",
        })
    );
    assert_eq!(
        slice["endpoints"][1]["conditions"],
        json!({"ready": false, "serving": true, "terminating": true})
    );
    assert_eq!(
        slice["endpoints"][2]["conditions"],
        json!({"ready": false, "serving": false, "terminating": false})
    );
}

#[test]
fn a_change_of_one_pod_is_an_update_and_nothing_is_moved() {
    let pods = [pod("a", "10.0.0.1", true), pod("b", "10.0.0.2", false)];
    let slice =
        stored(slices::plan_slices(&service(), &pods, Vec::new(), &nodes()).create.remove(0), "web-1");
    assert_eq!(
        slices::plan_slices(&service(), &pods, vec![slice.clone()], &nodes()),
        slices::SliceChanges::default()
    );
    let pods = [pod("b", "10.0.0.2", true), pod("c", "10.0.0.3", true)];
    let changes = slices::plan_slices(&service(), &pods, vec![slice.clone()], &nodes());
    let names: Vec<&Value> = changes.update[0]["endpoints"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| &one["targetRef"]["name"])
        .collect();
    assert_eq!(names, ["b", "c"]);
    assert_eq!(changes.update[0]["endpoints"][0]["conditions"]["ready"], true);
    let changes = slices::plan_slices(&service(), &[], vec![slice], &nodes());
    assert_eq!((changes.create.len(), changes.delete), (1, vec!["web-1".to_owned()]));
}

#[test]
fn a_slice_has_room_for_a_hundred() {
    let pods: Vec<Value> =
        (0..150).map(|n| pod(&format!("p{n}"), &format!("10.0.{}.{}", n / 100, n % 100), true)).collect();
    let changes = slices::plan_slices(&service(), &pods, Vec::new(), &nodes());
    let sizes: Vec<usize> =
        changes.create.iter().map(|one| one["endpoints"].as_array().unwrap().len()).collect();
    assert_eq!(sizes, [100, 50]);
}

#[test]
fn a_pod_whose_node_is_not_known_waits() {
    let changes = slices::plan_slices(&service(), &[pod("a", "10.0.0.1", true)], Vec::new(), &HashMap::new());
    assert_eq!(changes.without_node, ["a"]);
    assert_eq!(changes.create[0].get("endpoints"), None);
}

#[test]
fn slices_of_another_family_or_another_service_go() {
    let mut slice =
        stored(slices::plan_slices(&service(), &[], Vec::new(), &nodes()).create.remove(0), "six");
    slice["addressType"] = "IPv6".into();
    let mut stranger =
        stored(slices::plan_slices(&service(), &[], Vec::new(), &nodes()).create.remove(0), "stranger");
    stranger["metadata"]["ownerReferences"][0]["uid"] = "before".into();
    let changes = slices::plan_slices(&service(), &[], vec![slice, stranger], &nodes());
    assert_eq!(changes.delete, ["six", "stranger"]);
    assert_eq!(changes.create.len(), 1);
}

#[test]
fn a_named_port_that_a_pod_does_not_have_is_left_out() {
    let mut pod = pod("a", "10.0.0.1", true);
    pod["spec"]["containers"][0]["ports"][0]["protocol"] = "UDP".into();
    assert_eq!(ports(&service(), &pod), [json!({"name": "admin", "port": 9000, "protocol": "TCP"})]);
}

#[test]
fn plain_endpoints_tell_ready_from_not_ready_and_forget_leaving_pods() {
    let mut leaving = pod("c", "10.0.0.3", true);
    leaving["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
    let pods = [pod("b", "10.0.0.2", true), pod("a", "10.0.0.1", false), leaving];
    let endpoints = legacy_endpoints::plan_endpoints(&service(), &pods, None).unwrap();
    let address = |name: &str, ip: &str| json!({"ip": ip, "nodeName": "n1", "targetRef": {"kind": "Pod", "namespace": "a", "name": name, "uid": format!("uid-{name}")}});
    assert_eq!(
        endpoints["metadata"]["labels"],
        json!({"team": "x", "endpoints.kubernetes.io/managed-by": "endpoint-controller"})
    );
    assert_eq!(
        endpoints["subsets"],
        json!([{
            "addresses": [address("b", "10.0.0.2")], "notReadyAddresses": [address("a", "10.0.0.1")],
            "ports": [
                {"name": "admin", "port": 9000, "protocol": "TCP"}, {"name": "http", "port": 8080, "protocol": "TCP"},
            ],
        }])
    );
    assert_eq!(legacy_endpoints::plan_endpoints(&service(), &pods, Some(&endpoints)), None);
    assert_eq!(
        legacy_endpoints::plan_endpoints(&service(), &[], Some(&endpoints)).unwrap().get("subsets"),
        None
    );
}

#[test]
fn a_headless_service_is_marked_and_may_have_no_ports() {
    let mut service = service();
    service["spec"]["clusterIP"] = "None".into();
    service["spec"]["ports"] = json!([]);
    let endpoints = legacy_endpoints::plan_endpoints(&service, &[pod("a", "10.0.0.1", true)], None).unwrap();
    assert_eq!(endpoints["metadata"]["labels"]["service.kubernetes.io/headless"], "");
    assert_eq!(endpoints["subsets"][0]["addresses"][0]["ip"], "10.0.0.1");
    assert_eq!(endpoints["subsets"][0].get("ports"), None);
}

#[test]
fn the_trigger_is_the_earliest_news() {
    let mut triggers = TriggerTimes::default();
    let at = |text: &str| Some(text.parse().unwrap());
    assert_eq!(triggers.observe(&service(), &[]), at("2026-01-01T00:00:00Z"));
    assert_eq!(triggers.observe(&service(), &[]), None);
    assert_eq!(triggers.observe(&service(), &[pod("a", "10.0.0.1", true)]), at("2026-01-01T00:00:05Z"));
    assert_eq!(triggers.observe(&service(), &[pod("a", "10.0.0.1", true)]), None);
}
