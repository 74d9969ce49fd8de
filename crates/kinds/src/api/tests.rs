//! What Cluster API, clusterctl, kubectl and upstream's users find in the CRDs.

use std::collections::BTreeMap;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde_json::{Value, json};

use super::*;

fn crd(kind: &str) -> CustomResourceDefinition {
    cluster_crds().into_iter().find(|crd| crd.spec.names.kind == kind).unwrap()
}

fn schema(kind: &str) -> Value {
    let version = crd(kind).spec.versions.remove(0);
    serde_json::to_value(version.schema.unwrap().open_api_v3_schema.unwrap()).unwrap()
}

#[test]
fn every_kind_has_the_names_that_cluster_api_and_upstream_expect() {
    let found: Vec<_> = cluster_crds()
        .into_iter()
        .map(|crd| {
            let names = crd.spec.names;
            let short = names.short_names.unwrap_or_default().join(",");
            let categories = names.categories.unwrap_or_default().join(",");
            format!(
                "{} {} {} [{short}] [{categories}]",
                crd.metadata.name.unwrap(),
                names.kind,
                crd.spec.scope
            )
        })
        .collect();
    assert_eq!(
        found,
        [
            "captclusters.infrastructure.cluster.x-k8s.io CAPTCluster Namespaced [] [cluster-api]",
            "captclustertemplates.infrastructure.cluster.x-k8s.io CAPTClusterTemplate Namespaced [] [cluster-api]",
            "captcontrolplanes.controlplane.cluster.x-k8s.io CAPTControlPlane Namespaced [] [cluster-api]",
            "captcontrolplanetemplates.controlplane.cluster.x-k8s.io CAPTControlPlaneTemplate Namespaced [] [cluster-api]",
            "captidentities.infrastructure.cluster.x-k8s.io CAPTIdentity Cluster [] [cluster-api]",
            "workspacetemplates.infrastructure.cluster.x-k8s.io WorkspaceTemplate Namespaced [] []",
            "workspacetemplateapplies.infrastructure.cluster.x-k8s.io WorkspaceTemplateApply Namespaced [wtapply] \
             [capt,terraform]",
        ]
    );
}

#[test]
fn every_crd_carries_the_contract_label_and_its_provider() {
    for crd in cluster_crds() {
        let provider = if crd.spec.group.starts_with("controlplane") {
            "control-plane-capt"
        } else {
            "infrastructure-capt"
        };
        let expected = BTreeMap::from([
            ("cluster.x-k8s.io/provider".to_owned(), provider.to_owned()),
            ("cluster.x-k8s.io/v1beta2".to_owned(), "v1beta1".to_owned()),
        ]);
        assert_eq!(crd.metadata.labels, Some(expected));
        assert_eq!(crd.spec.versions.len(), 1);
        assert_eq!(crd.spec.versions[0].name, "v1beta1");
    }
}

#[test]
fn status_is_a_subresource_of_everything_but_templates_and_nothing_scales() {
    for crd in cluster_crds() {
        let kind = &crd.spec.names.kind;
        let subresources = crd.spec.versions[0].subresources.clone().unwrap_or_default();
        let template_of_a_class = matches!(kind.as_str(), "CAPTClusterTemplate" | "CAPTControlPlaneTemplate");
        assert_eq!(subresources.status.is_some(), !template_of_a_class, "{kind}");
        assert!(subresources.scale.is_none(), "{kind}");
    }
}

#[test]
fn the_columns_of_upstream_come_first_and_keep_their_order() {
    let columns = |kind: &str| -> Vec<String> {
        let columns = crd(kind).spec.versions.remove(0).additional_printer_columns.unwrap();
        columns.into_iter().filter(|it| it.priority.unwrap_or(0) == 0).map(|it| it.name).collect()
    };
    assert_eq!(columns("CAPTCluster"), ["VPC-ID", "READY", "PHASE", "ENDPOINT", "AGE"]);
    assert_eq!(columns("CAPTControlPlane"), ["Ready", "Phase", "Version", "Endpoint", "Age"]);
    assert_eq!(columns("WorkspaceTemplate"), ["WORKSPACE", "AGE"]);
    assert_eq!(columns("WorkspaceTemplateApply"), ["WORKSPACE", "APPLIED", "READY", "RUN", "AGE"]);
}

#[test]
fn no_crd_requires_a_spec_or_stores_a_null() {
    for crd in cluster_crds() {
        let kind = crd.spec.names.kind.clone();
        let schema = schema(&kind);
        assert!(schema.get("required").is_none(), "{kind}");
        assert!(!schema.to_string().contains("nullable"), "{kind}");
    }
}

#[test]
fn lists_that_several_people_write_are_maps() {
    let at = |kind: &str, pointer: &str| {
        schema(kind).pointer(pointer).unwrap()["x-kubernetes-list-map-keys"].clone()
    };
    let spec = "/properties/spec/properties";
    let config = format!("{spec}/controlPlaneConfig/properties");
    assert_eq!(at("CAPTControlPlane", &format!("{spec}/additionalFargateProfiles")), json!(["name"]));
    assert_eq!(at("CAPTControlPlane", &format!("{config}/addons")), json!(["name"]));
    assert_eq!(at("CAPTControlPlane", &format!("{config}/accessEntries")), json!(["principalArn"]));
    let status = "/properties/status/properties";
    assert_eq!(at("CAPTControlPlane", &format!("{status}/fargateProfileStatuses")), json!(["name"]));
    assert_eq!(at("CAPTCluster", &format!("{status}/failureDomains")), json!(["name"]));
    for kind in
        ["CAPTCluster", "CAPTControlPlane", "CAPTIdentity", "WorkspaceTemplate", "WorkspaceTemplateApply"]
    {
        assert_eq!(at(kind, &format!("{status}/conditions")), json!(["type"]), "{kind}");
    }
}

#[test]
fn the_latches_of_the_contract_are_where_cluster_api_reads_them() {
    let cluster = schema("CAPTCluster");
    let pointer = "/properties/status/properties/initialization/properties/provisioned/type";
    assert_eq!(cluster.pointer(pointer), Some(&json!("boolean")));
    let control_plane = schema("CAPTControlPlane");
    let pointer = "/properties/status/properties/initialization/properties/controlPlaneInitialized/type";
    assert_eq!(control_plane.pointer(pointer), Some(&json!("boolean")));
    let status = control_plane.pointer("/properties/status/properties").unwrap();
    for field in ["externalManagedControlPlane", "version", "versions", "observedGeneration"] {
        assert!(status.get(field).is_some(), "{field}");
    }
    assert!(control_plane.pointer("/properties/spec/properties/replicas").is_none());
}

#[test]
fn defaults_of_upstream_are_in_the_cluster_crds() {
    let control_plane = schema("CAPTControlPlane");
    let timeouts = "/properties/spec/properties/controlPlaneConfig/properties/timeouts/properties";
    assert_eq!(control_plane.pointer(&format!("{timeouts}/controlPlaneTimeout/default")), Some(&json!(30)));
    assert_eq!(control_plane.pointer(&format!("{timeouts}/vpcReadyTimeout/default")), Some(&json!(15)));
    let template = schema("WorkspaceTemplate");
    let inner = template.pointer("/properties/spec/properties/template/properties/spec/properties").unwrap();
    assert_eq!(inner["deletionPolicy"]["default"], "Delete");
    assert_eq!(inner["managementPolicies"]["default"], json!(["*"]));
    assert_eq!(inner["providerConfigRef"]["default"], json!({"name": "default"}));
    let parameters = &inner["forProvider"]["properties"];
    assert_eq!(parameters["entrypoint"]["default"], "");
    assert_eq!(parameters["varFiles"]["items"]["properties"]["format"]["default"], "HCL");
}

#[test]
fn a_stored_object_without_a_spec_is_read() {
    for spec in [json!({}), json!({"spec": null})] {
        let mut object = json!({"metadata": {"name": "stub"}});
        object.as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
        let cluster: CaptCluster = serde_json::from_value(object.clone()).unwrap();
        assert_eq!(cluster.spec, CaptClusterSpec::default());
        let control_plane: CaptControlPlane = serde_json::from_value(object.clone()).unwrap();
        assert_eq!(control_plane.spec, CaptControlPlaneSpec::default());
        serde_json::from_value::<WorkspaceTemplateApply>(object.clone()).unwrap();
        serde_json::from_value::<CaptIdentity>(object).unwrap();
    }
}

#[test]
fn an_object_written_by_upstream_keeps_all_its_fields() {
    let written = json!({
        "apiVersion": "controlplane.cluster.x-k8s.io/v1beta1",
        "kind": "CAPTControlPlane",
        "metadata": {"name": "harbour", "namespace": "default"},
        "spec": {
            "version": "1.31",
            "workspaceTemplateRef": {"name": "eks-controlplane-template", "namespace": "default"},
            "controlPlaneEndpoint": {"host": "", "port": 0},
            "workspaceTemplateApplyName": "harbour-eks-controlplane-apply"
        },
        "status": {
            "ready": true, "initialized": true, "secretsReady": true, "phase": "Ready",
            "workspaceTemplateStatus": {"ready": true, "lastAppliedRevision": "2025-01-01 00:00:00 +0000 UTC"},
            "workspaceStatus": {"ready": true, "state": "Available", "atProvider": {"checksum": "x", "outputs": {"a": [1]}}},
            "conditions": [{"type": "Ready", "status": "True", "reason": "Ready", "message": "",
                "lastTransitionTime": "2025-01-01T00:00:00Z"}]
        }
    });
    let read: CaptControlPlane = serde_json::from_value(written.clone()).unwrap();
    assert_eq!(serde_json::to_value(read).unwrap(), written);
}

#[test]
fn the_kinds_of_sandboxes_belong_to_the_provider_and_to_no_contract() {
    let rest: Vec<_> = crds().into_iter().skip(cluster_crds().len()).collect();
    assert_eq!(rest.len(), 3);
    for crd in rest {
        let expected = [("cluster.x-k8s.io/provider".to_owned(), "infrastructure-capt".to_owned())];
        assert_eq!(crd.metadata.labels, Some(BTreeMap::from(expected)), "{}", crd.spec.names.kind);
    }
}

#[test]
fn the_class_of_an_error_is_a_word_and_one_of_another_release_is_unknown() {
    for class in <FailureClass as strum::IntoEnumIterator>::iter() {
        let word = serde_json::to_value(class).unwrap();
        assert_eq!(word, <&str>::from(class));
        assert_eq!(serde_json::from_value::<FailureClass>(word).unwrap(), class);
    }
    for word in ["Solar", ""] {
        let error: LastError = serde_json::from_value(json!({"class": word, "message": "m"})).unwrap();
        assert_eq!((error.class, error.class.is_self_resolving()), (FailureClass::Unknown, false));
    }
}
