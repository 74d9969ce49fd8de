//! What is said of profiles, case by case.

use serde_json::{Value, json};

use super::{Judged, Profile, Standing, conditions, judge, strangers};
use crate::{
    api::{FargateProfileStatus, WorkspaceTemplateApply, conditions::types},
    aws::{Issue, ProfileView},
    controllers::controlplane::{
        fixtures::{done, workspace},
        look::{Found, Known},
    },
    k8s::conditions::{ConditionStatus, Said},
};

fn apply(status: &Value) -> WorkspaceTemplateApply {
    workspace("cp-apps-fargate-apply", &json!({}), status)
}

fn settled() -> Value {
    done(&json!({"fargate_profile_name": "apps-0a0b0c"}))
}

fn view(status: &str, issues: &[(&str, &str)]) -> Found<ProfileView> {
    let issue = |(code, message): &(&str, &str)| Issue {
        code: (*code).to_owned(),
        message: (*message).to_owned(),
        resource_ids: Vec::new(),
    };
    Found::There(ProfileView {
        name: "apps-0a0b0c".to_owned(),
        arn: "arn:apps".to_owned(),
        status: status.to_owned(),
        issues: issues.iter().map(issue).collect(),
        ..ProfileView::default()
    })
}

fn known(found: Option<Found<ProfileView>>) -> Known {
    Known {
        profiles: found.into_iter().map(|it| ("apps-0a0b0c".to_owned(), it)).collect(),
        ..Known::default()
    }
}

fn profile(apply: Option<&WorkspaceTemplateApply>) -> Profile<'_> {
    Profile {
        name: "apps".to_owned(),
        apply_name: "cp-apps-fargate-apply".to_owned(),
        apply,
        refused: None,
        is_dropped: false,
    }
}

fn judged(status: &Value, found: Option<Found<ProfileView>>) -> Judged {
    judge(&profile(Some(&apply(status))), &known(found), None)
}

#[test]
fn it_is_ready_when_eks_says_so_and_terraform_is_done() {
    let it = judged(&settled(), Some(view("ACTIVE", &[])));
    assert_eq!((it.standing, it.status.ready, it.is_lost), (Standing::Ready, true, false));
    assert_eq!(it.status.profile_name.as_deref(), Some("apps-0a0b0c"));
    assert_eq!(it.status.arn.as_deref(), Some("arn:apps"));
    assert_eq!((it.status.failure_reason, it.status.failure_message), (None, None));
}

#[test]
fn active_in_terraform_but_not_in_eks_is_not_ready() {
    for (found, standing, lost) in [
        (Some(Found::Gone), Standing::Failed, true),
        (Some(view("CREATING", &[])), Standing::Creating, false),
        (Some(view("DELETING", &[])), Standing::Creating, false),
        (Some(view("CREATE_FAILED", &[("AccessDenied", "no")])), Standing::Failed, true),
        (None, Standing::Creating, false),
    ] {
        let it = judged(&settled(), found.clone());
        assert!(!it.status.ready, "{found:?}");
        assert_eq!((it.standing, it.is_lost), (standing, lost), "{found:?}");
    }
}

#[test]
fn a_health_issue_is_told_in_the_words_of_aws() {
    let it = judged(&settled(), Some(view("ACTIVE", &[("PodExecutionRoleAlreadyInUse", "a node uses it")])));
    assert_eq!((it.standing, it.status.ready), (Standing::Failed, false));
    assert_eq!(it.status.failure_reason.as_deref(), Some("PodExecutionRoleAlreadyInUse"));
    assert_eq!(it.note, "PodExecutionRoleAlreadyInUse: a node uses it");
    assert!(!it.is_lost, "another run would not help");
}

#[test]
fn a_rotation_leaves_it_ready() {
    let working = json!({"observedGeneration": 1, "outputs": {"fargate_profile_name": "apps-0a0b0c"},
        "run": {"id": "r2", "operation": "Apply", "phase": "Applying"}});
    let it = judged(&working, Some(view("ACTIVE", &[])));
    assert_eq!((it.standing, it.status.ready), (Standing::Updating, true));
    let ready = conditions(&[it], "");
    assert_eq!(ready[0].status, ConditionStatus::True);
    assert_eq!((ready[2].type_, ready[2].status), (types::FARGATE_PROFILE_CREATING, ConditionStatus::True));
}

#[test]
fn a_rotation_without_a_free_slot_has_a_reason_of_its_own() {
    let full = json!({"observedGeneration": 1, "outputs": {"fargate_profile_name": "apps-0a0b0c"},
        "lastError": {"class": "Quota", "code": "ResourceLimitExceededException", "message": "10 are allowed"}});
    let it = judged(&full, Some(view("ACTIVE", &[])));
    assert_eq!((it.standing, it.status.ready), (Standing::Failed, true));
    assert_eq!(it.status.failure_reason.as_deref(), Some("RotationNeedsSlot"));
}

#[test]
fn what_passes_by_itself_is_no_failure() {
    let busy = json!({"observedGeneration": 1, "lastError": {"class": "Wait", "message": "in use",
        "retryAt": "2026-11-01T10:00:00Z"}});
    let it = judge(&profile(Some(&apply(&busy))), &Known::default(), None);
    assert_eq!(it.standing, Standing::Creating);
    assert!(it.note.contains("tried again at"), "{}", it.note);
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
    let it = judge(&profile(Some(&apply(&settled()))), &Known::default(), Some(&before));
    assert_eq!(
        (it.standing, it.status.ready, it.status.arn.as_deref()),
        (Standing::Ready, true, Some("arn:apps"))
    );
}

#[test]
fn one_that_goes_tells_why_it_does_not() {
    let gone = apply(&json!({"observedGeneration": 1,
        "lastError": {"class": "Unknown", "message": "pods hang on it"}}));
    let dropped = Profile { is_dropped: true, ..profile(Some(&gone)) };
    let stuck = Known {
        profiles: [("apps".to_owned(), view("DELETE_FAILED", &[("InternalFailure", "later")]))].into(),
        ..Known::default()
    };
    let it = judge(&dropped, &stuck, None);
    assert_eq!((it.standing, it.status.ready), (Standing::Removing, false));
    assert!(
        it.note.contains("DELETE_FAILED; InternalFailure: later") && it.note.contains("pods hang on it"),
        "{}",
        it.note
    );
    assert_eq!(it.status.failure_reason.as_deref(), Some("InternalFailure"));
}

#[test]
fn a_template_may_tell_the_arn_alone() {
    let outputs =
        json!({"fargate_profile_arn": "arn:aws:eks:eu-central-1:1:fargateprofile/demo/apps-0a0b0c/uuid"});
    let it = judged(&done(&outputs), Some(view("ACTIVE", &[])));
    assert!(it.status.ready);
}

fn named(name: &str, found: Option<Found<ProfileView>>) -> Judged {
    let mut it = judged(&settled(), found);
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
    let said: Vec<Said> = conditions(&all, "EKS has others: theirs");
    let of = |type_: &str| said.iter().find(|it| it.type_ == type_).unwrap();
    for type_ in [types::FARGATE_PROFILES_READY, types::FARGATE_PROFILE_READY] {
        let ready = of(type_);
        assert_eq!(ready.status, ConditionStatus::False);
        assert_eq!(ready.reason, "FargateProfileFailed");
        assert!(
            ready.message.contains("bad: EKS says CREATE_FAILED; AccessDenied: you may not pass the role")
        );
        assert!(ready.message.ends_with("EKS has others: theirs") && !ready.message.contains("good"));
    }
    assert_eq!(of(types::FARGATE_PROFILE_FAILED).status, ConditionStatus::True);
    assert!(!of(types::FARGATE_PROFILE_FAILED).message.contains("new"));
    assert!(of(types::FARGATE_PROFILE_CREATING).message.starts_with("new"));
}

#[test]
fn no_profiles_are_all_ready() {
    let said = conditions(&[], "");
    assert_eq!(
        said.iter().map(|it| it.status).collect::<Vec<_>>(),
        [ConditionStatus::True, ConditionStatus::True, ConditionStatus::False, ConditionStatus::False]
    );
}

#[test]
fn profiles_of_others_are_seen_and_rotations_are_ours() {
    let names = ["apps", "apps-0a0b0c", "apps-ffffff", "system", "theirs", "apps-canary", "apps-x-ffffff"];
    let known = Known { all_profiles: Some(names.map(str::to_owned).to_vec()), ..known(None) };
    let ours = [named("apps", Some(view("ACTIVE", &[])))];
    assert_eq!(strangers(&known, &ours, &["system".to_owned()]), ["theirs", "apps-canary", "apps-x-ffffff"]);
}
