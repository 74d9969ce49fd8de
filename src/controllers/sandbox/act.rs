//! Makes what was decided: forks, their Services, local workloads. No branch on the spec.

use std::collections::BTreeSet;

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
    refused::Stop,
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

/// What came of it.
#[derive(Debug, Default)]
pub(super) struct Acted {
    /// The forks as they are now, each with its name.
    pub forks: Vec<(String, DynamicObject)>,
    /// Those that were not there before.
    pub made: BTreeSet<String>,
}

/// Makes what is wanted and is not there, and removes what is there and not wanted.
pub(super) async fn carry_out(
    object: &Sandbox,
    wanted: Wanted,
    live: Live<'_>,
    (place, ctx): (&Place, &Context),
) -> Result<Result<Acted, Refusal>, K8sError> {
    let Wanted { forks, services, locals } = wanted;
    let hand = Hand { object, place };
    let made = Stop::parted(make(&hand, (&forks, &services, &locals), &live, ctx).await)?;
    let acted = match made {
        Ok(acted) => acted,
        Err(refusal) => return Ok(Err(refusal)),
    };
    let kube = &place.kube;
    remove_rest(kube, &kind::<Service>(), &live.made.services, &services).await?;
    let kept: Vec<DynamicObject> = acted.forks.iter().map(|(_, fork)| fork.clone()).collect();
    remove_rest(kube, &kind::<Deployment>(), &live.made.forks, &kept).await?;
    let ours: Vec<DynamicObject> = live.locals.iter().filter(|it| is_ours(it, object)).cloned().collect();
    remove_rest(kube, &kind::<LocalWorkload>(), &ours, &locals).await?;
    Ok(Ok(acted))
}

/// Makes everything, or nothing: what the API server would refuse is found out before anything is written.
async fn make(
    hand: &Hand<'_>,
    (forks, services, locals): (&[(String, DynamicObject)], &[DynamicObject], &[DynamicObject]),
    live: &Live<'_>,
    ctx: &Context,
) -> Result<Acted, Stop> {
    let (mut of_forks, mut others) = (Vec::new(), Vec::new());
    for (name, fork) in forks {
        of_forks.push((name, hand.fork((name, fork), &live.made.forks, ctx).await?));
    }
    for service in services {
        others.push(hand.task(kind::<Service>(), service, find(&live.made.services, service)).await?);
    }
    for local in locals {
        others.push(hand.task(kind::<LocalWorkload>(), local, find(live.locals, local)).await?);
    }
    hand.rehearse(of_forks.iter().map(|(_, it)| it).chain(&others)).await?;
    let mut acted = Acted::default();
    for (name, task) in of_forks {
        let is_new = task.is_new;
        let fork = hand.carry_out(task).await?;
        let generation = fork.metadata.generation.unwrap_or_default();
        if let Some((_, wanted)) = forks.iter().find(|(it, _)| it == name) {
            ctx.memory.applied(&hand.uid(), name, &digest(wanted), generation);
        }
        if is_new {
            let note = format!("made Deployment {} for fork {name}", fork.name_any());
            ctx.common.events.tell(hand.object, News::normal(ACTION, "Forked", note)).await;
            acted.made.insert(name.clone());
        }
        acted.forks.push((name.clone(), fork));
    }
    for task in others {
        hand.carry_out(task).await?;
    }
    Ok(acted)
}

/// What tells whether a fork is wanted as it was before. All of it: the addresses of its neighbours and the labels that Fargate
/// wants are neither its baseline's nor its customizations.
fn digest(wanted: &DynamicObject) -> String {
    sandbox::digest::sha256(&serde_json::to_string(wanted).unwrap_or_default())
}

/// An object that shall be as it is here.
struct Task {
    kind: ApiResource,
    object: DynamicObject,
    /// It is as it shall be.
    is_done: bool,
    /// There is none yet.
    is_new: bool,
}

impl Task {
    fn name(&self) -> String {
        format!("{} {}", self.kind.kind, self.object.name_any())
    }
}

/// Writes for a Sandbox, in its place.
struct Hand<'a> {
    object: &'a Sandbox,
    place: &'a Place,
}

impl Hand<'_> {
    fn uid(&self) -> String {
        self.object.uid().unwrap_or_default()
    }

    /// What is to be done about a fork.
    async fn fork(
        &self,
        (name, wanted): (&str, &DynamicObject),
        made: &[DynamicObject],
        ctx: &Context,
    ) -> Result<Task, Stop> {
        let live = find(made, wanted);
        // The API server writes some values down in its own way, so that what we applied looks like something else.
        let is_known = |it: &DynamicObject| {
            let generation = it.metadata.generation.unwrap_or_default();
            ctx.memory.is_applied(&self.uid(), name, &digest(wanted), generation)
                && !is_to_write(Some(&it.metadata), &wanted.metadata)
        };
        match live.filter(|it| is_known(it)) {
            Some(live) => {
                Ok(Task { kind: kind::<Deployment>(), object: live.clone(), is_done: true, is_new: false })
            }
            None => self.task(kind::<Deployment>(), wanted, live).await,
        }
    }

    /// What is to be done about an object. One of the same name that is not ours is left alone.
    async fn task(
        &self,
        kind: ApiResource,
        wanted: &DynamicObject,
        live: Option<&DynamicObject>,
    ) -> Result<Task, Stop> {
        let Self { object, place } = self;
        let live = match live {
            Some(live) => Some(live.clone()),
            None => place.kube.get_dynamic(&kind, Some(&place.spot.namespace), &wanted.name_any()).await?,
        };
        if let Some(theirs) = live.as_ref().filter(|it| !is_ours(it, object)) {
            return Err(taken(&kind, theirs).into());
        }
        let is_done = live.as_ref().is_some_and(|it| !is_to_write(Some(it), wanted));
        let is_new = live.is_none();
        let object = match live {
            Some(live) if is_done => live,
            // Only the one that was looked at is changed, not another that took its name meanwhile.
            live => {
                let mut object = wanted.clone();
                object.metadata.uid = live.and_then(|it| it.metadata.uid);
                object
            }
        };
        Ok(Task { kind, object, is_done, is_new })
    }

    /// Asks the API server whether it would take everything. Where one thing alone is to be done, doing it tells as much.
    async fn rehearse(&self, tasks: impl Iterator<Item = &Task> + Clone + Send) -> Result<(), Stop> {
        let todo = tasks.filter(|it| !it.is_done);
        if todo.clone().nth(1).is_none() {
            return Ok(());
        }
        for task in todo {
            let taken = self.place.kube.rehearse_apply(&task.kind, names::FIELD_MANAGER, &task.object);
            taken.await.map_err(Stop::at(&task.name()))?;
        }
        Ok(())
    }

    /// Brings an object to what it shall be, and gives it as it is then.
    async fn carry_out(&self, task: Task) -> Result<DynamicObject, Stop> {
        if task.is_done {
            return Ok(task.object);
        }
        let applied = self.place.kube.apply_dynamic(&task.kind, names::FIELD_MANAGER, &task.object);
        applied.await.map_err(Stop::at(&task.name()))
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
