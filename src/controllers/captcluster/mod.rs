//! `CAPTCluster`: the network of one cluster, by one workspace. The infrastructure cluster of contract v1beta2.
//!
//! Writes its own objects and the workspace that it makes, and never a Cluster.

mod act;
mod build;
mod decide;
mod dereference;
#[cfg(test)]
mod fixtures;
mod news;
mod status;
#[cfg(test)]
mod tests;
mod validate;
mod watch;

use std::{sync::Arc, time::Duration};

use jiff::Timestamp;
use kube::{ResourceExt as _, runtime::controller::Action};

pub use self::watch::run;
use self::{
    act::{Acted, Removed},
    dereference::{Owner, Seen},
    status::{Found, Moment},
};
use super::common::{
    Context,
    cluster::owner as owner_reference,
    gate::{self, Gate},
    step::{Step, Stopped},
    workspace::text_output,
};
use crate::{
    api::{CaptCluster, CaptClusterStatus},
    k8s::Written,
};

/// How often something is looked at that no watch tells of.
const NET: Duration = Duration::from_mins(10);
/// How often a deletion looks whether what it waits for is gone.
const DELETION_NET: Duration = Duration::from_secs(30);

/// Looks after one network.
pub async fn reconcile(object: Arc<CaptCluster>, ctx: Arc<Context>) -> Result<Action, Stopped> {
    let (meta, filter) = (&object.metadata, ctx.settings.watch_filter.as_deref());
    if gate::is_managed_elsewhere(meta) || !gate::passes(meta, filter) {
        return Ok(Action::await_change());
    }
    let owner = dereference::owner(&object, &ctx).await.map_err(Step::Dereference.stopped())?;
    let at = moment(&object, &ctx);
    let old = object.status.clone().unwrap_or_default();
    match (gate::gate(meta, owner.as_ref().map(|it| &it.view), filter), owner) {
        (Gate::NotOurs | Gate::Moving, _) => {}
        (Gate::Paused, _) => write(&object, &status::paused(&old, at), &ctx).await?,
        (Gate::Open, _) if meta.deletion_timestamp.is_some() => return remove(&object, &ctx).await,
        (Gate::Open, Some(owner)) => return Box::pin(keep(&object, owner, &ctx)).await,
        (Gate::Open | Gate::WaitingForOwner, _) => {
            write(&object, &status::waiting_for_owner(&old, at, &missing_owner(&object)), &ctx).await?;
        }
    }
    Ok(Action::await_change())
}

/// A network that shall be there.
async fn keep(object: &CaptCluster, owner: Owner, ctx: &Context) -> Result<Action, Stopped> {
    // hold (client required)
    let object = act::hold(object, ctx).await.map_err(Step::Hold.stopped())?;
    // dereference (client required, read only)
    let seen = dereference::look(&object, owner, ctx).await.map_err(Step::Dereference.stopped())?;
    // validate (no client required)
    let valid = match validate::validate(&object, &seen) {
        Ok(valid) => valid,
        Err(refusal) => {
            let old = object.status.clone().unwrap_or_default();
            write(&object, &status::invalid(&old, moment(&object, ctx), &refusal), ctx).await?;
            return Ok(Action::await_change());
        }
    };
    // decide (no client required)
    let decision = decide::decide(&object, &valid, &seen);
    // act (client required)
    let live = seen.apply.clone();
    let acted = act::carry_out(object, decision, live, ctx).await.map_err(Step::Act.stopped())?;
    // status (no client required, but to write it)
    let (new, next) = say(&acted, &seen, ctx);
    write(&acted.object, &new, ctx).await?;
    Ok(Action::requeue(next))
}

/// A network that goes.
async fn remove(object: &CaptCluster, ctx: &Context) -> Result<Action, Stopped> {
    let remains = dereference::remains(object, ctx).await.map_err(Step::Dereference.stopped())?;
    let removal = decide::removal(object, &remains);
    match act::remove(object, removal, ctx).await.map_err(Step::Remove.stopped())? {
        Removed::Released => Ok(Action::await_change()),
        Removed::Waiting { reason, why } => {
            let old = object.status.clone().unwrap_or_default();
            write(object, &status::deleting(&old, moment(object, ctx), reason, &why), ctx).await?;
            Ok(Action::requeue(DELETION_NET))
        }
    }
}

/// The status after what was done, and when to look again.
fn say(acted: &Acted, seen: &Seen, ctx: &Context) -> (CaptClusterStatus, Duration) {
    let at = moment(&acted.object, ctx);
    let old = acted.object.status.clone().unwrap_or_default();
    let spec = &acted.object.spec;
    let output = acted.apply.as_ref().and_then(|apply| text_output(apply, "vpc_id"));
    let limit = timeout(seen, ctx);
    let (overdue, left) = patience(acted, limit, at.now);
    let found = Found {
        apply: acted.apply.as_ref(),
        is_existing: spec.existing_vpc_id.is_some(),
        vpc_id: output
            .map(ToOwned::to_owned)
            .or_else(|| seen.hidden_vpc_id.clone())
            .or_else(|| spec.existing_vpc_id.clone()),
        refused: acted.refused.clone(),
        waiting: acted.waiting.clone(),
        overdue: overdue.then_some(limit),
        endpoint: seen.cluster.endpoint.as_ref().map(|(host, _)| host.as_str()),
    };
    let new = status::observed(&old, at, &found);
    let next = if status::provisioned(&new) { NET } else { left.unwrap_or(NET).min(NET) };
    (new, next)
}

/// How long the VPC may take: the control plane's word, else the operator's.
fn timeout(seen: &Seen, ctx: &Context) -> Duration {
    let config = seen.control_plane.as_ref().and_then(|it| it.spec.control_plane_config.as_ref());
    let minutes =
        config.and_then(|it| it.timeouts.as_ref()).and_then(|it| u64::try_from(it.vpc_ready_timeout).ok());
    minutes.map_or(ctx.settings.vpc_timeout, Duration::from_mins)
}

/// Whether the workspace takes too long, and how long it has left otherwise.
fn patience(acted: &Acted, limit: Duration, now: Timestamp) -> (bool, Option<Duration>) {
    let created = acted.apply.as_ref().and_then(|apply| apply.metadata.creation_timestamp.as_ref());
    let Some(created) = created else { return (false, None) };
    let age = Duration::try_from(now.duration_since(created.0)).unwrap_or_default();
    (age >= limit, limit.checked_sub(age).filter(|left| !left.is_zero()))
}

fn missing_owner(object: &CaptCluster) -> String {
    match owner_reference(&object.metadata) {
        None => "no Cluster has set its owner reference yet".to_owned(),
        Some(owner) => format!("Cluster {} with uid {} does not exist", owner.name, owner.uid),
    }
}

fn moment(object: &CaptCluster, ctx: &Context) -> Moment {
    Moment { generation: object.metadata.generation, now: (ctx.clock)() }
}

/// Writes the status if it says something new, and tells what is worth telling.
async fn write(object: &CaptCluster, new: &CaptClusterStatus, ctx: &Context) -> Result<(), Stopped> {
    let old = object.status.as_ref();
    let written = ctx.kube.write_status(object, old, new).await.map_err(Step::Status.stopped())?;
    if written == Written::Changed {
        let before = old.cloned().unwrap_or_default();
        for one in news::news(&before, new) {
            ctx.events.tell(object, one).await;
        }
        tracing::debug!(namespace = object.namespace(), name = object.name_any(), phase = ?new.phase, "status");
    }
    Ok(())
}
