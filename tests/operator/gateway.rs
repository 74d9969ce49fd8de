//! Provider gateway and drift probe in a running operator, and the status when the gateway cannot be used.

use std::time::Duration;

use capt_engine::gateway::GatewayHandle;
use capt_kinds::api::WorkspaceTemplateApply;
use k8s_openapi::api::events::v1::Event;
use kube::api::ListParams;
use provider_gateway::admin::GatewayReport;

use super::{
    harness::{OperatorHarness, has_condition},
    local_aws::LocalAws,
    ports::free_port,
    recording_terraform::RecordingTerraform,
    workspaces::is_ready,
};

/// One workspace with one object of AWS, and how drift is dealt with.
fn role_manifest(drift: &str) -> String {
    format!(
        r#"
apiVersion: infrastructure.cluster.x-k8s.io/v1beta1
kind: WorkspaceTemplate
metadata: {{name: role, namespace: default}}
spec:
  template:
    spec:
      forProvider:
        source: Inline
        module: |
          resource "aws_iam_role" "it" {{
            name               = "probed"
            description        = "as it should be"
            assume_role_policy = jsonencode({{
              Version   = "2012-10-17"
              Statement = [{{ Effect = "Allow", Action = "sts:AssumeRole", Principal = {{ Service = "eks.amazonaws.com" }} }}]
            }})
          }}
---
apiVersion: infrastructure.cluster.x-k8s.io/v1beta1
kind: WorkspaceTemplateApply
metadata: {{name: role, namespace: default, annotations: {{capt.x-k8s.io/drift: {drift}}}}}
spec: {{templateRef: {{name: role}}, region: eu-central-1}}
"#
    )
}

/// A stage on which drift is looked for every second, by a terraform that keeps a diary.
async fn harness_with_drift_checks(aws: &LocalAws, terraform: &RecordingTerraform) -> OperatorHarness {
    let mut stage = OperatorHarness::idle(aws.cloud()).await;
    stage.engine = Some(terraform.path());
    stage.settings.drift_interval = Duration::from_secs(1);
    stage
}

/// How the gateway of the stage is; nothing if there is none.
async fn gateway_report(stage: &OperatorHarness) -> Option<GatewayReport> {
    let server = GatewayHandle::find_running(&stage.data_dir()).unwrap()?;
    server.client().report().await.ok()
}

/// Changes the role outside of terraform.
async fn set_role_description(aws: &LocalAws, text: &str) {
    aws.query("iam", &format!("Action=UpdateRole&RoleName=probed&Description={text}&Version=2010-05-08"))
        .await;
}

fn condition_is(kind: &'static str, status: &'static str) -> impl Fn(&WorkspaceTemplateApply) -> bool {
    move |it| has_condition(&it.status.clone().unwrap_or_default().conditions, kind, status)
}

/// Waits until probes have answered so many checks.
async fn wait_for_probes(stage: &OperatorHarness, times: u64) {
    let before = gateway_report(stage).await.map_or(0, |it| it.counts.probes);
    let enough = async || gateway_report(stage).await.is_some_and(|it| it.counts.probes >= before + times);
    stage.wait_for("probes", enough).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unchanged_workspace_is_checked_without_terraform_and_a_plan_decides_about_a_changed_one() {
    let (aws, terraform) = (LocalAws::start(), RecordingTerraform::real());
    let mut stage = harness_with_drift_checks(&aws, &terraform).await;
    stage.start().await;
    stage.apply(&role_manifest("detect")).await;
    let made = stage.wait_until::<WorkspaceTemplateApply>("role", "ready", is_ready).await;
    let first = made.status.unwrap().last_checked_time;
    wait_for_probes(&stage, 5).await;
    // One plan for the apply, one for the first check, and then one for every twelve. In this order: what is read
    // later can only be more.
    let plans = terraform.count_starts("plan");
    let probes = usize::try_from(gateway_report(&stage).await.unwrap().counts.probes).unwrap();
    assert!(plans <= 2 + probes / 12, "{plans} plans beside {probes} probes");
    let checked =
        |it: &WorkspaceTemplateApply| it.status.clone().unwrap_or_default().last_checked_time > first;
    stage.wait_until("role", "checked", checked).await;

    set_role_description(&aws, "changed").await;
    let drifted = stage.wait_until("role", "drifted", condition_is("Drifted", "True")).await;
    let said = drifted.status.unwrap().conditions;
    let said = said.iter().find(|it| it.type_ == "Drifted").unwrap();
    assert!(said.message.contains("aws_iam_role.it"), "{said:?}");
    assert!(terraform.count_starts("plan") > plans, "a plan has decided");
    assert_eq!(terraform.count_starts("apply"), 1, "and nothing was changed");

    set_role_description(&aws, "as%20it%20should%20be").await;
    stage.wait_until("role", "as it was", condition_is("Drifted", "False")).await;
    stage.stop().await;

    // The gateway keeps running with its caches. A new operator needs neither init nor plan.
    // A template whose validation the first operator did not finish is validated again, in a directory of its own.
    let inits_of_workspace = || {
        let entries = terraform.entries();
        entries.iter().filter(|it| it.is_start && it.command == "init" && it.workspace == "role").count()
    };
    let (inits, plans) = (inits_of_workspace(), terraform.count_starts("plan"));
    let begun = gateway_report(&stage).await.unwrap();
    stage.start().await;
    wait_for_probes(&stage, 1).await;
    let now = gateway_report(&stage).await.unwrap();
    assert_eq!((now.pid, now.counts.started), (begun.pid, begun.counts.started), "it is the same one");
    assert_eq!(inits_of_workspace(), inits, "{:?}", terraform.entries());
    assert!(terraform.count_starts("plan") <= plans + 1, "at most the twelfth");
    stage.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_changed_behind_the_back_of_a_workspace_is_put_right() {
    let (aws, terraform) = (LocalAws::start(), RecordingTerraform::real());
    let mut stage = harness_with_drift_checks(&aws, &terraform).await;
    stage.start().await;
    stage.apply(&role_manifest("correct")).await;
    stage.wait_until::<WorkspaceTemplateApply>("role", "ready", is_ready).await;
    wait_for_probes(&stage, 3).await;
    let (applies, plans) = (terraform.count_starts("apply"), terraform.count_starts("plan"));
    let probes = usize::try_from(gateway_report(&stage).await.unwrap().counts.probes).unwrap();
    assert_eq!(applies, 1, "probes are enough to see that nothing is to be done");
    assert!(plans <= 2 + probes / 12, "{plans} plans beside {probes} probes");
    set_role_description(&aws, "changed").await;
    let again = async || terraform.count_starts("apply") > applies;
    stage.wait_for("terraform puts it right", again).await;
    let role = async || aws.query("iam", "Action=GetRole&RoleName=probed&Version=2010-05-08").await;
    stage.wait_for("it is as it should be", async || role().await.contains("as it should be")).await;
    wait_for_probes(&stage, 2).await;
    assert!(role().await.contains("as it should be"), "{}", role().await);
    stage.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_workspace_that_has_to_do_without_the_gateway_says_so() {
    let (aws, terraform) = (LocalAws::start(), RecordingTerraform::real());
    let mut stage = harness_with_drift_checks(&aws, &terraform).await;
    stage.settings.drift_interval = Duration::from_hours(1);
    let address = std::net::SocketAddr::from(([127, 0, 0, 1], free_port()));
    stage.settings.listen = Some(address);
    // No gateway can live where a file is.
    std::fs::create_dir_all(stage.data_dir()).unwrap();
    std::fs::write(stage.data_dir().join("gateway"), "").unwrap();
    stage.start().await;
    stage.apply(&role_manifest("detect")).await;
    let made = stage.wait_until::<WorkspaceTemplateApply>("role", "ready", is_ready).await;
    let why = made.status.unwrap().run.unwrap().without_gateway.unwrap();
    assert!(why.contains("without the gateway") && why.contains("data/gateway"), "{why}");
    let told = async || {
        let events = stage.api::<Event>("default").list(&ListParams::default()).await.unwrap().items;
        let mut told = events.iter().filter(|it| it.reason.as_deref() == Some("WithoutGateway"));
        told.any(|it| it.type_.as_deref() == Some("Warning") && it.note.as_deref() == Some(why.as_str()))
    };
    stage.wait_for("an event", told).await;
    let metrics = super::local_aws::curl(&format!("http://{address}/metrics")).await;
    let count = metrics.lines().find_map(|line| line.strip_prefix("capt_plain_runs_total "));
    assert!(count.is_some_and(|count| count.parse::<f64>().is_ok_and(|it| it >= 1.0)), "{metrics}");
    stage.stop().await;
}
