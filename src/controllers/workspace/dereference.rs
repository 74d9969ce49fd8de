//! What there is: the object's surroundings, its run, and what goes into the next one. Reads only.

use std::time::Duration;

use kube::ResourceExt;

use super::{
    Context, Error,
    facts::{Drift, Facts, Inputs, Reason},
    halt::Halt,
    inputs::{inputs, keeps},
    read::{Reader, dependents},
};
use crate::{
    api::{WorkspaceTemplateApply, conditions::reasons, names},
    blueprint::Key,
    controllers::common::{
        cluster::{ClusterView, label, resource},
        gate::{has_annotation, is_paused, passes},
    },
    model::ObjectKey,
};

/// Everything that a decision needs; nothing if the object is none of our business.
pub async fn observe(
    object: &WorkspaceTemplateApply,
    key: &Key,
    ctx: &Context,
) -> Result<Option<Facts>, Error> {
    let meta = &object.metadata;
    let deleting = meta.deletion_timestamp.is_some();
    let moving = deleting && has_annotation(meta, names::DELETE_FOR_MOVE_ANNOTATION);
    if moving || !passes(meta, ctx.common.settings.watch_filter.as_deref()) {
        return Ok(None);
    }
    let cluster = cluster(object, ctx).await?;
    let run = ctx.runs.view(key);
    let busy = run.as_ref().is_some_and(|run| !run.is_over());
    let paused = is_paused(meta, cluster.as_ref());
    let inputs = if busy || paused || deleting { Inputs::NotRead } else { read(object, key, ctx).await? };
    let dependents = if deleting && !busy {
        dependents(&ctx.common.kube, ctx.common.settings.namespace.as_deref(), object).await?
    } else {
        Vec::new()
    };
    let annotation = |name: &str| object.annotations().get(name).cloned();
    Ok(Some(Facts {
        paused,
        deleting,
        held: object.finalizers().iter().any(|it| it == names::APPLY_FINALIZER),
        run,
        inputs,
        dependents,
        retained: deleting && retained(object, key, ctx).await?,
        has_directory: ctx.runs.owner(key)?.is_some(),
        drift: drift(annotation(names::DRIFT_ANNOTATION), annotation(names::DRIFT_INTERVAL_ANNOTATION), ctx),
        approved: annotation(names::APPROVE_PLAN_ANNOTATION),
        requested: annotation(names::REQUESTED_ANNOTATION).and_then(|text| text.parse().ok()),
    }))
}

/// The Cluster that the object is labelled with: its pause is the object's.
async fn cluster(object: &WorkspaceTemplateApply, ctx: &Context) -> Result<Option<ClusterView>, Error> {
    let Some(name) = label(&object.metadata) else { return Ok(None) };
    let namespace = object.namespace().unwrap_or_default();
    let found =
        ctx.common.kube.get_dynamic(&resource(&ctx.common.cluster_version), Some(&namespace), name).await?;
    Ok(found.as_ref().map(ClusterView::of))
}

async fn read(object: &WorkspaceTemplateApply, key: &Key, ctx: &Context) -> Result<Inputs, Error> {
    let namespace = object.namespace().unwrap_or_default();
    // `demo` and `demo-apply` would share a workspace, and each would undo what the other did.
    let me = format!("WorkspaceTemplateApply {namespace}/{}", object.name_any());
    if let Some(other) = ctx.runs.owner(key)?.filter(|other| *other != me) {
        let message = format!("the workspace {key} belongs to {other}; rename one of the two");
        return Ok(Inputs::Invalid(Reason::new(reasons::INVALID_SPEC, message)));
    }
    let reader_key = Key::new(&namespace, &object.name_any());
    let mut reader = Reader::new(&ctx.common.kube, &namespace).noting(&ctx.index, &reader_key);
    let outcome = inputs(object, ctx, &mut reader).await;
    ctx.index.set(&reader_key, reader.read);
    Ok(Halt::settle(outcome)?)
}

/// Whether the resources stay, by what the object, its template or the last apply says.
async fn retained(object: &WorkspaceTemplateApply, key: &Key, ctx: &Context) -> Result<bool, Error> {
    if object.spec.retain_workspace_on_delete == Some(true) || ctx.runs.is_retained(key)? {
        return Ok(true);
    }
    let namespace = object.namespace().unwrap_or_default();
    let Some(reference) = &object.spec.template_ref else { return Ok(false) };
    let there = reference.namespace.clone().filter(|it| !it.is_empty()).unwrap_or_else(|| namespace.clone());
    let Ok(template) = ObjectKey::parse(&there, &reference.name) else { return Ok(false) };
    let mut reader = Reader::new(&ctx.common.kube, &namespace);
    match reader.template(&template).await {
        Ok(found) => Ok(keeps(&found)),
        Err(Halt::Api(error)) => Err(error.into()),
        Err(Halt::Waiting(_) | Halt::Invalid(_)) => Ok(false),
    }
}

fn drift(mode: Option<String>, interval: Option<String>, ctx: &Context) -> Drift {
    let least = Duration::from_secs(10);
    let interval = interval.and_then(|text| text.parse::<jiff::SignedDuration>().ok());
    Drift {
        mode: mode.and_then(|text| text.parse().ok()).unwrap_or_default(),
        interval: interval
            .and_then(|it| Duration::try_from(it).ok())
            .map_or(ctx.drift_interval, |it| it.max(least)),
    }
}
