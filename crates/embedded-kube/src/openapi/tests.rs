use std::sync::Arc;

use pretty_assertions::assert_eq;
use rstest::rstest;
use serde_json::{Value, json};

use super::OpenApi;
use crate::{
    discovery::{DocumentRequest, DocumentResponse},
    kinds,
    registry::{Catalogue, ObjectPart, Resource, ResourceId, ResourceStrategy},
    shape::{Node, Shape},
    status_error::FieldError,
};

/// A custom resource with nothing but a schema.
struct Widget(Value);

impl ResourceStrategy for Widget {
    fn set_defaults(&self, _object: &mut Value) {}

    fn validate(&self, _object: &Value) -> Vec<FieldError> {
        Vec::new()
    }

    fn validate_update(&self, _part: ObjectPart, _object: &Value, _old: &Value) -> Vec<FieldError> {
        Vec::new()
    }

    fn validate_name(&self, _name: &str, _prefix: bool) -> Vec<String> {
        Vec::new()
    }

    fn bumps_generation(&self, _object: &Value, _old: &Value) -> bool {
        false
    }

    fn schema(&self) -> Option<&Value> {
        Some(&self.0)
    }
}

fn catalogue(schema: Value) -> Arc<Catalogue> {
    let mut all = kinds::resources();
    all.push(Resource {
        id: ResourceId { group: "shop.example.com".into(), version: "v1".into(), plural: "widgets".into() },
        kind: "Widget".into(),
        list_kind: "WidgetList".into(),
        singular: "widget".into(),
        short_names: Vec::new(),
        categories: Vec::new(),
        namespaced: true,
        verbs: &["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"],
        has_status: true,
        scale: None,
        shape: Shape::owned(Node::Any),
        columns: Vec::new(),
        selectable_fields: Vec::new(),
        storage_prefix: "shop.example.com/widgets".into(),
        storage_version: "v1".into(),
        is_custom: true,
        schema_revision: 0,
        strategy: Arc::new(Widget(schema)),
    });
    Arc::new(all.into_iter().map(|one| (one.id.clone(), Arc::new(one))).collect())
}

fn schema() -> Value {
    json!({"type": "object", "description": "A widget.", "required": ["spec"], "properties": {"spec": {
    "type": "object", "description": "What it is.", "properties": {
        "size": {"type": "integer", "minimum": 1, "default": 1},
        "mode": {"type": "string", "enum": ["a", "b"], "nullable": true},
        "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
        "port": {"x-kubernetes-int-or-string": true, "anyOf": [{"type": "integer"}, {"type": "string"}]},
        "template": {"type": "object", "x-kubernetes-embedded-resource": true},
    }}}})
}

fn ask(api: &OpenApi, catalogue: &Arc<Catalogue>, path: &str) -> DocumentResponse {
    let (path, query) = path.split_once('?').unwrap_or((path, ""));
    api.respond(catalogue, &DocumentRequest { path, query, ..DocumentRequest::default() }).unwrap().unwrap()
}

fn read(path: &str) -> Value {
    serde_json::from_slice(&ask(&OpenApi::default(), &catalogue(schema()), path).body).unwrap()
}

#[test]
fn the_index_names_a_document_per_group_and_version() {
    let (api, catalogue) = (OpenApi::default(), catalogue(schema()));
    let index: Value = serde_json::from_slice(&ask(&api, &catalogue, "/openapi/v3").body).unwrap();
    let paths = index["paths"].as_object().unwrap();
    assert!(paths.contains_key("api/v1") && paths.contains_key("apis/shop.example.com/v1"));
    for (path, entry) in paths {
        let page = ask(&api, &catalogue, entry["serverRelativeURL"].as_str().unwrap());
        assert_eq!(page.code, 200, "{path}");
        assert_eq!(page.headers[0], ("cache-control", "public, immutable".to_owned()));
        let document: Value = serde_json::from_slice(&page.body).unwrap();
        assert!(dangling(&document).is_empty(), "{path}: {:?}", dangling(&document));
    }
}

/// References to missing schemas.
fn dangling(document: &Value) -> Vec<String> {
    fn collect(value: &Value, into: &mut Vec<String>) {
        match value {
            Value::Object(map) => {
                if let Some(Value::String(reference)) = map.get("$ref") {
                    into.push(reference.clone());
                }
                map.values().for_each(|one| collect(one, into));
            }
            Value::Array(list) => list.iter().for_each(|one| collect(one, into)),
            _ => {}
        }
    }
    let mut all = Vec::new();
    collect(document, &mut all);
    all.retain(|reference| document.pointer(reference.trim_start_matches('#')).is_none());
    all
}

#[test]
fn an_old_hash_leads_to_the_new_one() {
    let page = ask(&OpenApi::default(), &catalogue(schema()), "/openapi/v3/apis/apps/v1?hash=OLD");
    assert_eq!(page.code, 301);
    let location = &page.headers.iter().find(|(name, _)| *name == "location").unwrap().1;
    assert!(location.starts_with("/openapi/v3/apis/apps/v1?hash="));
}

#[test]
fn a_hash_changes_with_its_own_schema_only() {
    let api = OpenApi::default();
    let index = |schema: Value| -> Value {
        serde_json::from_slice(&ask(&api, &catalogue(schema), "/openapi/v3").body).unwrap()
    };
    let (one, other) = (index(schema()), index(json!({"type": "object"})));
    assert_eq!(one["paths"]["api/v1"], other["paths"]["api/v1"]);
    assert_ne!(one["paths"]["apis/shop.example.com/v1"], other["paths"]["apis/shop.example.com/v1"]);
}

#[test]
fn built_in_types_are_described_with_what_merging_needs() {
    let document = read("/openapi/v3/apis/apps/v1");
    let schemas = &document["components"]["schemas"];
    let deployment = &schemas["io.k8s.api.apps.v1.Deployment"];
    assert_eq!(
        deployment["x-kubernetes-group-version-kind"],
        json!([{"group": "apps", "kind": "Deployment", "version": "v1"}])
    );
    let reference = json!([{"$ref": "#/components/schemas/io.k8s.api.apps.v1.DeploymentSpec"}]);
    assert_eq!(deployment["properties"]["spec"]["allOf"], reference);
    assert_eq!(deployment["properties"]["spec"]["default"], json!({}));
    assert!(deployment["properties"]["spec"]["description"].as_str().unwrap().len() > 10);
    let mut containers = schemas["io.k8s.api.core.v1.PodSpec"]["properties"]["containers"].clone();
    containers.as_object_mut().unwrap().remove("description");
    assert_eq!(
        containers,
        json!({"type": "array",
            "items": {"default": {}, "allOf": [{"$ref": "#/components/schemas/io.k8s.api.core.v1.Container"}]},
            "x-kubernetes-list-map-keys": ["name"], "x-kubernetes-list-type": "map",
            "x-kubernetes-patch-merge-key": "name", "x-kubernetes-patch-strategy": "merge"})
    );
    let policy = &schemas["io.k8s.api.core.v1.Container"]["properties"]["imagePullPolicy"];
    assert_eq!(policy["enum"], json!(["Always", "IfNotPresent", "Never"]));
}

#[rstest]
#[case("/openapi/v3/api/v1", "/api/v1/namespaces/{namespace}/pods/{name}", "", "Pod")]
#[case("/openapi/v3/api/v1", "/api/v1/namespaces/{name}", "", "Namespace")]
#[case(
    "/openapi/v3/apis/apps/v1",
    "/apis/apps/v1/namespaces/{namespace}/deployments/{name}/scale",
    "autoscaling",
    "Scale"
)]
#[case(
    "/openapi/v3/apis/shop.example.com/v1",
    "/apis/shop.example.com/v1/namespaces/{namespace}/widgets/{name}",
    "shop.example.com",
    "Widget"
)]
fn patches_list_the_parameters_that_kubectl_looks_for(
    #[case] document: &str,
    #[case] path: &str,
    #[case] group: &str,
    #[case] kind: &str,
) {
    let document = read(document);
    let patch = &document["paths"][path]["patch"];
    assert_eq!(
        patch["x-kubernetes-group-version-kind"],
        json!({"group": group, "version": "v1", "kind": kind})
    );
    for name in ["dryRun", "fieldManager", "fieldValidation", "force"] {
        let found = patch["parameters"]
            .as_array()
            .unwrap()
            .iter()
            .any(|one| one["name"] == name && one["in"] == "query");
        assert!(found, "{name}");
    }
}

#[test]
fn custom_resources_are_described_in_their_authors_words() {
    let document = read("/openapi/v3/apis/shop.example.com/v1");
    let widget = &document["components"]["schemas"]["com.example.shop.v1.Widget"];
    assert_eq!(widget["description"], "A widget.");
    assert_eq!(widget["required"], json!(["spec"]));
    assert_eq!(
        widget["properties"]["spec"]["properties"]["size"],
        json!({"type": "integer", "minimum": 1, "default": 1})
    );
    let template = &widget["properties"]["spec"]["properties"]["template"];
    assert_eq!(template["required"], json!(["kind", "apiVersion"]));
    assert!(template["properties"]["metadata"].is_object());
    assert!(widget["properties"]["kind"]["description"].as_str().unwrap().starts_with("Kind"));
    let items = &document["components"]["schemas"]["com.example.shop.v1.WidgetList"]["properties"]["items"];
    assert_eq!(items["items"]["$ref"], "#/components/schemas/com.example.shop.v1.Widget");
}

#[test]
fn version_two_says_only_what_it_can() {
    let document = read("/openapi/v2");
    assert!(dangling(&document).is_empty(), "{:?}", dangling(&document));
    let widget = &document["definitions"]["com.example.shop.v1.Widget"]["properties"]["spec"]["properties"];
    assert_eq!(widget["size"], json!({"type": "integer", "minimum": 1}));
    assert_eq!(widget["mode"], json!({"enum": ["a", "b"]}));
    assert_eq!(widget["free"], json!({"x-kubernetes-preserve-unknown-fields": true}));
    assert_eq!(widget["port"], json!({"x-kubernetes-int-or-string": true}));
    let spec = &document["definitions"]["io.k8s.api.apps.v1.Deployment"]["properties"]["spec"];
    assert_eq!(spec["$ref"], "#/definitions/io.k8s.api.apps.v1.DeploymentSpec");
    assert!(document["paths"]["/api/v1/pods"]["get"].is_object());
}

#[test]
fn other_paths_and_forms_are_refused() {
    let (api, catalogue) = (OpenApi::default(), catalogue(schema()));
    assert!(
        api.respond(
            &catalogue,
            &DocumentRequest { path: "/openapi/v3/apis/none/v1", ..DocumentRequest::default() }
        )
        .is_none()
    );
    assert!(
        api.respond(&catalogue, &DocumentRequest { path: "/openapi", ..DocumentRequest::default() })
            .is_none()
    );
    let html = DocumentRequest { path: "/openapi/v2", accept: "text/html", ..DocumentRequest::default() };
    assert_eq!(api.respond(&catalogue, &html).unwrap().unwrap().code, 406);
}

#[test]
fn version_two_is_given_in_protobuf_to_those_who_insist() {
    let (api, catalogue) = (OpenApi::default(), catalogue(schema()));
    let accept = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf";
    let page = api
        .respond(&catalogue, &DocumentRequest { path: "/openapi/v2", accept, ..DocumentRequest::default() })
        .unwrap()
        .unwrap();
    assert_eq!(page.content_type, super::V2_PROTOBUF);
    assert!(page.body.starts_with(b"\x0a\x032.0\x12\x12\x0a\x0aKubernetes\x12\x041.36"));
    let text = String::from_utf8_lossy(&page.body);
    assert!(text.contains("com.example.shop.v1.Widget") && text.contains("x-kubernetes-patch-merge-key"));
}
