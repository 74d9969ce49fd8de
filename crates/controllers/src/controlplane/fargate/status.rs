//! Status and conditions of Fargate profiles. Pure.
//!
//! A successful Terraform run is not enough: a profile is ready only if EKS reports it as ACTIVE.

use capt_engine::aws::{EksFargateProfile, EksIssue};
use capt_kinds::api::{
    FargateProfileStatus, HealthIssue, WorkspaceTemplateApply,
    conditions::{reasons, types},
};
use capt_kube::k8s::conditions::ConditionUpdate;

use crate::{
    common::workspace_summary::{self, WorkspaceSummary, string_output},
    controlplane::eks_poll::{EksFacts, EksLookup},
};

/// A profile of the spec, or one removed from it whose workspace still exists.
#[derive(Debug, Clone)]
pub(crate) struct ManagedProfile<'a> {
    /// Its name in the spec.
    pub name: String,
    /// Name of its `WorkspaceTemplateApply`.
    pub apply_name: String,
    /// Its workspace.
    pub workspace: Option<&'a WorkspaceTemplateApply>,
    /// Why its workspace cannot be created.
    pub rejection: Option<String>,
    /// It was removed from the spec.
    pub is_removed: bool,
}

/// State of a profile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ProfileState {
    /// It exists as requested.
    Ready,
    /// It exists, and a change is in progress.
    Updating,
    /// It does not exist yet.
    Creating,
    /// It has a problem.
    Failed,
    /// It is being deleted.
    Removing,
}

/// Assessment of a profile.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ProfileAssessment {
    /// Its entry in the status.
    pub status: FargateProfileStatus,
    /// Its state.
    pub state: ProfileState,
    /// Condition message.
    pub message: String,
    /// It is missing or `CREATE_FAILED` in EKS although its workspace is up to date.
    pub is_lost: bool,
}

impl ProfileAssessment {
    /// Marks it as failed because its workspace was rejected.
    pub(crate) fn mark_failed(&mut self, why: String) {
        self.state = ProfileState::Failed;
        self.status.failure_reason = Some(reasons::WORKSPACE_ERROR.to_owned());
        self.status.failure_message = Some(why.clone());
        self.message = why;
    }
}

/// The current name of a profile in EKS.
pub(crate) fn eks_name(profile: &ManagedProfile<'_>, previous: Option<&FargateProfileStatus>) -> String {
    let told = profile.workspace.and_then(|apply| {
        let by_arn = || string_output(apply, "fargate_profile_arn")?.split('/').nth(2);
        string_output(apply, "fargate_profile_name").or_else(by_arn)
    });
    let before = previous.and_then(|status| status.profile_name.as_deref());
    told.or(before).unwrap_or(&profile.name).to_owned()
}

/// Assesses a profile by its workspace and EKS. Without an EKS response the previous status is kept.
pub(crate) fn assess_profile(
    profile: &ManagedProfile<'_>,
    known: &EksFacts,
    previous: Option<&FargateProfileStatus>,
) -> ProfileAssessment {
    let name = eks_name(profile, previous);
    let found = known.profiles.get(&name);
    let finding = profile.workspace.map(workspace_summary::summarize);
    let mut status = base_status(profile, found, previous);
    status.profile_name = found.and_then(EksLookup::present).map_or(status.profile_name, |_| Some(name));
    let (standing, why) = profile_state(profile, found, finding.as_ref(), &status);
    if matches!(standing, ProfileState::Failed) || (standing == ProfileState::Removing && why.is_some()) {
        status.failure_reason = Some(failure_reason(profile, found, finding.as_ref(), &status));
        status.failure_message.clone_from(&why);
    }
    let done = finding
        .as_ref()
        .is_some_and(|finding| finding.available && finding.up_to_date && finding.problem.is_none());
    let is_lost = done
        && !profile.is_removed
        && found.is_some_and(|found| found.present().is_none_or(|view| view.status == "CREATE_FAILED"));
    let doing = || finding.as_ref().map(|finding| finding.message().to_owned()).unwrap_or_default();
    let note = why.unwrap_or_else(|| if standing == ProfileState::Ready { String::new() } else { doing() });
    ProfileAssessment { status, state: standing, message: note, is_lost }
}

/// The status that EKS reports, else the previous one.
fn base_status(
    profile: &ManagedProfile<'_>,
    found: Option<&EksLookup<EksFargateProfile>>,
    previous: Option<&FargateProfileStatus>,
) -> FargateProfileStatus {
    let named = FargateProfileStatus {
        name: profile.name.clone(),
        workspace_template_apply_name: Some(profile.apply_name.clone()),
        ..FargateProfileStatus::default()
    };
    match (found, previous) {
        (Some(EksLookup::Present(view)), _) => FargateProfileStatus {
            ready: view.status == "ACTIVE" && view.issues.is_empty() && !profile.is_removed,
            status: Some(view.status.clone()),
            arn: Some(view.arn.clone()).filter(|arn| !arn.is_empty()),
            health_issues: view.issues.iter().map(health_issue).collect(),
            ..named
        },
        (None, Some(previous)) => FargateProfileStatus {
            ready: previous.ready && !profile.is_removed,
            status: previous.status.clone(),
            arn: previous.arn.clone(),
            profile_name: previous.profile_name.clone(),
            health_issues: previous.health_issues.clone(),
            ..named
        },
        (Some(EksLookup::NotFound) | None, _) => named,
    }
}

fn health_issue(issue: &EksIssue) -> HealthIssue {
    let EksIssue { code, message, resource_ids } = issue.clone();
    HealthIssue { code, message, resource_ids }
}

/// The state, and a message if it is not ready.
fn profile_state(
    profile: &ManagedProfile<'_>,
    found: Option<&EksLookup<EksFargateProfile>>,
    finding: Option<&WorkspaceSummary>,
    status: &FargateProfileStatus,
) -> (ProfileState, Option<String>) {
    if let Some(why) = &profile.rejection {
        return (ProfileState::Failed, Some(why.clone()));
    }
    let trouble = finding.and_then(|finding| finding.problem.as_ref());
    let unhealthy = health_problem(status);
    if profile.is_removed {
        let words =
            [unhealthy, trouble.map(|it| it.message.clone())].into_iter().flatten().collect::<Vec<_>>();
        return (ProfileState::Removing, (!words.is_empty()).then(|| words.join("; ")));
    }
    let Some(finding) = finding else { return (ProfileState::Creating, None) };
    let done = finding.available && finding.up_to_date;
    if let Some(why) = unhealthy {
        let why = trouble.map_or_else(|| why.clone(), |trouble| format!("{why}; {}", trouble.message));
        return (ProfileState::Failed, Some(why));
    }
    if let Some(failure) = finding.failure() {
        return (ProfileState::Failed, Some(failure.message.clone()));
    }
    match found {
        Some(EksLookup::NotFound) if done => {
            let why = "created by Terraform but not found in EKS; a new run is requested";
            (ProfileState::Failed, Some(why.to_owned()))
        }
        _ if status.ready && done => (ProfileState::Ready, None),
        _ if status.ready => (ProfileState::Updating, None),
        None if done => (ProfileState::Creating, Some("EKS has not reported its status yet".to_owned())),
        _ => (
            ProfileState::Creating,
            status.status.as_ref().filter(|_| done).map(|it| format!("EKS reports {it}")),
        ),
    }
}

/// Failed state and health issues, in the words of EKS.
fn health_problem(status: &FargateProfileStatus) -> Option<String> {
    let state = status.status.as_deref().unwrap_or_default();
    let failed = state.ends_with("_FAILED");
    if !failed && status.health_issues.is_empty() {
        return None;
    }
    let issues = status.health_issues.iter().map(|issue| format!("{}: {}", issue.code, issue.message));
    let words: Vec<String> =
        failed.then(|| format!("EKS reports {state}")).into_iter().chain(issues).collect();
    Some(words.join("; "))
}

/// Failure reason: the AWS code if there is one.
fn failure_reason(
    profile: &ManagedProfile<'_>,
    found: Option<&EksLookup<EksFargateProfile>>,
    finding: Option<&WorkspaceSummary>,
    status: &FargateProfileStatus,
) -> String {
    let error = profile.workspace.and_then(|apply| apply.status.as_ref()?.last_error.as_ref());
    let code = error.and_then(|error| error.code.as_deref());
    // The profile quota has no free slot for the replacement.
    if code == Some("ResourceLimitExceededException") && found.is_some_and(|it| it.present().is_some()) {
        return reasons::ROTATION_NEEDS_SLOT.to_owned();
    }
    let issue = status.health_issues.first().map(|issue| issue.code.clone());
    let state = status.status.clone().filter(|state| state.ends_with("_FAILED"));
    let lost = (found == Some(&EksLookup::NotFound)
        && finding.is_some_and(|it| it.up_to_date && it.problem.is_none()))
    .then(|| reasons::EKS_NOT_FOUND.to_owned());
    let said = issue.or(state).or_else(|| code.map(str::to_owned)).or(lost);
    said.or_else(|| error.map(|error| error.class.to_string()))
        .unwrap_or_else(|| reasons::FARGATE_PROFILE_FAILED.to_owned())
}

/// Profiles in EKS that the control plane does not manage. A rotation creates a profile whose name is known only after the run,
/// so that names of the form `<name>-<hash>` count as managed.
pub(crate) fn unmanaged_profiles(
    known: &EksFacts,
    judged: &[ProfileAssessment],
    own: &[String],
) -> Vec<String> {
    let is_ours = |name: &String| {
        own.contains(name)
            || judged.iter().any(|it| {
                let rotated = name.rsplit_once('-').is_some_and(|(plain, hash)| {
                    hash.len() == 6
                        && hash.bytes().all(|byte| byte.is_ascii_hexdigit())
                        && it.status.name.starts_with(plain)
                        && (plain.len() == it.status.name.len() || plain.len() == 93)
                });
                it.status.name == *name || it.status.profile_name.as_ref() == Some(name) || rotated
            })
    };
    known.profile_names.iter().flatten().filter(|name| !is_ours(name)).cloned().collect()
}

/// The conditions over all profiles; `note` is appended to their messages.
pub(crate) fn profile_conditions(judged: &[ProfileAssessment], note: &str) -> Vec<ConditionUpdate> {
    let named = |standings: &[ProfileState]| -> Vec<String> {
        let picked = judged.iter().filter(|it| standings.contains(&it.state));
        picked
            .map(|it| match it.message.as_str() {
                "" => it.status.name.clone(),
                note => format!("{}: {note}", it.status.name),
            })
            .collect()
    };
    let failed = named(&[ProfileState::Failed]);
    let coming = named(&[ProfileState::Creating]);
    let changing = named(&[ProfileState::Creating, ProfileState::Updating]);
    let with_note = |words: Vec<String>| {
        words
            .into_iter()
            .chain([note.to_owned()].into_iter().filter(|it| !it.is_empty()))
            .collect::<Vec<_>>()
            .join("; ")
    };
    let ready = |type_: &'static str| match (failed.is_empty(), coming.is_empty()) {
        (false, _) => ConditionUpdate::status_false(
            type_,
            reasons::FARGATE_PROFILE_FAILED,
            with_note([failed.clone(), coming.clone()].concat()),
        ),
        (true, false) => {
            ConditionUpdate::status_false(type_, reasons::FARGATE_PROFILE_CREATING, with_note(coming.clone()))
        }
        (true, true) if judged.is_empty() => {
            ConditionUpdate::status_true(type_, reasons::NO_FARGATE_PROFILES, with_note(Vec::new()))
        }
        (true, true) => ConditionUpdate::status_true(
            type_,
            reasons::FARGATE_PROFILE_READY,
            with_note(named(&[ProfileState::Removing])),
        ),
    };
    let some = |type_: &'static str, reason: &'static str, words: Vec<String>| {
        if words.is_empty() {
            ConditionUpdate::status_false(
                type_,
                if judged.is_empty() { reasons::NO_FARGATE_PROFILES } else { reasons::READY },
                "",
            )
        } else {
            ConditionUpdate::status_true(type_, reason, words.join("; "))
        }
    };
    vec![
        ready(types::FARGATE_PROFILES_READY),
        ready(types::FARGATE_PROFILE_READY),
        some(types::FARGATE_PROFILE_CREATING, reasons::FARGATE_PROFILE_CREATING, changing),
        some(types::FARGATE_PROFILE_FAILED, reasons::FARGATE_PROFILE_FAILED, failed.clone()),
    ]
}
