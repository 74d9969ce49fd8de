//! Makes what was decided: forks, their Services, local workloads. No branch on the spec.

use k8s_openapi::api::{apps::v1::Deployment, core::v1::Service};
use kube::{
    ResourceExt as _,
    core::{ApiResource, DynamicObject},
};
use sandbox::{
    api::{LocalWorkload, Sandbox, conditions::reasons, names},
    refusal::Refusal,
};
use serde::Serialize;

use super::{
    context::Context,
    look::{Made, is_ours, kind},
    place::Place,
};
use crate::{
    controllers::common::applied,
    k8s::{K8sError, Kube, events::News},
};

/// What we do when we tell.
const ACTION: &str = "Act";

/// What a Sandbox shall have.
#[derive(Debug, Clone, Default)]
pub(super) struct Wanted {
    /// Its Deployments, each with the name of the fork. One that is not to be touched now stands here as it is.
    pub forks: Vec<(String, DynamicObject)>,
    /// Its Services.
    pub services: Vec<DynamicObject>,
    /// Its local workloads.
    pub locals: Vec<DynamicObject>,
}

/// What there is.
pub(super) struct Live<'a> {
    /// What was made for the Sandbox.
    pub made: &'a Made,
    /// Local workloads that name it.
    pub locals: &'a [DynamicObject],
}

/// Makes what is wanted and is not there, and removes what is there and not wanted. Gives the forks as they are now.
pub(super) async fn carry_out(
    object: &Sandbox,
    wanted: Wanted,
    live: Live<'_>,
    (place, ctx): (&Place, &Context),
) -> Result<Result<Vec<(String, DynamicObject)>, Refusal>, K8sError> {
    let Wanted { forks, services, locals } = wanted;
    let hand = Hand { object, place };
    for service in &services {
        let found = find(&live.made.services, service);
        if let Err(refusal) = hand.put(&kind::<Service>(), service, found).await? {
            return Ok(Err(refusal));
        }
    }
    let mut now = Vec::new();
    for (name, fork) in forks {
        match put_fork(&hand, (&name, &fork), &live.made.forks, ctx).await? {
            Ok(fork) => now.push((name, fork)),
            Err(refusal) => return Ok(Err(refusal)),
        }
    }
    let kube = &ctx.common.kube;
    for local in &locals {
        let found = find(live.locals, local);
        if let Some(found) = found.filter(|it| !is_ours(it, object)) {
            return Ok(Err(taken(&kind::<LocalWorkload>(), found)));
        }
        if is_to_write(found, local) {
            kube.apply_dynamic(&kind::<LocalWorkload>(), names::FIELD_MANAGER, local).await?;
        }
    }
    remove_rest(&place.kube, &kind::<Service>(), &live.made.services, &services).await?;
    let kept: Vec<DynamicObject> = now.iter().map(|(_, fork)| fork.clone()).collect();
    remove_rest(&place.kube, &kind::<Deployment>(), &live.made.forks, &kept).await?;
    let ours: Vec<DynamicObject> = live.locals.iter().filter(|it| is_ours(it, object)).cloned().collect();
    remove_rest(kube, &kind::<LocalWorkload>(), &ours, &locals).await?;
    Ok(Ok(now))
}

/// Makes a fork, or brings it up to date.
async fn put_fork(
    hand: &Hand<'_>,
    (name, wanted): (&str, &DynamicObject),
    made: &[DynamicObject],
    ctx: &Context,
) -> Result<Result<DynamicObject, Refusal>, K8sError> {
    let uid = hand.object.uid().unwrap_or_default();
    let live = find(made, wanted);
    let digest = wanted.annotations().get(names::SOURCE_HASH_ANNOTATION).cloned().unwrap_or_default();
    // The API server writes some values down in its own way, so that what we applied looks like something else.
    let is_known = |it: &DynamicObject| {
        let generation = it.metadata.generation.unwrap_or_default();
        ctx.memory.is_applied(&uid, name, &digest, generation)
            && !is_to_write(Some(&it.metadata), &wanted.metadata)
    };
    if let Some(live) = live.filter(|it| is_known(it)) {
        return Ok(Ok(live.clone()));
    }
    let applied = match hand.put(&kind::<Deployment>(), wanted, live).await? {
        Ok(applied) => applied,
        Err(refusal) => return Ok(Err(refusal)),
    };
    ctx.memory.applied(&uid, name, &digest, applied.metadata.generation.unwrap_or_default());
    if live.is_none() {
        let note = format!("made Deployment {} for fork {name}", wanted.name_any());
        ctx.common.events.tell(hand.object, News::normal(ACTION, "Forked", note)).await;
    }
    Ok(Ok(applied))
}

/// Writes for a Sandbox, in its place.
struct Hand<'a> {
    object: &'a Sandbox,
    place: &'a Place,
}

impl Hand<'_> {
    /// Makes an object, or brings it up to date. One of the same name that is not ours is left alone.
    async fn put(
        &self,
        kind: &ApiResource,
        wanted: &DynamicObject,
        live: Option<&DynamicObject>,
    ) -> Result<Result<DynamicObject, Refusal>, K8sError> {
        let Self { object, place } = self;
        if let Some(live) = live.filter(|it| !is_to_write(Some(*it), wanted)) {
            return Ok(Ok(live.clone()));
        }
        let mut wanted = wanted.clone();
        match live {
            // Only the one that was looked at is changed, not another that took its name meanwhile.
            Some(live) => wanted.metadata.uid.clone_from(&live.metadata.uid),
            None => {
                let found =
                    place.kube.get_dynamic(kind, Some(&place.spot.namespace), &wanted.name_any()).await?;
                let is_ours = |it: &DynamicObject| is_ours(it, object) && is_labelled(it, object);
                if let Some(found) = found.filter(|it| !is_ours(it)) {
                    return Ok(Err(taken(kind, &found)));
                }
            }
        }
        place.kube.apply_dynamic(kind, names::FIELD_MANAGER, &wanted).await.map(Ok)
    }
}

async fn remove_rest(
    kube: &Kube,
    kind: &ApiResource,
    made: &[DynamicObject],
    wanted: &[DynamicObject],
) -> Result<(), K8sError> {
    for rest in made.iter().filter(|it| find(wanted, it).is_none()) {
        kube.delete_dynamic(kind, rest).await?;
    }
    Ok(())
}

fn find<'a>(all: &'a [DynamicObject], wanted: &DynamicObject) -> Option<&'a DynamicObject> {
    all.iter().find(|it| it.metadata.name == wanted.metadata.name)
}

fn is_labelled(it: &DynamicObject, object: &Sandbox) -> bool {
    it.labels().get(names::SANDBOX_LABEL) == Some(&object.name_any())
}

/// Whether an object is to be written.
fn is_to_write<K: Serialize>(live: Option<&K>, wanted: &K) -> bool {
    let Some(live) = live else { return true };
    match (serde_json::to_value(live), serde_json::to_value(wanted)) {
        (Ok(live), Ok(wanted)) => applied::differs_from(&live, &wanted, names::FIELD_MANAGER),
        _ => true,
    }
}

fn taken(kind: &ApiResource, found: &DynamicObject) -> Refusal {
    let (kind, name) = (&kind.kind, found.name_any());
    Refusal::new(reasons::NAME_TAKEN, format!("{kind} {name} is there already and belongs to somebody else"))
}
