//! What the server says of itself: groups, resources, schemas, version, health.

use std::collections::BTreeSet;

use conformance::{Case, Context, Outcome, Req, Widgets, cases};
use serde_json::{Value, json};

/// What embedded-kube claims to serve; the real server's lists are cut down to this.
const SERVED: &[(&str, &[&str])] = &[
    (
        "v1",
        &[
            "configmaps",
            "endpoints",
            "events",
            "namespaces",
            "namespaces/finalize",
            "namespaces/status",
            "nodes",
            "nodes/status",
            "pods",
            "pods/binding",
            "pods/status",
            "secrets",
            "serviceaccounts",
            "serviceaccounts/token",
            "services",
            "services/status",
        ],
    ),
    (
        "apps/v1",
        &[
            "deployments",
            "deployments/scale",
            "deployments/status",
            "replicasets",
            "replicasets/scale",
            "replicasets/status",
        ],
    ),
    ("apiextensions.k8s.io/v1", &["customresourcedefinitions", "customresourcedefinitions/status"]),
    ("authentication.k8s.io/v1", &["selfsubjectreviews", "tokenreviews"]),
    (
        "authorization.k8s.io/v1",
        &[
            "localsubjectaccessreviews",
            "selfsubjectaccessreviews",
            "selfsubjectrulesreviews",
            "subjectaccessreviews",
        ],
    ),
    ("coordination.k8s.io/v1", &["leases"]),
    ("discovery.k8s.io/v1", &["endpointslices"]),
    ("events.k8s.io/v1", &["events"]),
    ("rbac.authorization.k8s.io/v1", &["clusterrolebindings", "clusterroles", "rolebindings", "roles"]),
];

pub(crate) fn cases() -> Vec<Case> {
    cases!["discovery":
        resources_of_each_group,
        groups,
        one_group,
        the_core_versions,
        aggregated_groups,
        aggregated_core,
        a_custom_group,
        a_custom_group_aggregated,
        a_custom_group_goes_with_its_definition,
        short_names_and_categories,
        openapi_v3_index,
        openapi_v3_of_a_custom_resource,
        openapi_v3_of_the_core,
        openapi_v2_has_the_kinds,
        version,
        health,
        a_group_that_is_not_there,
        the_root,
    ]
}

fn is_served(group: &str, name: &str) -> bool {
    SERVED.iter().any(|(served, names)| *served == group && names.contains(&name))
}

fn group_path(version: &str) -> String {
    if version.contains('/') { format!("/apis/{version}") } else { format!("/api/{version}") }
}

async fn resources_of_each_group(c: &mut Context) -> Outcome {
    for (group, _) in SERVED {
        let answer = c.send_ok(Req::get(group_path(group))).await?;
        let mut resources = answer.value_at("/resources").as_array().cloned().unwrap_or_default();
        resources.retain(|resource| is_served(group, resource["name"].as_str().unwrap_or_default()));
        for resource in &mut resources {
            // A hash that tells storage versions apart; nobody reads it.
            resource.as_object_mut().map(|fields| fields.remove("storageVersionHash"));
        }
        resources.sort_by_key(|resource| resource["name"].to_string());
        c.record(group, json!({ "kind": answer.value_at("/kind"), "groupVersion": answer.value_at("/groupVersion"), "resources": resources }));
    }
    Ok(())
}

async fn groups(c: &mut Context) -> Outcome {
    let answer = c.send_ok(Req::get("/apis")).await?;
    c.record("kind", answer.value_at("/kind"));
    let groups = answer.value_at("/groups").as_array().cloned().unwrap_or_default();
    for (version, _) in SERVED.iter().filter(|(version, _)| version.contains('/')) {
        let name = version.split('/').next().unwrap_or_default();
        let group = groups.iter().find(|group| group["name"] == name).cloned().unwrap_or_default();
        let versions = group["versions"].as_array().cloned().unwrap_or_default();
        c.record(
            name,
            json!({ "has v1": versions.contains(&json!({ "groupVersion": version, "version": "v1" })),
            "preferred": group["preferredVersion"] }),
        );
    }
    Ok(())
}

async fn one_group(c: &mut Context) -> Outcome {
    c.get("apps", "/apis/apps").await?;
    Ok(())
}

async fn the_core_versions(c: &mut Context) -> Outcome {
    let answer = c.send_ok(Req::get("/api")).await?;
    c.record("kind", answer.value_at("/kind"));
    c.record("versions", answer.value_at("/versions"));
    Ok(())
}

const AGGREGATED: &str =
    "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json";

/// The resources of a group in the aggregated form that are served by both.
fn aggregated(item: &Value) -> Value {
    let group = item["metadata"]["name"].as_str().unwrap_or_default();
    let versions = item["versions"].as_array().cloned().unwrap_or_default();
    let mut seen = Vec::new();
    for version in versions.iter().filter(|version| version["version"] == "v1") {
        let name = if group.is_empty() { "v1".to_owned() } else { format!("{group}/v1") };
        let mut resources = version["resources"].as_array().cloned().unwrap_or_default();
        resources.retain(|resource| is_served(&name, resource["resource"].as_str().unwrap_or_default()));
        for resource in &mut resources {
            let plural = resource["resource"].as_str().unwrap_or_default().to_owned();
            if let Some(below) = resource["subresources"].as_array_mut() {
                below.retain(|sub| {
                    is_served(&name, &format!("{plural}/{}", sub["subresource"].as_str().unwrap_or_default()))
                });
                below.sort_by_key(|sub| sub["subresource"].to_string());
            }
            if resource["subresources"].as_array().is_some_and(Vec::is_empty) {
                resource.as_object_mut().map(|fields| fields.remove("subresources"));
            }
        }
        resources.sort_by_key(|resource| resource["resource"].to_string());
        seen.push(json!({ "version": version["version"], "freshness": version["freshness"], "resources": resources }));
    }
    json!(seen)
}

async fn aggregated_groups(c: &mut Context) -> Outcome {
    let answer = c.send_ok(Req::get("/apis").header("accept", AGGREGATED)).await?;
    c.record("type", answer.content_type.clone());
    c.record("kind", json!([answer.value_at("/apiVersion"), answer.value_at("/kind")]));
    let items = answer.value_at("/items").as_array().cloned().unwrap_or_default();
    for (version, _) in SERVED.iter().filter(|(version, _)| version.contains('/')) {
        let name = version.split('/').next().unwrap_or_default();
        let item = items.iter().find(|item| item["metadata"]["name"] == name).cloned().unwrap_or_default();
        c.record(name, aggregated(&item));
    }
    Ok(())
}

async fn aggregated_core(c: &mut Context) -> Outcome {
    let answer = c.send_ok(Req::get("/api").header("accept", AGGREGATED)).await?;
    c.record("type", answer.content_type.clone());
    c.record("core", aggregated(&answer.value_at("/items/0")));
    Ok(())
}

fn named() -> Widgets {
    let names = json!({ "plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList", "shortNames": ["wd{id}"],
        "categories": ["all", "gadgets"] });
    Widgets::open().set("/spec/names", names)
}

async fn a_custom_group(c: &mut Context) -> Outcome {
    named().install(c).await?;
    c.wait_until("/apis/{id}.example.com", |answer| answer.code == 200).await?;
    c.get("group", "/apis/{id}.example.com").await?;
    let mut answer = c.wait_until("/apis/{id}.example.com/v1", |answer| answer.code == 200).await?;
    if let Some(resources) = answer.body["resources"].as_array_mut() {
        resources
            .iter_mut()
            .filter_map(Value::as_object_mut)
            .for_each(|fields| drop(fields.remove("storageVersionHash")));
    }
    c.record("resources", answer.body);
    Ok(())
}

async fn a_custom_group_aggregated(c: &mut Context) -> Outcome {
    named().install(c).await?;
    let group = c.expand("{id}.example.com");
    let mut found = Value::Null;
    for _ in 0..1200 {
        let answer = c.send_ok(Req::get("/apis").header("accept", AGGREGATED)).await?;
        let items = answer.value_at("/items").as_array().cloned().unwrap_or_default();
        if let Some(item) = items.into_iter().find(|item| item["metadata"]["name"] == group.as_str()) {
            found = item["versions"].clone();
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
    c.record("versions", found);
    Ok(())
}

async fn a_custom_group_goes_with_its_definition(c: &mut Context) -> Outcome {
    named().install(c).await?;
    c.wait_until("/apis/{id}.example.com/v1", |answer| answer.code == 200).await?;
    c.send_ok(Req::delete(
        "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/widgets.{id}.example.com",
    ))
    .await?;
    let gone = c.wait_until("/apis/{id}.example.com/v1", |answer| answer.code == 404).await?;
    c.record("gone", gone.code);
    Ok(())
}

async fn short_names_and_categories(c: &mut Context) -> Outcome {
    let answer = c.send_ok(Req::get("/api/v1")).await?;
    for resource in answer.value_at("/resources").as_array().cloned().unwrap_or_default() {
        let name = resource["name"].as_str().unwrap_or_default().to_owned();
        if is_served("v1", &name) {
            c.record(
                &name,
                json!([resource["shortNames"], resource["categories"], resource["singularName"]]),
            );
        }
    }
    Ok(())
}

async fn openapi_v3_index(c: &mut Context) -> Outcome {
    Widgets::open().install(c).await?;
    let path = c.expand("apis/{id}.example.com/v1");
    let has_mine = |answer: &conformance::ApiResponse| answer.body["paths"].get(&path).is_some();
    let index = c.wait_until("/openapi/v3", has_mine).await?;
    for (group, _) in SERVED {
        let key = group_path(group).trim_start_matches('/').to_owned();
        let url = index.body["paths"][&key]["serverRelativeURL"].as_str().unwrap_or_default().to_owned();
        c.record(group, json!([url.split('?').next(), url.contains("?hash=")]));
    }
    Ok(())
}

fn keys(value: &Value) -> Value {
    value
        .as_object()
        .map(|fields| fields.keys().collect::<BTreeSet<_>>())
        .unwrap_or_default()
        .into_iter()
        .cloned()
        .collect()
}

async fn openapi_v3_of_a_custom_resource(c: &mut Context) -> Outcome {
    let schema = json!({ "type": "object", "description": "A widget.", "properties": {
        "spec": { "type": "object", "description": "What is wanted.", "required": ["size"],
            "properties": { "size": { "type": "integer", "description": "How big.", "default": 3 }, "ports": { "type": "array", "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["name"], "items": { "type": "object", "required": ["name"], "properties": { "name": { "type": "string" } } } } } } } });
    Widgets::from_schema(schema).status().install(c).await?;
    let path = "/openapi/v3/apis/{id}.example.com/v1";
    let document = c.wait_until(path, |answer| answer.code == 200).await?;
    let paths = document.value_at("/paths");
    c.record(
        "version",
        document.value_at("/openapi").as_str().is_some_and(|version| version.starts_with("3.")),
    );
    c.record("paths", keys(&paths));
    let one = c.expand("/apis/{id}.example.com/v1/namespaces/{namespace}/widgets/{name}");
    c.record("methods", keys(&paths[&one]));
    c.record("patch types", keys(&paths[&one]["patch"]["requestBody"]["content"]));
    let schemas = document.value_at("/components/schemas");
    let mine = schemas.as_object().and_then(|all| all.iter().find(|(name, _)| name.ends_with(".Widget")));
    let (name, schema) = mine.map(|(name, schema)| (name.clone(), schema.clone())).unwrap_or_default();
    c.record("name", name);
    c.record("kind", schema["x-kubernetes-group-version-kind"].clone());
    c.record("description", schema["description"].clone());
    c.record("fields", keys(&schema["properties"]));
    c.record("spec", schema["properties"]["spec"].clone());
    Ok(())
}

async fn openapi_v3_of_the_core(c: &mut Context) -> Outcome {
    let document = c.send_ok(Req::get("/openapi/v3/api/v1")).await?;
    for kind in
        ["ConfigMap", "Secret", "Namespace", "Pod", "Service", "Node", "ServiceAccount", "Event", "Endpoints"]
    {
        let schema = document.value_at(&format!("/components/schemas/io.k8s.api.core.v1.{kind}"));
        c.record(kind, json!({ "kind": schema["x-kubernetes-group-version-kind"], "fields": keys(&schema["properties"]) }));
    }
    Ok(())
}

async fn openapi_v2_has_the_kinds(c: &mut Context) -> Outcome {
    let document = c.send_ok(Req::get("/openapi/v2")).await?;
    c.record("swagger", document.value_at("/swagger"));
    for name in ["io.k8s.api.core.v1.ConfigMap", "io.k8s.api.apps.v1.Deployment", "io.k8s.api.core.v1.Pod"] {
        let schema = document.body["definitions"][name].clone();
        c.record(name, json!({ "kind": schema["x-kubernetes-group-version-kind"], "fields": keys(&schema["properties"]) }));
    }
    Ok(())
}

async fn version(c: &mut Context) -> Outcome {
    let answer = c.send_ok(Req::get("/version")).await?;
    c.record("major", answer.value_at("/major"));
    c.record("minor", answer.value_at("/minor"));
    c.record("a version of 1.36", answer.str_at("/gitVersion").starts_with("v1.36."));
    for field in ["gitCommit", "gitTreeState", "buildDate", "goVersion", "compiler", "platform"] {
        c.record(field, answer.value_at(&format!("/{field}")).is_string());
    }
    Ok(())
}

async fn health(c: &mut Context) -> Outcome {
    for path in ["/healthz", "/livez", "/readyz", "/healthz/ping", "/readyz/ping"] {
        c.get(path, path).await?;
    }
    Ok(())
}

async fn a_group_that_is_not_there(c: &mut Context) -> Outcome {
    c.get("group", "/apis/nobody.example.com").await?;
    c.get("version", "/apis/apps/v9").await?;
    c.get("resource", "/apis/nobody.example.com/v1/things").await?;
    Ok(())
}

async fn the_root(c: &mut Context) -> Outcome {
    let answer = c.send_ok(Req::get("/")).await?;
    let paths: Vec<Value> = answer.value_at("/paths").as_array().cloned().unwrap_or_default();
    for path in [
        "/api",
        "/api/v1",
        "/apis",
        "/apis/apps",
        "/apis/apps/v1",
        "/healthz",
        "/openapi/v2",
        "/openapi/v3",
        "/version",
    ] {
        c.record(path, paths.contains(&json!(path)));
    }
    Ok(())
}
