//! CRDs of this repository are served; invalid ones are rejected; names, conditions and deletion of CRDs.

mod acceptance;
mod controller;
mod validation_errors;

use std::path::PathBuf;

use serde_json::{Value, json};

use super::{resources::served_resources, *};

/// A small valid CRD.
pub fn sample() -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "foos.example.com", "uid": "u1", "generation": 1},
        "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": {"plural": "foos", "kind": "Foo", "shortNames": ["fo"]},
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": {"type": "object", "properties": {
                    "n": {"type": "integer"}, "s": {"type": "string"},
                    "list": {"type": "array", "items": {"type": "object", "properties": {"k": {"type": "string"}}}},
                }}}}},
            }],
        },
    })
}

/// The CRD after a create.
pub fn created(mut crd: Value) -> Value {
    let rules = strategy();
    rules.set_defaults(&mut crd);
    rules.prepare_create(&mut crd);
    crd
}

/// The resources that it defines.
pub fn served(crd: &Value, since: u64) -> Vec<crate::registry::Resource> {
    served_resources(crd, since)
}

fn crds(folder: &str) -> Vec<(String, Value)> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(folder);
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|it| it == "yaml") {
            let text = std::fs::read_to_string(&path).unwrap();
            let documents: Vec<Value> = serde_saphyr::from_multiple(&text).unwrap();
            found.extend(documents.into_iter().map(|it| (path.display().to_string(), it)));
        }
    }
    found
}

#[test]
fn our_own_crds_are_accepted_and_become_resources() {
    let crds = crds("../../crds");
    assert!(crds.len() > 3, "{}", crds.len());
    for (path, crd) in crds {
        let crd = created(crd);
        assert_eq!(strategy().validate(&crd), [], "{path}");
        let resources = served_resources(&crd, 7);
        assert!(!resources.is_empty(), "{path}");
        for resource in resources {
            assert!(resource.is_custom && resource.schema_revision == 7, "{path}");
            assert!(!resource.kind.is_empty() && !resource.columns.is_empty(), "{path}");
        }
    }
}

#[test]
fn a_create_fills_in_what_is_missing() {
    let crd = created(sample());
    assert_eq!(crd["spec"]["names"]["singular"], "foo");
    assert_eq!(crd["spec"]["names"]["listKind"], "FooList");
    assert_eq!(crd["spec"]["conversion"], json!({"strategy": "None"}));
    assert_eq!(
        crd["status"],
        json!({"storedVersions": ["v1"], "acceptedNames": {"plural": "", "kind": ""}, "conditions": null})
    );
    assert_eq!(strategy().validate(&crd), []);
}

#[test]
fn only_the_spec_makes_a_new_generation() {
    let old = created(sample());
    let mut new = old.clone();
    new["metadata"]["labels"] = json!({"a": "b"});
    assert!(!strategy().bumps_generation(&new, &old));
    new["spec"]["names"]["categories"] = json!(["all"]);
    assert!(strategy().bumps_generation(&new, &old));
}

#[test]
fn a_custom_resource_has_a_new_generation_unless_only_metadata_or_its_status_changes() {
    let mut crd = created(sample());
    crd["spec"]["versions"][0]["subresources"] = json!({"status": {}});
    let with = served_resources(&crd, 1).remove(0).strategy;
    crd["spec"]["versions"][0]["subresources"] = json!(null);
    let without = served_resources(&crd, 1).remove(0).strategy;
    let old = json!({"metadata": {"name": "a"}, "spec": {"n": 1}, "status": {"x": 1}});
    let meta = json!({"metadata": {"name": "a", "labels": {}}, "spec": {"n": 1}, "status": {"x": 1}});
    let status = json!({"metadata": {"name": "a"}, "spec": {"n": 1}, "status": {"x": 2}});
    let spec = json!({"metadata": {"name": "a"}, "spec": {"n": 2}, "status": {"x": 1}});
    let verdicts = |rules: &Arc<dyn ResourceStrategy>| {
        [&meta, &status, &spec].map(|new| rules.bumps_generation(new, &old))
    };
    assert_eq!(verdicts(&with), [false, false, true]);
    assert_eq!(verdicts(&without), [false, true, true]);
}

#[test]
fn each_endpoint_changes_its_own_part() {
    use crate::registry::ObjectPart;
    let mut crd = created(sample());
    crd["spec"]["versions"][0]["subresources"] = json!({"status": {}});
    let rules = served_resources(&crd, 1).remove(0).strategy;
    let old = json!({"metadata": {"name": "a", "labels": {"l": "1"}, "managedFields": [1]}, "spec": {"n": 1}, "status": {"x": 1}});
    let sent = json!({"metadata": {"name": "a", "managedFields": [2]}, "spec": {"n": 2}, "status": {"x": 2}});
    let mut main = sent.clone();
    rules.prepare_update(ObjectPart::Object, &mut main, &old);
    assert_eq!(
        main,
        json!({"metadata": {"name": "a", "managedFields": [2]}, "spec": {"n": 2}, "status": {"x": 1}})
    );
    let mut status = sent;
    rules.prepare_update(ObjectPart::Status, &mut status, &old);
    assert_eq!(
        status,
        json!({"metadata": {"name": "a", "labels": {"l": "1"}, "managedFields": [2]}, "spec": {"n": 1}, "status": {"x": 2}})
    );
}

#[test]
fn a_deprecated_version_says_so() {
    let mut crd = created(sample());
    let mut old = crd["spec"]["versions"][0].clone();
    old["name"] = json!("v1beta1");
    old["storage"] = json!(false);
    old["deprecated"] = json!(true);
    crd["spec"]["versions"].as_array_mut().unwrap().push(old);
    let resources = served_resources(&crd, 1);
    assert_eq!(resources[0].strategy.deprecation_warning(), None);
    assert_eq!(
        resources[1].strategy.deprecation_warning(),
        Some("example.com/v1beta1 Foo is deprecated; use example.com/v1 Foo")
    );
}

/// Cluster API's CRDs, if the Go module cache has them.
#[test]
fn definitions_of_cluster_api_are_accepted() {
    let home = option_env!("HOME").unwrap_or_default();
    let folder = format!("{home}/go/pkg/mod/sigs.k8s.io/cluster-api@v1.14.2/core/config/crd/bases");
    if !std::path::Path::new(&folder).exists() {
        return;
    }
    for (path, crd) in crds(&folder) {
        let crd = created(crd);
        let found: Vec<String> = strategy().validate(&crd).iter().map(ToString::to_string).collect();
        assert_eq!(found, Vec::<String>::new(), "{path}");
        assert!(!served_resources(&crd, 1).is_empty());
    }
}

#[test]
fn numbers_without_a_fraction_are_stored_without_a_point() {
    let rules = served_resources(&created(sample()), 1).remove(0).strategy;
    let mut object = json!({"spec": {"n": 5.0, "s": "1.0", "list": [{"k": 1.5}, {"k": 1e300}, {"k": 1.234_567_890_123_456_7e19}]}});
    rules.set_defaults(&mut object);
    assert_eq!(
        object.to_string(),
        r#"{"spec":{"n":5,"s":"1.0","list":[{"k":1.5},{"k":1e+300},{"k":12345678901234567000}]}}"#
    );
}
