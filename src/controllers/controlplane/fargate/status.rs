//! What is said of Fargate profiles. Pure.
//!
//! Terraform is not trusted alone: a profile is ready if EKS says so.

use crate::{
    api::{
        FargateProfileStatus, HealthIssue, WorkspaceTemplateApply,
        conditions::{reasons, types},
    },
    aws::{Issue, ProfileView},
    controllers::{
        common::workspace::{self, Finding, text_output},
        controlplane::look::{Found, Known},
    },
    k8s::conditions::Said,
};

/// A profile of the spec, or one that was in it.
#[derive(Debug, Clone)]
pub(crate) struct Profile<'a> {
    /// Its name in the spec.
    pub name: String,
    /// Name of its workspace.
    pub apply_name: String,
    /// Its workspace.
    pub apply: Option<&'a WorkspaceTemplateApply>,
    /// Why its workspace cannot be made.
    pub refused: Option<String>,
    /// The spec does not name it any more.
    pub is_dropped: bool,
}

/// How a profile stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Standing {
    /// It is there and as it should be.
    Ready,
    /// It is there, and is becoming another one.
    Updating,
    /// It is not there yet.
    Creating,
    /// It is not as it should be, and somebody or time must help.
    Failed,
    /// It goes.
    Removing,
}

/// What is said of a profile.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Judged {
    /// For its entry in the status.
    pub status: FargateProfileStatus,
    /// How it stands.
    pub standing: Standing,
    /// What people should know.
    pub note: String,
    /// EKS lost it, or never finished it, while its workspace thinks that all is well.
    pub is_lost: bool,
}

impl Judged {
    /// Its workspace cannot be as it should.
    pub(crate) fn fail(&mut self, why: String) {
        self.standing = Standing::Failed;
        self.status.failure_reason = Some(reasons::WORKSPACE_ERROR.to_owned());
        self.status.failure_message = Some(why.clone());
        self.note = why;
    }
}

/// The name that a profile has in EKS at present.
pub(crate) fn eks_name(profile: &Profile<'_>, previous: Option<&FargateProfileStatus>) -> String {
    let told = profile.apply.and_then(|apply| {
        let by_arn = || text_output(apply, "fargate_profile_arn")?.split('/').nth(2);
        text_output(apply, "fargate_profile_name").or_else(by_arn)
    });
    let before = previous.and_then(|status| status.profile_name.as_deref());
    told.or(before).unwrap_or(&profile.name).to_owned()
}

/// Judges a profile by its workspace and by EKS. While EKS did not tell, what was said before stands.
pub(crate) fn judge(profile: &Profile<'_>, known: &Known, previous: Option<&FargateProfileStatus>) -> Judged {
    let name = eks_name(profile, previous);
    let found = known.profiles.get(&name);
    let finding = profile.apply.map(workspace::look);
    let mut status = base(profile, found, previous);
    status.profile_name = found.and_then(Found::there).map_or(status.profile_name, |_| Some(name));
    let (standing, why) = standing(profile, found, finding.as_ref(), &status);
    if matches!(standing, Standing::Failed) || (standing == Standing::Removing && why.is_some()) {
        status.failure_reason = Some(reason(profile, found, finding.as_ref(), &status));
        status.failure_message.clone_from(&why);
    }
    let done = finding
        .as_ref()
        .is_some_and(|finding| finding.usable && finding.settled && finding.trouble.is_none());
    let is_lost = done
        && !profile.is_dropped
        && found.is_some_and(|found| found.there().is_none_or(|view| view.status == "CREATE_FAILED"));
    let doing = || finding.as_ref().map(|finding| finding.text().to_owned()).unwrap_or_default();
    let note = why.unwrap_or_else(|| if standing == Standing::Ready { String::new() } else { doing() });
    Judged { status, standing, note, is_lost }
}

/// What EKS says, or said.
fn base(
    profile: &Profile<'_>,
    found: Option<&Found<ProfileView>>,
    previous: Option<&FargateProfileStatus>,
) -> FargateProfileStatus {
    let named = FargateProfileStatus {
        name: profile.name.clone(),
        workspace_template_apply_name: Some(profile.apply_name.clone()),
        ..FargateProfileStatus::default()
    };
    match (found, previous) {
        (Some(Found::There(view)), _) => FargateProfileStatus {
            ready: view.status == "ACTIVE" && view.issues.is_empty() && !profile.is_dropped,
            status: Some(view.status.clone()),
            arn: Some(view.arn.clone()).filter(|arn| !arn.is_empty()),
            health_issues: view.issues.iter().map(health_issue).collect(),
            ..named
        },
        (None, Some(previous)) => FargateProfileStatus {
            ready: previous.ready && !profile.is_dropped,
            status: previous.status.clone(),
            arn: previous.arn.clone(),
            profile_name: previous.profile_name.clone(),
            health_issues: previous.health_issues.clone(),
            ..named
        },
        (Some(Found::Gone) | None, _) => named,
    }
}

fn health_issue(issue: &Issue) -> HealthIssue {
    let Issue { code, message, resource_ids } = issue.clone();
    HealthIssue { code, message, resource_ids }
}

/// How it stands, and why if that is not all right.
fn standing(
    profile: &Profile<'_>,
    found: Option<&Found<ProfileView>>,
    finding: Option<&Finding>,
    status: &FargateProfileStatus,
) -> (Standing, Option<String>) {
    if let Some(why) = &profile.refused {
        return (Standing::Failed, Some(why.clone()));
    }
    let trouble = finding.and_then(|finding| finding.trouble.as_ref());
    let unhealthy = unhealthy(status);
    if profile.is_dropped {
        let words = [unhealthy, trouble.map(|it| it.text.clone())].into_iter().flatten().collect::<Vec<_>>();
        return (Standing::Removing, (!words.is_empty()).then(|| words.join("; ")));
    }
    let Some(finding) = finding else { return (Standing::Creating, None) };
    let done = finding.usable && finding.settled;
    if let Some(why) = unhealthy {
        let why = trouble.map_or_else(|| why.clone(), |trouble| format!("{why}; {}", trouble.text));
        return (Standing::Failed, Some(why));
    }
    if let Some(failure) = finding.failure() {
        return (Standing::Failed, Some(failure.text.clone()));
    }
    match found {
        Some(Found::Gone) if done => {
            let why = "Terraform made it, and EKS does not know it; its workspace is asked to run again";
            (Standing::Failed, Some(why.to_owned()))
        }
        _ if status.ready && done => (Standing::Ready, None),
        _ if status.ready => (Standing::Updating, None),
        None if done => (Standing::Creating, Some("EKS did not say yet whether it is ACTIVE".to_owned())),
        _ => (Standing::Creating, status.status.as_ref().filter(|_| done).map(|it| format!("EKS says {it}"))),
    }
}

/// What EKS finds wrong, in its own words.
fn unhealthy(status: &FargateProfileStatus) -> Option<String> {
    let state = status.status.as_deref().unwrap_or_default();
    let failed = state.ends_with("_FAILED");
    if !failed && status.health_issues.is_empty() {
        return None;
    }
    let issues = status.health_issues.iter().map(|issue| format!("{}: {}", issue.code, issue.message));
    let words: Vec<String> = failed.then(|| format!("EKS says {state}")).into_iter().chain(issues).collect();
    Some(words.join("; "))
}

/// One word for a failure: AWS's if there is one.
fn reason(
    profile: &Profile<'_>,
    found: Option<&Found<ProfileView>>,
    finding: Option<&Finding>,
    status: &FargateProfileStatus,
) -> String {
    let error = profile.apply.and_then(|apply| apply.status.as_ref()?.last_error.as_ref());
    let code = error.and_then(|error| error.code.as_deref());
    // EKS has no room for the new one beside the old one.
    if code == Some("ResourceLimitExceededException") && found.is_some_and(|it| it.there().is_some()) {
        return reasons::ROTATION_NEEDS_SLOT.to_owned();
    }
    let issue = status.health_issues.first().map(|issue| issue.code.clone());
    let state = status.status.clone().filter(|state| state.ends_with("_FAILED"));
    let lost = (found == Some(&Found::Gone) && finding.is_some_and(|it| it.settled && it.trouble.is_none()))
        .then(|| reasons::EKS_NOT_FOUND.to_owned());
    let said = issue.or(state).or_else(|| code.map(str::to_owned)).or(lost);
    said.or_else(|| error.map(|error| error.class.clone()))
        .unwrap_or_else(|| reasons::FARGATE_PROFILE_FAILED.to_owned())
}

/// Profiles that EKS has and nobody of ours made. A rotation makes a profile under a name that is told only when it is
/// done, so that names of that shape are ours too.
pub(crate) fn strangers(known: &Known, judged: &[Judged], own: &[String]) -> Vec<String> {
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
    known.all_profiles.iter().flatten().filter(|name| !is_ours(name)).cloned().collect()
}

/// The conditions that speak for all profiles together; `note` is added to what is said.
pub(crate) fn conditions(judged: &[Judged], note: &str) -> Vec<Said> {
    let named = |standings: &[Standing]| -> Vec<String> {
        let picked = judged.iter().filter(|it| standings.contains(&it.standing));
        picked
            .map(|it| match it.note.as_str() {
                "" => it.status.name.clone(),
                note => format!("{}: {note}", it.status.name),
            })
            .collect()
    };
    let failed = named(&[Standing::Failed]);
    let coming = named(&[Standing::Creating]);
    let changing = named(&[Standing::Creating, Standing::Updating]);
    let with_note = |words: Vec<String>| {
        words
            .into_iter()
            .chain([note.to_owned()].into_iter().filter(|it| !it.is_empty()))
            .collect::<Vec<_>>()
            .join("; ")
    };
    let ready = |type_: &'static str| match (failed.is_empty(), coming.is_empty()) {
        (false, _) => Said::no(
            type_,
            reasons::FARGATE_PROFILE_FAILED,
            with_note([failed.clone(), coming.clone()].concat()),
        ),
        (true, false) => Said::no(type_, reasons::FARGATE_PROFILE_CREATING, with_note(coming.clone())),
        (true, true) if judged.is_empty() => {
            Said::yes(type_, reasons::NO_FARGATE_PROFILES, with_note(Vec::new()))
        }
        (true, true) => {
            Said::yes(type_, reasons::FARGATE_PROFILE_READY, with_note(named(&[Standing::Removing])))
        }
    };
    let some = |type_: &'static str, reason: &'static str, words: Vec<String>| {
        if words.is_empty() {
            Said::no(type_, if judged.is_empty() { reasons::NO_FARGATE_PROFILES } else { reasons::READY }, "")
        } else {
            Said::yes(type_, reason, words.join("; "))
        }
    };
    vec![
        ready(types::FARGATE_PROFILES_READY),
        ready(types::FARGATE_PROFILE_READY),
        some(types::FARGATE_PROFILE_CREATING, reasons::FARGATE_PROFILE_CREATING, changing),
        some(types::FARGATE_PROFILE_FAILED, reasons::FARGATE_PROFILE_FAILED, failed.clone()),
    ]
}
