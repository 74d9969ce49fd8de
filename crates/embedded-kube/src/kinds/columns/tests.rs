use jiff::{SignedDuration, Timestamp};
use pretty_assertions::assert_eq;
use rstest::rstest;
use serde_json::json;

use super::*;
use crate::kinds;

#[rstest]
#[case(-5, "<invalid>")]
#[case(-1, "0s")]
#[case(119, "119s")]
#[case(120, "2m")]
#[case(185, "3m5s")]
#[case(600, "10m")]
#[case(10_799, "179m")]
#[case(10_800, "3h")]
#[case(12_600, "3h30m")]
#[case(28_800, "8h")]
#[case(172_800, "2d")]
#[case(190_800, "2d5h")]
#[case(691_200, "8d")]
#[case(63_072_000, "2y")]
#[case(66_528_000, "2y40d")]
#[case(252_288_000, "8y")]
fn durations_have_two_or_three_figures(#[case] seconds: i64, #[case] expected: &str) {
    assert_eq!(human_duration(SignedDuration::from_secs(seconds)), expected);
}

#[test]
fn every_kind_has_as_many_cells_as_columns() {
    let now: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
    for resource in kinds::resources() {
        let Some(cells) = resource.strategy.cells(&json!({"metadata": {"name": "x"}}), now) else {
            panic!("{} has no cells", resource.kind)
        };
        assert_eq!(cells.len(), resource.columns.len(), "{}", resource.kind);
        let at = resource.columns.iter().position(|column| column.name == "Name").unwrap();
        assert_eq!(cells.get(at), Some(&json!("x")), "{}", resource.kind);
    }
}

#[rstest]
#[case(json!({}), "0/1", "", "0")]
#[case(json!({"phase": "Pending"}), "0/1", "Pending", "0")]
#[case(json!({"phase": "Running", "containerStatuses": [{"ready": true, "restartCount": 2, "state": {"running": {}},
    "lastState": {"terminated": {"finishedAt": "2025-12-31T23:57:00Z"}}}]}), "1/1", "Running", "2 (3m ago)")]
#[case(json!({"phase": "Pending", "containerStatuses": [{"state": {"waiting": {"reason": "ImagePullBackOff"}}}]}), "0/1", "ImagePullBackOff", "0")]
#[case(json!({"phase": "Succeeded", "containerStatuses": [{"state": {"terminated": {"exitCode": 0, "reason": "Completed"}}}]}), "0/1", "Completed", "0")]
#[case(json!({"phase": "Failed", "containerStatuses": [{"state": {"terminated": {"exitCode": 3}}}]}), "0/1", "ExitCode:3", "0")]
#[case(json!({"phase": "Pending", "initContainerStatuses": [{"state": {"running": {}}}]}), "0/1", "Init:0/1", "0")]
#[case(json!({"phase": "Pending", "reason": "Evicted"}), "0/1", "Evicted", "0")]
fn a_pod_says_its_state_in_one_word(
    #[case] status: serde_json::Value,
    #[case] ready: &str,
    #[case] word: &str,
    #[case] restarts: &str,
) {
    let now: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
    let pod = json!({
        "metadata": {"name": "p", "creationTimestamp": "2025-12-31T23:00:00Z"},
        "spec": {"containers": [{"name": "c"}], "initContainers": [{"name": "i"}]},
        "status": status,
    });
    let expected = json!(["p", ready, word, restarts, "60m", "<none>", "<none>", "<none>", "<none>"]);
    assert_eq!(json!(pod_cells(&pod, now)), expected);
}

#[test]
fn services_and_endpoints_are_told_in_a_line() {
    let now: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
    let service = json!({
        "metadata": {"name": "s", "creationTimestamp": "2025-12-31T23:59:00Z"},
        "spec": {"type": "LoadBalancer", "clusterIPs": ["10.96.0.9"], "selector": {"b": "c", "a": "b"},
            "ports": [{"port": 80, "nodePort": 30001, "protocol": "TCP"}, {"port": 53, "protocol": "UDP"}]},
        "status": {"loadBalancer": {"ingress": [{"hostname": "h"}, {"ip": "1.2.3.4"}]}},
    });
    let expected =
        json!(["s", "LoadBalancer", "10.96.0.9", "1.2.3.4,h", "80:30001/TCP,53/UDP", "60s", "a=b,b=c"]);
    assert_eq!(json!(service_cells(&service, now)), expected);
    let addresses: Vec<_> = (1..6).map(|last| json!({"ip": format!("10.0.0.{last}")})).collect();
    let endpoints = json!({"subsets": [{"addresses": addresses, "ports": [{"port": 80}]}]});
    assert_eq!(endpoints_text(&endpoints), "10.0.0.1:80,10.0.0.2:80,10.0.0.3:80 + 2 more...");
    assert_eq!(endpoint_slice_ports(&json!({})), "<unset>");
}

#[test]
fn events_and_nodes_are_told_in_a_line() {
    let now: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
    let event = json!({"metadata": {"name": "e"}, "type": "Normal", "reason": "R", "message": " m ", "count": 3,
        "involvedObject": {"kind": "Pod", "name": "p"}, "source": {"component": "c", "host": "h"},
        "firstTimestamp": "2025-12-31T23:58:00Z", "lastTimestamp": "2025-12-31T23:59:30Z"});
    let expected = json!(["30s", "Normal", "R", "pod/p", "", "c, h", "m", "2m", 3, "e"]);
    assert_eq!(json!(event_cells(&event, |at| age_since(at, now))), expected);
    let node = json!({"metadata": {"name": "n", "labels": {"node-role.kubernetes.io/worker": ""}},
        "spec": {"unschedulable": true},
        "status": {"conditions": [{"type": "Ready", "status": "True"}], "nodeInfo": {"kubeletVersion": "v1"}}});
    let cells = node_cells(&node, now);
    assert_eq!(json!(cells.get(..5)), json!(["n", "Ready,SchedulingDisabled", "worker", "<unknown>", "v1"]));
}
