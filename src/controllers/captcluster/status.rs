//! What is said of a network. Pure: the old status and what was found in, the new status out.

use std::time::Duration;

use jiff::Timestamp;
use kube::ResourceExt as _;

use super::validate::Refusal;
use crate::{
    api::{
        CaptClusterStatus, ClusterInitialization, FailureDomain, Phase, VpcWorkspaceStatus,
        WorkspaceTemplateApply,
        conditions::{reasons, types},
    },
    controllers::common::workspace::{self, Finding},
    k8s::conditions::{self, Said},
    model::names,
};

/// Most zones that a status may name.
const MOST_DOMAINS: usize = 100;

/// Which object, when.
#[derive(Debug, Clone, Copy)]
pub(super) struct Moment {
    /// The generation that is talked about.
    pub generation: Option<i64>,
    /// The time.
    pub now: Timestamp,
}

/// What was found of a network that shall be there.
#[derive(Debug, Clone)]
pub(super) struct Found<'a> {
    /// Its workspace.
    pub apply: Option<&'a WorkspaceTemplateApply>,
    /// It was there before.
    pub is_existing: bool,
    /// Id of the VPC.
    pub vpc_id: Option<String>,
    /// Why its workspace cannot be as it should.
    pub refused: Option<Refusal>,
    /// What has to happen before its workspace can be as it should.
    pub waiting: Option<String>,
    /// It takes longer than this.
    pub overdue: Option<Duration>,
    /// Host of the cluster's API.
    pub endpoint: Option<&'a str>,
}

/// What is thought of a network.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Verdict {
    /// It is there.
    Good { note: String },
    /// It is there, and not as asked for.
    Hindered { reason: &'static str, why: String },
    /// It is not there yet.
    Coming { why: String },
    /// It should be there by now.
    Late { why: String },
    /// It cannot be made.
    Failed { reason: &'static str, why: String },
}

/// The status of an object that nobody owns yet.
pub(super) fn waiting_for_owner(old: &CaptClusterStatus, at: Moment, why: &str) -> CaptClusterStatus {
    let mut new = begin(old, at);
    say(&mut new, at, Said::no(types::READY, reasons::WAITING_FOR_OWNER, why));
    new.phase = new.phase.or(Some(Phase::Creating));
    new.ready = Some(false);
    new
}

/// The status of an object that is left alone: all else stays as it was.
pub(super) fn paused(old: &CaptClusterStatus, at: Moment) -> CaptClusterStatus {
    let mut new = old.clone();
    let why = "the Cluster, or this object, is paused";
    say(&mut new, at, Said::yes(types::PAUSED, reasons::PAUSED, why));
    new
}

/// The status of an object that asks for what cannot be.
pub(super) fn invalid(old: &CaptClusterStatus, at: Moment, refusal: &Refusal) -> CaptClusterStatus {
    let mut new = begin(old, at);
    let Refusal { reason, message } = refusal;
    if !conditions::is_true(&new.conditions, types::VPC_READY) {
        say(&mut new, at, Said::no(types::VPC_READY, reason, message));
    }
    fail(&mut new, at, reason, message);
    new.phase = Some(phase(&new, false, false));
    new
}

/// The status of an object that is looked after.
pub(super) fn observed(old: &CaptClusterStatus, at: Moment, found: &Found<'_>) -> CaptClusterStatus {
    let mut new = begin(old, at);
    let finding = found.apply.map(workspace::look);
    if let Some(apply) = found.apply {
        new.vpc_workspace_name = Some(names::workspace(&apply.name_any()).to_owned());
        new.workspace_template_status = Some(workspace_status(old, apply, finding.as_ref()));
    }
    new.endpoint = found.endpoint.map(ToOwned::to_owned).or(new.endpoint);
    let verdict = verdict(found, finding.as_ref(), provisioned(old));
    if matches!(verdict, Verdict::Good { .. } | Verdict::Hindered { .. }) {
        exists(&mut new, found);
    }
    pronounce(&mut new, at, verdict, found);
    let settled = finding.is_some_and(|finding| finding.settled);
    new.phase = Some(phase(&new, false, settled));
    new
}

/// The status of an object that goes.
pub(super) fn deleting(
    old: &CaptClusterStatus,
    at: Moment,
    reason: &'static str,
    why: &str,
) -> CaptClusterStatus {
    let mut new = begin(old, at);
    say(&mut new, at, Said::yes(types::DELETING, reason, why));
    say(&mut new, at, Said::no(types::READY, reasons::DELETING, why));
    new.ready = Some(false);
    new.phase = Some(phase(&new, true, false));
    new
}

/// Where the object is in its life. Only what was said before is asked.
fn phase(status: &CaptClusterStatus, is_deleting: bool, is_settled: bool) -> Phase {
    if is_deleting {
        Phase::Deleting
    } else if status.failure_reason.is_some() {
        Phase::Failed
    } else if !provisioned(status) {
        Phase::Creating
    } else if is_settled && status.ready == Some(true) {
        Phase::Ready
    } else {
        Phase::Updating
    }
}

fn verdict(found: &Found<'_>, finding: Option<&Finding>, was_there: bool) -> Verdict {
    let usable = finding.is_some_and(|finding| finding.usable) && found.vpc_id.is_some();
    let failure = finding.and_then(Finding::failure);
    if let Some(Refusal { reason, message }) = &found.refused {
        let (reason, why) = (*reason, message.clone());
        return if usable { Verdict::Hindered { reason, why } } else { Verdict::Failed { reason, why } };
    }
    if let Some(why) = &found.waiting {
        return Verdict::Coming { why: why.clone() };
    }
    let Some(finding) = finding else {
        return Verdict::Coming { why: "its WorkspaceTemplateApply is being made".to_owned() };
    };
    if let Some(failure) = failure {
        let why = failure.text.clone();
        let broke = if was_there { reasons::VPC_RECONCILIATION_FAILED } else { reasons::VPC_CREATION_FAILED };
        return if usable {
            Verdict::Hindered { reason: reasons::VPC_RECONCILIATION_FAILED, why }
        } else {
            Verdict::Failed { reason: broke, why }
        };
    }
    if usable {
        let note = finding.trouble.as_ref().map(|it| it.text.clone()).unwrap_or_default();
        return Verdict::Good { note };
    }
    if finding.usable && finding.settled {
        let why =
            "the workspace is ready and has no output vpc_id that is text; add it to the template".to_owned();
        return Verdict::Failed { reason: reasons::VPC_CREATION_FAILED, why };
    }
    let why = finding.text().to_owned();
    match found.overdue.filter(|_| !was_there) {
        Some(limit) => Verdict::Late {
            why: format!("not ready after {} minutes and still at it: {why}", limit.as_secs() / 60),
        },
        None => Verdict::Coming { why },
    }
}

/// Puts a verdict into conditions and the fields for people.
fn pronounce(new: &mut CaptClusterStatus, at: Moment, verdict: Verdict, found: &Found<'_>) {
    let there = if found.is_existing { reasons::EXISTING_VPC_USED } else { reasons::VPC_CREATED };
    let id = found.vpc_id.clone().unwrap_or_default();
    match verdict {
        Verdict::Good { note } => {
            say(new, at, Said::yes(types::VPC_READY, there, id));
            succeed(new, at, &note);
        }
        Verdict::Hindered { reason, why } => {
            say(new, at, Said::yes(types::VPC_READY, there, id));
            fail(new, at, reason, &why);
        }
        Verdict::Coming { why } => {
            say(new, at, Said::no(types::VPC_READY, reasons::VPC_CREATING, why.as_str()));
            say(new, at, Said::no(types::READY, reasons::VPC_CREATING, why));
            recover(new);
            new.ready = Some(false);
        }
        Verdict::Late { why } => {
            say(new, at, Said::no(types::VPC_READY, reasons::VPC_READY_TIMEOUT, why.as_str()));
            say(new, at, Said::no(types::READY, reasons::VPC_READY_TIMEOUT, why.as_str()));
            recover(new);
            new.ready = Some(false);
            new.failure_reason = Some(reasons::VPC_READY_TIMEOUT.to_owned());
            new.failure_message = Some(why);
        }
        Verdict::Failed { reason, why } => {
            say(new, at, Said::no(types::VPC_READY, reason, why.as_str()));
            fail(new, at, reason, &why);
        }
    }
}

/// What is said of every object that is worked on.
fn begin(old: &CaptClusterStatus, at: Moment) -> CaptClusterStatus {
    let mut new = old.clone();
    new.observed_generation = at.generation;
    say(&mut new, at, Said::no(types::PAUSED, reasons::NOT_PAUSED, ""));
    if !conditions::is_true(&new.conditions, types::DELETING) {
        say(&mut new, at, Said::no(types::DELETING, reasons::NOT_DELETING, ""));
    }
    new
}

/// What is known of a network that is there. The latch closes here, and nothing opens it.
fn exists(new: &mut CaptClusterStatus, found: &Found<'_>) {
    new.initialization = Some(ClusterInitialization { provisioned: Some(true) });
    new.vpc_id.clone_from(&found.vpc_id);
    let mut zones = found.apply.map(|apply| workspace::list_output(apply, "azs")).unwrap_or_default();
    zones.sort_unstable();
    zones.dedup();
    let domain = |zone: &str| FailureDomain {
        name: zone.to_owned(),
        control_plane: Some(true),
        ..FailureDomain::default()
    };
    new.failure_domains = zones.into_iter().take(MOST_DOMAINS).map(domain).collect();
}

fn succeed(new: &mut CaptClusterStatus, at: Moment, note: &str) {
    say(new, at, Said::yes(types::READY, reasons::READY, note));
    recover(new);
    new.ready = Some(true);
}

fn fail(new: &mut CaptClusterStatus, at: Moment, reason: &'static str, why: &str) {
    let kind = match reason {
        reasons::INVALID_SPEC | reasons::INVALID_VPC_CONFIG => reason,
        _ => reasons::VPC_RECONCILIATION_FAILED,
    };
    say(new, at, Said::no(types::READY, reason, why));
    say(new, at, Said::yes(types::VPC_FAILED, kind, why));
    new.ready = Some(false);
    new.failure_reason = Some(reason.to_owned());
    new.failure_message = Some(why.to_owned());
}

fn recover(new: &mut CaptClusterStatus) {
    conditions::remove(&mut new.conditions, types::VPC_FAILED);
    new.failure_reason = None;
    new.failure_message = None;
}

fn workspace_status(
    old: &CaptClusterStatus,
    apply: &WorkspaceTemplateApply,
    finding: Option<&Finding>,
) -> VpcWorkspaceStatus {
    let before = old.workspace_template_status.clone().unwrap_or_default();
    let status = apply.status.as_ref();
    let applied = status.and_then(|status| status.last_applied_time.clone());
    let trouble = finding.and_then(|finding| finding.trouble.as_ref());
    let failed = status.and_then(|status| status.run.as_ref()).and_then(|run| run.inputs_hash.clone());
    VpcWorkspaceStatus {
        ready: Some(finding.is_some_and(|finding| finding.usable && finding.trouble.is_none())),
        last_applied_revision: applied.as_ref().map(|at| at.0.to_string()).or(before.last_applied_revision),
        last_failed_revision: match trouble {
            Some(_) => failed.or(before.last_failed_revision),
            None => before.last_failed_revision,
        },
        last_failure_message: trouble.map(|it| it.text.clone()),
        workspace_name: Some(names::workspace(&apply.name_any()).to_owned()),
        last_applied_time: applied.or(before.last_applied_time),
    }
}

/// Whether the network was complete once.
pub(super) fn provisioned(status: &CaptClusterStatus) -> bool {
    status.initialization.as_ref().is_some_and(|it| it.provisioned == Some(true))
}

fn say(status: &mut CaptClusterStatus, at: Moment, said: Said) {
    let _ = conditions::set(&mut status.conditions, said, at.generation, at.now);
}

#[cfg(test)]
mod tests;
