//! Workspaces alone: templates without a provider, so that a run takes a second.

use std::time::Duration;

use capt::api::{WorkspaceTemplateApply, names};
use k8s_openapi::api::core::v1::Secret;
use kube::{ResourceExt, api::ListParams, api::Patch, api::PatchParams};
use serde_json::json;

use crate::stage::{Stage, condition};

const PATIENCE: Duration = Duration::from_secs(60);

const TEMPLATE: &str = r#"
apiVersion: infrastructure.cluster.x-k8s.io/v1beta1
kind: WorkspaceTemplate
metadata: {name: greeter, namespace: default}
spec:
  template:
    spec:
      forProvider:
        source: Inline
        module: |
          variable "greeting" { type = string }
          resource "terraform_data" "it" { input = var.greeting }
          output "greeting" { value = terraform_data.it.output }
          output "secret" {
            value     = "hidden"
            sensitive = true
          }
          output "list" { value = ["a", "b"] }
      writeConnectionSecretToRef: {name: greeter-out, namespace: default}
---
apiVersion: infrastructure.cluster.x-k8s.io/v1beta1
kind: WorkspaceTemplateApply
metadata: {name: hello, namespace: default}
spec:
  templateRef: {name: greeter}
  variables: {greeting: hello}
"#;

fn is_ready(object: &WorkspaceTemplateApply) -> bool {
    let status = object.status.clone().unwrap_or_default();
    condition(&status.conditions, "Ready", "True") && condition(&status.conditions, "Synced", "True")
}

async fn ready(stage: &Stage, name: &str) -> WorkspaceTemplateApply {
    stage.until(name, PATIENCE, "ready", is_ready).await
}

async fn state_secrets(stage: &Stage) -> Vec<Secret> {
    let params = ListParams::default().labels(names::STATE_LABEL);
    stage.api::<Secret>("default").list(&params).await.unwrap().items
}

#[tokio::test(flavor = "multi_thread")]
async fn a_template_is_applied_its_outputs_are_published_and_it_goes_without_a_trace() {
    let mut stage = Stage::without_aws().await;
    stage.apply(TEMPLATE).await;
    let made = ready(&stage, "hello").await;
    let status = made.status.clone().unwrap();
    assert_eq!(status.outputs["greeting"], "hello");
    assert_eq!(status.outputs.get("secret"), None, "sensitive outputs are not shown");
    assert_eq!(status.applied, Some(true));
    let secret = stage.api::<Secret>("default").get("greeter-out").await.unwrap();
    let data = secret.data.unwrap();
    assert_eq!(data["secret"].0, b"hidden");
    assert_eq!(data["list"].0, br#"["a","b"]"#);
    assert!(!state_secrets(&stage).await.is_empty(), "the state is kept beside the object");

    let api = stage.api::<WorkspaceTemplateApply>("default");
    let change = Patch::Merge(json!({"spec": {"variables": {"greeting": "good morning"}}}));
    api.patch("hello", &PatchParams::default(), &change).await.unwrap();
    let is_changed = |it: &WorkspaceTemplateApply| {
        is_ready(it) && it.status.as_ref().is_some_and(|status| status.outputs["greeting"] == "good morning")
    };
    stage.until("hello", PATIENCE, "changed", is_changed).await;

    api.delete("hello", &Default::default()).await.unwrap();
    stage.until_gone::<WorkspaceTemplateApply>("hello", PATIENCE).await;
    assert!(state_secrets(&stage).await.is_empty(), "what was kept is gone with it");
    stage.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_settled_object_is_left_alone() {
    let mut stage = Stage::without_aws().await;
    stage.apply(TEMPLATE).await;
    let made = ready(&stage, "hello").await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    let later = stage.workspace("hello").await;
    assert_eq!(made.resource_version(), later.resource_version(), "{later:#?}");
    stage.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn on_an_empty_disk_the_kept_state_comes_back_and_nothing_is_made_twice() {
    let mut stage = Stage::without_aws().await;
    stage.apply(TEMPLATE).await;
    let made = ready(&stage, "hello").await;
    stage.stop().await;
    std::fs::remove_dir_all(stage.data()).unwrap();
    stage.start().await;
    let api = stage.api::<WorkspaceTemplateApply>("default");
    let change = Patch::Merge(json!({"spec": {"variables": {"greeting": "still here"}}}));
    api.patch("hello", &PatchParams::default(), &change).await.unwrap();
    let is_changed = |it: &WorkspaceTemplateApply| {
        is_ready(it) && it.status.as_ref().is_some_and(|status| status.outputs["greeting"] == "still here")
    };
    let after = stage.until("hello", PATIENCE, "changed", is_changed).await;
    let plan = after.status.unwrap().plan.unwrap();
    assert_eq!((plan.add, plan.change), (0, 1), "it is changed in place: {plan:?}");
    assert_eq!(made.uid(), after.metadata.uid.clone());
    stage.stop().await;
}
