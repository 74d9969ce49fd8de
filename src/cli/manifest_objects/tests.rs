//! Refusals as people read them.

use capt_model::manifest::ManifestSource;
use kube::{
    core::{
        Status,
        response::{StatusCause, StatusDetails},
    },
    error::DiscoveryError,
};

use super::*;

fn one(text: &str) -> ManifestObject {
    let source = ManifestSource { name: "x.yaml".to_owned(), text: text.to_owned() };
    parse_object(parse_documents(&source).unwrap().remove(0)).unwrap()
}

fn network() -> ManifestObject {
    one("
apiVersion: infrastructure.cluster.x-k8s.io/v1beta1
kind: CAPTCluster
metadata: {name: demo}
spec: {region: eu-central-1, vpcConfig: {cidr: 10.0.0.0/33}}
")
}

fn refused(code: u16, message: &str, causes: &[(&str, &str)]) -> kube::Error {
    let causes = causes.iter().map(|(field, message)| StatusCause {
        reason: "FieldValueInvalid".to_owned(),
        message: (*message).to_owned(),
        field: (*field).to_owned(),
    });
    let details = StatusDetails {
        name: String::new(),
        group: String::new(),
        kind: String::new(),
        uid: String::new(),
        causes: causes.collect(),
        retry_after_seconds: 0,
    };
    kube::Error::Api(Status::failure(message, "Invalid").with_code(code).with_details(details).boxed())
}

#[test]
fn a_field_is_said_with_the_remedy_of_our_own_validator() {
    let error = refused(422, "CAPTCluster is invalid", &[("spec.vpcConfig.cidr", "should match a pattern")]);
    let said = describe_rejection(&network(), &error);
    assert_eq!(said.len(), 1, "{said:?}");
    for text in ["x.yaml: CAPTCluster default/demo: spec.vpcConfig.cidr: ", "; "] {
        assert!(said[0].contains(text), "{said:?}");
    }
    assert!(!said[0].contains("should match a pattern"), "{said:?}");
}

#[test]
fn a_field_that_only_the_api_server_objects_to_is_said_in_its_words() {
    let error =
        refused(422, "it is invalid", &[("spec.region", "is\n   cursed"), ("spec.region", "is cursed")]);
    assert_eq!(
        describe_rejection(&network(), &error),
        ["x.yaml: line 2: CAPTCluster default/demo: spec.region: is cursed; correct it"]
    );
}

#[test]
fn a_namespace_a_kind_and_a_right_that_are_missing_have_remedies_of_their_own() {
    let namespace = refused(404, "namespaces \"default\" not found", &[]);
    let right = refused(403, "captclusters is forbidden: user me cannot patch it", &[]);
    let kind = kube::Error::Discovery(DiscoveryError::MissingKind("x".to_owned()));
    for (error, text) in [
        (namespace, "the namespace default does not exist; create it"),
        (right, "user me cannot patch it; use a context with the permission (--context)"),
        (kind, "does not serve CAPTCluster of infrastructure.cluster.x-k8s.io/v1beta1; install its CRD"),
    ] {
        let said = describe_rejection(&network(), &error);
        assert!(said.len() == 1 && said[0].contains(text), "{said:?}");
    }
}

#[test]
fn an_unknown_field_is_named_with_its_remedy() {
    let object = one("
apiVersion: infrastructure.cluster.x-k8s.io/v1beta1
kind: CAPTCluster
metadata: {name: demo}
spec: {region: eu-central-1, colour: red}
");
    let error = refused(400, "strict decoding error: unknown field \"spec.colour\"", &[]);
    let said = describe_rejection(&object, &error);
    assert!(said.len() == 1 && said[0].contains("spec.colour") && said[0].contains("; "), "{said:?}");
}

#[test]
fn documents_that_are_no_objects_are_refused_with_their_line() {
    let source = ManifestSource { name: "x.yaml".to_owned(), text: "kind: Cluster\n---\n- a\n".to_owned() };
    let said: Vec<String> = parse_documents(&source)
        .unwrap()
        .into_iter()
        .map(|it| parse_object(it).unwrap_err().to_string())
        .collect();
    assert!(said[0].contains("x.yaml: line 1") && said[0].contains("has no apiVersion"), "{said:?}");
    assert!(said[1].contains("is not a Kubernetes object"), "{said:?}");
}

#[test]
fn the_same_object_twice_is_refused_and_the_same_name_of_two_kinds_is_not() {
    let (a, b) = (network(), one("{apiVersion: v1, kind: ConfigMap, metadata: {name: demo}}"));
    assert!(find_duplicates(&[a.clone(), b]).is_empty());
    assert_eq!(find_duplicates(&[a.clone(), a]).len(), 1);
}
