//! Failing Fargate profiles: P6, P7, P9; and deletion of a namespace with a cluster (P10, P28).

use std::time::Duration;

use capt_kinds::api::{CaptControlPlane, FargateProfileStatus, WorkspaceTemplateApply, names};
use k8s_openapi::api::core::v1::Namespace;
use kube::{Api, ResourceExt, api::DeleteParams};
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::{
    clusters::{apply_objects, cluster_objects, fargate_profile, patch_control_plane_spec, wait_until_ready},
    harness::{OperatorHarness, has_condition},
    local_aws::LocalAws,
};

fn condition_message(object: &CaptControlPlane, kind: &str) -> String {
    let conditions = object.status.clone().unwrap_or_default().conditions;
    conditions.iter().find(|it| it.type_ == kind).map(|it| it.message.clone()).unwrap_or_default()
}

fn profile_status(object: &CaptControlPlane, name: &str) -> FargateProfileStatus {
    let all = object.status.clone().unwrap_or_default().fargate_profile_statuses;
    all.into_iter().find(|it| it.name == name).unwrap_or_default()
}

/// Looks at a control plane all the time, and remembers what it said when one of these conditions was true.
pub(crate) struct ConditionRecorder {
    stop: CancellationToken,
    task: JoinHandle<Vec<String>>,
}

pub(crate) fn record_true_conditions(
    stage: &OperatorHarness,
    name: &'static str,
    kinds: &'static [&'static str],
) -> ConditionRecorder {
    let (api, stop) = (stage.api::<CaptControlPlane>(stage.namespace), CancellationToken::new());
    let over = stop.clone();
    let task = tokio::spawn(async move {
        let mut found = Vec::new();
        while !over.is_cancelled() {
            if let Some(object) = api.get_opt(name).await.unwrap() {
                let conditions = object.status.clone().unwrap_or_default().conditions;
                let bad = kinds.iter().filter(|kind| has_condition(&conditions, kind, "True"));
                found.extend(bad.map(|kind| format!("{kind}: {}", condition_message(&object, kind))));
                found.dedup();
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        found
    });
    ConditionRecorder { stop, task }
}

impl ConditionRecorder {
    pub(crate) async fn finish(self) -> Vec<String> {
        self.stop.cancel();
        self.task.await.unwrap()
    }
}

/// One of three has a subnet that does not exist.
fn profiles_with_a_broken_one() -> Value {
    let mut bad = fargate_profile("bad", "bad");
    bad["subnetIds"] = json!(["subnet-0123456789abcdef0"]);
    json!([fargate_profile("good", "good"), bad, fargate_profile("fine", "fine")])
}

#[tokio::test(flavor = "multi_thread")]
async fn p6_p7_p9_p10_p28_broken_profiles_are_told_healed_and_kept_until_they_are_gone() {
    let aws = LocalAws::start();
    let empty = aws.list_resources().await;
    // As a real one now and then: ACTIVE, and it still refuses the first profile.
    let busy =
        "Cannot create Fargate Profile system because cluster demo currently has an update in progress";
    let busy = json!({"code": "ResourceInUseException", "message": busy, "status": 409});
    aws.admin("POST", "faults", &json!({"operation": "CreateFargateProfile", "error": busy})).await;
    let mut stage = OperatorHarness::idle(aws.cloud()).await;
    stage.namespace = "team";
    stage.apply_value(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team"}})).await;
    stage.start().await;
    let failed = record_true_conditions(&stage, "demo", &["Failed"]);
    apply_objects(&stage, &cluster_objects("demo", &profiles_with_a_broken_one())).await;
    p7_one_broken_profile_is_named_and_the_others_are_ready(&stage).await;
    assert_eq!(
        failed.finish().await,
        [""; 0],
        "P6: a wait, or one profile, is no failure of the control plane"
    );
    let (_, refused) = aws.call_counts("CreateFargateProfile").await;
    assert!(refused >= 2, "the busy cluster and the broken profile refused: {refused}");

    let mended = json!([
        fargate_profile("good", "good"),
        fargate_profile("bad", "bad"),
        fargate_profile("fine", "fine")
    ]);
    patch_control_plane_spec(&stage, "demo", json!({ "additionalFargateProfiles": mended })).await;
    wait_until_ready(&stage, "demo").await;
    p9_a_profile_that_cannot_be_deleted_is_kept_and_told(&stage, &aws).await;

    let namespaces: Api<Namespace> = Api::all(stage.client());
    namespaces.delete("team", &DeleteParams::default()).await.unwrap();
    let is_gone = async || namespaces.get_opt("team").await.unwrap().is_none();
    stage.wait_for("the namespace is gone", is_gone).await;
    assert_eq!(aws.list_resources().await, empty, "nothing is left");
    stage.stop().await;
}

async fn p7_one_broken_profile_is_named_and_the_others_are_ready(stage: &OperatorHarness) {
    let is_so = |it: &CaptControlPlane| {
        let status = it.status.clone().unwrap_or_default();
        profile_status(it, "good").ready
            && profile_status(it, "fine").ready
            && has_condition(&status.conditions, "FargateProfileFailed", "True")
            && has_condition(&status.conditions, "Available", "True")
    };
    let found: CaptControlPlane = stage.wait_until("demo", "ready but for one profile", is_so).await;
    let bad = profile_status(&found, "bad");
    assert!(!bad.ready);
    assert_eq!(bad.failure_reason.as_deref(), Some("InvalidParameterException"), "{bad:?}");
    for kind in ["FargateProfilesReady", "FargateProfileFailed"] {
        let said = condition_message(&found, kind);
        let tells = |word: &str| said.contains(word);
        assert!(
            tells("bad: ") && tells("InvalidParameterException") && tells("subnet-0123456789abcdef0"),
            "{said}"
        );
        assert!(!tells("good") && !tells("fine"), "{said}");
    }
    let conditions = found.status.unwrap().conditions;
    assert!(
        has_condition(&conditions, "EKSClusterReady", "True")
            && has_condition(&conditions, "Failed", "False")
    );
}

async fn p9_a_profile_that_cannot_be_deleted_is_kept_and_told(stage: &OperatorHarness, aws: &LocalAws) {
    let issue = json!([{"code": "AccessDenied", "message": "the role may not be used", "resourceIds": []}]);
    let order = json!({"cluster": "demo", "profile": "fine", "status": "DELETE_FAILED", "issues": issue, "next": true});
    aws.admin("POST", "eks/profile-state", &order).await;
    let two = json!([fargate_profile("good", "good"), fargate_profile("bad", "bad")]);
    patch_control_plane_spec(stage, "demo", json!({ "additionalFargateProfiles": two })).await;
    let is_told = |it: &WorkspaceTemplateApply| {
        it.status
            .as_ref()
            .and_then(|it| it.last_error.as_ref())
            .is_some_and(|it| it.message.contains("DELETE_FAILED"))
    };
    let kept: WorkspaceTemplateApply =
        stage.wait_until("demo-fine-fargate-apply", "told why it stays", is_told).await;
    assert!(kept.metadata.deletion_timestamp.is_some());
    assert!(kept.finalizers().iter().any(|it| it == names::APPLY_FINALIZER), "{:?}", kept.finalizers());
    assert!(kept.status.unwrap().last_error.unwrap().retry_at.is_some(), "it is tried again");
    let there = aws.list_resources().await;
    assert!(there.contains(&"eks/fargate-profile/demo/fine".to_owned()), "{there:#?}");
    assert!(there.iter().any(|it| it.starts_with("iam/role/") && it.contains("fargate")), "{there:#?}");
    // Told where people look, too, in the words of EKS.
    let is_shown = |it: &CaptControlPlane| {
        let fine = profile_status(it, "fine");
        let message = fine.failure_message.unwrap_or_default();
        fine.status.as_deref() == Some("DELETE_FAILED")
            && fine.health_issues.iter().any(|it| it.code == "AccessDenied")
            && message.contains("the role may not be used")
    };
    stage.wait_until("demo", "showing the profile that stays", is_shown).await;
    // It is tried again by itself.
    stage.wait_until_deleted::<WorkspaceTemplateApply>("demo-fine-fargate-apply").await;
    assert!(!aws.fargate_profiles().await.contains(&"demo/fine".to_owned()));
    wait_until_ready(stage, "demo").await;
}
