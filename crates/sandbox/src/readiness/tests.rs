use rstest::rstest;
use serde_json::{Value, json};

use super::*;

fn deployment(status: &Value) -> Deployment {
    serde_json::from_value(json!({
        "metadata": {"name": "cart-pr-1-aaaa", "generation": 2},
        "spec": {"replicas": 1, "selector": {}, "template": {}},
        "status": status
    }))
    .unwrap()
}

fn starting() -> Deployment {
    deployment(&json!({"observedGeneration": 2, "replicas": 1, "updatedReplicas": 1}))
}

fn pod(name: &str, node: Option<&str>, status: &Value) -> Pod {
    serde_json::from_value(json!({
        "metadata": {"name": name, "uid": format!("uid-{name}")},
        "spec": {"containers": [], "nodeName": node},
        "status": status
    }))
    .unwrap()
}

fn event(pod: &str, reason: &str, message: &str, at: &str) -> Event {
    serde_json::from_value(json!({
        "metadata": {}, "reason": reason, "message": message, "lastTimestamp": at,
        "involvedObject": {"kind": "Pod", "name": pod, "uid": format!("uid-{pod}")}
    }))
    .unwrap()
}

fn see(fork: &Deployment, pods: &[Pod], events: &[Event], fargate: bool) -> (String, String) {
    let (reason, message) =
        fork_readiness(ForkObservation { fork, pods, events, on_fargate: fargate }).problem.unwrap();
    (reason.to_owned(), message)
}

#[rstest]
#[case(json!({"observedGeneration": 2, "replicas": 1, "updatedReplicas": 1, "readyReplicas": 1, "availableReplicas": 1}), true)]
#[case::the_controller_has_not_seen_it(json!({"observedGeneration": 1, "replicas": 1, "updatedReplicas": 1, "readyReplicas": 1, "availableReplicas": 1}), false)]
#[case::an_old_pod_is_there(json!({"observedGeneration": 2, "replicas": 2, "updatedReplicas": 1, "readyReplicas": 1, "availableReplicas": 1}), false)]
#[case::not_available(json!({"observedGeneration": 2, "replicas": 1, "updatedReplicas": 1, "readyReplicas": 1}), false)]
#[case::nothing_known(json!({}), false)]
fn a_fork_is_ready_when_its_newest_pods_are_available(#[case] status: Value, #[case] expected: bool) {
    let fork = deployment(&status);
    let seen = fork_readiness(ForkObservation { fork: &fork, pods: &[], events: &[], on_fargate: false });
    assert_eq!(seen.problem.is_none(), expected, "{seen:?}");
}

#[test]
fn a_fork_without_pods_is_ready_when_it_should_have_none() {
    let mut fork = deployment(&json!({"observedGeneration": 2}));
    fork.spec.as_mut().unwrap().replicas = Some(0);
    let seen = fork_readiness(ForkObservation { fork: &fork, pods: &[], events: &[], on_fargate: false });
    assert_eq!(seen, ForkReadiness { replicas: 0, ready_replicas: 0, problem: None });
}

#[test]
fn an_image_that_cannot_be_pulled_is_named() {
    let waiting = json!({"containerStatuses": [{
        "name": "app", "image": "repo/cart:pr-1234", "imageID": "", "ready": false, "restartCount": 0,
        "state": {"waiting": {"reason": "ImagePullBackOff", "message": "not found"}}
    }]});
    let (reason, message) = see(&starting(), &[pod("a", Some("n"), &waiting)], &[], false);
    assert_eq!(
        (reason.as_str(), message.as_str()),
        ("PodFailing", "ImagePullBackOff: repo/cart:pr-1234: not found")
    );
}

#[test]
fn a_crash_is_told_with_its_code() {
    let crashing = json!({"containerStatuses": [{
        "name": "app", "image": "i", "imageID": "", "ready": false, "restartCount": 3,
        "state": {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 40s"}},
        "lastState": {"terminated": {"exitCode": 137, "reason": "OOMKilled"}}
    }]});
    let (_, message) = see(&starting(), &[pod("a", Some("n"), &crashing)], &[], false);
    assert_eq!(message, "CrashLoopBackOff: container app exited with code 137 (OOMKilled)");
    let init = json!({"initContainerStatuses": [{
        "name": "migrate", "image": "i", "imageID": "", "ready": false, "restartCount": 0,
        "state": {"terminated": {"exitCode": 1, "reason": "Error", "message": "no database\n"}}
    }]});
    let (_, message) = see(&starting(), &[pod("a", Some("n"), &init)], &[], false);
    assert_eq!(message, "container migrate exited with code 1 (Error): no database");
}

#[test]
fn a_missing_secret_is_told() {
    let waiting = json!({"containerStatuses": [{
        "name": "app", "image": "i", "imageID": "", "ready": false, "restartCount": 0,
        "state": {"waiting": {"reason": "CreateContainerConfigError", "message": "secret \"cart-dsn\" not found"}}
    }]});
    let (_, message) = see(&starting(), &[pod("a", Some("n"), &waiting)], &[], false);
    assert_eq!(message, "CreateContainerConfigError: secret \"cart-dsn\" not found: container app");
}

#[test]
fn the_newest_word_of_the_scheduler_counts() {
    let events = [
        event("a", "FailedScheduling", "old", "2026-11-17T05:00:00Z"),
        event(
            "a",
            "FailedScheduling",
            "Pod not supported on Fargate: fields not supported: HostPort",
            "2026-11-17T05:01:00Z",
        ),
        event("b", "FailedScheduling", "another pod", "2026-11-17T05:02:00Z"),
    ];
    let (reason, message) = see(&starting(), &[pod("a", None, &json!({}))], &events, true);
    assert_eq!(reason, "PodFailing");
    assert_eq!(message, "FailedScheduling: Pod not supported on Fargate: fields not supported: HostPort");
}

#[test]
fn a_pod_without_a_place_tells_by_its_condition_where_there_is_no_event() {
    let status = json!({"conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/3 nodes are available"}]});
    let (_, message) = see(&starting(), &[pod("a", None, &status)], &[], false);
    assert_eq!(message, "Unschedulable: 0/3 nodes are available");
}

#[test]
fn fargate_takes_its_time_and_that_is_no_failure() {
    let (reason, _) = see(&starting(), &[pod("a", None, &json!({"phase": "Pending"}))], &[], true);
    assert_eq!(reason, "WaitingForFargate");
    let (reason, _) =
        see(&starting(), &[pod("a", Some("fargate-1"), &json!({"phase": "Pending"}))], &[], true);
    assert_eq!(reason, "Progressing");
    let (reason, _) = see(&starting(), &[], &[], false);
    assert_eq!(reason, "Progressing");
}

#[test]
fn a_deadline_fails_with_the_pods_cause() {
    let fork = deployment(&json!({
        "observedGeneration": 2, "replicas": 1, "updatedReplicas": 1,
        "conditions": [{"type": "Progressing", "status": "False", "reason": "ProgressDeadlineExceeded"}]
    }));
    let waiting = json!({"containerStatuses": [{
        "name": "app", "image": "x", "imageID": "", "ready": false, "restartCount": 0,
        "state": {"waiting": {"reason": "ErrImagePull", "message": "denied"}}
    }]});
    let (reason, message) = see(&fork, &[pod("a", Some("n"), &waiting)], &[], false);
    assert_eq!((reason.as_str(), message.as_str()), ("ProgressDeadlineExceeded", "ErrImagePull: x: denied"));
}

#[test]
fn a_quota_that_refuses_pods_is_told() {
    let fork = deployment(&json!({
        "observedGeneration": 2,
        "conditions": [{"type": "ReplicaFailure", "status": "True", "reason": "FailedCreate", "message": "exceeded quota: pods"}]
    }));
    let (reason, message) = see(&fork, &[], &[], false);
    assert_eq!((reason.as_str(), message.as_str()), ("PodFailing", "FailedCreate: exceeded quota: pods"));
}

#[test]
fn a_probe_that_fails_is_told() {
    let running = json!({"containerStatuses": [{
        "name": "app", "image": "x", "imageID": "", "ready": false, "restartCount": 0, "state": {"running": {}}
    }]});
    let events = [event("a", "Unhealthy", "Readiness probe failed: HTTP 500", "2026-11-17T05:01:00Z")];
    let (_, message) = see(&starting(), &[pod("a", Some("n"), &running)], &events, false);
    assert_eq!(message, "container app runs and is not ready: Readiness probe failed: HTTP 500");
}

#[test]
fn a_pod_that_goes_away_explains_nothing() {
    let waiting = json!({"containerStatuses": [{
        "name": "app", "image": "x", "imageID": "", "ready": false, "restartCount": 0,
        "state": {"waiting": {"reason": "ErrImagePull", "message": "denied"}}
    }]});
    let mut going = pod("a", Some("n"), &waiting);
    going.metadata.deletion_timestamp = serde_json::from_value(json!("2026-11-17T05:00:00Z")).unwrap();
    let (reason, _) = see(&starting(), &[going], &[], false);
    assert_eq!(reason, "Progressing");
}
