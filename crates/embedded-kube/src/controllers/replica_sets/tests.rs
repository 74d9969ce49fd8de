use jiff::Timestamp;
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use super::{
    super::selector::Selector,
    decide::{self, PodClaim, compute_status, new_pod, next_available, pods_to_create, pods_to_delete},
};

fn claim(set: &Value, pods: Vec<Value>) -> PodClaim {
    decide::claim_pods(set, &Selector::from_value(&set["spec"]["selector"]).unwrap(), pods)
}

fn set(replicas: i64) -> Value {
    json!({
        "metadata": {"name": "web-5d", "namespace": "a", "uid": "set", "generation": 3},
        "spec": {
            "replicas": replicas, "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web", "hash": "5d"}, "annotations": {"note": "x"}},
                "spec": {"containers": [{"name": "c", "image": "i"}]},
            },
        },
    })
}

fn pod(name: &str, owner: Option<&str>, labels: &Value) -> Value {
    let owners: Vec<Value> = owner
        .map(|uid| json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "x", "uid": uid, "controller": true}))
        .into_iter()
        .collect();
    json!({
        "metadata": {"name": name, "uid": name, "labels": labels, "ownerReferences": owners},
        "spec": {}, "status": {"phase": "Pending"},
    })
}

fn ready(mut pod: Value, since: &str) -> Value {
    pod["spec"]["nodeName"] = "n".into();
    pod["status"] = json!({"phase": "Running", "conditions": [
        {"type": "Ready", "status": "True", "lastTransitionTime": since},
    ]});
    pod
}

#[test]
fn pods_are_owned_adopted_released_or_left_alone() {
    let ours = json!({"app": "web", "hash": "5d"});
    let mut leaving = pod("leaving", Some("set"), &ours);
    leaving["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
    let mut failed = pod("failed", Some("set"), &ours);
    failed["status"]["phase"] = "Failed".into();
    let pods = vec![
        pod("own", Some("set"), &ours),
        pod("other", Some("another"), &ours),
        pod("orphan", None, &ours),
        pod("stranger", None, &json!({"app": "db"})),
        pod("renamed", Some("set"), &json!({"app": "db"})),
        leaving,
        failed,
    ];
    let claim = claim(&set(3), pods);
    let names = |pods: &[Value]| pods.iter().map(|pod| pod["metadata"]["name"].clone()).collect::<Vec<_>>();
    assert_eq!(names(&claim.active), ["own"]);
    assert_eq!(names(&claim.adopt), ["orphan"]);
    assert_eq!(names(&claim.release), ["renamed"]);
    assert_eq!(claim.terminating, 1);
}

#[test]
fn a_set_that_goes_takes_nobody_in_and_lets_nobody_go() {
    let mut set = set(3);
    set["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
    let claim = claim(
        &set,
        vec![pod("a", None, &json!({"app": "web"})), pod("b", Some("set"), &json!({"app": "db"}))],
    );
    assert!(claim.adopt.is_empty() && claim.release.is_empty());
}

#[test]
fn as_many_pods_are_missing_as_are_wished_and_not_there() {
    assert_eq!(pods_to_create(&set(3), 1), 2);
    assert_eq!(pods_to_create(&set(3), 5), 0);
    assert_eq!(pods_to_create(&set(9999), 0), 500);
}

#[test]
fn pods_that_do_not_serve_go_first_and_then_the_youngest() {
    let labels = json!({"app": "web"});
    let old = ready(pod("old", Some("set"), &labels), "2026-01-01T00:00:00Z");
    let young = ready(pod("young", Some("set"), &labels), "2026-01-01T00:00:09Z");
    let pending = pod("pending", Some("set"), &labels);
    let mut bound = pod("bound", Some("set"), &labels);
    bound["spec"]["nodeName"] = "n".into();
    let active = vec![old, young, bound, pending];
    assert_eq!(pods_to_delete(&set(0), active.clone(), &active), ["pending", "bound", "young", "old"]);
    assert_eq!(pods_to_delete(&set(3), active.clone(), &active), ["pending"]);
    assert_eq!(pods_to_delete(&set(4), active.clone(), &active), [""; 0]);
}

#[test]
fn a_pod_is_made_of_the_template_and_owned_by_the_set() {
    assert_eq!(
        new_pod(&set(1)),
        json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {
                "generateName": "web-5d-", "namespace": "a",
                "ownerReferences": [{
                    "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web-5d", "uid": "set",
                    "controller": true, "blockOwnerDeletion": true,
                }],
                "labels": {"app": "web", "hash": "5d"}, "annotations": {"note": "x"},
            },
            "spec": {"containers": [{"name": "c", "image": "i"}]},
        })
    );
}

#[test]
fn a_status_counts_and_keeps_its_first_failure_until_it_is_over() {
    let now: Timestamp = "2026-01-01T00:00:10Z".parse().unwrap();
    let mut set = set(2);
    set["spec"]["minReadySeconds"] = 5.into();
    let labels = json!({"app": "web", "hash": "5d"});
    let pods = vec![
        ready(pod("a", Some("set"), &labels), "2026-01-01T00:00:00Z"),
        ready(pod("b", Some("set"), &labels), "2026-01-01T00:00:08Z"),
        pod("c", Some("set"), &json!({"app": "web"})),
    ];
    let claim = claim(&set, pods);
    assert_eq!(next_available(&set, &claim.active, now), Some(std::time::Duration::from_secs(3)));
    let fine = compute_status(&set, &claim, None, now);
    assert_eq!(
        fine,
        json!({
            "replicas": 3, "fullyLabeledReplicas": 2, "readyReplicas": 2, "availableReplicas": 1,
            "terminatingReplicas": 0, "observedGeneration": 3,
        })
    );
    set["status"] = compute_status(&set, &claim, Some(("FailedCreate", "quota")), now);
    assert_eq!(set["status"]["conditions"][0]["message"], "quota");
    let again = compute_status(&set, &claim, Some(("FailedCreate", "another")), now);
    assert_eq!(again["conditions"][0]["message"], "quota");
    assert_eq!(compute_status(&set, &claim, None, now), fine);
}
