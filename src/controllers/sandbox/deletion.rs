//! A Sandbox that goes: routes first, so that nobody is sent to a fork that ends; then local workloads, Services and forks.
//!
//! Each step may be done again, and none holds the object for ever: what is absent counts as done.

use std::{marker::PhantomData, sync::Arc, time::Duration};

use k8s_openapi::api::{apps::v1::Deployment, core::v1::Service};
use kube::{
    ResourceExt as _,
    core::{ApiResource, DeserializeGuard, PartialObjectMeta},
    runtime::controller::Action,
};
use sandbox::api::{ClusterRef, LocalWorkload, Sandbox, SandboxSpec, names};

use super::{
    context::Context,
    elsewhere::{self, Left},
    look::{self, kind},
    place::{self, Place},
    routes,
    status::{self, Moment},
    write,
};
use crate::{
    controllers::common::{
        drive,
        meter::since,
        step::{Step, Stopped},
    },
    k8s::{K8sError, events::News},
};

/// How long routers may take to say that they know.
const WITHDRAWAL: Duration = Duration::from_secs(5);
/// How often we look whether they said so.
const LOOK: Duration = Duration::from_millis(250);
/// What we do when we tell.
const ACTION: &str = "Remove";

/// One that goes and that nobody can read, as far as it takes to let it go: what was made for it is known by its name and its uid.
pub(super) async fn bare(
    object: Arc<DeserializeGuard<Sandbox>>,
    ctx: &Context,
) -> Result<Arc<DeserializeGuard<Sandbox>>, Stopped> {
    let Some(invalid) = object.0.as_ref().err().filter(|it| it.metadata.deletion_timestamp.is_some()) else {
        return Ok(object);
    };
    let meta = &invalid.metadata;
    let (home, name) = (meta.namespace.as_deref(), meta.name.as_deref().unwrap_or_default());
    let raw = ctx.common.kube.get_dynamic(&kind::<Sandbox>(), home, name).await;
    let raw = raw.map_err(Step::Dereference.stopped())?;
    let cluster = raw.and_then(|it| Some(it.data.pointer("/spec/clusterRef/name")?.as_str()?.to_owned()));
    let spec = SandboxSpec { cluster_ref: cluster.map(|name| ClusterRef { name }), ..SandboxSpec::default() };
    let metadata = meta.clone();
    Ok(Arc::new(DeserializeGuard(Ok(Sandbox { metadata, spec, status: None }))))
}

/// Removes what was made for a Sandbox, and lets it go.
pub(super) async fn remove(object: &Sandbox, ctx: &Context) -> Result<Action, Stopped> {
    if !object.finalizers().iter().any(|it| it == names::FINALIZER) {
        return Ok(Action::await_change());
    }
    let now = (ctx.common.clock)();
    let age = since(object.metadata.deletion_timestamp.as_ref(), now).unwrap_or_default();
    let at = Moment { generation: object.metadata.generation, now, end: None };
    ctx.index.set(&place::spot(object), &object.name_any(), look::baselines_of(object));
    if object.spec.cluster_ref.is_some() {
        let left = match elsewhere::remove(object, at, age, ctx).await? {
            Left::Waits(action) => return Ok(action),
            Left::Abandoned(why) => Some(why),
            Left::Nothing => None,
        };
        release(object, left, ctx).await?;
        return Ok(Action::await_change());
    }
    if age < WITHDRAWAL && !routes::are_withdrawn(object, ctx.board.picture().as_deref()) {
        let why = "waiting for the routers to withdraw its routes";
        if let Err(error) = write(object, &status::terminating(object, why, at), ctx).await {
            // It goes, whether or not it can be told.
            tracing::debug!(name = object.name_any(), %error, "the status of a Sandbox that goes");
        }
        return Ok(Action::requeue(LOOK));
    }
    Box::pin(clean(object, &place::of(object, ctx), ctx)).await.map_err(Step::Remove.stopped())?;
    release(object, None, ctx).await?;
    Ok(Action::await_change())
}

/// Lets the object go. Who waits for its key hears of it when everybody knows that it is gone.
async fn release(object: &Sandbox, left: Option<String>, ctx: &Context) -> Result<(), Stopped> {
    let news = match left {
        Some(why) => {
            News::warning(ACTION, "CleanedUp", format!("its forks may still be in its cluster: {why}"))
        }
        None => News::normal(ACTION, "CleanedUp", "its forks and their Services are gone"),
    };
    ctx.common.events.tell(object, news).await;
    // The answer is the object, and may be one that nobody can read.
    let metadata = object.metadata.clone();
    let held = PartialObjectMeta::<Sandbox> { types: None, metadata, _phantom: PhantomData };
    ctx.common.kube.remove_finalizers(&held, &[names::FINALIZER]).await.map_err(Step::Hold.stopped())?;
    let spot = place::spot(object);
    if ctx.index.remove(&spot, &object.name_any()) && spot.cluster.is_some() {
        ctx.left.notify_one();
    }
    ctx.memory.forget(&object.uid().unwrap_or_default());
    ctx.common.meter.sandbox(&drive::path(&object.metadata), None);
    Ok(())
}

/// Removes Services and forks.
async fn clean(object: &Sandbox, place: &Place, ctx: &Context) -> Result<(), K8sError> {
    // Sessions end before what they could fall back to.
    locals(object, ctx).await?;
    let made = look::made(object, place).await?;
    for service in &made.services {
        place.kube.delete_dynamic(&kind::<Service>(), service).await?;
    }
    for fork in &made.forks {
        place.kube.delete_dynamic(&kind::<Deployment>(), fork).await?;
    }
    Ok(())
}

/// Removes the local workloads that were made for a Sandbox.
async fn locals(object: &Sandbox, ctx: &Context) -> Result<(), K8sError> {
    let kind: ApiResource = kind::<LocalWorkload>();
    for local in look::list_locals(object, ctx).await?.iter().filter(|it| look::is_ours(it, object)) {
        ctx.common.kube.delete_dynamic(&kind, local).await?;
    }
    Ok(())
}
