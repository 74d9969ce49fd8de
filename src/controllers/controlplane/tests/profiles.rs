//! Fargate profiles: each by itself.

use serde_json::{Value, json};

use super::world::{CP, KIND, WTA, World, apply_of};
use crate::{
    aws::{Issue, ProfileView},
    controllers::rig::{message, said},
};

fn profile(name: &str) -> Value {
    json!({"name": name, "selectors": [{"namespace": name}]})
}

fn with(names: &[&str]) -> Value {
    json!({"version": "1.33", "additionalFargateProfiles": names.iter().map(|name| profile(name)).collect::<Vec<_>>()})
}

fn status_of<'a>(found: &'a Value, name: &str) -> &'a Value {
    let all = found["status"]["fargateProfileStatuses"].as_array().unwrap();
    all.iter().find(|it| it["name"] == name).unwrap_or(&Value::Null)
}

#[tokio::test]
async fn sandboxes_have_one_profile_for_all_of_them_as_long_as_they_are_enabled() {
    let world = World::with(json!({"version": "1.33", "sandboxes": {"enabled": true}})).await;
    world.work();
    let found = world.until_ready().await;
    assert_eq!(status_of(&found, "sandboxes")["ready"], true);
    let apply = world.rig.get(WTA, &apply_of("sandboxes")).await.unwrap();
    let inputs = apply["spec"]["inputs"].to_string();
    assert!(
        inputs.contains("sandbox.capt.x-k8s.io/fork") && inputs.contains("sandbox.capt.x-k8s.io/router"),
        "{inputs}"
    );
    world.rig.merge(KIND, CP, json!({"spec": {"sandboxes": {"enabled": false}}})).await;
    world.rig.until_gone(WTA, &apply_of("sandboxes")).await;
}

#[tokio::test]
async fn p7_a_broken_profile_is_named_and_does_not_hold_the_others() {
    let world = World::with(with(&["good", "bad", "fine"])).await;
    let error = json!({"class": "UserFix", "code": "InvalidParameterException", "address": "aws_eks_fargate_profile.this",
        "message": "the subnet is public"});
    world.order(|orders| orders.broken.insert(apply_of("bad"), error));
    world.work();
    let found = world
        .until(|it| {
            said(it, "FargateProfileFailed").0 == "True"
                && status_of(it, "good")["ready"] == true
                && status_of(it, "fine")["ready"] == true
        })
        .await;
    assert_eq!(status_of(&found, "bad")["failureReason"], "InvalidParameterException");
    assert_eq!(status_of(&found, "bad")["workspaceTemplateApplyName"], apply_of("bad"));
    let ready = message(&found, "FargateProfilesReady");
    assert!(
        ready.contains("bad: ") && ready.contains("the subnet is public") && !ready.contains("good"),
        "{ready}"
    );
    let found = world
        .until(|it| said(it, "Available").0 == "True" && said(it, "Ready").1 == "FargateProfileFailed")
        .await;
    assert_eq!(
        (said(&found, "Failed").0.as_str(), said(&found, "EKSClusterReady").0.as_str()),
        ("False", "True")
    );

    world.order(|orders| orders.broken.clear());
    world.until_ready().await;
}

#[tokio::test]
async fn what_aws_finds_wrong_is_told_by_code() {
    let world = World::with(with(&["apps"])).await;
    world.work();
    world.until_ready().await;
    let issue = Issue {
        code: "PodExecutionRoleAlreadyInUse".to_owned(),
        message: "a node group uses it".to_owned(),
        ..Issue::default()
    };
    world.cloud.eks.with(|eks| {
        let profile = eks.profiles.get_mut(&("demo".to_owned(), "apps".to_owned())).unwrap();
        profile.issues = vec![issue];
    });
    let found = world.until(|it| said(it, "FargateProfileFailed").0 == "True").await;
    let apps = status_of(&found, "apps");
    assert_eq!((&apps["ready"], &apps["status"]), (&json!(false), &json!("ACTIVE")));
    assert_eq!(apps["healthIssues"][0]["code"], "PodExecutionRoleAlreadyInUse");
    assert!(
        message(&found, "FargateProfileFailed")
            .contains("apps: PodExecutionRoleAlreadyInUse: a node group uses it")
    );
}

#[tokio::test]
async fn a_profile_that_the_spec_drops_goes_and_is_told_of_until_it_is_gone() {
    let world = World::with(with(&["stays", "goes"])).await;
    world.work();
    world.until_ready().await;
    world.order(|orders| orders.held.insert(apply_of("goes")));
    world.rig.merge(KIND, CP, json!({"spec": {"additionalFargateProfiles": [profile("stays")]}})).await;
    let found =
        world.until(|it| said(it, "RollingOut").0 == "True" && status_of(it, "goes")["ready"] == false).await;
    assert_eq!(said(&found, "FargateProfilesReady").0, "True", "what is asked for is there");
    assert_eq!(
        (said(&found, "Ready").1.as_str(), &found["status"]["phase"]),
        ("Updating", &json!("Updating"))
    );
    world.order(|orders| orders.held.clear());
    world.rig.until_gone(WTA, &apply_of("goes")).await;
    let found = world.until_ready().await;
    assert_eq!(found["status"]["fargateProfileStatuses"].as_array().unwrap().len(), 1);
    assert_eq!(world.orders.lock().unwrap().destroyed, [apply_of("goes")]);
}

#[tokio::test]
async fn a_new_profile_is_made_beside_the_others_and_their_order_means_nothing() {
    let world = World::with(with(&["one"])).await;
    world.work();
    world.until_ready().await;
    let before = world.rig.get(WTA, &apply_of("one")).await.unwrap();
    world
        .rig
        .merge(KIND, CP, json!({"spec": {"additionalFargateProfiles": [profile("two"), profile("one")]}}))
        .await;
    world.rig.until(WTA, &apply_of("two"), |_| true).await;
    let found =
        world.until(|it| it["status"]["phase"] == "Ready" && status_of(it, "two")["ready"] == true).await;
    assert_eq!(status_of(&found, "two")["arn"], "arn:two");
    let after = world.rig.get(WTA, &apply_of("one")).await.unwrap();
    assert_eq!(after["metadata"]["generation"], before["metadata"]["generation"]);
}

#[tokio::test]
async fn profiles_of_others_are_reported_and_left_alone() {
    let world = World::with(with(&["apps"])).await;
    world.work();
    world.until_ready().await;
    world
        .cloud
        .eks
        .with(|eks| eks.profiles.insert(("demo".to_owned(), "theirs".to_owned()), ProfileView::default()));
    let found = world.until(|it| message(it, "FargateProfilesReady").contains("theirs")).await;
    assert_eq!(found["status"]["phase"], "Ready");
}

#[tokio::test]
async fn a_workspace_of_somebody_else_is_not_taken() {
    let world = World::with(json!({"version": "1.33"})).await;
    world.work();
    world.until_ready().await;
    let owner = json!([{"apiVersion": "controlplane.cluster.x-k8s.io/v1beta1", "kind": "CAPTControlPlane", "name": "other",
        "uid": "00000000-0000-0000-0000-000000000000", "controller": true}]);
    let name = apply_of("apps");
    // Nobody may collect it: its owner does not exist.
    world.order(|orders| orders.held.insert(name.clone()));
    let spec = json!({"module": "fargate", "region": "eu-central-1", "inputs": {"profile_name": "x"}});
    let object = json!({"metadata": {"name": name, "ownerReferences": owner, "finalizers": ["test/keep"]}, "spec": spec});
    world.rig.make(WTA, object).await;
    world.rig.merge(KIND, CP, json!({"spec": {"additionalFargateProfiles": [profile("apps")]}})).await;
    let found = world.until(|it| said(it, "FargateProfileFailed").0 == "True").await;
    assert!(message(&found, "FargateProfileFailed").contains("belongs to CAPTControlPlane other"));
    assert_eq!(world.rig.get(WTA, &name).await.unwrap()["spec"]["inputs"]["profile_name"], "x");
}
