//! EKS is asked and not only terraform; what it does not say is not made up.

use serde_json::{Value, json};

use super::world::{CP, EKS, KIND, WTA, World, apply_of};
use crate::{
    aws::Issue,
    controllers::rig::{message, said},
};

fn one_profile() -> Value {
    json!({"version": "1.33", "additionalFargateProfiles": [{"name": "apps", "selectors": [{"namespace": "apps"}]}]})
}

#[tokio::test]
async fn no_answer_keeps_what_was_known_and_is_told() {
    let world = World::with(one_profile()).await;
    world.work();
    world.until_ready().await;
    world.cloud.eks.with(|eks| eks.refusal = Some(("internal error (ServerException)".to_owned(), true)));
    let found = world.until(|it| message(it, "EKSClusterReady").contains("Unknown")).await;
    assert!(message(&found, "EKSClusterReady").contains("ServerException"));
    for type_ in ["Ready", "Available", "EKSClusterReady", "FargateProfilesReady", "AddonsReady"] {
        assert_eq!(said(&found, type_).0, "True", "{type_}");
    }
    assert_eq!((&found["status"]["phase"], &found["status"]["ready"]), (&json!("Ready"), &json!(true)));
    assert_eq!(found["status"]["fargateProfileStatuses"][0]["ready"], true);

    world.cloud.eks.with(|eks| eks.refusal = None);
    world.until(|it| message(it, "EKSClusterReady").is_empty()).await;
}

#[tokio::test]
async fn a_sick_cluster_or_addon_is_not_ready_and_can_still_be_used() {
    let world = World::with(one_profile()).await;
    world.work();
    world.until_ready().await;
    let issue = Issue {
        code: "Ec2SubnetNotFound".to_owned(),
        message: "subnet-1 is gone".to_owned(),
        ..Issue::default()
    };
    world.cloud.eks.with(|eks| eks.clusters.get_mut("demo").unwrap().issues = vec![issue]);
    let found = world.until(|it| said(it, "EKSClusterReady").0 == "False").await;
    assert_eq!(said(&found, "Ready").1, "EKSUnhealthy");
    assert!(message(&found, "Ready").contains("Ec2SubnetNotFound: subnet-1 is gone"));
    assert_eq!((said(&found, "Available").0.as_str(), said(&found, "Failed").0.as_str()), ("True", "False"));

    world.cloud.eks.with(|eks| {
        eks.clusters.get_mut("demo").unwrap().issues.clear();
        eks.addons.get_mut("demo").unwrap()[0].status = "DEGRADED".to_owned();
    });
    let found = world.until(|it| said(it, "Ready").1 == "AddonNotReady").await;
    assert!(message(&found, "AddonsReady").contains("coredns is DEGRADED"));
    world.cloud.eks.with(|eks| eks.addons.get_mut("demo").unwrap()[0].status = "ACTIVE".to_owned());
    world.until_ready().await;
}

#[tokio::test]
async fn a_failure_of_terraform_is_told_with_everything_that_helps() {
    let world = World::with(json!({"version": "1.33"})).await;
    let error = json!({"class": "UserFix", "code": "AccessDeniedException", "address": "aws_eks_cluster.this",
        "message": "not authorized", "retryAt": "2036-11-01T10:10:00Z"});
    world.order(|orders| orders.broken.insert(EKS.to_owned(), error));
    world.work();
    let found = world.until(|it| it["status"]["phase"] == "Failed").await;
    for part in
        [EKS, "aws_eks_cluster.this", "AccessDeniedException", "not authorized", "2036-11-01T10:10:00Z"]
    {
        assert!(message(&found, "Ready").contains(part), "{}", message(&found, "Ready"));
    }
    assert_eq!(found["status"]["failureReason"], "WorkspaceError");
    world.order(|orders| orders.broken.clear());
    let found = world.until_ready().await;
    assert!(found["status"].get("failureMessage").is_none());
    assert!(found["status"]["workspaceTemplateStatus"].get("lastFailureMessage").is_none());
}

#[tokio::test]
async fn p6_what_passes_by_itself_never_fails() {
    let world = World::with(json!({"version": "1.33"})).await;
    let error =
        json!({"class": "Wait", "code": "ResourceInUseException", "message": "an update is in progress"});
    world.order(|orders| orders.broken.insert(EKS.to_owned(), error));
    world.work();
    let found = world.until(|it| message(it, "Ready").contains("an update is in progress")).await;
    assert_eq!((said(&found, "Failed").0.as_str(), &found["status"]["phase"]), ("False", &json!("Creating")));
    assert!(found["status"].get("failureReason").is_none());
}

#[tokio::test]
async fn an_upgrade_steps_one_minor_version_at_a_time_and_stays_available() {
    let world = World::with(json!({"version": "v1.31.0"})).await;
    world.work();
    world.until_ready().await;
    world.rig.merge(KIND, CP, json!({"spec": {"version": "v1.34.2"}})).await;
    let found = world
        .until(|found| {
            assert_eq!(said(found, "Available").0, "True");
            found["status"]["version"] == "v1.34.2" && found["status"]["phase"] == "Ready"
        })
        .await;
    assert_eq!(world.orders.lock().unwrap().versions, ["1.31", "1.32", "1.33", "1.34"]);
    assert_eq!(found["status"]["versions"], json!([{"version": "v1.34.2"}]));

    world.rig.merge(KIND, CP, json!({"spec": {"version": "v1.33.0"}})).await;
    let found =
        world.until(|it| said(it, "Failed") == ("True".to_owned(), "DowngradeRefused".to_owned())).await;
    assert!(message(&found, "Ready").contains("EKS runs 1.34"), "{}", message(&found, "Ready"));
    let apply = world.rig.get(WTA, EKS).await.unwrap();
    assert_eq!(apply["spec"]["inputs"]["kubernetes_version"], "1.34");
    assert_eq!(found["status"]["version"], "v1.34.0");
}

#[tokio::test]
async fn a_profile_that_eks_lost_is_made_again_with_backoff() {
    let world = World::with(one_profile()).await;
    world.order(|orders| orders.forgotten.insert(apply_of("apps")));
    world.work();
    let found = world.until(|it| said(it, "FargateProfileFailed").0 == "True").await;
    assert_eq!(found["status"]["fargateProfileStatuses"][0]["ready"], false);
    assert_ne!(found["status"]["phase"], "Ready", "ACTIVE for terraform is not enough");
    let poked = |it: &Value| it["metadata"]["annotations"]["capt.x-k8s.io/requested-at"].clone();
    let apply = world.rig.until(WTA, &apply_of("apps"), |it| poked(it).is_string()).await;
    world.looks().await;
    world.looks().await;
    let later = world.rig.get(WTA, &apply_of("apps")).await.unwrap();
    assert_eq!(poked(&apply), poked(&later), "not again at once");

    world.order(|orders| orders.forgotten.clear());
    let later = json!({"metadata": {"annotations": {"capt.x-k8s.io/requested-at": "2026-11-01T10:00:00Z"}}});
    world.rig.merge(WTA, &apply_of("apps"), later).await;
    world.until_ready().await;
}
