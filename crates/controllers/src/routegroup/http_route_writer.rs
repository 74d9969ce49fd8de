//! Writes the `HTTPRoute` objects by which a mesh routes requests to forks. One writer for all groups, because the objects of a
//! Service contain the keys of several groups.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use capt_kinds::sandbox::names;
use capt_kube::k8s::K8sError;
use kube::core::DynamicObject;
use sandbox::mesh::{MeshPlan, NamespacedName, RouteShard, source_digest};
use serde_json::Value;

use super::Context;
use crate::sandbox_common::http_routes::http_route_resource;

/// Retry delay after a failed write.
const RETRY: Duration = Duration::from_secs(5);

/// Digest and generation of each applied object. An optimization: if lost, all objects are applied once more.
type AppliedGenerations = BTreeMap<NamespacedName, (String, i64)>;

/// Writes the objects whenever the route snapshot changes. Runs as long as it is polled.
pub(super) async fn run(ctx: Arc<Context>) {
    let mut told = ctx.snapshotter.subscribe();
    let mut applied = AppliedGenerations::new();
    told.mark_changed();
    while told.changed().await.is_ok() {
        let Some(snapshot) = ctx.snapshotter.latest_snapshot() else { continue };
        while let Err(error) = write_routes(&snapshot.mesh, &mut applied, &ctx).await {
            tracing::warn!(error = &error as &dyn std::error::Error, "failed to write HTTPRoutes, retrying");
            tokio::time::sleep(RETRY).await;
            if told.has_changed().unwrap_or(true) {
                told.mark_changed();
                break;
            }
        }
    }
    // The snapshots end only with the process.
    std::future::pending::<()>().await;
}

/// Applies desired objects, then deletes surplus ones, so that no key is without its rule in between. New objects are applied
/// first: in the rare case that a key moves, its new object is usually one of them.
async fn write_routes(
    plan: &MeshPlan,
    applied: &mut AppliedGenerations,
    ctx: &Context,
) -> Result<(), K8sError> {
    if !plan.is_served() {
        return Ok(());
    }
    let kube = &ctx.common.kube;
    let (there, new): (Vec<_>, Vec<_>) = plan.desired().partition(|it| plan.live(&it.name).is_some());
    for shard in new.into_iter().chain(there) {
        if !needs_apply(shard, plan.live(&shard.name), applied) {
            continue;
        }
        let Some(object) = to_dynamic(&shard.object) else { continue };
        let now = kube.apply_dynamic(&http_route_resource(), names::FIELD_MANAGER, &object).await?;
        let generation = now.metadata.generation.unwrap_or_default();
        applied.insert(shard.name.clone(), (shard.digest.clone(), generation));
    }
    for object in plan.surplus().into_iter().filter_map(to_dynamic) {
        kube.delete_dynamic(&http_route_resource(), &object).await?;
    }
    applied.retain(|name, _| plan.desired().any(|it| it.name == *name));
    Ok(())
}

/// Whether an object has to be applied. The API server adds defaults, so specs cannot be compared; a foreign edit shows as a
/// newer generation.
fn needs_apply(shard: &RouteShard, live: Option<&Value>, applied: &AppliedGenerations) -> bool {
    let Some((last, generation)) = applied.get(&shard.name) else { return true };
    if *last != shard.digest {
        return true;
    }
    // A missing live object was deleted, or the watch has not delivered it yet; an apply is correct in both cases.
    live.is_none_or(|it| {
        let now = it["metadata"]["generation"].as_i64().unwrap_or_default();
        now > *generation || (now == *generation && source_digest(it) != Some(shard.digest.as_str()))
    })
}

fn to_dynamic(object: &Value) -> Option<DynamicObject> {
    serde_json::from_value(object.clone()).ok()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn shard(digest: &str) -> RouteShard {
        RouteShard { name: name(), digest: digest.to_owned(), object: json!({}) }
    }

    fn name() -> NamespacedName {
        ("shop".to_owned(), "cart-sbx-1-0".to_owned())
    }

    fn live(generation: i64, digest: &str) -> Value {
        json!({"metadata": {"generation": generation, "annotations": {names::SOURCE_HASH_ANNOTATION: digest}}})
    }

    #[test]
    fn what_was_applied_is_not_applied_again_unless_somebody_changed_it() {
        let applied = AppliedGenerations::from([(name(), ("a".to_owned(), 2))]);
        assert!(
            needs_apply(&shard("a"), Some(&live(2, "a")), &AppliedGenerations::new()),
            "after a restart, once"
        );
        assert!(!needs_apply(&shard("a"), Some(&live(2, "a")), &applied));
        assert!(!needs_apply(&shard("a"), Some(&live(1, "old")), &applied), "the watch is late");
        assert!(needs_apply(&shard("a"), Some(&live(3, "a")), &applied), "edited by another writer");
        assert!(needs_apply(&shard("b"), Some(&live(2, "a")), &applied), "other keys");
        assert!(needs_apply(&shard("a"), None, &applied), "deleted by another writer");
    }
}
