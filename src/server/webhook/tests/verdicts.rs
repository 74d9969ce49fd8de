//! Who passes, who does not, and what kubectl prints.

use super::*;

/// An object, a part of the refusal, or nothing if it passes.
struct Case {
    name: &'static str,
    object: Value,
    refusal: Option<&'static str>,
}

fn case(name: &'static str, object: Value, refusal: Option<&'static str>) -> Case {
    Case { name, object, refusal }
}

pub(super) fn control_plane(more: &Value) -> Value {
    let mut spec = json!({"version": "v1.33.0"});
    spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    object("CAPTControlPlane", &spec)
}

pub(super) fn apply(variables: &Value) -> Value {
    object("WorkspaceTemplateApply", &json!({"templateRef": {"name": "shared"}, "variables": variables}))
}

fn objects_alone() -> Vec<Case> {
    vec![
        case("a network", object("CAPTCluster", &json!({"region": "eu-central-1"})), None),
        case("no region", object("CAPTCluster", &json!({"region": "nowhere"})), Some("spec.region")),
        case("an EKS cluster", control_plane(&json!({})), None),
        case("no version", control_plane(&json!({"version": "latest"})), Some("spec.version: \"latest\"")),
        case(
            "a template of a network",
            object("CAPTClusterTemplate", &json!({"template": {"spec": {"region": "eu-central-1"}}})),
            None,
        ),
        case(
            "a template of a network that is none",
            object("CAPTClusterTemplate", &json!({"template": {"spec": {"region": "x"}}})),
            Some("spec.template.spec.region"),
        ),
        case(
            "a template of an EKS cluster that names one",
            object(
                "CAPTControlPlaneTemplate",
                &json!({"template": {"spec": {"version": "1.33", "eksClusterName": "one"}}}),
            ),
            Some("spec.template.spec.eksClusterName"),
        ),
        case("an identity", object("CAPTIdentity", &json!({"source": "Default"})), None),
        case(
            "an identity without its Secret",
            object("CAPTIdentity", &json!({"source": "Secret"})),
            Some("spec.secretRef"),
        ),
        case(
            "an identity with bad HCL",
            object(
                "CAPTIdentity",
                &json!({"source": "Default", "configuration": "provider \"aws\" {\n  a = \n}"}),
            ),
            Some("spec.configuration: does not parse: line 2"),
        ),
        case("work that is none", object("WorkspaceTemplateApply", &json!({})), Some("templateRef")),
    ]
}

fn templates() -> Vec<Case> {
    let module = "variable \"n\" {}\nresource \"aws_vpc\" \"it\" {\n  tags = { name = var.n }\n}\n";
    vec![
        case("good HCL", template(module), None),
        case(
            "bad HCL",
            template("variable \"n\" {}\n\nresource \"aws_vpc\" {{\n"),
            Some("spec.template.spec.forProvider.module: does not parse: main.tf, line 3"),
        ),
        case(
            "placeholders inside and outside of quotes",
            template("locals {\n  a = \"${who}\"\n  b = ${count}\n  c = [for x in [1] : \"${x}\"]\n}\n"),
            None,
        ),
        case(
            "bad HCL around placeholders",
            template("locals {\n  b = ${count}\n  a = \"${who}\n}\n"),
            Some("main.tf, line 3"),
        ),
        case(
            "good JSON",
            template_with(
                &json!({"source": "Inline", "inlineFormat": "JSON", "module": "{\"locals\": {\"a\": \"${who}\"}}"}),
            ),
            None,
        ),
        case(
            "bad JSON",
            template_with(&json!({"source": "Inline", "inlineFormat": "JSON", "module": "{\n\"locals\": }"})),
            Some("inlineFormat is JSON, but the module is not valid JSON (expected value at line 2"),
        ),
        case(
            "a value that the module does not know",
            template_with(
                &json!({"source": "Inline", "module": module, "vars": [{"key": "m", "value": "1"}]}),
            ),
            Some("spec.template.spec.forProvider.vars: the module declares no variable \"m\""),
        ),
        case(
            "a list that a placeholder will be",
            template_with(&json!({
                "source": "Inline",
                "module": "variable \"ids\" {\n  type = list(string)\n}\n",
                "vars": [{"key": "ids", "value": "${subnets}"}],
            })),
            None,
        ),
        case(
            "a list that is none",
            template_with(&json!({
                "source": "Inline",
                "module": "variable \"ids\" {\n  type = list(string)\n}\n",
                "vars": [{"key": "ids", "value": "a, b"}],
            })),
            Some("the value of \"ids\" is not a literal of type list(string)"),
        ),
        case(
            "a module elsewhere",
            template_with(&json!({"source": "Remote", "module": "git::https://x/y"})),
            None,
        ),
        case("no module", template(" "), Some("forProvider.module: must not be empty")),
    ]
}

#[tokio::test]
async fn objects_are_judged_by_the_validators_of_the_command_line() {
    for Case { name, object, refusal } in objects_alone().into_iter().chain(templates()) {
        let heard = create(Cluster::default(), &object).await;
        match (refusal, &heard.refusal) {
            (None, None) => {}
            (Some(part), Some(message)) => assert!(message.contains(part), "{name}: {message}"),
            _ => panic!("{name}: expected {refusal:?}, heard {heard:?}"),
        }
        assert_eq!(heard.warnings, Vec::<String>::new(), "{name}");
    }
}

fn with_template(module: &str) -> Cluster {
    Cluster { templates: [("team-a/shared".to_owned(), template(module))].into(), ..Cluster::default() }
}

#[tokio::test]
async fn a_placeholder_that_no_variable_fills_is_refused() {
    let module =
        "variable \"ids\" {\n  type = list(string)\n}\nlocals {\n  a = \"${who}-${WORKSPACE_NAME}\"\n}\n";
    for (variables, refusal) in [
        (json!({"who": "me"}), None),
        (json!({"who": "me", "more": "x"}), None),
        (json!({"who": "me", "ids": "[\"a\"]"}), None),
        (
            json!({}),
            Some(
                "spec.variables: placeholder ${who} in forProvider.module of WorkspaceTemplate team-a/shared has no value; add who",
            ),
        ),
        (
            json!({"who": "me", "ids": "a"}),
            Some("spec.variables[\"ids\"]: is not a literal of type list(string)"),
        ),
    ] {
        let heard = create(with_template(module), &apply(&variables)).await;
        match (refusal, &heard.refusal) {
            (None, None) => assert!(heard.warnings.is_empty(), "{heard:?}"),
            (Some(part), Some(message)) => assert!(message.contains(part), "{message}"),
            _ => panic!("{variables}: {heard:?}"),
        }
    }
}

#[tokio::test]
async fn a_template_that_nobody_knows_stops_nothing() {
    let heard = create(Cluster::default(), &apply(&json!({}))).await;
    assert!(heard.refusal.is_none() && heard.warnings.is_empty(), "{heard:?}");
    let heard = create(Cluster { is_down: true, ..Cluster::default() }, &apply(&json!({}))).await;
    assert!(heard.refusal.is_none(), "{heard:?}");
    assert!(heard.warnings[0].contains("cannot look up"), "{heard:?}");
}

#[tokio::test]
async fn a_broken_template_is_a_warning_for_those_who_apply_it() {
    let heard = create(with_template("locals {"), &apply(&json!({}))).await;
    assert!(heard.refusal.is_none(), "{heard:?}");
    assert!(heard.warnings[0].starts_with("WorkspaceTemplate team-a/shared: main.tf, line"), "{heard:?}");
}

#[tokio::test]
async fn profiles_that_want_the_same_pods_are_a_warning() {
    let profiles = json!([
        {"name": "web", "selectors": [{"namespace": "team-*"}]},
        {"name": "api", "selectors": [{"namespace": "team-blue"}]},
    ]);
    let heard =
        create(Cluster::default(), &control_plane(&json!({"additionalFargateProfiles": profiles}))).await;
    assert!(heard.refusal.is_none(), "{heard:?}");
    assert_eq!(
        heard.warnings,
        ["Fargate profiles api and web both match pods in namespace team-*; EKS uses api, the first by name"]
    );
}

#[tokio::test]
async fn more_profiles_than_the_quota_are_a_warning() {
    let profile =
        |at: usize| json!({"name": format!("p{at}"), "selectors": [{"namespace": format!("n{at}")}]});
    let profiles = |count| json!({"additionalFargateProfiles": (0..count).map(profile).collect::<Vec<_>>()});
    assert!(create(Cluster::default(), &control_plane(&profiles(9))).await.warnings.is_empty());
    let heard = create(Cluster::default(), &control_plane(&profiles(10))).await;
    assert!(heard.refusal.is_none(), "{heard:?}");
    assert!(
        heard.warnings[0].contains("11 Fargate profiles") && heard.warnings[0].contains("limit is 10"),
        "{heard:?}"
    );
    let heard = create(Cluster::default(), &control_plane(&profiles(100))).await;
    assert!(heard.refusal.unwrap().contains("limit is 100"));
}

#[tokio::test]
async fn what_was_wrong_before_may_stay_and_nothing_may_get_worse() {
    let old = control_plane(&json!({"version": "latest"}));
    let heard = update(Cluster::default(), &old, &old).await;
    assert!(heard.refusal.is_none() && heard.warnings.is_empty(), "{heard:?}");
    let mut annotated = old.clone();
    annotated["metadata"]["finalizers"] = json!(["x/y"]);
    annotated["status"] = json!({"ready": true});
    assert!(update(Cluster::default(), &old, &annotated).await.refusal.is_none());
    let mut changed = old.clone();
    changed["spec"]["additionalTags"] = json!({"team": "blue"});
    let heard = update(Cluster::default(), &old, &changed).await;
    assert!(heard.refusal.is_none(), "{heard:?}");
    assert!(heard.warnings[0].contains("spec.version"), "{heard:?}");
    let mut worse = changed.clone();
    worse["spec"]["version"] = json!("newest");
    assert!(update(Cluster::default(), &changed, &worse).await.refusal.unwrap().contains("newest"));
    let good = control_plane(&json!({}));
    assert!(update(Cluster::default(), &good, &old).await.refusal.unwrap().contains("latest"));
}

#[tokio::test]
async fn what_cannot_be_changed_is_refused() {
    let old = control_plane(&json!({"eksClusterName": "one"}));
    let new = control_plane(&json!({"eksClusterName": "two"}));
    let refusal = update(Cluster::default(), &old, &new).await.refusal.unwrap();
    assert!(refusal.contains("spec.eksClusterName: is immutable"), "{refusal}");
}

#[tokio::test]
async fn deletions_and_what_is_being_deleted_always_pass() {
    let bad = control_plane(&json!({"version": "latest"}));
    let heard = send(Cluster::default(), &body("DELETE", None, Some(&bad))).await;
    assert!(heard.refusal.is_none(), "{heard:?}");
    let mut going = bad.clone();
    going["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    going["spec"]["version"] = json!("worse");
    assert!(update(Cluster::default(), &bad, &going).await.refusal.is_none());
    let mut status: Value = serde_json::from_slice(&body("UPDATE", Some(&going), Some(&bad))).unwrap();
    status["request"]["object"]["metadata"].as_object_mut().unwrap().remove("deletionTimestamp");
    status["request"]["subResource"] = json!("status");
    assert!(send(Cluster::default(), status.to_string().as_bytes()).await.refusal.is_none());
}

#[tokio::test]
async fn kinds_that_are_not_ours_pass() {
    let mut pod = object("Pod", &json!({"nonsense": 1}));
    assert!(create(Cluster::default(), &pod).await.refusal.is_none());
    pod["apiVersion"] = json!("infrastructure.cluster.x-k8s.io/v1alpha1");
    pod["kind"] = json!("CAPTCluster");
    assert!(create(Cluster::default(), &pod).await.refusal.is_none());
}

#[tokio::test]
async fn an_object_that_cannot_be_read_passes_with_a_warning() {
    let heard = create(Cluster::default(), &object("CAPTCluster", &json!({"region": 7}))).await;
    assert!(heard.refusal.is_none(), "{heard:?}");
    assert!(heard.warnings[0].contains("could not decode this object"), "{heard:?}");
}
