//! Shared providers and the drift probe in an operator that runs, and what it says when it has to do without them.

use std::time::Duration;

use capt::{api::WorkspaceTemplateApply, gateway::Gateway};
use k8s_openapi::api::events::v1::Event;
use kube::api::ListParams;
use provider_gateway::admin::{Client, Report};

use super::{
    cloud::LocalAws,
    engine::Scripted,
    ports::port,
    stage::{Stage, condition},
    workspaces::is_ready,
};

/// One workspace with one object of AWS, and how drift is dealt with.
fn role(drift: &str) -> String {
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
async fn stage(aws: &LocalAws, terraform: &Scripted) -> Stage {
    let mut stage = Stage::idle(aws.cloud()).await;
    stage.engine = Some(terraform.path());
    stage.settings.drift_interval = Duration::from_secs(1);
    stage
}

/// How the gateway of the stage is; nothing if there is none.
async fn report(stage: &Stage) -> Option<Report> {
    let server = Gateway::running(&stage.data()).unwrap()?;
    Client::at(server.socket).report().await.ok()
}

/// What somebody else does to the role.
async fn describe(aws: &LocalAws, text: &str) {
    aws.query("iam", &format!("Action=UpdateRole&RoleName=probed&Description={text}&Version=2010-05-08"))
        .await;
}

fn has(kind: &'static str, status: &'static str) -> impl Fn(&WorkspaceTemplateApply) -> bool {
    move |it| condition(&it.status.clone().unwrap_or_default().conditions, kind, status)
}

/// Waits until probes have answered so many checks.
async fn probed(stage: &Stage, times: u64) {
    let before = report(stage).await.map_or(0, |it| it.counts.probes);
    let enough = async || report(stage).await.is_some_and(|it| it.counts.probes >= before + times);
    stage.eventually("probes", enough).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unchanged_workspace_is_checked_without_terraform_and_a_plan_decides_about_a_changed_one() {
    let (aws, terraform) = (LocalAws::start(), Scripted::real());
    let mut stage = stage(&aws, &terraform).await;
    stage.start().await;
    stage.apply(&role("detect")).await;
    let made = stage.until::<WorkspaceTemplateApply>("role", "ready", is_ready).await;
    let first = made.status.unwrap().last_checked_time;
    probed(&stage, 5).await;
    // One plan for the apply, one for the first check, and then one for every twelve. In this order: what is read
    // later can only be more.
    let plans = terraform.begun("plan");
    let probes = usize::try_from(report(&stage).await.unwrap().counts.probes).unwrap();
    assert!(plans <= 2 + probes / 12, "{plans} plans beside {probes} probes");
    let checked =
        |it: &WorkspaceTemplateApply| it.status.clone().unwrap_or_default().last_checked_time > first;
    stage.until("role", "checked", checked).await;

    describe(&aws, "changed").await;
    let drifted = stage.until("role", "drifted", has("Drifted", "True")).await;
    let said = drifted.status.unwrap().conditions;
    let said = said.iter().find(|it| it.type_ == "Drifted").unwrap();
    assert!(said.message.contains("aws_iam_role.it"), "{said:?}");
    assert!(terraform.begun("plan") > plans, "a plan has decided");
    assert_eq!(terraform.begun("apply"), 1, "and nobody was asked to change it");

    describe(&aws, "as%20it%20should%20be").await;
    stage.until("role", "as it was", has("Drifted", "False")).await;
    stage.stop().await;

    // The gateway goes on: what it knows would have to be learnt anew. A new operator needs neither init nor plan.
    let (inits, plans) = (terraform.begun("init"), terraform.begun("plan"));
    let begun = report(&stage).await.unwrap();
    stage.start().await;
    probed(&stage, 1).await;
    let now = report(&stage).await.unwrap();
    assert_eq!((now.pid, now.counts.started), (begun.pid, begun.counts.started), "it is the same one");
    assert_eq!(terraform.begun("init"), inits, "{:?}", terraform.diary());
    assert!(terraform.begun("plan") <= plans + 1, "at most the twelfth");
    stage.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_changed_behind_the_back_of_a_workspace_is_put_right() {
    let (aws, terraform) = (LocalAws::start(), Scripted::real());
    let mut stage = stage(&aws, &terraform).await;
    stage.start().await;
    stage.apply(&role("correct")).await;
    stage.until::<WorkspaceTemplateApply>("role", "ready", is_ready).await;
    probed(&stage, 3).await;
    let (applies, plans) = (terraform.begun("apply"), terraform.begun("plan"));
    let probes = usize::try_from(report(&stage).await.unwrap().counts.probes).unwrap();
    assert_eq!(applies, 1, "probes are enough to see that nothing is to be done");
    assert!(plans <= 2 + probes / 12, "{plans} plans beside {probes} probes");
    describe(&aws, "changed").await;
    let again = async || terraform.begun("apply") > applies;
    stage.eventually("terraform puts it right", again).await;
    let role = async || aws.query("iam", "Action=GetRole&RoleName=probed&Version=2010-05-08").await;
    stage.eventually("it is as it should be", async || role().await.contains("as it should be")).await;
    probed(&stage, 2).await;
    assert!(role().await.contains("as it should be"), "{}", role().await);
    stage.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_workspace_that_has_to_do_without_the_gateway_says_so() {
    let (aws, terraform) = (LocalAws::start(), Scripted::real());
    let mut stage = stage(&aws, &terraform).await;
    stage.settings.drift_interval = Duration::from_hours(1);
    let address = std::net::SocketAddr::from(([127, 0, 0, 1], port()));
    stage.settings.listen = Some(address);
    // No gateway can live where a file is.
    std::fs::create_dir_all(stage.data()).unwrap();
    std::fs::write(stage.data().join("gateway"), "").unwrap();
    stage.start().await;
    stage.apply(&role("detect")).await;
    let made = stage.until::<WorkspaceTemplateApply>("role", "ready", is_ready).await;
    let why = made.status.unwrap().run.unwrap().without_gateway.unwrap();
    assert!(why.contains("without the gateway") && why.contains("data/gateway"), "{why}");
    let told = async || {
        let events = stage.api::<Event>("default").list(&ListParams::default()).await.unwrap().items;
        let mut told = events.iter().filter(|it| it.reason.as_deref() == Some("WithoutGateway"));
        told.any(|it| it.type_.as_deref() == Some("Warning") && it.note.as_deref() == Some(why.as_str()))
    };
    stage.eventually("an event", told).await;
    let metrics = super::cloud::curl(&format!("http://{address}/metrics")).await;
    let count = metrics.lines().find_map(|line| line.strip_prefix("capt_plain_runs_total "));
    assert!(count.is_some_and(|count| count.parse::<f64>().is_ok_and(|it| it >= 1.0)), "{metrics}");
    stage.stop().await;
}
