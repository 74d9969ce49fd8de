//! H6: a tenant cannot keep the run slots, or the turn of an EKS cluster, from others.

use std::path::Path;

use capt_engine::aws::Cloud;
use capt_kinds::api::{WorkspaceTemplateApply, names};
use serde_json::{Value, json};

use crate::operator::{
    harness::{OperatorHarness, has_condition},
    recording_terraform::RecordingTerraform,
};

const SLEEPERS: usize = 8;

/// A template whose apply sleeps until there is a file `wake-NAME`, or `wake-all`.
fn template(namespace: &str, dir: &Path, sleeps: bool) -> Value {
    let dir = dir.display();
    let command = if sleeps {
        format!(
            "touch {dir}/asleep-${{var.name}}; until [ -e {dir}/wake-${{var.name}} -o -e {dir}/wake-all ]; do sleep 0.05; done"
        )
    } else {
        "true".to_owned()
    };
    let module = format!(
        "variable \"name\" {{ type = string }}\nresource \"terraform_data\" \"it\" {{\n  input = var.name\n  \
         provisioner \"local-exec\" {{ command = \"{command}\" }}\n}}\n"
    );
    let vars = json!([{"key": "name", "value": "${name}"}]);
    json!({"apiVersion": "infrastructure.cluster.x-k8s.io/v1beta1", "kind": "WorkspaceTemplate",
        "metadata": {"name": "step", "namespace": namespace},
        "spec": {"template": {"spec": {"forProvider": {"source": "Inline", "module": module, "vars": vars}}}}})
}

fn workspace(namespace: &str, name: &str, cluster: Option<&str>) -> Value {
    let annotations = cluster.map_or(json!({}), |name| json!({names::EKS_CLUSTER_ANNOTATION: name}));
    json!({"apiVersion": "infrastructure.cluster.x-k8s.io/v1beta1", "kind": "WorkspaceTemplateApply",
        "metadata": {"name": name, "namespace": namespace, "annotations": annotations},
        "spec": {"templateRef": {"name": "step"}, "variables": {"name": name}}})
}

#[tokio::test(flavor = "multi_thread")]
async fn h6_sleeping_templates_delay_another_tenant_by_one_slot_turnover() {
    let terraform = RecordingTerraform::real();
    let mut stage = OperatorHarness::idle(Cloud::Local { endpoint: "http://127.0.0.1:9".to_owned() }).await;
    stage.engine = Some(terraform.path());
    stage.settings.parallel = 2;
    stage.start().await;
    let dir = stage.dir.path().to_owned();
    for name in ["hostile", "team-b"] {
        stage.apply_value(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})).await;
        stage.apply_value(template(name, &dir, name == "hostile")).await;
    }
    // The first one claims the cluster of the other tenant, and all of them sleep.
    for number in 0..SLEEPERS {
        let cluster = (number == 0).then_some("theirs");
        stage.apply_value(workspace("hostile", &format!("s{number}"), cluster)).await;
    }
    let asleep = || -> Vec<String> {
        let names = (0..SLEEPERS).map(|number| format!("s{number}"));
        names.filter(|name| dir.join(format!("asleep-{name}")).exists()).collect()
    };
    stage.wait_for("both slots are taken", async || asleep().len() == 2).await;
    stage.apply_value(workspace("team-b", "w", Some("theirs"))).await;
    stage.namespace = "team-b";
    let waits = |it: &WorkspaceTemplateApply| {
        let run = it.status.as_ref().and_then(|status| status.run.as_ref());
        run.and_then(|run| run.waiting_for.as_deref()) == Some("a free run slot")
    };
    stage.wait_until("w", "waiting for a slot", waits).await;
    std::fs::write(dir.join(format!("wake-{}", asleep()[0])), "").unwrap();
    let is_applied = |it: &WorkspaceTemplateApply| {
        it.status.as_ref().is_some_and(|status| has_condition(&status.conditions, "Ready", "True"))
    };
    stage.wait_until("w", "applied", is_applied).await;
    let applies = terraform.entries();
    let mut order = applies.iter().filter(|it| it.is_start && it.command == "apply").map(|it| &it.workspace);
    assert_eq!(order.position(|name| name == "w"), Some(2), "it was the first after the two that slept");
    std::fs::write(dir.join("wake-all"), "").unwrap();
    stage.stop().await;
}
