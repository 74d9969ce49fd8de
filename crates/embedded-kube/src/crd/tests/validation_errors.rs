//! Validation errors of CRDs, with kube-apiserver's texts.

use pretty_assertions::assert_eq;
use rstest::rstest;
use serde_json::{Value, json};

use super::{created, sample};
use crate::crd::strategy;

const SCHEMA: &str = "/spec/versions/0/schema/openAPIV3Schema";
const SPEC: &str = "spec.validation.openAPIV3Schema";

fn texts(crd: &Value) -> Vec<String> {
    strategy().validate(crd).iter().map(ToString::to_string).collect()
}

fn with(path: &str, value: Value) -> Value {
    let mut crd = created(sample());
    let (parent, key) = path.rsplit_once('/').unwrap();
    let parent = crd.pointer_mut(parent).unwrap();
    match key.parse::<usize>() {
        Ok(index) => parent[index] = value,
        Err(_) => parent[key] = value,
    }
    crd
}

#[rstest]
#[case("/metadata/name", json!("x.example.com"), r#"metadata.name: Invalid value: "x.example.com": must be spec.names.plural+"."+spec.group"#)]
#[case("/spec/scope", json!("Galaxy"), r#"spec.scope: Unsupported value: "Galaxy": supported values: "Cluster", "Namespaced""#)]
#[case("/spec/scope", json!(""), "spec.scope: Required value")]
#[case("/spec/names/listKind", json!("Foo"), r#"spec.names.listKind: Invalid value: "Foo": kind and listKind may not be the same"#)]
#[case("/spec/names/shortNames/0", json!("F"), r#"spec.names.shortNames[0]: Invalid value: "F": a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')"#)]
#[case("/spec/versions/0/schema", json!({}), "spec.versions[0].schema.openAPIV3Schema: Required value")]
#[case("/spec/preserveUnknownFields", json!(true), "spec.preserveUnknownFields: Invalid value: true: cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead")]
#[case("/spec/versions/0/subresources", json!({"scale": {"specReplicasPath": ".status.n", "statusReplicasPath": ".status.n"}}), r#"spec.subresources.scale.specReplicasPath: Invalid value: ".status.n": should be a json path under .spec"#)]
#[case("/spec/versions/0/subresources", json!({"scale": {"statusReplicasPath": ".status.n", "specReplicasPath": ""}}), "spec.subresources.scale.specReplicasPath: Required value")]
#[case("/spec/versions/0/additionalPrinterColumns", json!([{"name": "A", "type": "text", "jsonPath": ".a"}]), r#"spec.additionalPrinterColumns[0].type: Invalid value: "text": must be one of boolean,date,integer,number,string"#)]
#[case("/spec/versions/0/additionalPrinterColumns", json!([{"name": "A", "type": "string", "jsonPath": "a"}]), r#"spec.additionalPrinterColumns[0].JSONPath: Invalid value: "a": must be a simple json path starting with ."#)]
#[case("/spec/versions/0/selectableFields", json!([{"jsonPath": ".spec.gone"}]), r#"spec.selectableFields[0].jsonPath: Invalid value: ".spec.gone": is an invalid path: does not refer to a valid field"#)]
#[case("/spec/versions/0/selectableFields", json!([{"jsonPath": ".spec.list"}]), r#"spec.selectableFields[0].jsonPath: Invalid value: ".spec.list": must point to a field of type string, boolean or integer. Enum string fields and strings with formats are allowed."#)]
#[case("/spec/versions/0/selectableFields", json!([{"jsonPath": ".spec.n"}, {"jsonPath": ".spec.n"}]), r#"spec.selectableFields[1].jsonPath: Duplicate value: ".spec.n""#)]
#[case("/spec/versions/0/deprecationWarning", json!("old"), r#"spec.versions[0].deprecationWarning: Invalid value: "old": can only be set for deprecated versions"#)]
#[case("/spec/conversion", json!({"strategy": "Magic"}), r#"spec.conversion.strategy: Unsupported value: "Magic": supported values: "None", "Webhook""#)]
#[case("/spec/conversion", json!({"strategy": "Webhook", "webhook": {"conversionReviewVersions": ["v1"]}}), "spec.conversion.webhookClientConfig: Required value: required when strategy is set to Webhook")]
fn a_wrong_crd_is_refused(#[case] path: &str, #[case] value: Value, #[case] expected: &str) {
    assert_eq!(texts(&with(path, value)), [expected]);
}

#[rstest]
#[case("", json!({"type": "string"}), vec![".type: Invalid value: \"string\": must be object at the root"])]
#[case("/properties/spec/properties/n", json!({}), vec![".properties[spec].properties[n].type: Required value: must not be empty for specified object fields"])]
#[case("/properties/spec/properties/n", json!({"type": "int"}), vec![".properties[spec].properties[n].type: Unsupported value: \"int\": supported values: \"array\", \"boolean\", \"integer\", \"number\", \"object\", \"string\""])]
#[case("/properties/spec/properties/n", json!({"type": "integer", "default": "x"}), vec![".properties[spec].properties[n].default: Invalid value: \"string\":  in body must be of type integer: \"string\""])]
#[case("/properties/spec/properties/list/items", json!({"type": "object", "default": {"x": 1}}), vec![".properties[spec].properties[list].items.default: Invalid value: {\"x\":1}: must not have unknown fields"])]
#[case("/properties/spec/properties/list/uniqueItems", json!(true), vec![".properties[spec].properties[list].uniqueItems: Forbidden: uniqueItems cannot be set to true since the runtime complexity becomes quadratic"])]
#[case("/properties/spec/properties/list/x-kubernetes-list-type", json!("map"), vec![".properties[spec].properties[list].x-kubernetes-list-map-keys: Required value: must not be empty if x-kubernetes-list-type is map"])]
#[case("/properties/spec/properties/list/x-kubernetes-list-type", json!("bag"), vec![".properties[spec].properties[list].x-kubernetes-list-type: Unsupported value: \"bag\": supported values: \"atomic\", \"set\", \"map\""])]
#[case("/properties/spec/properties/s/x-kubernetes-map-type", json!("atomic"), vec![".properties[spec].properties[s].type: Invalid value: \"string\": must be object if x-kubernetes-map-type is specified"])]
#[case("/properties/spec/additionalProperties", json!(false), vec![".properties[spec].additionalProperties: Forbidden: additionalProperties and properties are mutual exclusive"])]
#[case("/properties/spec/x-kubernetes-validations", json!([{"rule": " "}]), vec![".properties[spec].x-kubernetes-validations[0].rule: Required value: rule is not specified"])]
#[case("/properties/spec/x-kubernetes-validations", json!([{"rule": "true", "reason": "Why"}]), vec![".properties[spec].x-kubernetes-validations[0].reason: Unsupported value: \"Why\": supported values: \"FieldValueDuplicate\", \"FieldValueForbidden\", \"FieldValueInvalid\", \"FieldValueRequired\""])]
#[case("/properties/spec/x-kubernetes-validations", json!([{"rule": "true", "fieldPath": ".gone"}]), vec![".properties[spec].x-kubernetes-validations[0].fieldPath: Invalid value: \".gone\": must be a valid path"])]
fn a_wrong_schema_is_refused(#[case] path: &str, #[case] value: Value, #[case] expected: Vec<&str>) {
    let expected: Vec<String> = expected.into_iter().map(|rest| format!("{SPEC}{rest}")).collect();
    assert_eq!(texts(&with(&format!("{SCHEMA}{path}"), value)), expected);
}

#[test]
fn versions_with_schemas_of_their_own_are_told_by_their_place() {
    let mut crd = created(sample());
    let mut second = crd["spec"]["versions"][0].clone();
    second["name"] = json!("v2");
    second["storage"] = json!(false);
    second["schema"]["openAPIV3Schema"] = json!({"type": "object", "properties": {"a": {}}});
    crd["spec"]["versions"].as_array_mut().unwrap().push(second);
    let expected = "spec.versions[1].schema.openAPIV3Schema.properties[a].type: Required value: must not be empty for specified object fields";
    assert_eq!(texts(&crd), [expected]);
}

#[test]
fn there_is_exactly_one_storage_version() {
    let crd = with("/spec/versions/0/storage", json!(false));
    let found = texts(&crd);
    assert!(found[0].ends_with("must have exactly one version marked as storage version"), "{found:?}");
    assert!(
        found[0].starts_with(r#"spec.versions: Invalid value: [{"Name":"v1","Served":true,"Storage":false,"#)
    );
}

#[test]
fn community_groups_need_an_approval() {
    let mut crd = created(sample());
    crd["spec"]["group"] = json!("foo.k8s.io");
    crd["metadata"]["name"] = json!("foos.foo.k8s.io");
    let expected = r#"metadata.annotations[api-approved.kubernetes.io]: Required value: protected groups must have approval annotation "api-approved.kubernetes.io", see https://github.com/kubernetes/enhancements/pull/1111"#;
    assert_eq!(texts(&crd), [expected]);
    crd["metadata"]["annotations"] = json!({"api-approved.kubernetes.io": "unapproved, for tests"});
    assert_eq!(texts(&crd), Vec::<String>::new());
    crd["spec"]["group"] = json!("cluster.x-k8s.io");
    crd["metadata"] = json!({"name": "foos.cluster.x-k8s.io"});
    assert_eq!(texts(&crd), Vec::<String>::new());
}

#[test]
fn what_is_established_keeps_its_kind_and_scope() {
    use crate::registry::ObjectPart;
    let mut old = created(sample());
    let mut new = old.clone();
    new["spec"]["names"]["kind"] = json!("Bar");
    new["spec"]["scope"] = json!("Cluster");
    new["spec"]["names"]["plural"] = json!("bars");
    let check = |new: &Value, old: &Value| -> Vec<String> {
        strategy().validate_update(ObjectPart::Object, new, old).iter().map(ToString::to_string).collect()
    };
    assert_eq!(check(&new, &old), [r#"spec.names.plural: Invalid value: "bars": field is immutable"#]);
    old["status"]["conditions"] = json!([{"type": "Established", "status": "True"}]);
    assert_eq!(
        check(&new, &old),
        [
            r#"spec.scope: Invalid value: "Cluster": field is immutable"#,
            r#"spec.names.kind: Invalid value: "Bar": field is immutable"#,
            r#"spec.names.plural: Invalid value: "bars": field is immutable"#,
        ]
    );
}

#[test]
fn a_stored_version_cannot_leave() {
    let mut crd = created(sample());
    crd["status"]["storedVersions"] = json!(["v1", "v0"]);
    let found = texts(&crd);
    assert_eq!(found.len(), 1);
    assert!(found[0].starts_with(r#"status.storedVersions[1]: Invalid value: "v0": missing from spec.versions; v0 was previously a storage version"#));
}
