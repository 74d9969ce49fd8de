//! Baselines with the patches of forks applied, by the API server and without anything being written.

use k8s_openapi::api::apps::v1::Deployment;
use kube::{ResourceExt as _, core::DynamicObject};
use sandbox::{
    api::{ForkSpec, Patch, PatchType, Sandbox, conditions::reasons},
    refusal::Refusal,
    validate::read_patch,
};

use super::{context::Context, look::kind, place::Place, refused::Stop};
use crate::k8s::{K8sError, Meaning};

/// The baseline as the fork wants it, or why the API server does not.
pub(super) async fn patched(
    object: &Sandbox,
    fork: &ForkSpec,
    baseline: &DynamicObject,
    (place, ctx): (&Place, &Context),
) -> Result<Result<DynamicObject, Refusal>, K8sError> {
    let Some(patch) = &fork.customizations.patch else { return Ok(Ok(baseline.clone())) };
    let uid = object.uid().unwrap_or_default();
    let made_from = made_from(baseline, patch);
    if let Some(known) = ctx.memory.rehearsed(&uid, fork.name(), &made_from) {
        return Ok(Ok(known));
    }
    let read = serde_saphyr::from_str(&patch.value).map_err(|error| error.to_string());
    let value = match read_patch(patch, read) {
        Ok(value) => value,
        Err(refusal) => return Ok(Err(refusal)),
    };
    let told = match place.kube.rehearse(&kind::<Deployment>(), baseline, meaning(patch.type_), value).await {
        Ok(made) => {
            ctx.memory.keep(&uid, fork.name(), made_from, made.clone());
            return Ok(Ok(made));
        }
        // A `test` that does not hold is a conflict to others, and to us a patch that cannot be applied.
        Err(K8sError::Invalid { source, .. } | K8sError::Conflict { source, .. }) => source.message.clone(),
        Err(K8sError::Unsendable { source, .. } | K8sError::Unreadable { source, .. }) => source.to_string(),
        Err(error) => {
            let what = format!("the patch of fork {}", fork.name());
            return Stop::parted(Err(Stop::at(&what)(error)));
        }
    };
    Ok(Err(refusal(fork, &told)))
}

fn refusal(fork: &ForkSpec, told: &str) -> Refusal {
    Refusal::new(
        reasons::INVALID_PATCH,
        format!("the patch of fork {} cannot be applied: {told}", fork.name()),
    )
}

fn meaning(type_: PatchType) -> Meaning {
    match type_ {
        PatchType::Strategic => Meaning::Strategic,
        PatchType::Merge => Meaning::Merge,
        PatchType::Json => Meaning::Json,
    }
}

/// What tells whether the same patch of the same baseline was asked for before. How many pods the baseline has at the moment
/// is not among it, unless the patch is about that: replicas of forks are said elsewhere.
fn made_from(baseline: &DynamicObject, patch: &Patch) -> String {
    let mut spec = baseline.data.get("spec").cloned().unwrap_or_default();
    if let Some(fields) = spec.as_object_mut() {
        fields.shift_remove("replicas");
    }
    let meta = (&baseline.metadata.uid, &baseline.metadata.labels, &baseline.metadata.annotations);
    serde_json::to_string(&(meta, spec, patch)).unwrap_or_default()
}
