//! Applies the desired forks, Services and local workloads, and prunes the rest. Must not branch on the spec.

use std::collections::BTreeSet;

use capt_kinds::sandbox::{LocalWorkload, Sandbox, conditions::reasons, names};
use capt_kube::k8s::{K8sError, KubeClient, events::EventSpec};
use k8s_openapi::api::{apps::v1::Deployment, core::v1::Service};
use kube::{
    ResourceExt as _,
    core::{ApiResource, DynamicObject},
};
use sandbox::rejection::Rejection;
use serde::Serialize;

use super::{
    apply_error::ApplyError,
    context::Context,
    dereference::{OwnedObjects, api_resource, is_owned_by},
    fork_target::ForkTarget,
};
use crate::common::apply_diff;

/// `action` of the events of this module.
const ACTION: &str = "Act";

/// The desired objects of a Sandbox.
#[derive(Debug, Clone, Default)]
pub(super) struct DesiredObjects {
    /// Its Deployments, each with the name of the fork. A fork that must not change is included in its live state.
    pub forks: Vec<(String, DynamicObject)>,
    /// Its Services.
    pub services: Vec<DynamicObject>,
    /// Its local workloads.
    pub locals: Vec<DynamicObject>,
}

/// The live objects.
pub(super) struct LiveObjects<'a> {
    /// The objects owned by the Sandbox.
    pub owned: &'a OwnedObjects,
    /// The local workloads that refer to it.
    pub locals: &'a [DynamicObject],
}

/// The result of an apply.
#[derive(Debug, Default)]
pub(super) struct ForkApplyOutcome {
    /// The live forks after the apply, each with its name.
    pub forks: Vec<(String, DynamicObject)>,
    /// The forks that were created.
    pub created: BTreeSet<String>,
}

/// Applies the desired objects, then prunes the others.
pub(super) async fn apply(
    object: &Sandbox,
    wanted: DesiredObjects,
    live: LiveObjects<'_>,
    (place, ctx): (&ForkTarget, &Context),
) -> Result<Result<ForkApplyOutcome, Rejection>, K8sError> {
    let DesiredObjects { forks, services, locals } = wanted;
    let hand = ObjectWriter { object, target: place };
    let made = ApplyError::split_rejection(apply_all(&hand, (&forks, &services, &locals), &live, ctx).await)?;
    let acted = match made {
        Ok(acted) => acted,
        Err(refusal) => return Ok(Err(refusal)),
    };
    let kube = &place.kube;
    prune(kube, &api_resource::<Service>(), &live.owned.services, &services).await?;
    let kept: Vec<DynamicObject> = acted.forks.iter().map(|(_, fork)| fork.clone()).collect();
    prune(kube, &api_resource::<Deployment>(), &live.owned.forks, &kept).await?;
    let ours: Vec<DynamicObject> = live.locals.iter().filter(|it| is_owned_by(it, object)).cloned().collect();
    prune(kube, &api_resource::<LocalWorkload>(), &ours, &locals).await?;
    Ok(Ok(acted))
}

/// Applies all objects or none: a dry run finds rejections before the first write.
async fn apply_all(
    hand: &ObjectWriter<'_>,
    (forks, services, locals): (&[(String, DynamicObject)], &[DynamicObject], &[DynamicObject]),
    live: &LiveObjects<'_>,
    ctx: &Context,
) -> Result<ForkApplyOutcome, ApplyError> {
    let (mut of_forks, mut others) = (Vec::new(), Vec::new());
    for (name, fork) in forks {
        of_forks.push((name, hand.plan_fork((name, fork), &live.owned.forks, ctx).await?));
    }
    for service in services {
        others.push(
            hand.plan_object(api_resource::<Service>(), service, find_by_name(&live.owned.services, service))
                .await?,
        );
    }
    for local in locals {
        others.push(
            hand.plan_object(api_resource::<LocalWorkload>(), local, find_by_name(live.locals, local))
                .await?,
        );
    }
    hand.dry_run(of_forks.iter().map(|(_, it)| it).chain(&others)).await?;
    let mut acted = ForkApplyOutcome::default();
    for (name, task) in of_forks {
        let is_new = task.is_new;
        let fork = hand.execute(task).await?;
        let generation = fork.metadata.generation.unwrap_or_default();
        if let Some((_, wanted)) = forks.iter().find(|(it, _)| it == name) {
            ctx.fork_cache.record_applied(&hand.uid(), name, &desired_hash(wanted), generation);
        }
        if is_new {
            let note = format!("created Deployment {} for fork {name}", fork.name_any());
            ctx.common.events.publish(hand.object, EventSpec::normal(ACTION, "Forked", note)).await;
            acted.created.insert(name.clone());
        }
        acted.forks.push((name.clone(), fork));
    }
    for task in others {
        hand.execute(task).await?;
    }
    Ok(acted)
}

/// Digest of the whole desired fork. The baseline and the customizations are not enough: addresses of sibling forks and Fargate
/// labels are in neither.
fn desired_hash(wanted: &DynamicObject) -> String {
    sandbox::digest::sha256(&serde_json::to_string(wanted).unwrap_or_default())
}

/// An object to apply.
struct ApplyTask {
    kind: ApiResource,
    object: DynamicObject,
    /// The live object already matches.
    is_current: bool,
    /// The object does not exist yet.
    is_new: bool,
}

impl ApplyTask {
    fn name(&self) -> String {
        format!("{} {}", self.kind.kind, self.object.name_any())
    }
}

/// Writes the objects of one Sandbox to its target.
struct ObjectWriter<'a> {
    object: &'a Sandbox,
    target: &'a ForkTarget,
}

impl ObjectWriter<'_> {
    fn uid(&self) -> String {
        self.object.uid().unwrap_or_default()
    }

    /// Plans the apply of a fork.
    async fn plan_fork(
        &self,
        (name, wanted): (&str, &DynamicObject),
        made: &[DynamicObject],
        ctx: &Context,
    ) -> Result<ApplyTask, ApplyError> {
        let live = find_by_name(made, wanted);
        // The API server normalizes some values, so a comparison with the live object reports false differences.
        let is_known = |it: &DynamicObject| {
            let generation = it.metadata.generation.unwrap_or_default();
            ctx.fork_cache.is_applied(&self.uid(), name, &desired_hash(wanted), generation)
                && !needs_apply(Some(&it.metadata), &wanted.metadata)
        };
        match live.filter(|it| is_known(it)) {
            Some(live) => Ok(ApplyTask {
                kind: api_resource::<Deployment>(),
                object: live.clone(),
                is_current: true,
                is_new: false,
            }),
            None => self.plan_object(api_resource::<Deployment>(), wanted, live).await,
        }
    }

    /// Plans the apply of an object. Rejects if an object of the same name is not owned by the Sandbox.
    async fn plan_object(
        &self,
        kind: ApiResource,
        wanted: &DynamicObject,
        live: Option<&DynamicObject>,
    ) -> Result<ApplyTask, ApplyError> {
        let Self { object, target: place } = self;
        let live = match live {
            Some(live) => Some(live.clone()),
            None => {
                place.kube.get_dynamic(&kind, Some(&place.location.namespace), &wanted.name_any()).await?
            }
        };
        if let Some(theirs) = live.as_ref().filter(|it| !is_owned_by(it, object)) {
            return Err(name_taken(&kind, theirs).into());
        }
        let is_done = live.as_ref().is_some_and(|it| !needs_apply(Some(it), wanted));
        let is_new = live.is_none();
        let object = match live {
            Some(live) if is_done => live,
            // The uid is a precondition: an object recreated under the same name in the meantime is not changed.
            live => {
                let mut object = wanted.clone();
                object.metadata.uid = live.and_then(|it| it.metadata.uid);
                object
            }
        };
        Ok(ApplyTask { kind, object, is_current: is_done, is_new })
    }

    /// Dry-runs all pending applies. Skipped for a single one, whose real apply is equally atomic.
    async fn dry_run(
        &self,
        tasks: impl Iterator<Item = &ApplyTask> + Clone + Send,
    ) -> Result<(), ApplyError> {
        let todo = tasks.filter(|it| !it.is_current);
        if todo.clone().nth(1).is_none() {
            return Ok(());
        }
        for task in todo {
            let taken = self.target.kube.dry_run_apply(&task.kind, names::FIELD_MANAGER, &task.object);
            taken.await.map_err(ApplyError::classify(&task.name()))?;
        }
        Ok(())
    }

    /// Applies an object and returns its live state.
    async fn execute(&self, task: ApplyTask) -> Result<DynamicObject, ApplyError> {
        if task.is_current {
            return Ok(task.object);
        }
        let applied = self.target.kube.apply_dynamic(&task.kind, names::FIELD_MANAGER, &task.object);
        applied.await.map_err(ApplyError::classify(&task.name()))
    }
}

async fn prune(
    kube: &KubeClient,
    kind: &ApiResource,
    made: &[DynamicObject],
    wanted: &[DynamicObject],
) -> Result<(), K8sError> {
    for rest in made.iter().filter(|it| find_by_name(wanted, it).is_none()) {
        kube.delete_dynamic(kind, rest).await?;
    }
    Ok(())
}

fn find_by_name<'a>(all: &'a [DynamicObject], wanted: &DynamicObject) -> Option<&'a DynamicObject> {
    all.iter().find(|it| it.metadata.name == wanted.metadata.name)
}

/// Whether an apply would change the live object.
fn needs_apply<K: Serialize>(live: Option<&K>, wanted: &K) -> bool {
    let Some(live) = live else { return true };
    match (serde_json::to_value(live), serde_json::to_value(wanted)) {
        (Ok(live), Ok(wanted)) => apply_diff::needs_apply_as(&live, &wanted, names::FIELD_MANAGER),
        _ => true,
    }
}

fn name_taken(kind: &ApiResource, found: &DynamicObject) -> Rejection {
    let (kind, name) = (&kind.kind, found.name_any());
    Rejection::new(
        reasons::NAME_TAKEN,
        format!("{kind} {name} already exists and is not owned by this Sandbox"),
    )
}
