//! Executes a takeover step and publishes events.

use std::time::Duration;

use capt_kinds::sandbox::names;
use capt_kube::k8s::{DeletionPropagation, EventSpec, K8sError};
use k8s_openapi::api::core::v1::Service;
use kube::ResourceExt as _;
use sandbox::service::is_taken_over;
use serde_json::{Value, json};

use super::{
    Context, WRITE_REQUEUE, build,
    decide::{RestoreReason, TakeoverStep},
    events,
};

/// Executes a step. Returns the requeue delay, if the default resync is too late.
pub(super) async fn apply_step(
    service: &Service,
    step: TakeoverStep,
    ctx: &Context,
) -> Result<Option<Duration>, K8sError> {
    let (kube, whose) = (&ctx.common.kube, object_path(service));
    match step {
        TakeoverStep::Idle => return Ok(None),
        TakeoverStep::Wait(why, pause) => {
            tracing::debug!(service = whose, why, "takeover step postponed");
            return Ok(Some(pause));
        }
        TakeoverStep::ApplyBaseService(base_service) => {
            kube.apply(base_service.as_ref()).await?;
        }
        TakeoverStep::AnnounceListeners(listeners) => write_listeners(service, &listeners, ctx).await?,
        TakeoverStep::TakeOver(patch) => {
            kube.merge_patch(service, patch).await?;
            publish(service, ctx, events::taken_over()).await;
        }
        TakeoverStep::Restore(patch, why) => restore(service, patch, why, ctx).await?,
        TakeoverStep::YieldToRevert(base_service, patch) | TakeoverStep::GiveUp(base_service, patch) => {
            record_revert(service, &base_service, patch, ctx).await?;
        }
        TakeoverStep::DeleteBaseService(base_service) => {
            // A delete of the base Service has no precondition on the Service, so re-read whether it was taken over again.
            let now: Option<Service> = kube.get(service.namespace().as_deref(), &service.name_any()).await?;
            if !now.is_some_and(|it| is_taken_over(&it)) {
                kube.delete(base_service.as_ref(), DeletionPropagation::Background).await?;
            }
        }
    }
    Ok(Some(WRITE_REQUEUE))
}

async fn write_listeners(
    service: &Service,
    listeners: &std::collections::BTreeMap<String, u16>,
    ctx: &Context,
) -> Result<(), K8sError> {
    let value = if listeners.is_empty() { Value::Null } else { json!(json!(listeners).to_string()) };
    let patch = json!({
        "resourceVersion": service.resource_version(),
        "annotations": { names::LISTEN_ANNOTATION: value },
    });
    ctx.common.kube.patch_metadata(service, patch).await?;
    Ok(())
}

/// Restores a Service that was reverted by another client, and counts the revert.
async fn record_revert(
    service: &Service,
    base_service: &Service,
    patch: Value,
    ctx: &Context,
) -> Result<(), K8sError> {
    // The Service first: its patch fails if the observed version is stale, and then the revert must not be counted.
    ctx.common.kube.merge_patch(service, patch).await?;
    ctx.timers.record_revert(&object_path(service));
    ctx.common.kube.apply(base_service).await?;
    let history = build::read_reverts(Some(base_service));
    publish(service, ctx, events::reverted(&history)).await;
    Ok(())
}

async fn restore(service: &Service, patch: Value, why: RestoreReason, ctx: &Context) -> Result<(), K8sError> {
    ctx.common.kube.merge_patch(service, patch).await?;
    publish(service, ctx, events::restored(why)).await;
    Ok(())
}

async fn publish(service: &Service, ctx: &Context, news: EventSpec) {
    tracing::info!(
        service = object_path(service),
        reason = news.reason,
        note = news.note,
        "service takeover state changed"
    );
    ctx.common.events.publish(service, news).await;
}

fn object_path(service: &Service) -> String {
    format!("{}/{}", service.namespace().unwrap_or_default(), service.name_any())
}
