//! A Sandbox whose forks live in another cluster: it has a likeness there, and says what that says.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use kube::{ResourceExt as _, runtime::controller::Action};
use sandbox::{
    api::{Sandbox, SandboxStatus, conditions::reasons, names},
    refusal::Refusal,
    validate::validate,
};

use super::{
    context::Context,
    far::{self, Far, Found},
    likeness::{self, Whose},
    look::kind,
    refuse,
    refused::Stop,
    rivals,
    status::{self, Moment, Observed},
    waiting, write,
};
use crate::{
    controllers::common::{
        applied,
        step::{Step, Stopped},
    },
    error::Class,
    k8s::{K8sError, Removal},
};

/// How long another cluster may be out of reach before its forks are left to themselves.
const PATIENCE: Duration = Duration::from_mins(10);
/// How often it is tried to remove something there.
const AGAIN: Duration = Duration::from_secs(5);
/// How often it is tried to reach a cluster that is out of reach.
const RETRY: SignedDuration = SignedDuration::from_secs(15);

/// What came of a likeness.
enum Sent {
    /// It stands there.
    Stands(Box<Sandbox>),
    /// It cannot be made yet.
    Waits(String),
    /// It cannot be made yet, and nobody tells when it can.
    Away(String),
    /// It cannot be made.
    Refused(Refusal),
}

/// Lets the likeness of a Sandbox be as the Sandbox is, and says what it says.
pub(super) async fn look_after(
    object: &Sandbox,
    key: &str,
    at: Moment,
    ctx: &Context,
) -> Result<(SandboxStatus, Option<Timestamp>), Stopped> {
    let observed = Observed { key: key.to_owned(), ..Observed::default() };
    // validate (no client required)
    let verdict = validate(object).and_then(|()| rivals::check(object, key, &ctx.rivals(key)));
    if let Err(refusal) = verdict {
        return Ok((status::observed(object, refuse(observed, &refusal), at), None));
    }
    // place (client required)
    let sent = match far::find(object, ctx).await.map_err(Step::Dereference.stopped())? {
        Found::Here(far) => match send(object, key, &far).await {
            Err(error) if is_out_of_reach(&error) => Sent::Away(far::told(&error)),
            other => other.map_err(Step::Act.stopped())?,
        },
        Found::NotReady(why) | Found::Gone(why) => Sent::Waits(why),
        Found::Away(why) => Sent::Away(why),
    };
    let wake = matches!(sent, Sent::Away(_)).then(|| at.now.saturating_add(RETRY).unwrap_or(at.now));
    // status (no client required)
    let waits = |why: String| {
        let findings = waiting(reasons::CLUSTER_NOT_READY, why);
        status::observed(object, Observed { findings, ..observed.clone() }, at)
    };
    let said = match sent {
        Sent::Stands(there) => likeness::said(object, &there, at)
            .unwrap_or_else(|| waits("its cluster has not looked at it yet".to_owned())),
        Sent::Waits(why) | Sent::Away(why) => waits(why),
        Sent::Refused(refusal) => status::observed(object, refuse(observed, &refusal), at),
    };
    Ok((said, wake))
}

/// Makes the likeness, or brings it up to date.
async fn send(object: &Sandbox, key: &str, far: &Far) -> Result<Sent, K8sError> {
    let wanted = match likeness::wanted(object, key) {
        Ok(wanted) => wanted,
        Err(refusal) => return Ok(Sent::Refused(refusal)),
    };
    let there = in_place(object, far).await?;
    match there.as_ref().map(|it| likeness::whose(object, it)) {
        Some(Whose::Theirs) => {
            let why = format!("a Sandbox of this name is in the cluster {} already", far.cluster);
            return Ok(Sent::Refused(Refusal::new(reasons::NAME_TAKEN, why)));
        }
        Some(Whose::Stale) => {
            if let Some(there) = there {
                far.kube.delete(&there, Removal::Background).await?;
            }
            return Ok(Sent::Waits("an earlier Sandbox of this name is leaving its cluster".to_owned()));
        }
        Some(Whose::Ours) | None => {}
    }
    if let Some(there) = there.filter(|it| !is_to_write(it, &wanted)) {
        return Ok(Sent::Stands(Box::new(there)));
    }
    match far.kube.apply_dynamic(&kind::<Sandbox>(), names::FIELD_MANAGER, &wanted).await {
        Ok(made) => {
            let made = serde_json::to_value(&made).and_then(serde_json::from_value);
            let waits = |_| Sent::Waits("its cluster tells of it in words that nobody knows".to_owned());
            Ok(made.map_or_else(waits, |it| Sent::Stands(Box::new(it))))
        }
        Err(K8sError::NotFound { .. }) => {
            let namespace = object.namespace().unwrap_or_default();
            Ok(Sent::Away(format!("there is no namespace {namespace} in the cluster {}", far.cluster)))
        }
        Err(error) => {
            let what = format!("it in the cluster {}", far.cluster);
            Ok(Sent::Refused(match Stop::at(&what)(error) {
                Stop::Refused(refusal) => refusal,
                Stop::Failed(error) => return Err(error),
            }))
        }
    }
}

fn is_to_write(there: &Sandbox, wanted: &kube::core::DynamicObject) -> bool {
    match (serde_json::to_value(there), serde_json::to_value(wanted)) {
        (Ok(live), Ok(wanted)) => applied::differs_from(&live, &wanted, names::FIELD_MANAGER),
        _ => true,
    }
}

async fn in_place(object: &Sandbox, far: &Far) -> Result<Option<Sandbox>, K8sError> {
    far.kube.get(object.namespace().as_deref(), &object.name_any()).await
}

/// What is left of a Sandbox in its cluster.
pub(super) enum Left {
    /// Nothing.
    Nothing,
    /// Something that is not waited for any longer.
    Abandoned(String),
    /// Something that goes; it is to be looked at again after this time.
    Waits(Action),
}

/// Removes the likeness of a Sandbox that has been going for `age`. Never for ever: a cluster that is gone, or that nobody
/// reaches, holds nothing up.
pub(super) async fn remove(
    object: &Sandbox,
    at: Moment,
    age: Duration,
    ctx: &Context,
) -> Result<Left, Stopped> {
    let why = match far::find(object, ctx).await.map_err(Step::Dereference.stopped())? {
        Found::Here(far) => match clean(object, &far).await {
            Ok(None) => return Ok(Left::Nothing),
            Ok(Some(why)) => why,
            Err(error) => far::told(&error),
        },
        Found::NotReady(why) | Found::Away(why) => why,
        Found::Gone(_) => return Ok(Left::Nothing),
    };
    if age >= PATIENCE {
        return Ok(Left::Abandoned(why));
    }
    let why = format!("waiting for its cluster: {why}");
    write(object, &status::terminating(object, &why, at), ctx).await?;
    Ok(Left::Waits(Action::requeue(AGAIN)))
}

fn is_out_of_reach(error: &K8sError) -> bool {
    matches!(error.class(), Class::Transient | Class::Terminal)
}

/// Removes the likeness; says what is still waited for. The controllers there remove what they made for it.
async fn clean(object: &Sandbox, far: &Far) -> Result<Option<String>, K8sError> {
    let there = in_place(object, far).await?;
    let Some(there) = there.filter(|it| likeness::whose(object, it) != Whose::Theirs) else {
        return Ok(None);
    };
    if there.metadata.deletion_timestamp.is_none() {
        far.kube.delete(&there, Removal::Background).await?;
    }
    Ok(in_place(object, far).await?.map(|_| format!("it is leaving the cluster {}", far.cluster)))
}
