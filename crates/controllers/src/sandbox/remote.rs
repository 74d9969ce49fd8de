//! Sandboxes whose forks run in a workload cluster: applies a mirror Sandbox there and copies its status back.

use std::time::Duration;

use capt_kinds::sandbox::{Sandbox, SandboxStatus, conditions::reasons, names};
use capt_kube::{
    error::ErrorClass,
    k8s::{DeletionPropagation, K8sError},
};
use jiff::{SignedDuration, Timestamp};
use kube::{ResourceExt as _, runtime::controller::Action};
use sandbox::rejection::Rejection;

use super::{
    apply_error::ApplyError,
    baseline_unresolved,
    context::Context,
    dereference::api_resource,
    mirror::{self, MirrorOwnership},
    remote_clusters::{self, ClusterClient, ClusterLookup},
    status::{self, SandboxObservation, StatusContext},
    validate::validate,
    with_rejection, write_status,
};
use crate::common::{
    apply_diff,
    reconcile_error::{ReconcileError, ReconcileStep},
};

/// How long a workload cluster may be unreachable during deletion before its forks are abandoned.
const ABANDON_AFTER: Duration = Duration::from_mins(10);
/// Retry interval of the remote deletion.
const CLEANUP_RETRY: Duration = Duration::from_secs(5);
/// Retry interval for an unreachable cluster.
const RECONNECT_INTERVAL: SignedDuration = SignedDuration::from_secs(15);

/// The state of the mirror Sandbox.
enum MirrorState {
    /// It exists and is up to date.
    Applied(Box<Sandbox>),
    /// It cannot be applied yet; a watch triggers the next attempt.
    Pending(String),
    /// It cannot be applied yet, and no watch triggers the next attempt.
    Unreachable(String),
    /// The workload cluster rejects it.
    Rejected(Rejection),
}

/// Applies the mirror of a Sandbox and derives the status from it.
pub(super) async fn reconcile_remote(
    object: &Sandbox,
    key: &str,
    at: StatusContext,
    ctx: &Context,
) -> Result<(SandboxStatus, Option<Timestamp>), ReconcileError> {
    let observed = SandboxObservation { key: key.to_owned(), ..SandboxObservation::default() };
    // validate (no client required)
    if let Err(refusal) = validate(object, key, &ctx.claimants(key)) {
        return Ok((status::build_status(object, with_rejection(observed, &refusal), at), None));
    }
    // apply the mirror (client required)
    let sent = match remote_clusters::find_cluster(object, ctx)
        .await
        .map_err(ReconcileStep::Dereference.wrap_error())?
    {
        ClusterLookup::Ready(remote) => match apply_mirror(object, key, &remote).await {
            Err(error) if is_unreachable(&error) => {
                MirrorState::Unreachable(remote_clusters::describe_error(&error))
            }
            other => other.map_err(ReconcileStep::Act.wrap_error())?,
        },
        ClusterLookup::NotReady(why) | ClusterLookup::NotFound(why) => MirrorState::Pending(why),
        ClusterLookup::Unreachable(why) => MirrorState::Unreachable(why),
    };
    let wake = matches!(sent, MirrorState::Unreachable(_))
        .then(|| at.now.saturating_add(RECONNECT_INTERVAL).unwrap_or(at.now));
    // status (no client required)
    let waits = |why: String| {
        let findings = baseline_unresolved(reasons::CLUSTER_NOT_READY, why);
        status::build_status(object, SandboxObservation { conditions: findings, ..observed.clone() }, at)
    };
    let said = match sent {
        MirrorState::Applied(there) => mirror::mirrored_status(object, &there, at).unwrap_or_else(|| {
            waits("not yet observed by the controller in the workload cluster".to_owned())
        }),
        MirrorState::Pending(why) | MirrorState::Unreachable(why) => waits(why),
        MirrorState::Rejected(refusal) => {
            status::build_status(object, with_rejection(observed, &refusal), at)
        }
    };
    Ok((said, wake))
}

/// Creates or updates the mirror.
async fn apply_mirror(object: &Sandbox, key: &str, remote: &ClusterClient) -> Result<MirrorState, K8sError> {
    let wanted = match mirror::build_mirror(object, key) {
        Ok(wanted) => wanted,
        Err(refusal) => return Ok(MirrorState::Rejected(refusal)),
    };
    let there = get_mirror(object, remote).await?;
    match there.as_ref().map(|it| mirror::ownership(object, it)) {
        Some(MirrorOwnership::Foreign) => {
            let why = format!("cluster {} already has a Sandbox with this name", remote.cluster);
            return Ok(MirrorState::Rejected(Rejection::new(reasons::NAME_TAKEN, why)));
        }
        Some(MirrorOwnership::Stale) => {
            if let Some(there) = there {
                remote.kube.delete(&there, DeletionPropagation::Background).await?;
            }
            return Ok(MirrorState::Pending(
                "an earlier Sandbox of this name is still being deleted".to_owned(),
            ));
        }
        Some(MirrorOwnership::Ours) | None => {}
    }
    if let Some(there) = there.filter(|it| !needs_apply(it, &wanted)) {
        return Ok(MirrorState::Applied(Box::new(there)));
    }
    match remote.kube.apply_dynamic(&api_resource::<Sandbox>(), names::FIELD_MANAGER, &wanted).await {
        Ok(made) => {
            let made = serde_json::to_value(&made).and_then(serde_json::from_value);
            let waits =
                |_| MirrorState::Pending("cannot decode the Sandbox returned by its cluster".to_owned());
            Ok(made.map_or_else(waits, |it| MirrorState::Applied(Box::new(it))))
        }
        Err(K8sError::NotFound { .. }) => {
            let namespace = object.namespace().unwrap_or_default();
            Ok(MirrorState::Unreachable(format!(
                "namespace {namespace} does not exist in cluster {}",
                remote.cluster
            )))
        }
        Err(error) => {
            let what = format!("the Sandbox in cluster {}", remote.cluster);
            Ok(MirrorState::Rejected(match ApplyError::classify(&what)(error) {
                ApplyError::Rejected(refusal) => refusal,
                ApplyError::Failed(error) => return Err(error),
            }))
        }
    }
}

fn needs_apply(there: &Sandbox, wanted: &kube::core::DynamicObject) -> bool {
    match (serde_json::to_value(there), serde_json::to_value(wanted)) {
        (Ok(live), Ok(wanted)) => apply_diff::needs_apply_as(&live, &wanted, names::FIELD_MANAGER),
        _ => true,
    }
}

async fn get_mirror(object: &Sandbox, remote: &ClusterClient) -> Result<Option<Sandbox>, K8sError> {
    remote.kube.get(object.namespace().as_deref(), &object.name_any()).await
}

/// Progress of the deletion in the workload cluster.
pub(super) enum RemoteCleanup {
    /// Nothing is left.
    Done,
    /// The cluster stayed unreachable; the reason is reported in an event.
    Abandoned(String),
    /// Deletion is in progress; requeue.
    InProgress(Action),
}

/// Deletes the mirror of a Sandbox that has been terminating for `age`. A deleted or unreachable cluster does not block the
/// finalizer forever.
pub(super) async fn delete_remote(
    object: &Sandbox,
    at: StatusContext,
    age: Duration,
    ctx: &Context,
) -> Result<RemoteCleanup, ReconcileError> {
    let why = match remote_clusters::find_cluster(object, ctx)
        .await
        .map_err(ReconcileStep::Dereference.wrap_error())?
    {
        ClusterLookup::Ready(remote) => match delete_mirror(object, &remote).await {
            Ok(None) => return Ok(RemoteCleanup::Done),
            Ok(Some(why)) => why,
            Err(error) => remote_clusters::describe_error(&error),
        },
        ClusterLookup::NotReady(why) | ClusterLookup::Unreachable(why) => why,
        ClusterLookup::NotFound(_) => return Ok(RemoteCleanup::Done),
    };
    if age >= ABANDON_AFTER {
        return Ok(RemoteCleanup::Abandoned(why));
    }
    let why = format!("waiting for the workload cluster: {why}");
    write_status(object, &status::terminating_status(object, &why, at), ctx).await?;
    Ok(RemoteCleanup::InProgress(Action::requeue(CLEANUP_RETRY)))
}

fn is_unreachable(error: &K8sError) -> bool {
    matches!(error.class(), ErrorClass::Transient | ErrorClass::Terminal)
}

/// Deletes the mirror; returns what is still pending. The controllers in the workload cluster delete its forks.
async fn delete_mirror(object: &Sandbox, remote: &ClusterClient) -> Result<Option<String>, K8sError> {
    let there = get_mirror(object, remote).await?;
    let Some(there) = there.filter(|it| mirror::ownership(object, it) != MirrorOwnership::Foreign) else {
        return Ok(None);
    };
    if there.metadata.deletion_timestamp.is_none() {
        remote.kube.delete(&there, DeletionPropagation::Background).await?;
    }
    let left = get_mirror(object, remote).await?;
    Ok(left.map(|_| format!("deletion is in progress in cluster {}", remote.cluster)))
}
