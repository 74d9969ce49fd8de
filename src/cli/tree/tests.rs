//! Trees from objects as an API server returns them.

use serde_json::{Value, json};

use super::*;

const NOW: &str = "2026-01-01T00:10:00Z";

fn now() -> Timestamp {
    NOW.parse().unwrap()
}

fn object(kind: &str, name: &str, rest: Value) -> DynamicObject {
    let mut object = json!({
        "apiVersion": "example/v1", "kind": kind,
        "metadata": {"name": name, "namespace": "default", "creationTimestamp": "2026-01-01T00:00:00Z", "generation": 1},
    });
    merge(&mut object, rest);
    serde_json::from_value(object).unwrap()
}

fn merge(into: &mut Value, from: Value) {
    match (into, from) {
        (Value::Object(into), Value::Object(from)) => {
            for (name, value) in from {
                merge(into.entry(name).or_insert(Value::Null), value);
            }
        }
        (into, from) => *into = from,
    }
}

fn condition(kind: &str, status: &str, reason: &str, message: &str) -> Value {
    json!({"type": kind, "status": status, "reason": reason, "message": message})
}

fn owner(kind: &str, name: &str) -> Value {
    json!({"metadata": {"ownerReferences": [{"apiVersion": "v1", "kind": kind, "name": name, "uid": "1"}]}})
}

fn ready() -> Value {
    json!({"status": {"phase": "Ready", "conditions": [condition("Ready", "True", "Ready", "")]}})
}

fn workspace(name: &str, owned_by: (&str, &str), status: Value) -> DynamicObject {
    let mut rest = owner(owned_by.0, owned_by.1);
    rest["status"] = status;
    object("WorkspaceTemplateApply", name, rest)
}

fn run(phase: &str, operation: &str) -> Value {
    json!({"id": "1", "phase": phase, "operation": operation, "startedAt": "2026-01-01T00:07:55Z"})
}

/// A cluster whose EKS workspace is being applied; in no order.
fn half_done() -> Vec<DynamicObject> {
    let apps = json!({"run": {"id": "1", "phase": "Pending", "operation": "Apply", "waitingFor": "the Secret demo-eks-connection"}});
    let mut apps = workspace("demo-apps-fargate-apply", ("CAPTControlPlane", "demo"), apps);
    apps.metadata.labels = Some([("capt.x-k8s.io/fargate-profile".to_owned(), "apps".to_owned())].into());
    let eks = json!({
        "run": run("Applying", "Apply"),
        "progress": {"done": 7, "total": 13, "slowest": "aws_eks_cluster.this", "slowestSeconds": 100},
    });
    let creating = json!({"status": {"phase": "Creating", "conditions": [
        condition("Ready", "False", "Creating", "the EKS cluster is being made")]}});
    vec![
        apps,
        workspace("demo-eks-controlplane-apply", ("CAPTControlPlane", "demo"), eks),
        workspace(
            "demo-vpc",
            ("CAPTCluster", "demo"),
            json!({"conditions": [condition("Ready", "True", "Available", "")]}),
        ),
        object("CAPTControlPlane", "demo", creating),
        object("CAPTCluster", "demo", ready()),
        object(
            "Cluster",
            "demo",
            json!({
            "spec": {"infrastructureRef": {"kind": "CAPTCluster", "name": "demo"},
                     "controlPlaneRef": {"kind": "CAPTControlPlane", "name": "demo"}},
            "status": {"phase": "Provisioning"}}),
        ),
    ]
}

fn shown(objects: &[DynamicObject]) -> String {
    anstream::adapter::strip_str(&render_text(&tree_lines(&build_forest(objects, ""), now()))).to_string()
}

fn target(kind: &str, name: &str) -> WaitTarget {
    WaitTarget { kind: kind.to_owned(), namespace: "default".to_owned(), name: name.to_owned() }
}

#[test]
fn a_cluster_stands_above_what_belongs_to_it_in_the_order_in_which_it_is_made() {
    let wanted = "\
▸ Cluster default/demo                   Provisioning  10m00s
✓   CAPTCluster demo                     Ready
✓     wtapply demo-vpc                   ready
▸   CAPTControlPlane demo                Creating  10m00s
      the EKS cluster is being made
▸     wtapply demo-eks-controlplane-apply  applying  7/13  aws_eks_cluster.this 1m40s  2m05s
·     wtapply demo-apps-fargate-apply    waiting for the Secret demo-eks-connection  10m00s
";
    let squeeze = |text: &str| -> Vec<String> {
        text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect()
    };
    let text = shown(&half_done());
    assert_eq!(squeeze(&text), squeeze(wanted));
    let column = |name: &str, word: &str| {
        let line = text.lines().find(|line| line.contains(name)).unwrap();
        line.chars().collect::<String>().find(word).map(|at| line[..at].chars().count())
    };
    assert_eq!(column("CAPTCluster", " Ready"), column("demo-eks", " applying"), "{text}");
}

#[test]
fn what_is_under_way_is_neither_ready_nor_stuck() {
    assert_eq!(
        assess_readiness(&build_forest(&half_done(), ""), &[target("Cluster", "demo")]),
        TargetReadiness::Pending
    );
    assert_eq!(assess_readiness(&build_forest(&half_done(), ""), &[]), TargetReadiness::Pending);
}

#[test]
fn one_that_was_asked_for_and_is_not_seen_yet_is_waited_for() {
    let objects = [object("CAPTCluster", "demo", ready())];
    assert_eq!(
        assess_readiness(&build_forest(&objects, ""), &[target("CAPTCluster", "demo")]),
        TargetReadiness::Ready
    );
    assert_eq!(
        assess_readiness(
            &build_forest(&objects, ""),
            &[target("CAPTCluster", "demo"), target("CAPTCluster", "other")]
        ),
        TargetReadiness::Pending
    );
}

#[test]
fn other_clusters_do_not_matter_to_those_who_asked_for_one() {
    let broken = json!({"status": {"conditions": [condition("Ready", "False", "InvalidSpec", "spec.region: no such region")]}});
    let objects = [object("CAPTCluster", "demo", ready()), object("CAPTCluster", "other", broken)];
    assert_eq!(
        assess_readiness(&build_forest(&objects, ""), &[target("CAPTCluster", "demo")]),
        TargetReadiness::Ready
    );
    let TargetReadiness::Stuck(why) = assess_readiness(&build_forest(&objects, ""), &[]) else {
        panic!("all of them are looked at")
    };
    assert_eq!(why, ["CAPTCluster default/other: InvalidSpec: spec.region: no such region"]);
}

#[test]
fn a_ready_that_is_about_an_older_spec_is_none() {
    let mut status = ready();
    status["metadata"] = json!({"generation": 2});
    status["status"]["observedGeneration"] = json!(1);
    let objects = [object("CAPTCluster", "demo", status.clone())];
    assert_eq!(assess_readiness(&build_forest(&objects, ""), &[]), TargetReadiness::Pending);
    status["status"]["observedGeneration"] = json!(2);
    status["status"]["conditions"][0]["observedGeneration"] = json!(1);
    let objects = [object("CAPTCluster", "demo", status.clone())];
    assert_eq!(assess_readiness(&build_forest(&objects, ""), &[]), TargetReadiness::Pending);
    status["status"]["conditions"][0]["observedGeneration"] = json!(2);
    assert_eq!(
        assess_readiness(&build_forest(&[object("CAPTCluster", "demo", status)], ""), &[]),
        TargetReadiness::Ready
    );
}

#[test]
fn a_failure_is_final_only_if_nobody_tries_again() {
    let status = |retry: Value| {
        json!({"run": run("Failed", "Apply"), "conditions": [condition("Ready", "False", "Unavailable", "")],
            "lastError": {"class": "Transient", "message": "throttled", "address": "aws_vpc.this", "retryAt": retry}})
    };
    let again = workspace("demo-vpc", ("CAPTCluster", "demo"), status(json!("2026-01-01T00:10:30Z")));
    assert_eq!(
        assess_readiness(&build_forest(std::slice::from_ref(&again), ""), &[]),
        TargetReadiness::Pending
    );
    let text = shown(&[again]);
    assert!(text.contains("aws_vpc.this: throttled (next attempt in 30s)"), "{text}");
    let never = workspace("demo-vpc", ("CAPTCluster", "demo"), status(Value::Null));
    let TargetReadiness::Stuck(why) = assess_readiness(&build_forest(&[never], ""), &[]) else {
        panic!("it is not retried")
    };
    assert_eq!(why, ["WorkspaceTemplateApply default/demo-vpc: failed: aws_vpc.this: throttled"]);
}

#[test]
fn a_plan_that_waits_for_consent_is_shown_with_what_to_type() {
    let status = json!({
        "run": run("AwaitingApproval", "Apply"),
        "plan": {"hash": "0123456789abcdef0123"},
        "conditions": [condition("DestructiveChangeBlocked", "True", "ApprovalRequired", "aws_eks_cluster.this would be replaced")],
    });
    let mut object = workspace("demo-eks", ("CAPTControlPlane", "demo"), status);
    object.metadata.namespace = Some("prod".to_owned());
    let trees = build_forest(std::slice::from_ref(&object), " --data x");
    let TargetReadiness::Stuck(why) = assess_readiness(&trees, &[]) else { panic!("it waits") };
    let tree = render_text(&tree_lines(&trees, now()));
    for text in
        ["aws_eks_cluster.this would be replaced", "`capt approve demo-eks 0123456789ab -n prod --data x`"]
    {
        assert!(why[0].contains(text), "{why:?}");
        assert!(tree.contains(text), "{tree}");
    }
}

#[test]
fn a_look_for_drift_leaves_a_workspace_ready() {
    let ready = condition("Ready", "True", "Available", "");
    let check = json!({"run": run("Planning", "Check"), "conditions": [ready.clone()]});
    assert_eq!(
        assess_readiness(&build_forest(&[workspace("a", ("X", "x"), check)], ""), &[]),
        TargetReadiness::Ready
    );
    let change = json!({"run": run("Planning", "Apply"), "conditions": [ready]});
    assert_eq!(
        assess_readiness(&build_forest(&[workspace("a", ("X", "x"), change)], ""), &[]),
        TargetReadiness::Pending
    );
}

#[test]
fn a_paused_cluster_never_gets_ready_and_the_remedy_is_said() {
    let paused = json!({"status": {"conditions": [condition("Paused", "True", "Paused", ""), condition("Ready", "False", "x", "")]}});
    let TargetReadiness::Stuck(why) =
        assess_readiness(&build_forest(&[object("CAPTCluster", "demo", paused)], ""), &[])
    else {
        panic!()
    };
    assert!(why[0].contains("unset spec.paused"), "{why:?}");
}

#[test]
fn clusters_of_cluster_api_are_ready_when_they_say_available_or_their_parts_do() {
    let of = |conditions: Value| {
        let objects = [object(
            "Cluster",
            "demo",
            json!({"status": {"phase": "Provisioned", "conditions": conditions}}),
        )];
        assess_readiness(&build_forest(&objects, ""), &[])
    };
    let parts = [
        condition("InfrastructureReady", "True", "Ready", ""),
        condition("ControlPlaneAvailable", "True", "Available", ""),
    ];
    assert_eq!(of(json!(parts)), TargetReadiness::Ready);
    assert_eq!(of(json!([parts[0]])), TargetReadiness::Pending);
    assert_eq!(
        of(json!([parts[0], parts[1], condition("Available", "False", "NotAvailable", "")])),
        TargetReadiness::Pending
    );
    assert_eq!(of(json!([condition("Ready", "True", "", "")])), TargetReadiness::Ready);
}

#[test]
fn a_template_is_shown_only_when_something_is_wrong_with_it() {
    let good = object("WorkspaceTemplate", "good", json!({}));
    let bad = json!({"status": {"conditions": [condition("Valid", "False", "Invalid", "main.tf, line 3: a brace is missing")]}});
    let bad = object("WorkspaceTemplate", "bad", bad);
    let text = shown(&[good.clone(), bad.clone()]);
    assert!(text.contains("bad") && text.contains("a brace is missing") && !text.contains("good"), "{text}");
    assert_eq!(
        assess_readiness(&build_forest(&[good], ""), &[target("WorkspaceTemplate", "good")]),
        TargetReadiness::Ready
    );
    assert!(matches!(assess_readiness(&build_forest(&[bad], ""), &[]), TargetReadiness::Stuck(_)));
}

#[test]
fn what_goes_away_is_shown_as_going() {
    let mut object = workspace(
        "demo-vpc",
        ("CAPTCluster", "demo"),
        json!({
            "run": run("Destroying", "Destroy"), "progress": {"done": 3, "total": 19},
            "conditions": [condition("Ready", "True", "Available", "")],
        }),
    );
    object.metadata.deletion_timestamp = object.metadata.creation_timestamp.clone();
    let forest = build_forest(&[object], "");
    assert_eq!(forest[0].health.state, HealthState::Deleting);
    let text = anstream::adapter::strip_str(&render_text(&tree_lines(&forest, now()))).to_string();
    assert!(text.contains("destroying  3/19"), "{text}");
}

#[test]
fn nonsense_in_a_status_is_shown_and_stops_nothing() {
    let odd = json!({"status": {"conditions": "none", "phase": 7, "run": [], "observedGeneration": "one"}});
    for kind in ["Cluster", "CAPTCluster", "CAPTControlPlane", "WorkspaceTemplateApply", "WorkspaceTemplate"]
    {
        assert_eq!(build_forest(&[object(kind, "demo", odd.clone())], "").len(), 1);
    }
}

#[test]
fn two_objects_that_own_each_other_are_still_shown() {
    let a = workspace("a", ("WorkspaceTemplateApply", "b"), json!({}));
    let b = workspace("b", ("WorkspaceTemplateApply", "a"), json!({}));
    let forest = build_forest(&[a, b], "");
    let count: usize = forest.iter().map(|root| root.self_and_descendants().len()).sum();
    assert_eq!(count, 2);
}

#[test]
fn a_node_as_json_says_the_same() {
    let forest = build_forest(&half_done(), "");
    let json = serde_json::to_value(&forest).unwrap();
    assert_eq!(json[0]["kind"], "Cluster");
    let eks = &json[0]["children"][1]["children"][0];
    assert_eq!(eks["state"], "working");
    assert_eq!(
        eks["progress"],
        json!({"done": 7, "total": 13, "slowest": "aws_eks_cluster.this", "slowestSeconds": 100})
    );
}
