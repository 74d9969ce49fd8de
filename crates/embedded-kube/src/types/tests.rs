mod protobuf;

use rstest::rstest;
use serde_json::{Value, json};

use super::{check_types, normalise, prune, shape_by_model, shape_of, unknown_fields};
use crate::shape::{ListKind, Node, Shape};

fn pod() -> Shape {
    shape_of("", "v1", "Pod").unwrap()
}

fn at(shape: &Shape, path: &str) -> Shape {
    path.split('.').fold(shape.clone(), |shape, name| match name {
        "[]" => shape.items().unwrap().clone(),
        name => shape.field(name).unwrap_or_else(|| panic!("no {name} in {:?}", shape.name())).clone(),
    })
}

#[test]
fn every_line_of_the_table_is_understood() {
    let text = include_str!("table.txt");
    let types = text.lines().filter(|line| line.starts_with("type ")).count();
    assert_eq!(super::type_table::type_table().structs.len(), types);
    let fields = text.lines().filter(|line| line.starts_with(' ') && !line.starts_with(" +")).count();
    let inline = text.lines().filter(|line| line.starts_with(" +")).count();
    assert_eq!(
        super::type_table::type_table().structs.iter().map(|one| one.inline.len()).sum::<usize>(),
        inline
    );
    let own: usize = super::type_table::type_table().structs.iter().map(|one| one.fields.len()).sum();
    assert!(own > fields, "{own} fields with the inline ones, {fields} lines");
}

#[rstest]
#[case("", "v1", "Secret")]
#[case("", "v1", "PodList")]
#[case("apps", "v1", "Deployment")]
#[case("discovery.k8s.io", "v1", "EndpointSlice")]
#[case("coordination.k8s.io", "v1", "Lease")]
#[case("events.k8s.io", "v1", "Event")]
#[case("rbac.authorization.k8s.io", "v1", "ClusterRoleBinding")]
#[case("apiextensions.k8s.io", "v1", "CustomResourceDefinition")]
#[case("authentication.k8s.io", "v1", "TokenRequest")]
#[case("authorization.k8s.io", "v1", "SelfSubjectRulesReview")]
#[case("autoscaling", "v1", "Scale")]
#[case("policy", "v1", "Eviction")]
#[case("apps", "v1", "DeleteOptions")]
fn kinds_are_found_by_group_and_version(#[case] group: &str, #[case] version: &str, #[case] kind: &str) {
    let shape = shape_of(group, version, kind).unwrap();
    assert!(shape.name().unwrap().ends_with(&format!(".{kind}")));
    assert!(shape.field("kind").is_some() && shape.field("apiVersion").is_some());
}

#[test]
fn unknown_kinds_have_no_shape() {
    assert!(shape_of("", "v1", "Deployment").is_none());
    assert!(shape_of("apps", "v2", "Deployment").is_none());
    assert!(shape_by_model("io.k8s.api.core.v1.Nothing").is_none());
}

#[test]
fn lists_merge_as_their_schema_says() {
    let Node::List(list) = at(&pod(), "spec.containers").node().clone() else { panic!() };
    assert_eq!(list.kind, ListKind::Map(vec!["name".to_owned()]));
    let Node::List(ports) = at(&pod(), "spec.containers.[].ports").node().clone() else { panic!() };
    assert_eq!(ports.kind, ListKind::Map(vec!["containerPort".to_owned(), "protocol".to_owned()]));
    let Node::List(finalizers) = at(&pod(), "metadata.finalizers").node().clone() else { panic!() };
    assert_eq!(finalizers.kind, ListKind::Set);
    let Node::List(arguments) = at(&pod(), "spec.containers.[].args").node().clone() else { panic!() };
    assert_eq!(arguments.kind, ListKind::Atomic);
}

#[test]
fn fields_carry_merge_keys_defaults_and_numbers() {
    let Node::Struct(spec) = at(&pod(), "spec").node().clone() else { panic!() };
    let containers = &spec.fields["containers"];
    assert_eq!((containers.patch.key.as_str(), containers.patch.merge, containers.number), ("name", true, 2));
    assert!(containers.required);
    assert!(spec.fields["volumes"].patch.retain_keys);
    let Node::Struct(port) = at(&pod(), "spec.containers.[].ports.[]").node().clone() else { panic!() };
    assert_eq!(port.fields["protocol"].default, Some(json!("TCP")));
}

#[test]
fn structs_that_have_one_owner_say_so_and_inline_fields_are_the_parents_own() {
    let selector = at(&pod(), "spec.containers.[].env.[].valueFrom.secretKeyRef");
    let Node::Struct(selector) = selector.node() else { panic!() };
    assert!(selector.atomic);
    assert!(selector.fields.contains_key("name"));
    assert!(at(&pod(), "spec.volumes.[]").field("configMap").is_some());
    assert!(at(&pod(), "spec.containers.[].livenessProbe").field("httpGet").is_some());
}

#[test]
fn schemas_of_custom_resources_may_be_nested_without_end() {
    let crd = shape_of("apiextensions.k8s.io", "v1", "CustomResourceDefinition").unwrap();
    let path = "spec.versions.[].schema.openAPIV3Schema.properties.a.properties.b.type";
    assert!(matches!(at(&crd, path).node(), Node::Scalar(_)));
}

#[test]
fn unknown_fields_are_told_by_path_and_pruned() {
    let mut object = json!({
        "apiVersion": "v1", "kind": "Pod", "extra": 1, "metadata": {"name": "a", "labels": {"any": "thing"}, "foo": 1},
        "spec": {"containers": [{"name": "a"}, {"name": "b", "bar": {"x": 1}}], "nodeSelector": {"a": "b"}},
    });
    assert_eq!(unknown_fields(&object, &pod()), ["extra", "metadata.foo", "spec.containers[1].bar"]);
    prune(&mut object, &pod());
    assert_eq!(unknown_fields(&object, &pod()), Vec::<String>::new());
    assert_eq!(object["metadata"], json!({"name": "a", "labels": {"any": "thing"}}));
}

#[rstest]
#[case(json!({"spec": {"replicas": "3"}}), "json: cannot unmarshal string into Go struct field DeploymentSpec.spec.replicas of type int32")]
#[case(json!({"spec": {"replicas": 3_000_000_000_u64}}), "json: cannot unmarshal number 3000000000 into Go struct field DeploymentSpec.spec.replicas of type int32")]
#[case(json!({"metadata": {"labels": {"a": 1}}}), "json: cannot unmarshal number into Go struct field ObjectMeta.metadata.labels of type string")]
#[case(json!({"metadata": {"labels": []}}), "json: cannot unmarshal array into Go struct field ObjectMeta.metadata.labels of type map[string]string")]
#[case(json!({"spec": "x"}), "json: cannot unmarshal string into Go struct field Deployment.spec of type v1.DeploymentSpec")]
#[case(json!({"spec": {"template": {"spec": {"containers": {}}}}}), "json: cannot unmarshal object into Go struct field PodSpec.spec.template.spec.containers of type []v1.Container")]
#[case(json!({"spec": {"template": {"spec": {"containers": [{"imagePullPolicy": true}]}}}}), "json: cannot unmarshal bool into Go struct field Container.spec.template.spec.containers.imagePullPolicy of type v1.PullPolicy")]
#[case(json!({"spec": {"template": {"spec": {"containers": [{"resources": {"limits": {"cpu": "x"}}}]}}}}), "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'")]
#[case(json!({"spec": {"strategy": {"rollingUpdate": {"maxSurge": true}}}}), "json: cannot unmarshal bool into Go struct field RollingUpdateDeployment.spec.strategy.rollingUpdate.maxSurge of type int32")]
#[case(json!({"spec": {"template": {"spec": {"volumes": [{"secret": {"defaultMode": "x"}}]}}}}), "json: cannot unmarshal string into Go struct field SecretVolumeSource.spec.template.spec.volumes.VolumeSource.secret.defaultMode of type int32")]
#[case(json!({"metadata": {"creationTimestamp": "yesterday"}}), "parsing time \"yesterday\" as \"2006-01-02T15:04:05Z07:00\": cannot parse \"yesterday\" as \"2006\"")]
fn wrong_types_are_told_in_the_decoders_words(#[case] object: Value, #[case] text: &str) {
    let shape = shape_of("apps", "v1", "Deployment").unwrap();
    assert_eq!(check_types(&object, &shape).as_deref(), Some(text));
}

#[rstest]
#[case("2020-13-01T00:00:00Z", "parsing time \"2020-13-01T00:00:00Z\": month out of range")]
#[case("2020-02-30T00:00:00Z", "parsing time \"2020-02-30T00:00:00Z\": day out of range")]
#[case("2020-01-01T24:00:00Z", "parsing time \"2020-01-01T24:00:00Z\": hour out of range")]
#[case("2020-01-01T00:00:00Zx", "parsing time \"2020-01-01T00:00:00Zx\": extra text: \"x\"")]
#[case(
    "2020-01-01T00:00:00.Z",
    "parsing time \"2020-01-01T00:00:00.Z\" as \"2006-01-02T15:04:05Z07:00\": cannot parse \".Z\" as \"Z07:00\""
)]
#[case(
    "2020-01-01T00:00:00+0200",
    "parsing time \"2020-01-01T00:00:00+0200\" as \"2006-01-02T15:04:05Z07:00\": cannot parse \"+0200\" as \"Z07:00\""
)]
#[case(
    "2020-1-01T00:00:00Z",
    "parsing time \"2020-1-01T00:00:00Z\" as \"2006-01-02T15:04:05Z07:00\": cannot parse \"1-01T00:00:00Z\" as \"01\""
)]
fn times_that_are_none_are_told_as_go_does(#[case] text: &str, #[case] why: &str) {
    assert_eq!(super::go_time::parse(text, super::go_time::Layout::Seconds).unwrap_err(), why);
}

#[rstest]
#[case("2020-01-01T00:00:00.123456Z", None)]
#[case("2020-01-01T00:00:00Z", Some("cannot parse \"Z\" as \".000000\""))]
#[case("2020-01-01T00:00:00.5Z", Some("cannot parse \".5Z\" as \".000000\""))]
#[case("2020-01-01T00:00:00.1234567Z", Some("cannot parse \"7Z\" as \"Z07:00\""))]
#[case("2020-01-01T00:00:00.000000+25:00", Some("time zone offset hour out of range"))]
fn times_with_microseconds_have_six_digits(#[case] text: &str, #[case] why: Option<&str>) {
    match (super::go_time::parse(text, super::go_time::Layout::Micros), why) {
        (Ok(_), None) => {}
        (Err(text), Some(why)) => assert!(text.ends_with(why), "{text}"),
        (other, _) => panic!("{other:?}"),
    }
}

#[rstest]
#[case("", None)]
#[case("YQ==", None)]
#[case("YW\nE=", None)]
#[case("a", Some(0))]
#[case("aGVsbG8", Some(4))]
#[case("aGVs bG8=", Some(4))]
#[case("aGVsbG8=x", Some(8))]
#[case("aGVsbG8==", Some(8))]
#[case("YQ==YQ==", Some(4))]
#[case("=", Some(0))]
#[case("YQ=", Some(3))]
fn base64_fails_where_go_says(#[case] text: &str, #[case] at: Option<usize>) {
    assert_eq!(super::canonical::base64_error_offset(text), at);
}

#[test]
fn right_types_and_nulls_pass() {
    let shape = shape_of("apps", "v1", "Deployment").unwrap();
    let object = json!({"kind": "Deployment", "unknown": [], "metadata": {"labels": null}, "spec": {"replicas": null,
        "template": {"spec": {"containers": [{"ports": [{"containerPort": 80}], "resources": {"limits": {"cpu": 1}}}]}}}});
    assert_eq!(check_types(&object, &shape), None);
}

#[test]
fn an_object_becomes_what_go_would_write() {
    let mut object = json!({
        "metadata": {"name": "a", "namespace": "", "labels": {}, "creationTimestamp": null, "extra": 1},
        "kind": "Deployment", "apiVersion": "apps/v1",
        "spec": {"paused": false, "replicas": 0, "template": {"spec": {"hostNetwork": false, "containers": [
            {"name": "c", "resources": {"limits": {"cpu": "1000m", "memory": "1024Mi"}}}]}}},
    });
    normalise(&mut object, &shape_of("apps", "v1", "Deployment").unwrap());
    assert_eq!(
        object,
        json!({
            "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "a"},
            "spec": {"replicas": 0, "selector": null, "strategy": {}, "template": {"metadata": {}, "spec": {"containers": [
                {"name": "c", "resources": {"limits": {"cpu": "1", "memory": "1Gi"}}}]}}},
            "status": {},
        })
    );
}

#[test]
fn times_and_bytes_have_one_spelling() {
    let mut lease = json!({"metadata": {"creationTimestamp": "2026-11-16T06:00:00.5+01:00"},
        "spec": {"renewTime": "2026-11-16T06:00:00.000000+01:00"}});
    normalise(&mut lease, &shape_of("coordination.k8s.io", "v1", "Lease").unwrap());
    assert_eq!(lease["metadata"]["creationTimestamp"], "2026-11-16T05:00:00Z");
    assert_eq!(lease["spec"]["renewTime"], "2026-11-16T05:00:00.000000Z");
    let mut secret = json!({"data": {"a": "aGVs\nbG8="}});
    normalise(&mut secret, &shape_of("", "v1", "Secret").unwrap());
    assert_eq!(secret["data"]["a"], "aGVsbG8=");
}

#[test]
fn bytes_that_are_not_base64_are_refused() {
    let secret = shape_of("", "v1", "Secret").unwrap();
    let text = check_types(&json!({"data": {"a": "not base64!"}}), &secret);
    assert_eq!(text.as_deref(), Some("illegal base64 data at input byte 3"));
}
