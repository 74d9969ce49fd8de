//! Assessment of profiles, case by case.

use capt_engine::aws::{EksFargateProfile, EksIssue};
use capt_kinds::api::{FargateProfileStatus, WorkspaceTemplateApply, conditions::types};
use capt_kube::k8s::conditions::{ConditionStatus, ConditionUpdate};
use serde_json::{Value, json};

use super::{
    ManagedProfile, ProfileAssessment, ProfileState, assess_profile, profile_conditions, unmanaged_profiles,
};
use crate::controlplane::{
    eks_poll::{EksFacts, EksLookup},
    fixtures::{completed_status, workspace},
};

fn apply(status: &Value) -> WorkspaceTemplateApply {
    workspace("cp-apps-fargate-apply", &json!({}), status)
}

fn settled() -> Value {
    completed_status(&json!({"fargate_profile_name": "apps-0a0b0c"}))
}

fn view(status: &str, issues: &[(&str, &str)]) -> EksLookup<EksFargateProfile> {
    let issue = |(code, message): &(&str, &str)| EksIssue {
        code: (*code).to_owned(),
        message: (*message).to_owned(),
        resource_ids: Vec::new(),
    };
    EksLookup::Present(EksFargateProfile {
        name: "apps-0a0b0c".to_owned(),
        arn: "arn:apps".to_owned(),
        status: status.to_owned(),
        issues: issues.iter().map(issue).collect(),
        ..EksFargateProfile::default()
    })
}

fn facts(found: Option<EksLookup<EksFargateProfile>>) -> EksFacts {
    EksFacts {
        profiles: found.into_iter().map(|it| ("apps-0a0b0c".to_owned(), it)).collect(),
        ..EksFacts::default()
    }
}

fn profile(apply: Option<&WorkspaceTemplateApply>) -> ManagedProfile<'_> {
    ManagedProfile {
        name: "apps".to_owned(),
        apply_name: "cp-apps-fargate-apply".to_owned(),
        workspace: apply,
        rejection: None,
        is_removed: false,
    }
}

fn assess(status: &Value, found: Option<EksLookup<EksFargateProfile>>) -> ProfileAssessment {
    assess_profile(&profile(Some(&apply(status))), &facts(found), None)
}

#[test]
fn it_is_ready_when_eks_says_so_and_terraform_is_done() {
    let it = assess(&settled(), Some(view("ACTIVE", &[])));
    assert_eq!((it.state, it.status.ready, it.is_lost), (ProfileState::Ready, true, false));
    assert_eq!(it.status.profile_name.as_deref(), Some("apps-0a0b0c"));
    assert_eq!(it.status.arn.as_deref(), Some("arn:apps"));
    assert_eq!((it.status.failure_reason, it.status.failure_message), (None, None));
}

#[test]
fn active_in_terraform_but_not_in_eks_is_not_ready() {
    for (found, standing, lost) in [
        (Some(EksLookup::NotFound), ProfileState::Failed, true),
        (Some(view("CREATING", &[])), ProfileState::Creating, false),
        (Some(view("DELETING", &[])), ProfileState::Creating, false),
        (Some(view("CREATE_FAILED", &[("AccessDenied", "no")])), ProfileState::Failed, true),
        (None, ProfileState::Creating, false),
    ] {
        let it = assess(&settled(), found.clone());
        assert!(!it.status.ready, "{found:?}");
        assert_eq!((it.state, it.is_lost), (standing, lost), "{found:?}");
    }
}

#[test]
fn a_health_issue_is_told_in_the_words_of_aws() {
    let it = assess(&settled(), Some(view("ACTIVE", &[("PodExecutionRoleAlreadyInUse", "a node uses it")])));
    assert_eq!((it.state, it.status.ready), (ProfileState::Failed, false));
    assert_eq!(it.status.failure_reason.as_deref(), Some("PodExecutionRoleAlreadyInUse"));
    assert_eq!(it.message, "PodExecutionRoleAlreadyInUse: a node uses it");
    assert!(!it.is_lost, "another run would not help");
}

#[test]
fn a_rotation_leaves_it_ready() {
    let working = json!({"observedGeneration": 1, "outputs": {"fargate_profile_name": "apps-0a0b0c"},
        "run": {"id": "r2", "operation": "Apply", "phase": "Applying"}});
    let it = assess(&working, Some(view("ACTIVE", &[])));
    assert_eq!((it.state, it.status.ready), (ProfileState::Updating, true));
    let ready = profile_conditions(&[it], "");
    assert_eq!(ready[0].status, ConditionStatus::True);
    assert_eq!((ready[2].type_, ready[2].status), (types::FARGATE_PROFILE_CREATING, ConditionStatus::True));
}

#[test]
fn a_rotation_without_a_free_slot_has_a_reason_of_its_own() {
    let full = json!({"observedGeneration": 1, "outputs": {"fargate_profile_name": "apps-0a0b0c"},
        "lastError": {"class": "Quota", "code": "ResourceLimitExceededException", "message": "10 are allowed"}});
    let it = assess(&full, Some(view("ACTIVE", &[])));
    assert_eq!((it.state, it.status.ready), (ProfileState::Failed, true));
    assert_eq!(it.status.failure_reason.as_deref(), Some("RotationNeedsSlot"));
}

#[test]
fn what_passes_by_itself_is_no_failure() {
    let busy = json!({"observedGeneration": 1, "lastError": {"class": "Wait", "message": "in use",
        "retryAt": "2026-11-01T10:00:00Z"}});
    let it = assess_profile(&profile(Some(&apply(&busy))), &EksFacts::default(), None);
    assert_eq!(it.state, ProfileState::Creating);
    assert!(it.message.contains("next attempt at"), "{}", it.message);
    assert_eq!(it.status.failure_reason, None);
}

#[test]
fn without_an_answer_what_was_said_before_stands() {
    let before = FargateProfileStatus {
        name: "apps".to_owned(),
        ready: true,
        status: Some("ACTIVE".to_owned()),
        profile_name: Some("apps-0a0b0c".to_owned()),
        arn: Some("arn:apps".to_owned()),
        ..FargateProfileStatus::default()
    };
    let it = assess_profile(&profile(Some(&apply(&settled()))), &EksFacts::default(), Some(&before));
    assert_eq!(
        (it.state, it.status.ready, it.status.arn.as_deref()),
        (ProfileState::Ready, true, Some("arn:apps"))
    );
}

#[test]
fn one_that_goes_tells_why_it_does_not() {
    let gone = apply(&json!({"observedGeneration": 1,
        "lastError": {"class": "Unknown", "message": "pods hang on it"}}));
    let dropped = ManagedProfile { is_removed: true, ..profile(Some(&gone)) };
    let stuck = EksFacts {
        profiles: [("apps".to_owned(), view("DELETE_FAILED", &[("InternalFailure", "later")]))].into(),
        ..EksFacts::default()
    };
    let it = assess_profile(&dropped, &stuck, None);
    assert_eq!((it.state, it.status.ready), (ProfileState::Removing, false));
    assert!(
        it.message.contains("DELETE_FAILED; InternalFailure: later")
            && it.message.contains("pods hang on it"),
        "{}",
        it.message
    );
    assert_eq!(it.status.failure_reason.as_deref(), Some("InternalFailure"));
}

#[test]
fn a_template_may_tell_the_arn_alone() {
    let outputs =
        json!({"fargate_profile_arn": "arn:aws:eks:eu-central-1:1:fargateprofile/demo/apps-0a0b0c/uuid"});
    let it = assess(&completed_status(&outputs), Some(view("ACTIVE", &[])));
    assert!(it.status.ready);
}

fn named(name: &str, found: Option<EksLookup<EksFargateProfile>>) -> ProfileAssessment {
    let mut it = assess(&settled(), found);
    it.status.name = name.to_owned();
    it
}

#[test]
fn one_broken_profile_is_named_and_the_others_are_not_failed() {
    let all = [
        named("good", Some(view("ACTIVE", &[]))),
        named("bad", Some(view("CREATE_FAILED", &[("AccessDenied", "you may not pass the role")]))),
        named("new", Some(view("CREATING", &[]))),
    ];
    let said: Vec<ConditionUpdate> = profile_conditions(&all, "EKS has others: theirs");
    let of = |type_: &str| said.iter().find(|it| it.type_ == type_).unwrap();
    for type_ in [types::FARGATE_PROFILES_READY, types::FARGATE_PROFILE_READY] {
        let ready = of(type_);
        assert_eq!(ready.status, ConditionStatus::False);
        assert_eq!(ready.reason, "FargateProfileFailed");
        assert!(
            ready.message.contains("bad: EKS reports CREATE_FAILED; AccessDenied: you may not pass the role")
        );
        assert!(ready.message.ends_with("EKS has others: theirs") && !ready.message.contains("good"));
    }
    assert_eq!(of(types::FARGATE_PROFILE_FAILED).status, ConditionStatus::True);
    assert!(!of(types::FARGATE_PROFILE_FAILED).message.contains("new"));
    assert!(of(types::FARGATE_PROFILE_CREATING).message.starts_with("new"));
}

#[test]
fn no_profiles_are_all_ready() {
    let said = profile_conditions(&[], "");
    assert_eq!(
        said.iter().map(|it| it.status).collect::<Vec<_>>(),
        [ConditionStatus::True, ConditionStatus::True, ConditionStatus::False, ConditionStatus::False]
    );
}

#[test]
fn profiles_of_others_are_seen_and_rotations_are_ours() {
    let names = ["apps", "apps-0a0b0c", "apps-ffffff", "system", "theirs", "apps-canary", "apps-x-ffffff"];
    let known = EksFacts { profile_names: Some(names.map(str::to_owned).to_vec()), ..facts(None) };
    let ours = [named("apps", Some(view("ACTIVE", &[])))];
    assert_eq!(
        unmanaged_profiles(&known, &ours, &["system".to_owned()]),
        ["theirs", "apps-canary", "apps-x-ffffff"]
    );
}
