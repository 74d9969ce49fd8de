//! Writes the `HTTPRoute` objects by which a mesh sends requests to forks. One writer for all groups: the objects of a Service
//! have the keys of several.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use kube::core::DynamicObject;
use sandbox::{
    api::names,
    mesh::{Name, Plan, Shard, digest},
};
use serde_json::Value;

use super::Context;
use crate::{controllers::common::httproutes::kind, k8s::K8sError};

/// How soon something is tried again that did not work.
const AGAIN: Duration = Duration::from_secs(5);

/// The generations in which objects are as they were applied last. If it is lost, they are applied once more.
type Applied = BTreeMap<Name, (String, i64)>;

/// Writes what the table wants, whenever it changes, for as long as it is polled.
pub(super) async fn follow(ctx: Arc<Context>) {
    let mut told = ctx.board.told();
    let mut applied = Applied::new();
    told.mark_changed();
    while told.changed().await.is_ok() {
        let Some(picture) = ctx.board.picture() else { continue };
        while let Err(error) = write(&picture.mesh, &mut applied, &ctx).await {
            tracing::warn!(error = &error as &dyn std::error::Error, "HTTPRoute objects are not written yet");
            tokio::time::sleep(AGAIN).await;
            if told.has_changed().unwrap_or(true) {
                told.mark_changed();
                break;
            }
        }
    }
    // The board ends only with us.
    std::future::pending::<()>().await;
}

/// Writes what is not there, and then deletes what nobody wants: no key is without its rule in between. New objects go
/// first: should a key have to move, which is rare, its new place is one of them as a rule.
async fn write(plan: &Plan, applied: &mut Applied, ctx: &Context) -> Result<(), K8sError> {
    if !plan.is_served() {
        return Ok(());
    }
    let kube = &ctx.common.kube;
    let (there, new): (Vec<_>, Vec<_>) = plan.wanted().partition(|it| plan.live(&it.name).is_some());
    for shard in new.into_iter().chain(there) {
        if !is_to_write(shard, plan.live(&shard.name), applied) {
            continue;
        }
        let Some(object) = dynamic(&shard.object) else { continue };
        let now = kube.apply_dynamic(&kind(), names::FIELD_MANAGER, &object).await?;
        let generation = now.metadata.generation.unwrap_or_default();
        applied.insert(shard.name.clone(), (shard.digest.clone(), generation));
    }
    for object in plan.surplus().into_iter().filter_map(dynamic) {
        kube.delete_dynamic(&kind(), &object).await?;
    }
    applied.retain(|name, _| plan.wanted().any(|it| it.name == *name));
    Ok(())
}

/// Whether an object is to be applied. The API server adds to what was left out, so the specs cannot be compared: somebody
/// else's edit shows as a newer generation than ours.
fn is_to_write(shard: &Shard, live: Option<&Value>, applied: &Applied) -> bool {
    let Some((last, generation)) = applied.get(&shard.name) else { return true };
    if *last != shard.digest {
        return true;
    }
    // What was deleted, and not what we have not heard of yet, is made again: the watch tells in either case.
    live.is_none_or(|it| {
        let now = it["metadata"]["generation"].as_i64().unwrap_or_default();
        now > *generation || (now == *generation && digest(it) != Some(shard.digest.as_str()))
    })
}

fn dynamic(object: &Value) -> Option<DynamicObject> {
    serde_json::from_value(object.clone()).ok()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn shard(digest: &str) -> Shard {
        Shard { name: name(), digest: digest.to_owned(), object: json!({}) }
    }

    fn name() -> Name {
        ("shop".to_owned(), "cart-sbx-1-0".to_owned())
    }

    fn live(generation: i64, digest: &str) -> Value {
        json!({"metadata": {"generation": generation, "annotations": {names::SOURCE_HASH_ANNOTATION: digest}}})
    }

    #[test]
    fn what_was_applied_is_not_applied_again_unless_somebody_changed_it() {
        let applied = Applied::from([(name(), ("a".to_owned(), 2))]);
        assert!(is_to_write(&shard("a"), Some(&live(2, "a")), &Applied::new()), "after a restart, once");
        assert!(!is_to_write(&shard("a"), Some(&live(2, "a")), &applied));
        assert!(!is_to_write(&shard("a"), Some(&live(1, "old")), &applied), "the watch is late");
        assert!(is_to_write(&shard("a"), Some(&live(3, "a")), &applied), "somebody edited it");
        assert!(is_to_write(&shard("b"), Some(&live(2, "a")), &applied), "other keys");
        assert!(is_to_write(&shard("a"), None, &applied), "somebody deleted it");
    }
}
