//! `team-a` may create objects of capt's kinds and nothing else. It reaches nothing of `team-b`.

use capt_kinds::api::WorkspaceTemplateApply;
use k8s_openapi::api::core::v1::Secret;
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, ListParams},
};
use serde_json::{Value, json};

use crate::operator::harness::{OperatorHarness, has_condition};

const GROUP: &str = "infrastructure.cluster.x-k8s.io/v1beta1";

/// The operator, the two namespaces, and a Secret of `team-b`.
async fn start() -> OperatorHarness {
    let mut stage = OperatorHarness::without_aws().await;
    stage.namespace = "team-a";
    for name in ["team-a", "team-b"] {
        stage.apply_value(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})).await;
    }
    make_secret(&stage, "team-b", "aws-keys").await;
    stage
}

async fn make_secret(stage: &OperatorHarness, namespace: &str, name: &str) {
    let metadata = json!({"name": name, "namespace": namespace});
    let data = json!({"accessKeyID": "theirs", "other": "kept"});
    stage
        .apply_value(json!({"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": data}))
        .await;
}

async fn make(stage: &OperatorHarness, kind: &str, (namespace, name): (&str, &str), spec: Value) {
    let metadata = json!({"name": name, "namespace": namespace});
    stage.apply_value(json!({"apiVersion": GROUP, "kind": kind, "metadata": metadata, "spec": spec})).await;
}

/// A template without a provider that writes an access key to the Secret named by the variable `where`.
fn template(to: &Value) -> Value {
    let module = "output \"accessKeyID\" {\n  value = \"stolen\"\n}\n";
    json!({"template": {"spec": {
        "forProvider": {"source": "Inline", "module": module}, "writeConnectionSecretToRef": to}}})
}

/// Waits until an object of `team-a` is refused for this reason, and returns the message.
async fn refusal(stage: &OperatorHarness, name: &str, reason: &str) -> String {
    let synced = |it: &WorkspaceTemplateApply| {
        let all = it.status.clone().unwrap_or_default().conditions;
        all.into_iter().find(|it| it.type_ == "Synced" && it.status == "False" && it.reason == reason)
    };
    let found = stage.wait_until(name, reason, |it| synced(it).is_some()).await;
    synced(&found).unwrap().message
}

async fn assert_untouched(stage: &OperatorHarness, namespace: &str, name: &str) {
    let secret = stage.api::<Secret>(namespace).get(name).await.unwrap();
    assert!(secret.owner_references().is_empty(), "{namespace}/{name} was adopted");
    let data = secret.data.unwrap();
    assert_eq!((data["accessKeyID"].0.as_slice(), data.len()), (b"theirs".as_slice(), 2));
}

#[tokio::test(flavor = "multi_thread")]
async fn c3_l1_an_output_never_overwrites_a_secret_of_another_namespace_or_of_somebody_else() {
    let mut stage = start().await;
    // A grant to read is none to write.
    let open = json!({"capt.x-k8s.io/allow-references-from": "*"});
    stage
        .apply_value(json!({"apiVersion": "v1", "kind": "Namespace",
            "metadata": {"name": "team-b", "annotations": open}}))
        .await;
    make_secret(&stage, "team-a", "no-owner").await;
    let hidden = json!({"name": "aws-keys", "namespace": "${where}"});
    make(&stage, "WorkspaceTemplate", ("team-a", "keys"), template(&hidden)).await;
    let filled = json!({"templateRef": {"name": "keys"}, "variables": {"where": "team-b"}});
    make(&stage, "WorkspaceTemplateApply", ("team-a", "by-placeholder"), filled.clone()).await;
    let mut own = filled.clone();
    own["writeConnectionSecretToRef"] = json!({"name": "aws-keys", "namespace": "team-b"});
    make(&stage, "WorkspaceTemplateApply", ("team-a", "by-spec"), own).await;
    let mut adopter = filled;
    adopter["writeConnectionSecretToRef"] = json!({"name": "no-owner", "namespace": "team-a"});
    make(&stage, "WorkspaceTemplateApply", ("team-a", "adopter"), adopter).await;
    for name in ["by-placeholder", "by-spec"] {
        let said = refusal(&stage, name, "ReferenceNotGranted").await;
        assert!(said.contains("team-b/aws-keys is not in namespace team-a"), "{said}");
    }
    let said = refusal(&stage, "adopter", "ReferenceNotGranted").await;
    assert!(said.contains("capt.x-k8s.io/allow-write-from: adopter"), "{said}");
    assert_untouched(&stage, "team-b", "aws-keys").await;
    assert_untouched(&stage, "team-a", "no-owner").await;
    let all = stage.api::<WorkspaceTemplateApply>("team-a").list(&ListParams::default()).await.unwrap();
    assert!(all.iter().all(|it| it.status.clone().unwrap_or_default().run.is_none()), "something ran");
    stage.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn h4_a_workspace_of_another_namespace_never_blocks_a_deletion() {
    let mut stage = start().await;
    make(
        &stage,
        "WorkspaceTemplate",
        ("team-b", "it"),
        template(&json!({"name": "out", "namespace": "team-b"})),
    )
    .await;
    make(&stage, "WorkspaceTemplateApply", ("team-b", "victim"), json!({"templateRef": {"name": "it"}}))
        .await;
    let victims: Api<WorkspaceTemplateApply> = stage.api("team-b");
    let is_ready = async || {
        let status = victims.get("victim").await.unwrap().status.unwrap_or_default();
        has_condition(&status.conditions, "Ready", "True") && status.connection_secret_ref.is_some()
    };
    stage.wait_for("the victim is ready", is_ready).await;
    let waits = json!({
        "templateRef": {"name": "nowhere"},
        "waitForWorkspaces": [{"name": "victim", "namespace": "team-b"}],
    });
    make(&stage, "WorkspaceTemplateApply", ("team-a", "by-name"), waits).await;
    let reads = json!({
        "templateRef": {"name": "nowhere"}, "waitForSecrets": [{"name": "out", "namespace": "team-b"}],
    });
    make(&stage, "WorkspaceTemplateApply", ("team-a", "by-secret"), reads).await;
    // One of their own that cannot start does not block either.
    let invalid = json!({"templateRef": {"name": "nowhere"}, "waitForWorkspaces": [{"name": "victim"}]});
    make(&stage, "WorkspaceTemplateApply", ("team-b", "invalid"), invalid).await;
    for name in ["by-name", "by-secret"] {
        refusal(&stage, name, "ReferenceNotGranted").await;
    }
    stage.namespace = "team-b";
    refusal(&stage, "invalid", "WorkspaceTemplateNotFound").await;
    victims.delete("victim", &DeleteParams::default()).await.unwrap();
    stage.wait_until_deleted::<WorkspaceTemplateApply>("victim").await;
    stage.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn l6_what_does_not_exist_and_what_is_not_granted_read_the_same() {
    let mut stage = start().await;
    // A workspace that is there, whatever becomes of it.
    make(&stage, "WorkspaceTemplateApply", ("team-b", "there"), json!({"templateRef": {"name": "nowhere"}}))
        .await;
    make(
        &stage,
        "WorkspaceTemplate",
        ("team-b", "there"),
        template(&json!({"name": "out", "namespace": "team-b"})),
    )
    .await;
    make_secret(&stage, "team-b", "there").await;
    let to = |name: &str| json!({"name": name, "namespace": "team-b"});
    let ours = json!({"name": "ours"});
    let mut messages = Vec::new();
    for name in ["there", "gone"] {
        let probes = [
            ("secret", json!({"templateRef": ours, "waitForSecrets": [to(name)]})),
            ("workspace", json!({"templateRef": ours, "waitForWorkspaces": [to(name)]})),
            ("template", json!({"templateRef": to(name)})),
        ];
        for (kind, spec) in probes {
            let probe = format!("{kind}-{name}");
            make(&stage, "WorkspaceTemplateApply", ("team-a", &probe), spec).await;
            let said = refusal(&stage, &probe, "ReferenceNotGranted").await;
            messages.push(said.replace(name, "NAME"));
        }
    }
    let (there, gone) = messages.split_at(3);
    assert_eq!(there, gone);
    // With a grant, the truth is told.
    let granted = json!({"capt.x-k8s.io/allow-references-from": "team-a"});
    stage
        .apply_value(json!({"apiVersion": "v1", "kind": "Namespace",
            "metadata": {"name": "team-b", "annotations": granted}}))
        .await;
    let spec = json!({"templateRef": ours, "waitForSecrets": [to("gone")]});
    make(&stage, "WorkspaceTemplateApply", ("team-a", "granted"), spec).await;
    let said = refusal(&stage, "granted", "WaitingForSecrets").await;
    assert!(said.contains("team-b/gone"), "{said}");
    stage.stop().await;
}
