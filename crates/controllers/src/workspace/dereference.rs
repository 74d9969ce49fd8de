//! Reads everything that a decision needs: the Cluster, the run, the inputs and the dependents. Writes nothing.

use std::time::Duration;

use capt_kinds::api::{WorkspaceTemplateApply, conditions::reasons, names};
use capt_model::{model::ObjectKey, workspaces::WorkspaceKey};
use kube::ResourceExt;

use super::{
    WorkspaceContext,
    dependents::list_dependents,
    input_error::InputError,
    inputs::resolve_inputs,
    observation::{ConditionReason, DestroyIdentity, DriftSettings, RunInputs, WorkspaceObservation},
    reference_reader::ReferenceReader,
    run_identity::resolve_destroy_identity,
    status,
    validate::template_retains_resources,
};
use crate::common::{
    cluster::{CapiClusterView, cluster_name_label, cluster_resource},
    gate::{has_annotation, is_paused, matches_watch_filter},
    reconcile_error::{ReconcileError, ReconcileStep},
};

/// Observes a workspace; none if the object is filtered out or being moved by clusterctl.
pub async fn dereference(
    object: &WorkspaceTemplateApply,
    key: &WorkspaceKey,
    ctx: &WorkspaceContext,
) -> Result<Option<WorkspaceObservation>, ReconcileError> {
    let meta = &object.metadata;
    let deleting = meta.deletion_timestamp.is_some();
    let moving = deleting && has_annotation(meta, names::DELETE_FOR_MOVE_ANNOTATION);
    if moving || !matches_watch_filter(meta, ctx.common.settings.watch_filter.as_deref()) {
        return Ok(None);
    }
    let cluster = labelled_cluster(object, ctx).await?;
    let me = WorkspaceKey::new(&key.namespace, &object.name_any());
    let other_owner = ctx.runs.other_owner(key, &me).map_err(ReconcileStep::Dereference.wrap_error())?;
    // The run of another object is neither shown nor cancelled here.
    let run = if other_owner.is_some() { None } else { ctx.runs.snapshot(key) };
    let busy = run.as_ref().is_some_and(|run| !run.is_finished());
    let paused = is_paused(meta, cluster.as_ref());
    let inputs = match &other_owner {
        _ if busy || paused || deleting => RunInputs::NotRead,
        Some(other) => {
            let message = format!("workspace {key} is owned by {other}; rename one of the two objects");
            RunInputs::Invalid(ConditionReason::new(reasons::INVALID_SPEC, message))
        }
        None => read_inputs(object, ctx).await?,
    };
    let dependents = if deleting && !busy {
        list_dependents(&ctx.common.kube, ctx.common.settings.namespace.as_deref(), object)
            .await
            .map_err(ReconcileStep::Dereference.wrap_error())?
    } else {
        Vec::new()
    };
    let destroy_identity = if deleting && !busy && !paused {
        resolve_destroy_identity(object, ctx).await.map_err(ReconcileStep::Dereference.wrap_error())?
    } else {
        DestroyIdentity::NotRead
    };
    let annotation = |name: &str| object.annotations().get(name).cloned();
    Ok(Some(WorkspaceObservation {
        paused,
        deleting,
        has_finalizer: object.finalizers().iter().any(|it| it == names::APPLY_FINALIZER),
        is_run_recorded: run.as_ref().is_none_or(|run| status::is_recorded(object, run)),
        run,
        inputs,
        dependents,
        destroy_identity,
        other_owner,
        retains_resources: deleting && are_resources_retained(object, key, ctx).await?,
        has_directory: ctx.runs.owner(key).map_err(ReconcileStep::Dereference.wrap_error())?.is_some(),
        drift: drift_settings(
            annotation(names::DRIFT_ANNOTATION),
            annotation(names::DRIFT_INTERVAL_ANNOTATION),
            ctx,
        ),
        approved_plan: annotation(names::APPROVE_PLAN_ANNOTATION),
        approved_by: annotation(names::APPROVED_BY_ANNOTATION),
        run_requested_at: annotation(names::REQUESTED_ANNOTATION).and_then(|text| text.parse().ok()),
    }))
}

/// The Cluster that the object's label names. A paused Cluster pauses the object.
async fn labelled_cluster(
    object: &WorkspaceTemplateApply,
    ctx: &WorkspaceContext,
) -> Result<Option<CapiClusterView>, ReconcileError> {
    let Some(name) = cluster_name_label(&object.metadata) else { return Ok(None) };
    let namespace = object.namespace().unwrap_or_default();
    let found = ctx
        .common
        .kube
        .get_dynamic(&cluster_resource(&ctx.common.cluster_version), Some(&namespace), name)
        .await
        .map_err(ReconcileStep::Dereference.wrap_error())?;
    Ok(found.as_ref().map(CapiClusterView::from_object))
}

async fn read_inputs(
    object: &WorkspaceTemplateApply,
    ctx: &WorkspaceContext,
) -> Result<RunInputs, ReconcileError> {
    let namespace = object.namespace().unwrap_or_default();
    let reader_key = WorkspaceKey::new(&namespace, &object.name_any());
    let mut reader =
        ReferenceReader::new(&ctx.common.kube, &namespace).recording_in(&ctx.reference_index, &reader_key);
    let outcome = resolve_inputs(object, ctx, &mut reader).await;
    ctx.reference_index.set(&reader_key, reader.targets);
    InputError::into_run_inputs(outcome).map_err(ReconcileStep::Dereference.wrap_error())
}

/// Whether the object, its template or the last apply retains the resources on deletion.
async fn are_resources_retained(
    object: &WorkspaceTemplateApply,
    key: &WorkspaceKey,
    ctx: &WorkspaceContext,
) -> Result<bool, ReconcileError> {
    let recorded = ctx.runs.is_retained(key).map_err(ReconcileStep::Dereference.wrap_error())?;
    if object.spec.retain_workspace_on_delete == Some(true) || recorded {
        return Ok(true);
    }
    let namespace = object.namespace().unwrap_or_default();
    let Some(reference) = &object.spec.template_ref else { return Ok(false) };
    let there = reference.namespace.clone().filter(|it| !it.is_empty()).unwrap_or_else(|| namespace.clone());
    let Ok(template) = ObjectKey::parse(&there, &reference.name) else { return Ok(false) };
    let mut reader = ReferenceReader::new(&ctx.common.kube, &namespace);
    match reader.get_template(&template).await {
        Ok(found) => Ok(template_retains_resources(&found)),
        Err(InputError::Api(error)) => Err(ReconcileStep::Dereference.wrap_error()(error)),
        Err(InputError::Waiting(_) | InputError::Invalid(_)) => Ok(false),
    }
}

fn drift_settings(mode: Option<String>, interval: Option<String>, ctx: &WorkspaceContext) -> DriftSettings {
    let least = Duration::from_secs(10);
    let interval = interval.and_then(|text| text.parse::<jiff::SignedDuration>().ok());
    DriftSettings {
        mode: mode.and_then(|text| text.parse().ok()).unwrap_or_default(),
        interval: interval
            .and_then(|it| Duration::try_from(it).ok())
            .map_or(ctx.drift_interval, |it| it.max(least)),
    }
}
