//! Objects that cannot be read into our types: an older release wrote them, or somebody edited their status by hand.
//!
//! A status that makes no sense is thrown away but for its latches; it is worked out anew from what is there. A spec that
//! makes no sense is told in a condition, and the object is left alone until it is changed.

use kube::{
    Resource,
    core::{ApiResource, DeserializeGuard, ObjectMeta, PartialObjectMeta, error_boundary::InvalidObject},
};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use super::Context;
use crate::{
    api::conditions::{reasons, types},
    k8s::{
        K8sError,
        conditions::{self, Said},
    },
};

/// Heals the status of an object that cannot be read, or says in it what is wrong.
pub async fn tell<K>(invalid: &InvalidObject, ctx: &Context) -> Result<(), K8sError>
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
        Ok(_) => latches(old.as_ref()),
        Err(error) => told(old.as_ref(), &raw.metadata, &error.to_string(), ctx),
    };
    let object =
        PartialObjectMeta::<K> { types: None, metadata: raw.metadata, _phantom: std::marker::PhantomData };
    ctx.kube.write_status(&object, old.as_ref(), &new).await?;
    Ok(())
}

/// Those of a list that can be read: one that cannot must not keep us from the others. It is told by itself.
pub fn readable<K>(all: Vec<DeserializeGuard<K>>) -> Vec<K> {
    all.into_iter().filter_map(|it| it.0.ok()).collect()
}

/// What must not be lost of a status that makes no sense.
fn latches(old: Option<&Value>) -> Value {
    let all = old.and_then(|old| old.get("initialization")).and_then(Value::as_object);
    let closed = all.into_iter().flatten().filter(|(_, value)| value.as_bool() == Some(true));
    let kept: Map<String, Value> = closed.map(|(name, value)| (name.clone(), value.clone())).collect();
    if kept.is_empty() { json!({}) } else { json!({ "initialization": kept }) }
}

/// The status with a condition about its spec.
fn told(old: Option<&Value>, meta: &ObjectMeta, error: &str, ctx: &Context) -> Value {
    let mut new = old.filter(|old| old.is_object()).cloned().unwrap_or_else(|| json!({}));
    let mut all = serde_json::from_value(new["conditions"].clone()).unwrap_or_default();
    let why = format!("the object cannot be read: {error}; correct it");
    let said = Said::no(types::READY, reasons::INVALID_SPEC, why);
    let _ = conditions::set(&mut all, said, meta.generation, (ctx.clock)());
    new["conditions"] = serde_json::to_value(all).unwrap_or_default();
    new
}
