//! Fargate profiles: each is independent of the others.

use capt_engine::aws::{EksFargateProfile, EksIssue};
use serde_json::{Value, json};

use super::harness::{CONTROL_PLANE_NAME, Harness, KIND, WTA, profile_apply_name};
use crate::testing::{condition_message, condition_status};

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
    let world = Harness::with_control_plane(json!({"version": "1.33", "sandboxes": {"enabled": true}})).await;
    world.run_fake_workspaces();
    let found = world.wait_until_ready().await;
    assert_eq!(status_of(&found, "sandboxes")["ready"], true);
    let apply = world.env.get(WTA, &profile_apply_name("sandboxes")).await.unwrap();
    let inputs = apply["spec"]["inputs"].to_string();
    assert!(
        inputs.contains("sandbox.capt.x-k8s.io/fork") && inputs.contains("sandbox.capt.x-k8s.io/router"),
        "{inputs}"
    );
    world.env.merge(KIND, CONTROL_PLANE_NAME, json!({"spec": {"sandboxes": {"enabled": false}}})).await;
    world.env.wait_until_gone(WTA, &profile_apply_name("sandboxes")).await;
}

#[tokio::test]
async fn p7_a_broken_profile_is_named_and_does_not_hold_the_others() {
    let world = Harness::with_control_plane(with(&["good", "bad", "fine"])).await;
    let error = json!({"class": "UserFix", "code": "InvalidParameterException", "address": "aws_eks_fargate_profile.this",
        "message": "the subnet is public"});
    world.with_behavior(|orders| orders.failing.insert(profile_apply_name("bad"), error));
    world.run_fake_workspaces();
    let found = world
        .wait_until(|it| {
            condition_status(it, "FargateProfileFailed").0 == "True"
                && status_of(it, "good")["ready"] == true
                && status_of(it, "fine")["ready"] == true
        })
        .await;
    assert_eq!(status_of(&found, "bad")["failureReason"], "InvalidParameterException");
    assert_eq!(status_of(&found, "bad")["workspaceTemplateApplyName"], profile_apply_name("bad"));
    let ready = condition_message(&found, "FargateProfilesReady");
    assert!(
        ready.contains("bad: ") && ready.contains("the subnet is public") && !ready.contains("good"),
        "{ready}"
    );
    let found = world
        .wait_until(|it| {
            condition_status(it, "Available").0 == "True"
                && condition_status(it, "Ready").1 == "FargateProfileFailed"
        })
        .await;
    assert_eq!(
        (
            condition_status(&found, "Failed").0.as_str(),
            condition_status(&found, "EKSClusterReady").0.as_str()
        ),
        ("False", "True")
    );

    world.with_behavior(|orders| orders.failing.clear());
    world.wait_until_ready().await;
}

#[tokio::test]
async fn what_aws_finds_wrong_is_told_by_code() {
    let world = Harness::with_control_plane(with(&["apps"])).await;
    world.run_fake_workspaces();
    world.wait_until_ready().await;
    let issue = EksIssue {
        code: "PodExecutionRoleAlreadyInUse".to_owned(),
        message: "a node group uses it".to_owned(),
        ..EksIssue::default()
    };
    world.backend.eks.with_state(|eks| {
        let profile = eks.profiles.get_mut(&("demo".to_owned(), "apps".to_owned())).unwrap();
        profile.issues = vec![issue];
    });
    let found = world.wait_until(|it| condition_status(it, "FargateProfileFailed").0 == "True").await;
    let apps = status_of(&found, "apps");
    assert_eq!((&apps["ready"], &apps["status"]), (&json!(false), &json!("ACTIVE")));
    assert_eq!(apps["healthIssues"][0]["code"], "PodExecutionRoleAlreadyInUse");
    assert!(
        condition_message(&found, "FargateProfileFailed")
            .contains("apps: PodExecutionRoleAlreadyInUse: a node group uses it")
    );
}

#[tokio::test]
async fn a_profile_that_the_spec_drops_goes_and_is_told_of_until_it_is_gone() {
    let world = Harness::with_control_plane(with(&["stays", "goes"])).await;
    world.run_fake_workspaces();
    world.wait_until_ready().await;
    world.with_behavior(|orders| orders.stalled.insert(profile_apply_name("goes")));
    world
        .env
        .merge(KIND, CONTROL_PLANE_NAME, json!({"spec": {"additionalFargateProfiles": [profile("stays")]}}))
        .await;
    let found = world
        .wait_until(|it| {
            condition_status(it, "RollingOut").0 == "True" && status_of(it, "goes")["ready"] == false
        })
        .await;
    assert_eq!(condition_status(&found, "FargateProfilesReady").0, "True", "all requested profiles exist");
    assert_eq!(
        (condition_status(&found, "Ready").1.as_str(), &found["status"]["phase"]),
        ("Updating", &json!("Updating"))
    );
    world.with_behavior(|orders| orders.stalled.clear());
    world.env.wait_until_gone(WTA, &profile_apply_name("goes")).await;
    let found = world.wait_until_ready().await;
    assert_eq!(found["status"]["fargateProfileStatuses"].as_array().unwrap().len(), 1);
    assert_eq!(world.behavior.lock().unwrap().destroyed, [profile_apply_name("goes")]);
}

#[tokio::test]
async fn a_new_profile_is_made_beside_the_others_and_their_order_means_nothing() {
    let world = Harness::with_control_plane(with(&["one"])).await;
    world.run_fake_workspaces();
    world.wait_until_ready().await;
    let before = world.env.get(WTA, &profile_apply_name("one")).await.unwrap();
    world
        .env
        .merge(
            KIND,
            CONTROL_PLANE_NAME,
            json!({"spec": {"additionalFargateProfiles": [profile("two"), profile("one")]}}),
        )
        .await;
    world.env.wait_until(WTA, &profile_apply_name("two"), |_| true).await;
    let found = world
        .wait_until(|it| it["status"]["phase"] == "Ready" && status_of(it, "two")["ready"] == true)
        .await;
    assert_eq!(status_of(&found, "two")["arn"], "arn:two");
    let after = world.env.get(WTA, &profile_apply_name("one")).await.unwrap();
    assert_eq!(after["metadata"]["generation"], before["metadata"]["generation"]);
}

#[tokio::test]
async fn profiles_of_others_are_reported_and_left_alone() {
    let world = Harness::with_control_plane(with(&["apps"])).await;
    world.run_fake_workspaces();
    world.wait_until_ready().await;
    world.backend.eks.with_state(|eks| {
        eks.profiles.insert(("demo".to_owned(), "theirs".to_owned()), EksFargateProfile::default())
    });
    let found = world.wait_until(|it| condition_message(it, "FargateProfilesReady").contains("theirs")).await;
    assert_eq!(found["status"]["phase"], "Ready");
}

#[tokio::test]
async fn a_workspace_of_somebody_else_is_not_taken() {
    let world = Harness::with_control_plane(json!({"version": "1.33"})).await;
    world.run_fake_workspaces();
    world.wait_until_ready().await;
    let owner = json!([{"apiVersion": "controlplane.cluster.x-k8s.io/v1beta1", "kind": "CAPTControlPlane", "name": "other",
        "uid": "00000000-0000-0000-0000-000000000000", "controller": true}]);
    let name = profile_apply_name("apps");
    // The finalizer keeps the garbage collector away: the owner does not exist.
    world.with_behavior(|orders| orders.stalled.insert(name.clone()));
    let spec = json!({"module": "fargate", "region": "eu-central-1", "inputs": {"profile_name": "x"}});
    let object = json!({"metadata": {"name": name, "ownerReferences": owner, "finalizers": ["test/keep"]}, "spec": spec});
    world.env.create(WTA, object).await;
    world
        .env
        .merge(KIND, CONTROL_PLANE_NAME, json!({"spec": {"additionalFargateProfiles": [profile("apps")]}}))
        .await;
    let found = world.wait_until(|it| condition_status(it, "FargateProfileFailed").0 == "True").await;
    assert!(condition_message(&found, "FargateProfileFailed").contains("is owned by CAPTControlPlane other"));
    assert_eq!(world.env.get(WTA, &name).await.unwrap()["spec"]["inputs"]["profile_name"], "x");
}
