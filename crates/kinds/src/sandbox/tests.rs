//! What kubectl and the API server find in the CRDs.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde_json::{Value, json};

use super::*;

fn crd(kind: &str) -> CustomResourceDefinition {
    crds().into_iter().find(|crd| crd.spec.names.kind == kind).unwrap()
}

fn schema_of(kind: &str) -> Value {
    let version = crd(kind).spec.versions.remove(0);
    serde_json::to_value(version.schema.unwrap().open_api_v3_schema.unwrap()).unwrap()
}

#[test]
fn every_kind_has_its_names() {
    let found: Vec<_> = crds()
        .into_iter()
        .map(|crd| {
            let (names, name) = (crd.spec.names, crd.metadata.name.unwrap());
            let short = names.short_names.unwrap_or_default().join(",");
            format!("{name} {} {} [{short}]", names.kind, crd.spec.scope)
        })
        .collect();
    assert_eq!(
        found,
        [
            "sandboxes.sandbox.capt.x-k8s.io Sandbox Namespaced [sbx]",
            "routegroups.sandbox.capt.x-k8s.io RouteGroup Namespaced [rg]",
            "localworkloads.sandbox.capt.x-k8s.io LocalWorkload Namespaced [lw]",
        ]
    );
}

#[test]
fn columns_are_in_the_order_of_the_definition() {
    let columns = |kind: &str| -> Vec<String> {
        let columns = crd(kind).spec.versions.remove(0).additional_printer_columns.unwrap();
        columns.into_iter().filter(|it| it.priority.unwrap_or(0) == 0).map(|it| it.name).collect()
    };
    assert_eq!(columns("Sandbox"), ["PHASE", "READY", "KEY", "LOCALS", "EXPIRES", "AGE"]);
    assert_eq!(columns("RouteGroup"), ["PHASE", "KEY", "MATCHED", "READY", "ROUTES", "DATAPLANE", "AGE"]);
    assert_eq!(columns("LocalWorkload"), ["PHASE", "SANDBOX", "BASELINE", "USER", "RTT", "SINCE", "AGE"]);
}

#[test]
fn a_spec_is_required_and_no_null_is_stored() {
    for crd in crds() {
        let kind = crd.spec.names.kind.clone();
        let schema = schema_of(&kind);
        assert_eq!(schema["required"], json!(["spec"]), "{kind}");
        assert!(!schema.to_string().contains("nullable"), "{kind}");
        assert!(crd.spec.versions[0].subresources.as_ref().unwrap().status.is_some(), "{kind}");
    }
}

#[test]
fn every_list_and_text_of_a_spec_has_a_bound() {
    for kind in ["Sandbox", "RouteGroup", "LocalWorkload"] {
        let schema = schema_of(kind);
        let mut unbound = Vec::new();
        bounds(&schema["properties"]["spec"], "spec", &mut unbound);
        // The selector of namespaces is Kubernetes' own shape.
        unbound.retain(|path| !path.starts_with("spec.namespaces.selector"));
        assert_eq!(unbound, Vec::<String>::new(), "{kind}");
    }
}

/// An API server estimates the cost of rules by these bounds, and refuses a CRD that has none.
fn bounds(schema: &Value, path: &str, unbound: &mut Vec<String>) {
    let has = |field: &str| schema.get(field).is_some();
    match schema["type"].as_str() {
        Some("array") if !has("maxItems") => unbound.push(path.to_owned()),
        Some("string") if !has("maxLength") && !has("enum") => unbound.push(path.to_owned()),
        _ => {}
    }
    for (name, property) in schema["properties"].as_object().into_iter().flatten() {
        bounds(property, &format!("{path}.{name}"), unbound);
    }
    if has("items") {
        bounds(&schema["items"], &format!("{path}[]"), unbound);
    }
}

#[test]
fn defaults_are_in_the_schema() {
    let sandbox = schema_of("Sandbox");
    let fork = &sandbox["properties"]["spec"]["properties"]["forks"]["items"]["properties"];
    assert_eq!(fork["baselineUpdatePolicy"]["default"], "Follow");
    assert_eq!(fork["customizations"]["properties"]["replicas"]["default"], 1);
    let local = schema_of("LocalWorkload");
    let spec = &local["properties"]["spec"]["properties"];
    assert_eq!(spec["disconnectPolicy"]["default"], "Fail");
    assert_eq!(spec["disconnectGracePeriod"]["default"], "30s");
    let group = schema_of("RouteGroup");
    let routing = &group["properties"]["spec"]["properties"]["routing"]["properties"];
    assert_eq!(routing["mode"]["enum"], json!(["Auto", "Router", "GatewayAPI", "Explicit"]));
    assert_eq!(routing["unreadyPolicy"]["default"], "Fail");
}

#[test]
fn a_fork_without_a_name_has_its_baselines() {
    let fork: ForkSpec = serde_json::from_value(json!({"forkOf": {"name": "cart"}})).unwrap();
    assert_eq!(fork.name(), "cart");
    assert_eq!(fork.customizations.replicas, 1);
    assert_eq!(fork.fork_of.kind, WorkloadKind::Deployment);
}
