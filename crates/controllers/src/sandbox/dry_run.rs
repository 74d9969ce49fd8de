//! Applies the patches of forks to their baselines as a server-side dry run. Writes nothing.

use capt_kinds::sandbox::{ForkSpec, Patch, PatchType, Sandbox, conditions::reasons};
use capt_kube::k8s::{K8sError, PatchKind};
use k8s_openapi::api::apps::v1::Deployment;
use kube::{ResourceExt as _, core::DynamicObject};
use sandbox::{rejection::Rejection, validate::check_patch_shape};

use super::{apply_error::ApplyError, context::Context, dereference::api_resource, fork_target::ForkTarget};

/// The baseline with the patch of the fork, or the rejection by the API server.
pub(super) async fn dry_run_patch(
    object: &Sandbox,
    fork: &ForkSpec,
    baseline: &DynamicObject,
    (place, ctx): (&ForkTarget, &Context),
) -> Result<Result<DynamicObject, Rejection>, K8sError> {
    let Some(patch) = &fork.customizations.patch else { return Ok(Ok(baseline.clone())) };
    let uid = object.uid().unwrap_or_default();
    let made_from = dry_run_cache_key(baseline, patch);
    if let Some(known) = ctx.fork_cache.dry_run_result(&uid, fork.name(), &made_from) {
        return Ok(Ok(known));
    }
    let read = serde_saphyr::from_str(&patch.value).map_err(|error| error.to_string());
    let value = match check_patch_shape(patch, read) {
        Ok(value) => value,
        Err(refusal) => return Ok(Err(refusal)),
    };
    let told = match place
        .kube
        .dry_run_patch(&api_resource::<Deployment>(), baseline, patch_kind(patch.type_), value)
        .await
    {
        Ok(made) => {
            ctx.fork_cache.store_dry_run(&uid, fork.name(), made_from, made.clone());
            return Ok(Ok(made));
        }
        // The API server reports a failed `test` operation as a conflict; here it means that the patch does not apply.
        Err(K8sError::Invalid { source, .. } | K8sError::Conflict { source, .. }) => source.message.clone(),
        Err(K8sError::Unsendable { source, .. } | K8sError::Unreadable { source, .. }) => source.to_string(),
        Err(error) => {
            let what = format!("the patch of fork {}", fork.name());
            return ApplyError::split_rejection(Err(ApplyError::classify(&what)(error)));
        }
    };
    Ok(Err(invalid_patch(fork, &told)))
}

fn invalid_patch(fork: &ForkSpec, told: &str) -> Rejection {
    Rejection::new(
        reasons::INVALID_PATCH,
        format!("the patch of fork {} cannot be applied: {told}", fork.name()),
    )
}

fn patch_kind(type_: PatchType) -> PatchKind {
    match type_ {
        PatchType::Strategic => PatchKind::Strategic,
        PatchType::Merge => PatchKind::Merge,
        PatchType::Json => PatchKind::Json,
    }
}

/// Cache key of a dry run. `spec.replicas` of the baseline is left out, so that autoscaling does not invalidate the entry; the
/// replicas of a fork come from its customizations.
fn dry_run_cache_key(baseline: &DynamicObject, patch: &Patch) -> String {
    let mut spec = baseline.data.get("spec").cloned().unwrap_or_default();
    if let Some(fields) = spec.as_object_mut() {
        fields.shift_remove("replicas");
    }
    let meta = (&baseline.metadata.uid, &baseline.metadata.labels, &baseline.metadata.annotations);
    serde_json::to_string(&(meta, spec, patch)).unwrap_or_default()
}
