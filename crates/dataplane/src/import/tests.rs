use serde_json::{Value, json};

use super::*;

fn read(text: &str) -> Value {
    serde_saphyr::from_str(text).unwrap()
}

fn options() -> ImportOptions {
    ImportOptions { namespace: "default".into(), cluster_ref: false }
}

const SANDBOX: &str = r#"
name: my-sandbox
spec:
  labels: {dev: jane}
  cluster: staging
  description: Testing sandboxes
  ttl: {duration: 1d, offsetFrom: updatedAt}
  forks:
  - forkOf: {kind: Deployment, namespace: hotrod, name: route}
    customizations:
      images: [{image: "example.com/route:dev-abcdef"}]
      env:
      - {name: EXTRA_ENV, value: foo}
      - {name: OLD, operation: delete}
      - name: PEER
        valueFrom: {fork: {forkOf: {kind: Deployment, namespace: hotrod, name: route}, expression: "{{ .Service.Host }}"}}
      patch: {type: strategic, value: "spec: {minReadySeconds: 1}"}
  local:
  - name: local-location
    from: {kind: Deployment, namespace: hotrod, name: location}
    mappings: [{port: 8081, toLocal: "localhost:8888"}]
  virtual:
  - {name: v, workload: {kind: Deployment, namespace: hotrod, name: frontend}}
  defaultRouteGroup:
    endpoints: [{name: web, target: "http://frontend.hotrod.svc.cluster.local:8080"}]
"#;

#[test]
fn a_sandbox_file_becomes_a_sandbox_of_ours() {
    let made = import_document(&read(SANDBOX), &options());
    assert_eq!(made.problems, Vec::<String>::new());
    assert_eq!(made.objects.len(), 1);
    let sandbox = &made.objects[0];
    assert_eq!((&sandbox["kind"], &sandbox["metadata"]["namespace"]), (&json!("Sandbox"), &json!("hotrod")));
    assert_eq!(sandbox["metadata"]["labels"], json!({"dev": "jane"}));
    let spec = &sandbox["spec"];
    assert_eq!(spec["ttl"], json!({"duration": "1d", "offsetFrom": "updatedAt"}));
    assert_eq!(spec["forks"][0]["forkOf"], json!({"kind": "Deployment", "name": "route"}));
    assert_eq!(spec["forks"][0]["customizations"]["env"][1], json!({"name": "OLD", "operation": "delete"}));
    assert_eq!(spec["local"][0]["mappings"], json!([{"port": 8081, "toLocal": "localhost:8888"}]));
    assert_eq!(spec["virtual"][0]["workload"]["name"], "frontend");
    assert_eq!(spec["endpoints"][0]["target"], "http://frontend.hotrod.svc:8080");
    assert!(spec.get("clusterRef").is_none());
    assert_eq!(made.notes.len(), 1, "{:?}", made.notes);
    assert!(made.notes[0].starts_with("spec.cluster"), "{:?}", made.notes);
}

#[test]
fn a_cluster_may_be_one_of_ours() {
    let made = import_document(&read(SANDBOX), &ImportOptions { cluster_ref: true, ..options() });
    assert_eq!(made.objects[0]["spec"]["clusterRef"], json!({"name": "staging"}));
    assert_eq!(made.notes, Vec::<String>::new());
}

#[test]
fn every_field_that_has_no_meaning_here_is_named() {
    let file = read(
        r#"
name: a
extra: 1
spec:
  cluster: c
  resources: [{name: db, plugin: mariadb}]
  middleware: [{name: override}]
  forks:
  - forkOf: {kind: Rollout, namespace: x, name: y, extra: 1}
    endpoints: [{name: e, port: 80, protocol: http}]
    customizations:
      images: [{image: i, pull: always}]
      env: [{name: DB, valueFrom: {resource: {name: db, outputKey: host}}}]
      podTemplatePatch: {}
  local:
  - {name: l, from: {namespace: x, name: z}, mappings: [{port: 1, toLocal: "localhost:1", protocol: tcp}], env: [], files: []}
  defaultRouteGroup: {endpoints: [], mystery: 1}
"#,
    );
    let notes = import_document(&file, &options()).notes.join("\n");
    for field in [
        "extra is",
        "spec.resources",
        "spec.middleware",
        "spec.forks[0].forkOf.kind Rollout",
        "spec.forks[0].forkOf.extra",
        "spec.forks[0].endpoints",
        "spec.forks[0].customizations.images[0].pull",
        "spec.forks[0].customizations.env[0].valueFrom.resource",
        "spec.forks[0].customizations.podTemplatePatch",
        "spec.local[0].mappings[0].protocol",
        "spec.local[0].env",
        "spec.local[0].files",
        "spec.defaultRouteGroup.mystery",
    ] {
        assert!(notes.contains(field), "{field} is not in\n{notes}");
    }
}

#[test]
fn workloads_of_several_namespaces_become_sandboxes_under_one_group() {
    let file = read(
        r#"
name: both
spec:
  forks:
  - {forkOf: {kind: Deployment, namespace: a, name: cart}}
  - {forkOf: {kind: Deployment, namespace: b, name: pay}}
  defaultRouteGroup: {endpoints: [{name: web, target: "http://web.a.svc"}]}
"#,
    );
    let made = import_document(&file, &options());
    assert_eq!(made.problems, Vec::<String>::new());
    let kinds: Vec<_> =
        made.objects.iter().map(|it| format!("{} {}", it["kind"], it["metadata"]["namespace"])).collect();
    assert_eq!(kinds, ["\"Sandbox\" \"a\"", "\"Sandbox\" \"b\"", "\"RouteGroup\" \"default\""]);
    let group = &made.objects[2]["spec"];
    assert_eq!(group["endpoints"][0]["name"], "web");
    assert_eq!(group["match"]["label"]["key"], PART_LABEL);
    assert_eq!(made.objects[0]["metadata"]["labels"][PART_LABEL], "both");
    assert!(made.objects[0]["spec"].get("endpoints").is_none());
}

#[test]
fn a_route_group_file_becomes_a_group_over_all_namespaces() {
    let file = read(
        r#"
name: my-routegroup
spec:
  cluster: my-cluster
  description: several sandboxes together
  match: {any: [{label: {key: feature, value: "new-feature-x-*"}}]}
  endpoints: [{name: frontend-endpoint, target: "http://frontend.hotrod.svc:8080"}]
"#,
    );
    let made = import_document(&file, &options());
    assert_eq!(made.problems, Vec::<String>::new());
    let group = &made.objects[0];
    assert_eq!(group["kind"], "RouteGroup");
    assert_eq!(group["spec"]["namespaces"], json!({"from": "All"}));
    assert_eq!(group["spec"]["match"]["any"][0]["label"]["value"], "new-feature-x-*");
}

#[test]
fn what_our_rules_refuse_is_said() {
    let name = "a-name-that-is-longer-than-thirty-characters";
    let file = json!({"name": name, "spec": {"forks": [{"forkOf": {"kind": "Deployment", "name": "x"}}]}});
    let made = import_document(&file, &options());
    assert_eq!(made.problems.len(), 1);
    assert!(made.problems[0].contains("metadata.name"), "{:?}", made.problems);
    assert_eq!(import_document(&json!({}), &options()).problems.len(), 1);
    assert_eq!(import_document(&json!([1]), &options()).problems.len(), 1);
}

#[test]
fn a_group_with_a_cluster_of_ours_says_where_it_belongs() {
    let file =
        json!({"name": "g", "spec": {"cluster": "dev-eu", "match": {"label": {"key": "a", "value": "b"}}}});
    let made = import_document(&file, &ImportOptions { cluster_ref: true, ..options() });
    assert_eq!(made.notes.len(), 1, "{:?}", made.notes);
    assert!(made.notes[0].contains("apply the RouteGroup g to the cluster \"dev-eu\""), "{:?}", made.notes);
}

#[test]
fn every_parameter_of_a_template_is_named() {
    let file = json!({"name": "@{dev}-x", "spec": {"forks": [{
        "forkOf": {"kind": "Deployment", "name": "cart"},
        "customizations": {"images": [{"image": "cart:@{tag}-@{arch}"}]},
    }]}});
    let notes = import_document(&file, &options()).notes.join("\n");
    for said in ["name: the parameter @{dev}", "images[0].image: the parameter @{tag}", "@{arch}"] {
        assert!(notes.contains(said), "{said} is not in\n{notes}");
    }
}

#[test]
fn a_label_that_kubernetes_would_refuse_is_named_and_left_out() {
    let labels =
        json!({"repo": "acme/checkout", "team": "cart", "pr": 12, "bad key": "x", "example.com/a": ""});
    let forks = json!([{"forkOf": {"kind": "Deployment", "name": "cart"}}]);
    let made = import_document(&json!({"name": "a", "spec": {"labels": labels, "forks": forks}}), &options());
    let taken = &made.objects[0]["metadata"]["labels"];
    assert_eq!(*taken, json!({"team": "cart", "pr": "12", "example.com/a": ""}));
    let notes = made.notes.join("\n");
    assert!(notes.contains("spec.labels.repo: \"acme/checkout\""), "{notes}");
    assert!(notes.contains("spec.labels.bad key"), "{notes}");
}

#[test]
fn what_is_not_known_inside_of_what_is_taken_over_is_named_too() {
    let group = json!({"name": "g", "spec": {
        "match": {"any": [{"label": {"key": "a", "value": "b", "op": "In"}}], "none": []},
        "ttl": {"duration": "1d", "grace": "1h"},
        "endpoints": [{"name": "web", "target": "http://web.a.svc", "auth": "none"}],
    }});
    let fork = json!({"kind": "Deployment", "namespace": "elsewhere", "name": "pay"});
    let sandbox = json!({"name": "s", "spec": {
        "ttl": {"duration": "1d", "grace": "1h"},
        "forks": [{"forkOf": {"kind": "Deployment", "namespace": "shop", "name": "cart"}, "customizations": {
            "env": [{"name": "PAY", "valueFrom": {"fork": {"forkOf": fork, "expression": "{{ .Service.Host }}"}}}],
        }}],
        "defaultRouteGroup": {"endpoints": [{"name": "web", "target": "http://web.a.svc", "auth": "none"}]},
    }});
    let notes = [&group, &sandbox].map(|it| import_document(it, &options()).notes.join("\n")).join("\n");
    for field in [
        "spec.match.any[0].label.op",
        "spec.match.none",
        "spec.ttl.grace",
        "spec.endpoints[0].auth",
        "spec.defaultRouteGroup.endpoints[0].auth",
        "spec.forks[0].customizations.env[0].valueFrom.fork.forkOf.namespace elsewhere",
    ] {
        assert!(notes.contains(field), "{field} is not in\n{notes}");
    }
}

#[test]
fn the_group_over_several_namespaces_ends_with_its_sandboxes() {
    let forks = json!([{"forkOf": {"kind": "Deployment", "namespace": "a", "name": "cart"}},
                       {"forkOf": {"kind": "Deployment", "namespace": "b", "name": "pay"}}]);
    let file = json!({"name": "both", "spec": {"forks": forks, "ttl": {"duration": "1d", "offsetFrom": "updatedAt"}}});
    let made = import_document(&file, &options());
    assert_eq!(made.problems, Vec::<String>::new());
    assert_eq!(made.objects[2]["spec"]["ttl"], json!({"duration": "1m", "offsetFrom": "noMatchedSandboxes"}));
}
