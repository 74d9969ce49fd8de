//! Who may use `WorkspaceTemplate`s.

use capt_controllers::common::template_policy::TemplatePolicy;
use capt_engine::aws::Cloud;
use capt_kinds::api::{WorkspaceTemplate, WorkspaceTemplateApply};
use k8s_openapi::api::core::v1::Namespace;
use kube::{
    Api,
    api::{Patch, PatchParams},
};
use serde_json::json;

use crate::operator::harness::{OperatorHarness, has_condition};

/// Leaves a file behind as soon as terraform reads it.
fn workspace(dir: &std::path::Path) -> String {
    let proof = dir.join("executed");
    format!(
        r#"
apiVersion: v1
kind: Namespace
metadata: {{name: team-a}}
---
apiVersion: infrastructure.cluster.x-k8s.io/v1beta1
kind: WorkspaceTemplate
metadata: {{name: hello, namespace: team-a}}
spec:
  template:
    spec:
      forProvider:
        source: Inline
        module: |
          resource "terraform_data" "hello" {{
            provisioner "local-exec" {{ command = "touch {}" }}
          }}
---
apiVersion: infrastructure.cluster.x-k8s.io/v1beta1
kind: WorkspaceTemplateApply
metadata: {{name: hello, namespace: team-a}}
spec:
  templateRef: {{name: hello}}
"#,
        proof.display()
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn c1_a_template_runs_only_where_an_administrator_allows_it() {
    let mut stage = OperatorHarness::idle(Cloud::Local { endpoint: "http://127.0.0.1:9".to_owned() }).await;
    stage.settings.templates = TemplatePolicy::None;
    stage.namespace = "team-a";
    stage.start().await;
    stage.apply(&workspace(stage.dir.path())).await;
    let refused = stage
        .wait_until::<WorkspaceTemplateApply>("hello", "refused", |it| {
            let conditions = it.status.clone().unwrap_or_default().conditions;
            conditions.iter().any(|it| it.type_ == "Synced" && it.reason == "TemplateNotAllowed")
        })
        .await;
    let conditions = refused.status.unwrap_or_default().conditions;
    let said = &conditions.iter().find(|it| it.type_ == "Synced").unwrap().message;
    for word in ["capt.x-k8s.io/templates=trusted", "administrator", "--templates"] {
        assert!(said.contains(word), "{said}");
    }
    stage
        .wait_until::<WorkspaceTemplate>("hello", "not executed for its validation either", |it| {
            let conditions = it.status.clone().unwrap_or_default().conditions;
            conditions.iter().any(|it| it.type_ == "Valid" && it.message.contains("has not validated it"))
        })
        .await;
    assert!(!stage.data_dir().join("workspaces/team-a").exists(), "nothing is rendered");
    assert!(!stage.dir.path().join("executed").exists());
    // The label alone starts the run.
    let namespaces: Api<Namespace> = Api::all(stage.client());
    let label = Patch::Merge(json!({"metadata": {"labels": {"capt.x-k8s.io/templates": "trusted"}}}));
    namespaces.patch("team-a", &PatchParams::default(), &label).await.unwrap();
    let is_ready = |it: &WorkspaceTemplateApply| {
        has_condition(&it.status.clone().unwrap_or_default().conditions, "Ready", "True")
    };
    stage.wait_until("hello", "ready", is_ready).await;
    stage.stop().await;
}
