//! The local workloads that a Sandbox names in its spec, as objects. Pure.

use kube::{
    Resource as _, ResourceExt as _,
    core::{DynamicObject, ObjectMeta},
};
use sandbox::{
    api::{LocalSpec, LocalWorkload, LocalWorkloadSpec, Sandbox, SandboxRef, names},
    refusal::Refusal,
    ttl,
};

use super::build::dynamic;

/// The name of a local workload's object.
pub(super) fn name(object: &Sandbox, local: &str) -> String {
    format!("{}-{local}", object.name_any())
}

/// All of them.
pub(super) fn wanted(object: &Sandbox) -> Result<Vec<DynamicObject>, Refusal> {
    object.spec.local.iter().map(|it| dynamic(&one(object, it))).collect()
}

fn one(object: &Sandbox, local: &LocalSpec) -> LocalWorkload {
    let LocalSpec { name: own, from, mappings, disconnect_policy, disconnect_grace_period, over } = local;
    let labels = [(names::SANDBOX_LABEL.to_owned(), object.name_any())];
    LocalWorkload {
        metadata: ObjectMeta {
            name: Some(name(object, own)),
            namespace: object.namespace(),
            labels: Some(labels.into()),
            owner_references: object.controller_owner_ref(&()).map(|it| vec![it]),
            ..ObjectMeta::default()
        },
        spec: LocalWorkloadSpec {
            sandbox_ref: SandboxRef { name: object.name_any() },
            from: from.clone(),
            mappings: mappings.clone(),
            disconnect_policy: *disconnect_policy,
            disconnect_grace_period: grace(disconnect_grace_period.as_deref()),
            over: over.clone(),
        },
        status: None,
    }
}

/// What was said, or the usual.
fn grace(text: Option<&str>) -> String {
    let said = text.filter(|it| !it.is_empty() && ttl::grace(it).is_some());
    said.unwrap_or("30s").to_owned()
}
