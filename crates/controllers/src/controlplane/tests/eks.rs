//! The status follows EKS and not only Terraform; without an EKS response nothing is invented.

use capt_engine::aws::EksIssue;
use serde_json::{Value, json};

use super::harness::{CONTROL_PLANE_NAME, EKS_APPLY_NAME, Harness, KIND, WTA, profile_apply_name};
use crate::testing::{condition_message, condition_status};

fn one_profile() -> Value {
    json!({"version": "1.33", "additionalFargateProfiles": [{"name": "apps", "selectors": [{"namespace": "apps"}]}]})
}

#[tokio::test]
async fn no_answer_keeps_what_was_known_and_is_told() {
    let world = Harness::with_control_plane(one_profile()).await;
    world.run_fake_workspaces();
    world.wait_until_ready().await;
    world
        .backend
        .eks
        .with_state(|eks| eks.failure = Some(("internal error (ServerException)".to_owned(), true)));
    let found = world.wait_until(|it| condition_message(it, "EKSClusterReady").contains("Unknown")).await;
    assert!(condition_message(&found, "EKSClusterReady").contains("ServerException"));
    for type_ in ["Ready", "Available", "EKSClusterReady", "FargateProfilesReady", "AddonsReady"] {
        assert_eq!(condition_status(&found, type_).0, "True", "{type_}");
    }
    assert_eq!((&found["status"]["phase"], &found["status"]["ready"]), (&json!("Ready"), &json!(true)));
    assert_eq!(found["status"]["fargateProfileStatuses"][0]["ready"], true);

    world.backend.eks.with_state(|eks| eks.failure = None);
    world.wait_until(|it| condition_message(it, "EKSClusterReady").is_empty()).await;
}

#[tokio::test]
async fn a_sick_cluster_or_addon_is_not_ready_and_can_still_be_used() {
    let world = Harness::with_control_plane(one_profile()).await;
    world.run_fake_workspaces();
    world.wait_until_ready().await;
    let issue = EksIssue {
        code: "Ec2SubnetNotFound".to_owned(),
        message: "subnet-1 is gone".to_owned(),
        ..EksIssue::default()
    };
    world.backend.eks.with_state(|eks| eks.clusters.get_mut("demo").unwrap().issues = vec![issue]);
    let found = world.wait_until(|it| condition_status(it, "EKSClusterReady").0 == "False").await;
    assert_eq!(condition_status(&found, "Ready").1, "EKSUnhealthy");
    assert!(condition_message(&found, "Ready").contains("Ec2SubnetNotFound: subnet-1 is gone"));
    assert_eq!(
        (condition_status(&found, "Available").0.as_str(), condition_status(&found, "Failed").0.as_str()),
        ("True", "False")
    );

    world.backend.eks.with_state(|eks| {
        eks.clusters.get_mut("demo").unwrap().issues.clear();
        eks.addons.get_mut("demo").unwrap()[0].status = "DEGRADED".to_owned();
    });
    let found = world.wait_until(|it| condition_status(it, "Ready").1 == "AddonNotReady").await;
    assert!(condition_message(&found, "AddonsReady").contains("coredns is DEGRADED"));
    world.backend.eks.with_state(|eks| eks.addons.get_mut("demo").unwrap()[0].status = "ACTIVE".to_owned());
    world.wait_until_ready().await;
}

#[tokio::test]
async fn a_failure_of_terraform_is_told_with_everything_that_helps() {
    let world = Harness::with_control_plane(json!({"version": "1.33"})).await;
    let error = json!({"class": "UserFix", "code": "AccessDeniedException", "address": "aws_eks_cluster.this",
        "message": "not authorized", "retryAt": "2036-11-01T10:10:00Z"});
    world.with_behavior(|orders| orders.failing.insert(EKS_APPLY_NAME.to_owned(), error));
    world.run_fake_workspaces();
    let found = world.wait_until(|it| it["status"]["phase"] == "Failed").await;
    for part in [
        EKS_APPLY_NAME,
        "aws_eks_cluster.this",
        "AccessDeniedException",
        "not authorized",
        "2036-11-01T10:10:00Z",
    ] {
        assert!(condition_message(&found, "Ready").contains(part), "{}", condition_message(&found, "Ready"));
    }
    assert_eq!(found["status"]["failureReason"], "WorkspaceError");
    world.with_behavior(|orders| orders.failing.clear());
    let found = world.wait_until_ready().await;
    assert!(found["status"].get("failureMessage").is_none());
    assert!(found["status"]["workspaceTemplateStatus"].get("lastFailureMessage").is_none());
}

#[tokio::test]
async fn p6_what_passes_by_itself_never_fails() {
    let world = Harness::with_control_plane(json!({"version": "1.33"})).await;
    let error =
        json!({"class": "Wait", "code": "ResourceInUseException", "message": "an update is in progress"});
    world.with_behavior(|orders| orders.failing.insert(EKS_APPLY_NAME.to_owned(), error));
    world.run_fake_workspaces();
    let found =
        world.wait_until(|it| condition_message(it, "Ready").contains("an update is in progress")).await;
    assert_eq!(
        (condition_status(&found, "Failed").0.as_str(), &found["status"]["phase"]),
        ("False", &json!("Creating"))
    );
    assert!(found["status"].get("failureReason").is_none());
}

#[tokio::test]
async fn an_upgrade_steps_one_minor_version_at_a_time_and_stays_available() {
    let world = Harness::with_control_plane(json!({"version": "v1.31.0"})).await;
    world.run_fake_workspaces();
    world.wait_until_ready().await;
    world.env.merge(KIND, CONTROL_PLANE_NAME, json!({"spec": {"version": "v1.34.2"}})).await;
    let found = world
        .wait_until(|found| {
            assert_eq!(condition_status(found, "Available").0, "True");
            found["status"]["version"] == "v1.34.2" && found["status"]["phase"] == "Ready"
        })
        .await;
    assert_eq!(world.behavior.lock().unwrap().applied_versions, ["1.31", "1.32", "1.33", "1.34"]);
    assert_eq!(found["status"]["versions"], json!([{"version": "v1.34.2"}]));

    world.env.merge(KIND, CONTROL_PLANE_NAME, json!({"spec": {"version": "v1.33.0"}})).await;
    let found = world
        .wait_until(|it| condition_status(it, "Failed") == ("True".to_owned(), "DowngradeRefused".to_owned()))
        .await;
    assert!(
        condition_message(&found, "Ready").contains("EKS runs 1.34"),
        "{}",
        condition_message(&found, "Ready")
    );
    let apply = world.env.get(WTA, EKS_APPLY_NAME).await.unwrap();
    assert_eq!(apply["spec"]["inputs"]["kubernetes_version"], "1.34");
    assert_eq!(found["status"]["version"], "v1.34.0");
}

#[tokio::test]
async fn a_profile_that_eks_lost_is_made_again_with_backoff() {
    let world = Harness::with_control_plane(one_profile()).await;
    world.with_behavior(|orders| orders.lost_in_eks.insert(profile_apply_name("apps")));
    world.run_fake_workspaces();
    let found = world.wait_until(|it| condition_status(it, "FargateProfileFailed").0 == "True").await;
    assert_eq!(found["status"]["fargateProfileStatuses"][0]["ready"], false);
    assert_ne!(found["status"]["phase"], "Ready", "ACTIVE for terraform is not enough");
    let poked = |it: &Value| it["metadata"]["annotations"]["capt.x-k8s.io/requested-at"].clone();
    let apply = world.env.wait_until(WTA, &profile_apply_name("apps"), |it| poked(it).is_string()).await;
    world.wait_for_eks_polls().await;
    world.wait_for_eks_polls().await;
    let later = world.env.get(WTA, &profile_apply_name("apps")).await.unwrap();
    assert_eq!(poked(&apply), poked(&later), "not again at once");

    world.with_behavior(|orders| orders.lost_in_eks.clear());
    let later = json!({"metadata": {"annotations": {"capt.x-k8s.io/requested-at": "2026-11-01T10:00:00Z"}}});
    world.env.merge(WTA, &profile_apply_name("apps"), later).await;
    world.wait_until_ready().await;
}
