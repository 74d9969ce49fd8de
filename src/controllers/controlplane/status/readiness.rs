//! What is thought of a control plane as a whole. Pure.

use jiff::{SignedDuration, Timestamp};

use crate::{
    api::{Timeouts, conditions::reasons},
    controllers::controlplane::{
        decide::{Gap, gap},
        look::Found,
        picture::Picture,
        version::Step,
    },
};

/// What is thought of a control plane.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Its workspace did all that was asked of it.
    Applied,
    /// It is on its way, or waits.
    Coming { reason: &'static str, why: String },
    /// It should be there by now; the work goes on.
    Late { reason: &'static str, why: String },
    /// Only a person can help.
    Failed { reason: &'static str, why: String },
}

impl Verdict {
    /// The failure, if it is one.
    pub(super) fn failure(&self) -> Option<(&'static str, &str)> {
        match self {
            Self::Failed { reason, why } => Some((reason, why)),
            Self::Applied | Self::Coming { .. } | Self::Late { .. } => None,
        }
    }

    /// Why not everything asked for exists, as far as the workspace knows.
    pub(super) fn hindrance(&self) -> Option<(&'static str, &str)> {
        match self {
            Self::Applied => None,
            Self::Coming { reason, why } | Self::Late { reason, why } | Self::Failed { reason, why } => {
                Some((reason, why))
            }
        }
    }

    /// What is said of parts that are not there yet.
    pub(super) fn coming(&self) -> (&'static str, String) {
        match self.hindrance() {
            Some((reason, why)) => (reason, why.to_owned()),
            None => (reasons::CREATING, "waiting for EKS".to_owned()),
        }
    }
}

pub(super) fn of(picture: &Picture<'_>) -> Verdict {
    let fail = |reason, why: &str| Verdict::Failed { reason, why: why.to_owned() };
    if let Err(refusal) = &picture.valid {
        return fail(refusal.reason, &refusal.message);
    }
    if let Err(unknown) = &picture.seen.principal {
        let (reason, why) = (reasons::IDENTITY_NOT_ALLOWED, unknown.message.clone());
        return if unknown.is_failure {
            Verdict::Failed { reason, why }
        } else {
            Verdict::Coming { reason, why }
        };
    }
    match gap(picture) {
        Some(Gap::Taken(why)) => return fail(reasons::WORKSPACE_ERROR, &why),
        Some(Gap::Network(why)) => return waiting(picture, why),
        None => {}
    }
    if let Some(Step::Refused { running, wanted }) = &picture.step {
        let why =
            format!("EKS runs {running} and cannot go back to {wanted}; write {running} or a newer version");
        return fail(reasons::DOWNGRADE_REFUSED, &why);
    }
    if let Some(failure) = picture.finding.as_ref().and_then(|finding| finding.failure()) {
        return fail(reasons::WORKSPACE_ERROR, &failure.text);
    }
    if picture.cluster().and_then(Found::there).is_some_and(|view| view.status == "FAILED") {
        return fail(reasons::EKS_UNHEALTHY, "EKS says FAILED: the cluster cannot be used; delete it");
    }
    working(picture)
}

/// The network is not there.
fn waiting(picture: &Picture<'_>, why: String) -> Verdict {
    match deadline(picture).filter(|then| *then <= picture.now) {
        Some(_) => {
            let minutes = timeouts(picture).vpc_ready_timeout;
            let why = format!("not there after {minutes} minutes: {why}");
            Verdict::Late { reason: reasons::VPC_READY_TIMEOUT, why }
        }
        None => Verdict::Coming { reason: reasons::WAITING_FOR_VPC, why },
    }
}

/// The workspace is at it, or done.
fn working(picture: &Picture<'_>) -> Verdict {
    let is_first = !picture.is_initialized();
    let is_late = is_first && deadline(picture).is_some_and(|then| then <= picture.now);
    let doing = match &picture.finding {
        Some(finding) if finding.deleting => "the workspace is being deleted, and made again then".to_owned(),
        Some(finding) => finding.text().to_owned(),
        None => "the WorkspaceTemplateApply is being made".to_owned(),
    };
    if is_late {
        let minutes = timeouts(picture).control_plane_timeout;
        let (reason, at) = (reasons::CONTROL_PLANE_TIMEOUT, if picture.is_applied() { "" } else { &doing });
        let why = format!(
            "not ready after {minutes} minutes, and still at it{}{at}",
            if at.is_empty() { "" } else { ": " }
        );
        return Verdict::Late { reason, why };
    }
    if picture.is_applied() {
        return Verdict::Applied;
    }
    Verdict::Coming { reason: if is_first { reasons::CREATING } else { reasons::UPDATING }, why: doing }
}

fn timeouts(picture: &Picture<'_>) -> Timeouts {
    let config = picture.object.spec.control_plane_config.as_ref();
    config.and_then(|config| config.timeouts.clone()).unwrap_or_default()
}

/// When what is waited for should be there. A time that runs out is an observation; nothing is broken off.
pub(in super::super) fn deadline(picture: &Picture<'_>) -> Option<Timestamp> {
    if picture.is_initialized() {
        return None;
    }
    let (since, minutes) = match &picture.seen.eks {
        Some(eks) => (eks.metadata.creation_timestamp.as_ref(), timeouts(picture).control_plane_timeout),
        None => (picture.object.metadata.creation_timestamp.as_ref(), timeouts(picture).vpc_ready_timeout),
    };
    since?.0.checked_add(SignedDuration::from_mins(minutes)).ok()
}
