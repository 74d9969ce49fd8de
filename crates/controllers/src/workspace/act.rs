//! Publishes the outputs of an applied workspace as its connection Secret, then executes the decision: starts and cancels runs,
//! writes finalizers.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use capt_engine::{
    aws::Principal,
    runs::{BackupStore, RunKind, RunPriority, RunRequest, RunResult, RunSnapshot},
};
use capt_kinds::api::{WorkspaceTemplateApply, WorkspaceTemplateApplyStatus, names};
use capt_kube::k8s::{
    secrets::ConnectionSecret,
    state_store::{StateOwner, StateStoreError},
};
use capt_model::workspaces::WorkspaceKey;
use kube::{Resource, ResourceExt, runtime::controller::Action};
use terraform_driver::output::Outputs;

use super::{
    WorkspaceContext,
    decide::Decision,
    observation::{DestroyIdentity, RunInputs, WorkspaceObservation},
    secret_backup_store::SecretBackupStore,
};
use crate::common::{
    cluster::cluster_name_label,
    reconcile_error::{ReconcileError, ReconcileStep},
};

/// Requeue interval while a run is active. Runs trigger reconciles themselves; this covers a lost notification.
const RESYNC: Duration = Duration::from_mins(1);
/// Requeue delay until a recorded run is seen. The status write triggers the reconcile; this covers a lost notification.
const RECORD_RETRY: Duration = Duration::from_secs(1);

/// Writes the outputs of a successful run to the connection Secret and returns them.
async fn publish_outputs(
    object: &WorkspaceTemplateApply,
    observed: &WorkspaceObservation,
    status: &WorkspaceTemplateApplyStatus,
    ctx: &WorkspaceContext,
) -> Result<Option<Outputs>, ReconcileError> {
    let RunInputs::Resolved(inputs) = &observed.inputs else { return Ok(None) };
    let made = observed.run.as_ref().is_none_or(is_successful) && status.applied == Some(true);
    if !made {
        return Ok(None);
    }
    let found = ctx.runs.outputs(&inputs.job.key).map_err(ReconcileStep::Dereference.wrap_error())?;
    let Some(outputs) = found else { return Ok(None) };
    let writer = object.controller_owner_ref(&());
    if let (Some(target), Some(owner)) = (&inputs.connection_secret, writer) {
        let data: BTreeMap<String, Vec<u8>> = outputs
            .connection_strings()
            .into_iter()
            .map(|(name, value)| (name, value.into_exposed().into_bytes()))
            .collect();
        let labels = cluster_labels(object);
        let wanted = ConnectionSecret { target: target.clone(), data, labels, owner };
        let written = ctx.common.kube.apply_connection_secret(&wanted).await;
        written.map_err(ReconcileStep::Act.wrap_error())?;
    }
    Ok(Some(outputs))
}

const fn is_successful(run: &RunSnapshot) -> bool {
    matches!(run.result, Some(RunResult::Applied | RunResult::Unchanged | RunResult::Differs { .. }))
}

fn cluster_labels(object: &WorkspaceTemplateApply) -> BTreeMap<String, String> {
    let name = cluster_name_label(&object.metadata).map(str::to_owned);
    name.map(|name| (names::CLUSTER_NAME_LABEL.to_owned(), name)).into_iter().collect()
}

/// What became of a decision.
pub struct WorkspaceOutcome {
    /// The object; newer than before if its finalizers were changed.
    pub object: WorkspaceTemplateApply,
    /// Outputs that were published.
    pub outputs: Option<Outputs>,
    /// EKS clusters in the state, if it was read.
    pub eks_cluster_arns: Option<Vec<String>>,
    /// When to reconcile again, or why the decision could not be carried out.
    pub next: Result<Action, ReconcileError>,
}

/// Publishes the outputs of a successful run, then carries out the decision.
pub async fn act(
    object: &WorkspaceTemplateApply,
    key: &WorkspaceKey,
    observed: &WorkspaceObservation,
    (decision, status): (&Decision, &WorkspaceTemplateApplyStatus),
    ctx: &WorkspaceContext,
) -> Result<WorkspaceOutcome, ReconcileError> {
    let outputs = publish_outputs(object, observed, status, ctx).await?;
    let object = match decision {
        Decision::AddFinalizer => {
            let held = ctx.common.kube.add_finalizer(object, names::APPLY_FINALIZER).await;
            held.map_err(ReconcileStep::Hold.wrap_error())?
        }
        _ => object.clone(),
    };
    let clusters = if observed.other_owner.is_none() { eks_cluster_arns(&object, key, ctx) } else { None };
    let next = carry_out(&object, key, observed, (decision, status), ctx).await;
    Ok(WorkspaceOutcome { object, outputs, eks_cluster_arns: clusters, next })
}

/// The EKS clusters in the state, for the control plane that the workspace belongs to.
fn eks_cluster_arns(
    object: &WorkspaceTemplateApply,
    key: &WorkspaceKey,
    ctx: &WorkspaceContext,
) -> Option<Vec<String>> {
    if !object.annotations().contains_key(names::EKS_CLUSTER_ANNOTATION) {
        return None;
    }
    match ctx.runs.eks_cluster_arns(key) {
        Ok(found) => found,
        Err(error) => {
            tracing::warn!(%key, %error, "cannot read the EKS clusters in the state");
            None
        }
    }
}

async fn carry_out(
    object: &WorkspaceTemplateApply,
    key: &WorkspaceKey,
    observed: &WorkspaceObservation,
    (decision, status): (&Decision, &WorkspaceTemplateApplyStatus),
    ctx: &WorkspaceContext,
) -> Result<Action, ReconcileError> {
    match decision {
        Decision::Pause | Decision::Reject(_) | Decision::AddFinalizer => Ok(Action::await_change()),
        Decision::AwaitRun => Ok(Action::requeue(RESYNC)),
        Decision::RecordRun => Ok(Action::requeue(RECORD_RETRY)),
        Decision::CancelRun => {
            ctx.runs.cancel(key);
            Ok(Action::requeue(RESYNC))
        }
        Decision::Wait(_, after) => Ok(Action::requeue(after.unwrap_or(RESYNC))),
        Decision::Idle(after) => Ok(after.map_or_else(Action::await_change, Action::requeue)),
        Decision::StartRun { goal, priority } => {
            if let RunInputs::Resolved(inputs) = &observed.inputs {
                let what = RunKind::Converge { job: Box::new(inputs.job.clone()), goal: goal.clone() };
                start_run(object, key, (what, *priority, inputs.hash.clone()), ctx);
            }
            Ok(Action::requeue(RESYNC))
        }
        Decision::StartDestroy => {
            let what = destroy_kind(observed, status);
            start_run(object, key, (what, RunPriority::Delete, "destroy".to_owned()), ctx);
            Ok(Action::requeue(RESYNC))
        }
        Decision::RemoveFinalizer => release(object, key, observed, ctx).await,
    }
}

/// Gives up a workspace that is destroyed or retained.
async fn release(
    object: &WorkspaceTemplateApply,
    key: &WorkspaceKey,
    observed: &WorkspaceObservation,
    ctx: &WorkspaceContext,
) -> Result<Action, ReconcileError> {
    if observed.other_owner.is_none() {
        release_state(key, observed.retains_resources, ctx).await.map_err(ReconcileStep::Act.wrap_error())?;
    }
    let removed = ctx.common.kube.remove_finalizers(object, &[names::APPLY_FINALIZER]).await;
    removed.map_err(ReconcileStep::Hold.wrap_error())?;
    ctx.reference_index.remove(&WorkspaceKey::new(&key.namespace, &object.name_any()));
    if observed.other_owner.is_none() {
        remove_directory(key, ctx);
    }
    Ok(Action::await_change())
}

fn start_run(
    object: &WorkspaceTemplateApply,
    key: &WorkspaceKey,
    (what, lane, inputs_hash): (RunKind, RunPriority, String),
    ctx: &WorkspaceContext,
) {
    let state_owner = state_owner(object, key);
    let keeper: Arc<dyn BackupStore> = Arc::new(SecretBackupStore {
        journal: ctx.state_store.journal(&state_owner, ctx.fence),
        state_store: ctx.state_store.clone(),
        state_owner,
        fence: ctx.fence,
        metrics: Arc::clone(&ctx.common.metrics),
    });
    let me = WorkspaceKey::new(&key.namespace, &object.name_any());
    let started = ctx.runs.start(RunRequest {
        key: key.clone(),
        object: me,
        priority: lane,
        kind: what,
        inputs_hash,
        backup_store: keeper,
    });
    tracing::debug!(%key, started, "run requested");
}

/// Owner of the state Secrets.
fn state_owner(object: &WorkspaceTemplateApply, key: &WorkspaceKey) -> StateOwner {
    StateOwner {
        namespace: key.namespace.clone(),
        workspace: key.name.clone(),
        owner: object.controller_owner_ref(&()),
        cluster: cluster_name_label(&object.metadata).map(str::to_owned),
    }
}

/// A destroy run. Without an identity nothing was ever applied: should a state turn up all the same, the run must not reach AWS
/// with the operator's own credentials.
fn destroy_kind(observed: &WorkspaceObservation, status: &WorkspaceTemplateApplyStatus) -> RunKind {
    let principal = match &observed.destroy_identity {
        DestroyIdentity::Available(principal) => principal.clone(),
        DestroyIdentity::NotRead | DestroyIdentity::Unavailable(_) => Some(Principal::without_permissions()),
    };
    RunKind::Destroy { principal, expects_state: status.applied == Some(true) }
}

/// Releases the state Secrets of a workspace that its owner gives up.
async fn release_state(
    key: &WorkspaceKey,
    retained: bool,
    ctx: &WorkspaceContext,
) -> Result<(), StateStoreError> {
    if retained {
        ctx.state_store.retain(&key.namespace, &key.name).await?;
    } else {
        ctx.state_store.release(&key.namespace, &key.name).await?;
    }
    Ok(())
}

fn remove_directory(key: &WorkspaceKey, ctx: &WorkspaceContext) {
    if let Err(error) = ctx.runs.remove_workspace(key) {
        // A stale directory is harmless.
        tracing::warn!(%key, %error, "failed to remove the directory of a deleted workspace");
    }
}
