//! Executes the decision: starts and cancels runs, writes the status, the connection Secret, events and finalizers.
//!
//! Branches on the decision only; it does not interpret the spec.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use capt_engine::runs::{BackupStore, RunKind, RunPriority, RunRequest, RunResult, RunSnapshot};
use capt_kinds::api::{
    BuiltInModule, IdentityRef, RunOperation, RunStatus, SecretRef, WorkspaceTemplateApply,
    WorkspaceTemplateApplyStatus, conditions::types, names,
};
use capt_kube::k8s::{EventSpec, conditions, secrets::SecretSpec, state_store::StateOwner};
use capt_model::workspaces::WorkspaceKey;
use kube::{Resource, ResourceExt, runtime::controller::Action};
use terraform_driver::output::Outputs;

use super::{
    WorkspaceContext, WorkspaceReconcileError,
    decide::Decision,
    observation::{RunInputs, WorkspaceObservation},
    reference_reader::ReferenceReader,
    run_identity,
    secret_backup_store::SecretBackupStore,
};
use crate::common::{self, ProvisionedResource, cluster::cluster_name_label, metrics::elapsed_since, runner};

/// Requeue interval while a run is active. Runs trigger reconciles themselves; this covers a lost notification.
const RESYNC: Duration = Duration::from_mins(1);

/// Sets the references to the connection Secret and the identity in the status.
pub fn set_references(status: &mut WorkspaceTemplateApplyStatus, observed: &WorkspaceObservation) {
    if let RunInputs::Resolved(inputs) = &observed.inputs {
        status.connection_secret_ref.clone_from(&inputs.connection_secret);
        status.identity_ref = inputs.identity.as_ref().map(|name| IdentityRef { name: name.clone() });
    }
}

/// Writes the outputs of a successful run to the connection Secret and returns them.
pub async fn publish_outputs(
    object: &WorkspaceTemplateApply,
    observed: &WorkspaceObservation,
    status: &WorkspaceTemplateApplyStatus,
    ctx: &WorkspaceContext,
) -> Result<Option<Outputs>, WorkspaceReconcileError> {
    let RunInputs::Resolved(inputs) = &observed.inputs else { return Ok(None) };
    let made = observed.run.as_ref().is_none_or(is_successful) && status.applied == Some(true);
    if !made {
        return Ok(None);
    }
    let Some(outputs) = ctx.runs.outputs(&inputs.job.key)? else { return Ok(None) };
    if let Some(SecretRef { name, namespace }) = &inputs.connection_secret {
        let data: BTreeMap<String, Vec<u8>> = outputs
            .connection_strings()
            .into_iter()
            .map(|(name, value)| (name, value.into_exposed().into_bytes()))
            .collect();
        let wanted = SecretSpec {
            namespace: namespace.clone(),
            name: name.clone(),
            data,
            owner: owner_in_namespace(object, namespace),
            labels: cluster_labels(object),
        };
        ctx.common.kube.apply_connection_secret(&wanted).await?;
    }
    Ok(Some(outputs))
}

const fn is_successful(run: &RunSnapshot) -> bool {
    matches!(run.result, Some(RunResult::Applied | RunResult::Unchanged | RunResult::Differs { .. }))
}

/// Owner reference for an object in `namespace`; none across namespaces, where owner references are invalid.
fn owner_in_namespace(
    object: &WorkspaceTemplateApply,
    namespace: &str,
) -> Option<k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference> {
    (object.namespace().as_deref() == Some(namespace)).then(|| object.controller_owner_ref(&())).flatten()
}

fn cluster_labels(object: &WorkspaceTemplateApply) -> BTreeMap<String, String> {
    let name = cluster_name_label(&object.metadata).map(str::to_owned);
    name.map(|name| (names::CLUSTER_NAME_LABEL.to_owned(), name)).into_iter().collect()
}

/// Publishes events, writes the status and records metrics.
pub async fn write_status(
    object: &WorkspaceTemplateApply,
    status: &WorkspaceTemplateApplyStatus,
    decision: &Decision,
    ctx: &WorkspaceContext,
) -> Result<(), WorkspaceReconcileError> {
    let before = object.status.as_ref();
    for happening in status_events(before, status) {
        ctx.common.events.publish(object, happening).await;
    }
    // The object disappears with its finalizer, so its status is not worth a write.
    if !matches!(decision, Decision::RemoveFinalizer) {
        ctx.common.kube.write_status(object, before, status).await?;
    }
    record_metrics(object, status, decision, &ctx.common);
    Ok(())
}

/// Records drift, and how long Fargate profiles take to create and delete.
fn record_metrics(
    object: &WorkspaceTemplateApply,
    status: &WorkspaceTemplateApplyStatus,
    decision: &Decision,
    ctx: &common::Context,
) {
    let (meta, now, meter) = (&object.metadata, (ctx.clock)(), &ctx.metrics);
    let goes = matches!(decision, Decision::RemoveFinalizer);
    meter.set_drift(
        &runner::namespaced_name(meta),
        !goes && conditions::is_true(&status.conditions, types::DRIFTED),
    );
    if object.spec.module.as_ref().is_none_or(|module| *module != BuiltInModule::Fargate) {
        return;
    }
    let was_made = object.status.as_ref().is_some_and(|before| before.applied == Some(true));
    let made = !was_made && status.applied == Some(true);
    if let Some(took) = elapsed_since(meta.creation_timestamp.as_ref(), now).filter(|_| made) {
        meter.resource_created(ProvisionedResource::FargateProfile, took);
    }
    if let Some(took) = elapsed_since(meta.deletion_timestamp.as_ref(), now).filter(|_| goes && was_made) {
        meter.resource_deleted(ProvisionedResource::FargateProfile, took);
    }
}

/// Events for the transitions between two statuses.
fn status_events(
    before: Option<&WorkspaceTemplateApplyStatus>,
    now: &WorkspaceTemplateApplyStatus,
) -> Vec<EventSpec> {
    let mut all = Vec::new();
    let was = |kind: &str| before.is_some_and(|it| conditions::is_true(&it.conditions, kind));
    let is = |kind: &str| conditions::is_true(&now.conditions, kind);
    let message =
        |kind: &str| conditions::find(&now.conditions, kind).map(|it| it.message.clone()).unwrap_or_default();
    if is(types::READY) && !was(types::READY) {
        all.push(EventSpec::normal(
            "Run",
            "WorkspaceReady",
            "terraform apply succeeded, and the outputs are available",
        ));
    }
    if is(types::DRIFTED) && !was(types::DRIFTED) {
        all.push(EventSpec::warning("Run", "DriftDetected", message(types::DRIFTED)));
    }
    if is(types::DESTRUCTIVE_CHANGE_BLOCKED) && !was(types::DESTRUCTIVE_CHANGE_BLOCKED) {
        all.push(EventSpec::warning(
            "Run",
            "DestructiveChangeBlocked",
            message(types::DESTRUCTIVE_CHANGE_BLOCKED),
        ));
    }
    let error = now.last_error.as_ref().filter(|error| !error.class.is_wait());
    let inputs = before.and_then(|it| it.last_error.as_ref()).map(|it| (&it.message, it.attempts));
    if let Some(error) = error.filter(|error| Some((&error.message, error.attempts)) != inputs) {
        all.push(EventSpec::warning("Run", "RunFailed", super::status::format_last_error(error)));
    }
    let run = now.run.as_ref().filter(|run| run.finished_at.is_none());
    let begun = before.and_then(|it| it.run.as_ref()).map(|it| it.id.as_str());
    if let Some(run) =
        run.filter(|run| Some(run.id.as_str()) != begun && run.operation != RunOperation::Check)
    {
        all.push(EventSpec::normal("Run", "RunStarted", format!("{:?} {}", run.operation, run.id)));
    }
    all.extend(run_note_events(before.and_then(|it| it.run.as_ref()), now.run.as_ref()));
    all
}

/// Events for new notes of a run and for a bypassed provider gateway.
fn run_note_events(before: Option<&RunStatus>, now: Option<&RunStatus>) -> Vec<EventSpec> {
    let Some(now) = now else { return Vec::new() };
    let plain = now.without_gateway.as_ref();
    let is_news = plain.is_some() && before.and_then(|it| it.without_gateway.as_ref()) != plain;
    let plain = plain.filter(|_| is_news).map(|why| EventSpec::warning("Run", "WithoutGateway", why));
    let told: &[String] = before.filter(|it| it.id == now.id).map_or(&[], |it| &it.notes);
    let notes = now.notes.iter().filter(|note| !told.contains(note));
    plain.into_iter().chain(notes.map(|note| EventSpec::normal("Run", "RunNote", note))).collect()
}

/// Executes the decision and returns when to reconcile again.
pub async fn execute_decision(
    object: &WorkspaceTemplateApply,
    key: &WorkspaceKey,
    observed: WorkspaceObservation,
    (decision, status): (Decision, &WorkspaceTemplateApplyStatus),
    ctx: &WorkspaceContext,
) -> Result<Action, WorkspaceReconcileError> {
    match decision {
        Decision::Pause | Decision::Reject(_) => Ok(Action::await_change()),
        Decision::AddFinalizer => {
            ctx.common.kube.add_finalizer(object, names::APPLY_FINALIZER).await?;
            Ok(Action::await_change())
        }
        Decision::AwaitRun => Ok(Action::requeue(RESYNC)),
        Decision::CancelRun => {
            ctx.runs.cancel(key);
            Ok(Action::requeue(RESYNC))
        }
        Decision::Wait(_, after) => Ok(Action::requeue(after.unwrap_or(RESYNC))),
        Decision::Idle(after) => Ok(after.map_or_else(Action::await_change, Action::requeue)),
        Decision::StartRun { goal, priority: lane } => {
            if let RunInputs::Resolved(inputs) = observed.inputs {
                let what = RunKind::Converge { job: Box::new(inputs.job), goal };
                start_run(object, key, (what, lane, inputs.hash), ctx);
            }
            Ok(Action::requeue(RESYNC))
        }
        Decision::StartDestroy => {
            let what = destroy_kind(object, status, ctx).await?;
            start_run(object, key, (what, RunPriority::Delete, "destroy".to_owned()), ctx);
            Ok(Action::requeue(RESYNC))
        }
        Decision::RemoveFinalizer => {
            if observed.other_owner.is_none() {
                release_state(key, observed.retains_resources, ctx).await?;
            }
            ctx.common.kube.remove_finalizers(object, &[names::APPLY_FINALIZER]).await?;
            ctx.reference_index.remove(&WorkspaceKey::new(&key.namespace, &object.name_any()));
            if observed.other_owner.is_none() {
                remove_directory(key, ctx);
            }
            Ok(Action::await_change())
        }
    }
}

fn start_run(
    object: &WorkspaceTemplateApply,
    key: &WorkspaceKey,
    (what, lane, inputs_hash): (RunKind, RunPriority, String),
    ctx: &WorkspaceContext,
) {
    let keeper: Arc<dyn BackupStore> = Arc::new(SecretBackupStore {
        state_store: ctx.state_store.clone(),
        state_owner: state_owner(object, key),
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

/// A destroy run with the credentials of the identity that the last run used.
async fn destroy_kind(
    object: &WorkspaceTemplateApply,
    status: &WorkspaceTemplateApplyStatus,
    ctx: &WorkspaceContext,
) -> Result<RunKind, WorkspaceReconcileError> {
    let named = object.spec.identity_ref.as_ref().or(status.identity_ref.as_ref());
    let namespace = object.namespace().unwrap_or_default();
    let mut reader = ReferenceReader::new(&ctx.common.kube, &namespace);
    let principal = match run_identity::resolve_identity(named.map(|it| it.name.as_str()), ctx, &mut reader)
        .await
    {
        Ok(acting) => acting.principal,
        Err(super::input_error::InputError::Api(error)) => return Err(error.into()),
        // The sealed provider block still names its roles. If permissions are missing, AWS rejects the run and it is retried.
        Err(
            super::input_error::InputError::Waiting(reason) | super::input_error::InputError::Invalid(reason),
        ) => {
            tracing::warn!(
                reason = reason.message,
                "identity unavailable, destroying with the operator's own credentials"
            );
            None
        }
    };
    Ok(RunKind::Destroy { principal, expects_state: status.applied == Some(true) })
}

/// Releases the state Secrets of a workspace that its owner gives up.
async fn release_state(
    key: &WorkspaceKey,
    retained: bool,
    ctx: &WorkspaceContext,
) -> Result<(), WorkspaceReconcileError> {
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

#[cfg(test)]
mod tests {
    use super::*;

    fn run(id: &str, without_gateway: Option<&str>, notes: &[&str]) -> RunStatus {
        serde_json::from_value(serde_json::json!({
            "id": id, "operation": "Check", "phase": "Planning", "withoutGateway": without_gateway, "notes": notes,
        }))
        .unwrap()
    }

    fn event_reasons(before: Option<&RunStatus>, now: &RunStatus) -> Vec<&'static str> {
        run_note_events(before, Some(now)).into_iter().map(|it| it.reason).collect()
    }

    #[test]
    fn a_run_without_the_gateway_is_told_once_for_each_reason() {
        let (shares, plain) = (run("1", None, &[]), run("2", Some("no version is locked"), &[]));
        assert_eq!(event_reasons(Some(&shares), &plain), ["WithoutGateway"]);
        assert_eq!(event_reasons(None, &plain), ["WithoutGateway"]);
        assert_eq!(event_reasons(Some(&plain), &plain), [""; 0]);
        assert_eq!(event_reasons(Some(&plain), &run("3", Some("another"), &[])), ["WithoutGateway"]);
        assert_eq!(event_reasons(Some(&plain), &shares), [""; 0]);
    }

    #[test]
    fn a_note_is_told_when_it_is_new() {
        let (one, two) = (run("1", None, &["a"]), run("1", None, &["a", "b"]));
        assert_eq!(event_reasons(Some(&run("1", None, &[])), &one), ["RunNote"]);
        assert_eq!(event_reasons(Some(&one), &two), ["RunNote"]);
        assert_eq!(event_reasons(Some(&two), &two), [""; 0]);
        assert_eq!(
            event_reasons(Some(&two), &run("2", None, &["a"])),
            ["RunNote"],
            "another run reports it again"
        );
    }
}
