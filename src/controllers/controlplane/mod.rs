//! `CAPTControlPlane`: one EKS cluster by one workspace, its Fargate profiles by one each, and the way to its API. The
//! control plane of contract v1beta2.
//!
//! Writes its own objects and what it makes, and never a Cluster. Nothing in a reconcile waits for terraform or for AWS:
//! what AWS says is asked for in the background ([`look`]).

mod act;
mod balancers;
mod build;
mod context;
mod decide;
mod delete;
mod dereference;
mod endpoint;
mod fargate;
#[cfg(test)]
mod fixtures;
mod kubeconfig;
pub mod look;
mod news;
mod phase;
mod picture;
mod status;
#[cfg(test)]
mod tests;
mod validate;
mod version;
mod watch;

use std::{sync::Arc, time::Duration};

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Service;
use kube::{ResourceExt as _, api::DynamicObject, runtime::controller::Action};

use self::{
    act::{Acted, Removed},
    decide::Curiosity,
    look::When,
    picture::Picture,
    status::Moment,
};
pub use self::{context::Context, watch::run};
use super::common::{
    self, Thing,
    cluster::{ClusterView, owner as owner_reference},
    drive,
    gate::{self, Gate},
    meter::since,
    step::{Step, Stopped},
};
use crate::{
    api::{CaptControlPlane, CaptControlPlaneStatus, conditions::reasons, names},
    k8s::Written,
};

/// How often something is looked at that no watch tells of.
const NET: Duration = Duration::from_mins(10);
/// How often a wait looks whether what it waits for is there.
const WAITING_NET: Duration = Duration::from_secs(30);
/// How often a deletion looks whether the Sandboxes have left.
const DRAINING_NET: Duration = Duration::from_secs(1);
/// The least pause before another look.
const LEAST: Duration = Duration::from_millis(100);

/// Looks after one control plane.
pub async fn reconcile(object: Arc<CaptControlPlane>, ctx: Arc<Context>) -> Result<Action, Stopped> {
    let (meta, filter) = (&object.metadata, ctx.common.settings.watch_filter.as_deref());
    if !gate::passes(meta, filter) {
        return Ok(Action::await_change());
    }
    let owner = dereference::owner(&object, &ctx.common).await.map_err(Step::Dereference.stopped())?;
    let view = owner.as_ref().map(ClusterView::of);
    let (old, at) = (object.status.clone().unwrap_or_default(), moment(&object, &ctx));
    match (gate::gate(meta, view.as_ref(), filter), owner) {
        (Gate::NotOurs | Gate::Moving, _) => {}
        (Gate::Paused, _) => write(&object, &status::paused(&old, at), &ctx).await?,
        (Gate::Open, _) if meta.deletion_timestamp.is_some() => return Box::pin(remove(&object, &ctx)).await,
        (Gate::Open, Some(owner)) => return Box::pin(keep(&object, &owner, &ctx)).await,
        (Gate::Open | Gate::WaitingForOwner, _) => {
            write(&object, &status::waiting_for_owner(&old, at, &missing_owner(&object)), &ctx).await?;
        }
    }
    Ok(Action::await_change())
}

/// A control plane that shall be there.
async fn keep(object: &CaptControlPlane, owner: &DynamicObject, ctx: &Context) -> Result<Action, Stopped> {
    // hold (client required)
    let held = ctx.common.kube.add_finalizer(object, names::CONTROL_PLANE_FINALIZER).await;
    let object = held.map_err(Step::Hold.stopped())?;
    // dereference (client required, read only)
    let seen = Box::pin(dereference::look(&object, owner, &ctx.common)).await;
    let seen = seen.map_err(Step::Dereference.stopped())?;
    // validate, decide (no client required)
    let look = ctx.looks.known(&object.uid().unwrap_or_default());
    let at = moment(&object, ctx);
    let mut picture = Picture::of(&object, &seen, &look, &ctx.limits, at.now);
    let decision = decide::decide(&picture);
    let curiosity = decide::curiosity(&picture, ctx.poll);
    // act (client required)
    let acted = act::carry_out(object.clone(), decision, ctx).await.map_err(Step::Act.stopped())?;
    let Acted { object: now, refused, trouble } = acted;
    // status (no client required, but to write it)
    picture.refuse(refused);
    let at = Moment { generation: now.metadata.generation, ..at };
    write(&now, &status::observed(&picture, at), ctx).await?;
    ask(&now, curiosity.as_ref(), ctx);
    match trouble {
        Some(error) => Err(Step::Act.stopped()(error)),
        None => Ok(again(&picture, curiosity.as_ref())),
    }
}

/// Asks the world in the background, if it is time.
fn ask(object: &CaptControlPlane, curiosity: Option<&Curiosity>, ctx: &Context) {
    if let Some(Curiosity { question, when: When::Now }) = curiosity {
        let uid = object.uid().unwrap_or_default();
        let cloud = Arc::clone(&ctx.cloud);
        ctx.looks.ask(&uid, question.clone(), cloud, (ctx.common.clock, ctx.waker(object)));
    }
}

/// When to look again if nothing happens.
fn again(picture: &Picture<'_>, curiosity: Option<&Curiosity>) -> Action {
    let deadline = status::deadline(picture);
    let wake = decide::wake(picture, curiosity, deadline.as_slice());
    let left = |then: Timestamp| Duration::try_from(then.duration_since(picture.now)).unwrap_or_default();
    // An identity that is made later is told by no watch.
    let net = if picture.seen.principal.is_err() { WAITING_NET } else { NET };
    Action::requeue(wake.map_or(net, |then| left(then).clamp(LEAST, net)))
}

/// A control plane that goes.
async fn remove(object: &CaptControlPlane, ctx: &Context) -> Result<Action, Stopped> {
    if !object.finalizers().iter().any(|it| it == names::CONTROL_PLANE_FINALIZER) {
        return Ok(Action::await_change());
    }
    loop {
        // dereference (client required, read only)
        let remains = Box::pin(dereference::remains(object, &ctx.common)).await;
        let mut remains = remains.map_err(Step::Dereference.stopped())?;
        remains.balancers = Box::pin(balancers(object, &remains, ctx)).await;
        // decide (no client required), act (client required)
        let age = since(object.metadata.deletion_timestamp.as_ref(), (ctx.common.clock)());
        let step = delete::next(&remains, age.unwrap_or_default());
        let removed = Box::pin(act::tear_down(object, step, &remains, ctx)).await;
        match removed.map_err(Step::Remove.stopped())? {
            Removed::Released => return Ok(Action::await_change()),
            Removed::Next => {}
            Removed::Waiting { reason, why } => {
                let old = object.status.clone().unwrap_or_default();
                let left = delete::profiles(object, &remains);
                let new = status::deleting(&old, moment(object, ctx), (reason, &why), left);
                write(object, &new, ctx).await?;
                // Nobody tells us when the last Sandbox has left, or what is in another cluster.
                let drains =
                    [reasons::WAITING_FOR_SANDBOXES_DELETION, reasons::WAITING_FOR_LOAD_BALANCERS_DELETION]
                        .contains(&reason);
                return Ok(Action::requeue(if drains { DRAINING_NET } else { WAITING_NET }));
            }
        }
    }
}

/// The load balancers that are left in the cluster. One that does not answer is waited for only where Sandboxes were to live.
async fn balancers(
    object: &CaptControlPlane,
    remains: &dereference::Remains,
    ctx: &Context,
) -> Result<Vec<Service>, String> {
    let is_enabled = object.spec.sandboxes.as_ref().is_some_and(|it| it.enabled);
    match balancers::left(object, remains, &ctx.common).await {
        Err(error) if is_enabled => Err(error.to_string()),
        found => Ok(found.unwrap_or_default()),
    }
}

fn missing_owner(object: &CaptControlPlane) -> String {
    match owner_reference(&object.metadata) {
        None => "no Cluster has set its owner reference yet".to_owned(),
        Some(owner) => format!("Cluster {} with uid {} does not exist", owner.name, owner.uid),
    }
}

fn moment(object: &CaptControlPlane, ctx: &Context) -> Moment {
    Moment { generation: object.metadata.generation, now: (ctx.common.clock)() }
}

/// Writes the status if it says something new, and tells what is worth telling.
async fn write(
    object: &CaptControlPlane,
    new: &CaptControlPlaneStatus,
    ctx: &Context,
) -> Result<(), Stopped> {
    let old = object.status.as_ref();
    let written = ctx.common.kube.write_status(object, old, new).await;
    if written.map_err(Step::Status.stopped())? == Written::Changed {
        let before = old.cloned().unwrap_or_default();
        for one in news::news(&before, new) {
            ctx.common.events.tell(object, one).await;
        }
        tracing::debug!(namespace = object.namespace(), name = object.name_any(), phase = ?new.phase, "status");
    }
    measure(object, new, &ctx.common);
    Ok(())
}

/// Tells whoever measures what is worth a figure.
fn measure(object: &CaptControlPlane, now: &CaptControlPlaneStatus, ctx: &common::Context) {
    let states: Vec<&str> =
        now.fargate_profile_statuses.iter().filter_map(|it| it.status.as_deref()).collect();
    ctx.meter.profiles(&drive::path(&object.metadata), &states);
    let was_there = object.status.as_ref().is_some_and(|before| before.initialized == Some(true));
    let age = since(object.metadata.creation_timestamp.as_ref(), (ctx.clock)());
    if let Some(took) = age.filter(|_| now.initialized == Some(true) && !was_there) {
        ctx.meter.made(Thing::Cluster, took);
    }
}
