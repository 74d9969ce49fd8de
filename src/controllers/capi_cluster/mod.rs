//! The Cluster kind where Cluster API is absent: plays the part of its Cluster controller, exactly.
//!
//! It must not run beside Cluster API; who wires the controllers decides. The objects that a Cluster refers to get its
//! owner reference and label, their latches and conditions are reflected, their endpoint and zones are copied, and in the
//! end they are deleted in order: the control plane, then the network.

mod act;
mod decide;
mod dereference;
#[cfg(test)]
mod fixtures;
pub mod kind;
mod part;
mod status;
#[cfg(test)]
mod tests;
mod watch;

use std::{sync::Arc, time::Duration};

use kube::{ResourceExt as _, runtime::controller::Action};

pub use self::watch::run;
use self::{
    dereference::Seen,
    kind::{Cluster, ClusterStatus},
    part::Part,
    status::Moment,
};
use super::common::{
    Context, gate,
    step::{Step, Stopped},
};
use crate::{
    api::{conditions::types, names},
    k8s::{Written, conditions::is_true, events::News},
};

/// When an object that is not there is looked for again.
const MISSING: Duration = Duration::from_secs(30);
/// How often something is looked at that no watch tells of.
const NET: Duration = Duration::from_mins(10);

/// Looks after one Cluster.
pub async fn reconcile(cluster: Arc<Cluster>, ctx: Arc<Context>) -> Result<Action, Stopped> {
    let (meta, old) = (&cluster.metadata, cluster.status.clone().unwrap_or_default());
    let going = meta.deletion_timestamp.is_some();
    let moving = going && gate::has_annotation(meta, names::DELETE_FOR_MOVE_ANNOTATION);
    if moving || !gate::passes(meta, ctx.settings.watch_filter.as_deref()) {
        return Ok(Action::await_change());
    }
    if let Some(why) = pause(&cluster) {
        write(&cluster, &status::paused(&old, moment(&cluster, &ctx), why), &ctx).await?;
        return Ok(Action::await_change());
    }
    if !going && !act::is_held(&cluster) {
        ctx.kube.add_finalizer(&*cluster, act::FINALIZER).await.map_err(Step::Hold.stopped())?;
        return Ok(Action::await_change());
    }
    // dereference, claim: both parts, always (client required)
    let mut seen = dereference::look(&cluster, &ctx).await.map_err(Step::Dereference.stopped())?;
    act::claim(&cluster, &mut seen, &ctx).await.map_err(Step::Claim.stopped())?;
    if going { remove(&cluster, &seen, &ctx).await } else { keep(&cluster, &seen, &ctx).await }
}

/// A Cluster that shall be there.
async fn keep(cluster: &Cluster, seen: &Seen, ctx: &Context) -> Result<Action, Stopped> {
    let endpoint = decide::endpoint(cluster, seen);
    let cluster =
        act::set_endpoint(cluster.clone(), endpoint, ctx).await.map_err(Step::Endpoint.stopped())?;
    let new = status::observed(&cluster, seen, None, moment(&cluster, ctx));
    write(&cluster, &new, ctx).await?;
    let missing = |part: &Part| matches!(part, Part::Missing { .. } | Part::Unusable { .. });
    let soon = missing(&seen.infrastructure) || missing(&seen.control_plane);
    Ok(Action::requeue(if soon { MISSING } else { NET }))
}

/// A Cluster that goes.
async fn remove(cluster: &Cluster, seen: &Seen, ctx: &Context) -> Result<Action, Stopped> {
    let waits = act::remove(decide::removal(seen), ctx).await.map_err(Step::Remove.stopped())?;
    let Some((reason, why)) = waits else {
        ctx.kube.remove_finalizers(cluster, &[act::FINALIZER]).await.map_err(Step::Hold.stopped())?;
        return Ok(Action::await_change());
    };
    let new = status::observed(cluster, seen, Some((reason, &why)), moment(cluster, ctx));
    write(cluster, &new, ctx).await?;
    Ok(Action::requeue(MISSING))
}

/// Why a Cluster is left alone.
fn pause(cluster: &Cluster) -> Option<&'static str> {
    if cluster.spec.paused == Some(true) {
        return Some("spec.paused is true");
    }
    gate::has_annotation(&cluster.metadata, names::PAUSED_ANNOTATION)
        .then_some("the annotation cluster.x-k8s.io/paused is set")
}

fn moment(cluster: &Cluster, ctx: &Context) -> Moment {
    Moment { generation: cluster.metadata.generation, now: (ctx.clock)() }
}

/// Writes the status if it says something new, and tells what is worth telling.
async fn write(cluster: &Cluster, new: &ClusterStatus, ctx: &Context) -> Result<(), Stopped> {
    let old = cluster.status.as_ref();
    let written = ctx.kube.write_status(cluster, old, new).await.map_err(Step::Status.stopped())?;
    if written == Written::Changed {
        let before = old.cloned().unwrap_or_default();
        for (type_, what) in [
            (types::INFRASTRUCTURE_READY, "the network is ready"),
            (types::CONTROL_PLANE_INITIALIZED, "the control plane answered"),
            (types::AVAILABLE, "the cluster can be used"),
            (types::PAUSED, "nobody acts on it while it is paused"),
            (types::DELETING, "it is being deleted"),
        ] {
            if is_true(&new.conditions, type_) && !is_true(&before.conditions, type_) {
                ctx.events.tell(cluster, News::normal("Reconcile", type_, what)).await;
            }
        }
        tracing::debug!(
            namespace = cluster.namespace(),
            name = cluster.name_any(),
            phase = new.phase,
            "status"
        );
    }
    Ok(())
}
