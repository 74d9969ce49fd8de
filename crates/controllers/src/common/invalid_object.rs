//! Objects that do not deserialize into our types: written by an older release, or edited by hand.
//!
//! An invalid status is replaced, except for its latches, and recomputed by the next reconcile. An invalid spec is reported in
//! a condition, and the object is not reconciled until it changes.

use capt_kinds::api::conditions::{reasons, types};
use capt_kube::k8s::{
    K8sError,
    conditions::{self, ConditionUpdate},
};
use kube::{
    Resource,
    core::{ApiResource, DeserializeGuard, ObjectMeta, PartialObjectMeta, error_boundary::InvalidObject},
};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use super::Context;

/// Repairs the status of an object that cannot be decoded, or reports the invalid spec in it.
pub async fn report_invalid<K>(invalid: &InvalidObject, ctx: &Context) -> Result<(), K8sError>
where
    K: Resource<DynamicType = ()> + DeserializeOwned + Clone,
{
    let meta = &invalid.metadata;
    let kind = ApiResource::erase::<K>(&());
    let name = meta.name.as_deref().unwrap_or_default();
    let Some(raw) = ctx.kube.get_dynamic(&kind, meta.namespace.as_deref(), name).await? else {
        return Ok(());
    };
    let old = raw.data.get("status").cloned();
    let mut bare = serde_json::to_value(&raw).unwrap_or_default();
    if let Some(fields) = bare.as_object_mut() {
        fields.shift_remove("status");
    }
    let new = match serde_json::from_value::<K>(bare) {
        Ok(_) => retained_latches(old.as_ref()),
        Err(error) => with_invalid_spec_condition(old.as_ref(), &raw.metadata, &error.to_string(), ctx),
    };
    let object =
        PartialObjectMeta::<K> { types: None, metadata: raw.metadata, _phantom: std::marker::PhantomData };
    ctx.kube.write_status(&object, old.as_ref(), &new).await?;
    Ok(())
}

/// Drops the objects of a list that cannot be decoded: they must not block the others. Their own reconcile reports them.
pub fn filter_valid<K>(all: Vec<DeserializeGuard<K>>) -> Vec<K> {
    all.into_iter().filter_map(|it| it.0.ok()).collect()
}

/// The latches of an invalid status, which must survive its replacement.
fn retained_latches(old: Option<&Value>) -> Value {
    let all = old.and_then(|old| old.get("initialization")).and_then(Value::as_object);
    let closed = all.into_iter().flatten().filter(|(_, value)| value.as_bool() == Some(true));
    let kept: Map<String, Value> = closed.map(|(name, value)| (name.clone(), value.clone())).collect();
    if kept.is_empty() { json!({}) } else { json!({ "initialization": kept }) }
}

/// The status with a condition that reports the invalid spec.
fn with_invalid_spec_condition(old: Option<&Value>, meta: &ObjectMeta, error: &str, ctx: &Context) -> Value {
    let mut new = old.filter(|old| old.is_object()).cloned().unwrap_or_else(|| json!({}));
    let mut all = serde_json::from_value(new["conditions"].clone()).unwrap_or_default();
    let why = format!("the object cannot be decoded: {error}; correct its spec");
    let said = ConditionUpdate::status_false(types::READY, reasons::INVALID_SPEC, why);
    let _ = conditions::set(&mut all, said, meta.generation, (ctx.clock)());
    new["conditions"] = serde_json::to_value(all).unwrap_or_default();
    new
}
