use std::sync::Arc;

use pretty_assertions::assert_eq;
use rstest::rstest;
use serde_json::{Value, json};

use super::{AGGREGATED, Discovery, DocumentRequest, DocumentResponse, groups::version_sort_key};
use crate::{
    kinds,
    registry::{Catalogue, Resource, ResourceId, Scale},
    shape::{Node, Shape},
};

/// All built-in resources and a custom resource at two versions.
pub fn catalogue() -> Arc<Catalogue> {
    let mut all = kinds::resources();
    let rules = all.first().unwrap().strategy.clone();
    for version in ["v1beta1", "v1"] {
        all.push(Resource {
            id: ResourceId {
                group: "shop.example.com".into(),
                version: version.into(),
                plural: "widgets".into(),
            },
            kind: "Widget".into(),
            list_kind: "WidgetList".into(),
            singular: "widget".into(),
            short_names: vec!["wd".into()],
            categories: vec!["all".into(), "goods".into()],
            namespaced: true,
            verbs: &["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"],
            has_status: version == "v1",
            scale: (version == "v1").then(|| Scale {
                spec: "spec.replicas".into(),
                status: "status.replicas".into(),
                selector: None,
            }),
            shape: Shape::owned(Node::Any),
            columns: Vec::new(),
            selectable_fields: Vec::new(),
            storage_prefix: "shop.example.com/widgets".into(),
            storage_version: "v1".into(),
            is_custom: true,
            schema_revision: 0,
            strategy: rules.clone(),
        });
    }
    Arc::new(all.into_iter().map(|one| (one.id.clone(), Arc::new(one))).collect())
}

fn get(path: &str, accept: &str) -> Option<DocumentResponse> {
    let ask = DocumentRequest { path, accept, host: "127.0.0.1:6443", ..DocumentRequest::default() };
    Discovery::default().respond(&catalogue(), &ask).map(Result::unwrap)
}

fn read(path: &str, accept: &str) -> Value {
    serde_json::from_slice(&get(path, accept).unwrap().body).unwrap()
}

#[test]
fn groups_come_in_the_real_servers_order() {
    let groups = read("/apis", "");
    let names: Vec<&str> =
        groups["groups"].as_array().unwrap().iter().map(|one| one["name"].as_str().unwrap()).collect();
    assert_eq!(
        names,
        [
            "apps",
            "events.k8s.io",
            "authentication.k8s.io",
            "authorization.k8s.io",
            "rbac.authorization.k8s.io",
            "apiextensions.k8s.io",
            "coordination.k8s.io",
            "discovery.k8s.io",
            "shop.example.com"
        ]
    );
}

#[test]
fn a_group_names_its_versions_best_first() {
    let v =
        |version: &str| json!({"groupVersion": format!("shop.example.com/{version}"), "version": version});
    assert_eq!(
        read("/apis/shop.example.com", ""),
        json!({"kind": "APIGroup", "apiVersion": "v1", "name": "shop.example.com",
            "versions": [v("v1"), v("v1beta1")], "preferredVersion": v("v1")})
    );
}

#[test]
fn a_version_of_a_custom_resource_is_listed_as_the_real_server_does() {
    let verbs = ["delete", "deletecollection", "get", "list", "patch", "create", "update", "watch"];
    assert_eq!(
        read("/apis/shop.example.com/v1", ""),
        json!({"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": "shop.example.com/v1", "resources": [
            {"name": "widgets", "singularName": "widget", "namespaced": true, "kind": "Widget", "verbs": verbs,
             "shortNames": ["wd"], "categories": ["all", "goods"], "storageVersionHash": "1eOuwF5L+ZU="},
            {"name": "widgets/status", "singularName": "", "namespaced": true, "kind": "Widget", "verbs": ["get", "patch", "update"]},
            {"name": "widgets/scale", "singularName": "", "namespaced": true, "group": "autoscaling", "version": "v1",
             "kind": "Scale", "verbs": ["get", "patch", "update"]},
        ]})
    );
}

#[test]
fn core_is_listed_with_its_subresources() {
    let list = read("/api/v1", "application/json");
    assert_eq!((list["groupVersion"].as_str(), list.get("apiVersion")), (Some("v1"), None));
    let find = |name: &str| {
        list["resources"]
            .as_array()
            .unwrap()
            .iter()
            .find(|one| one["name"] == name)
            .cloned()
            .unwrap_or(Value::Null)
    };
    assert_eq!(find("configmaps")["storageVersionHash"], "qFsyl6wFWjQ=");
    assert_eq!(find("pods/eviction")["group"], "policy");
    assert_eq!(find("pods/binding")["kind"], "Binding");
    assert_eq!(find("namespaces/finalize")["verbs"], json!(["update"]));
    assert_eq!(find("serviceaccounts/token")["kind"], "TokenRequest");
    assert_eq!(
        read("/apis/apiextensions.k8s.io/v1", "")["resources"][0]["storageVersionHash"],
        "jfWCUB31mvA="
    );
    assert_eq!(read("/apis/events.k8s.io/v1", "")["resources"][0]["storageVersionHash"], "r2yiGXH7wu8=");
}

#[test]
fn aggregated_discovery_tells_all_at_once() {
    let list = read("/apis", AGGREGATED);
    assert_eq!(list["kind"], "APIGroupDiscoveryList");
    let shop = list["items"].as_array().unwrap().last().unwrap();
    assert_eq!(shop["metadata"]["name"], "shop.example.com");
    assert_eq!(shop["versions"][0]["version"], "v1");
    assert_eq!(
        shop["versions"][0]["resources"][0]["responseKind"],
        json!({"group": "shop.example.com", "version": "v1", "kind": "Widget"})
    );
    assert_eq!(
        list["items"][0]["versions"][0]["resources"][0],
        json!({"resource": "deployments", "responseKind": {"group": "", "version": "", "kind": "Deployment"},
        "scope": "Namespaced", "singularResource": "deployment",
        "verbs": ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"],
        "shortNames": ["deploy"], "categories": ["all"], "subresources": [
            {"subresource": "scale", "responseKind": {"group": "autoscaling", "version": "v1", "kind": "Scale"}, "verbs": ["get", "patch", "update"]},
            {"subresource": "status", "responseKind": {"group": "", "version": "", "kind": "Deployment"}, "verbs": ["get", "patch", "update"]},
        ]})
    );
    assert_eq!(read("/api", AGGREGATED)["items"][0]["metadata"], json!({}));
}

#[rstest]
#[case(
    "/apis",
    "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json",
    "APIGroupDiscoveryList"
)]
#[case(
    "/apis",
    "application/json;as=APIGroupDiscoveryList;v=v2beta1;g=apidiscovery.k8s.io,application/json",
    "APIGroupList"
)]
#[case("/apis/", "application/vnd.kubernetes.protobuf,application/json", "APIGroupList")]
#[case("/apis/apps", "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,*/*", "APIGroup")]
#[case("/api", "", "APIVersions")]
fn the_first_form_that_is_known_is_given(#[case] path: &str, #[case] accept: &str, #[case] kind: &str) {
    assert_eq!(read(path, accept)["kind"], kind);
}

#[test]
fn forms_that_are_not_known_are_refused() {
    for accept in ["text/html", "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList"] {
        let ask = DocumentRequest { path: "/apis", accept, ..DocumentRequest::default() };
        let failure = Discovery::default().respond(&catalogue(), &ask).unwrap().unwrap_err();
        assert_eq!((failure.code(), failure.reason()), (406, "NotAcceptable"));
    }
}

#[rstest]
#[case("/apis/nothing")]
#[case("/apis/apps/v2")]
#[case("/api/v2")]
#[case("/apis/")]
#[case("/apis/apps/v1/deployments")]
#[case("/api/v1/pods")]
#[case("/version")]
#[case("/")]
fn other_paths_are_not_ours(#[case] path: &str) {
    let ours = matches!(path, "/apis/");
    assert_eq!(get(path, "").is_some(), ours);
}

#[test]
fn an_aggregated_page_that_the_client_has_is_not_sent_again() {
    let (discovery, catalogue) = (Discovery::default(), catalogue());
    let ask = DocumentRequest { path: "/apis", accept: AGGREGATED, ..DocumentRequest::default() };
    let first = discovery.respond(&catalogue, &ask).unwrap().unwrap();
    let tag = first.headers.iter().find(|(name, _)| *name == "etag").unwrap().1.clone();
    let again =
        discovery.respond(&catalogue, &DocumentRequest { if_none_match: &tag, ..ask }).unwrap().unwrap();
    assert_eq!((again.code, again.body.len()), (304, 0));
    let mut other = (*catalogue).clone();
    other.retain(|id, _| id.group != "shop.example.com");
    let changed = discovery
        .respond(&Arc::new(other), &DocumentRequest { if_none_match: &tag, ..ask })
        .unwrap()
        .unwrap();
    assert_eq!(changed.code, 200);
}

#[test]
fn versions_are_ranked_as_the_real_server_does() {
    let mut versions =
        vec!["foo1", "v1alpha1", "v2", "v1", "v10", "v3beta1", "v11alpha2", "v3beta2", "bar", "v1beta1"];
    versions.sort_by_key(|version| std::cmp::Reverse(version_sort_key(version)));
    assert_eq!(
        versions,
        ["v10", "v2", "v1", "v3beta2", "v3beta1", "v1beta1", "v11alpha2", "v1alpha1", "bar", "foo1"]
    );
}

#[test]
fn the_version_is_one_that_clients_can_parse() {
    let version: Value = serde_json::from_slice(&super::version_document().body).unwrap();
    assert_eq!(version["gitVersion"], super::version::VERSION);
    assert_eq!((&version["major"], &version["minor"]), (&json!("1"), &json!("36")));
    assert_eq!(version.as_object().unwrap().len(), 13);
}
