//! `WorkspaceTemplate`: looked over before anybody uses it, and held while somebody does.

mod background;
mod judge;
mod users;

use std::{sync::Arc, time::Duration};

use futures::{FutureExt as _, StreamExt as _};
use kube::{
    ResourceExt,
    core::DeserializeGuard,
    runtime::{
        controller::{Action, Config},
        reflector::ObjectRef,
        watcher,
    },
};
use terraform_driver::clock;
use tokio_util::sync::CancellationToken;

pub use self::judge::{Verdict, judge};
use self::{background::Background, users::Users};
use crate::{
    api::{
        WorkspaceTemplate, WorkspaceTemplateApply, WorkspaceTemplateObjectStatus,
        conditions::{reasons, types},
        names,
    },
    blueprint::Key,
    controllers::common::{self, drive, gate::passes, unreadable::readable},
    k8s::{
        K8sError, News,
        conditions::{self, Said},
    },
    runs::Runs,
};

/// What every reconcile needs.
pub struct Context {
    /// What all controllers need.
    pub common: Arc<common::Context>,
    /// Where terraform is.
    pub runs: Runs,
}

const KIND: &str = "WorkspaceTemplate";

/// When a template is looked at again while the list of workspaces is read.
const SOON: Duration = Duration::from_millis(500);

/// Runs until `stop`.
pub async fn run(ctx: Arc<Context>, stop: CancellationToken) {
    let (background, judged) = Background::new(ctx.runs.clone());
    let (background, users, log) = (Arc::new(background), Users::default(), drive::log(KIND, &ctx.common));
    let objects = drive::api::<DeserializeGuard<WorkspaceTemplate>>(&ctx.common);
    let controller = drive::controller(KIND, &ctx.common, objects, watcher::Config::default());
    let (seen, stop) = (controller.store(), stop.cancelled_owned().shared());
    let used = users.follow(&ctx.common);
    let work = controller
        .with_config(Config::default().concurrency(8))
        .reconcile_on(judged)
        .reconcile_on(used)
        .graceful_shutdown_on(stop.clone())
        .run(
            move |object, ctx: Arc<Context>| {
                let (common, background) = (Arc::clone(&ctx.common), Arc::clone(&background));
                let users = users.clone();
                drive::drive(KIND, object, common, move |object, _| async move {
                    reconcile(&object, &ctx, (&background, &users)).await
                })
            },
            |object, error, ctx| drive::policy(KIND, &object, error, &ctx.common),
            ctx,
        )
        .for_each(log);
    drive::finish(work, seen, stop).await;
}

/// Looks a template over, and holds it while it is used.
async fn reconcile(
    object: &WorkspaceTemplate,
    ctx: &Context,
    (background, users): (&Background, &Users),
) -> Result<Action, K8sError> {
    if !passes(&object.metadata, ctx.common.settings.watch_filter.as_deref()) {
        return Ok(Action::await_change());
    }
    let Some(users) = users.of(&key(object)) else { return Ok(Action::requeue(SOON)) };
    let held = object.finalizers().iter().any(|it| it == names::TEMPLATE_FINALIZER);
    if users.is_empty() && held {
        let_go(object, ctx).await?;
        return Ok(Action::await_change());
    }
    if object.metadata.deletion_timestamp.is_none() && !users.is_empty() && !held {
        ctx.common.kube.add_finalizer(object, names::TEMPLATE_FINALIZER).await?;
        return Ok(Action::await_change());
    }
    let verdict = background.verdict(object);
    say(object, verdict.as_ref(), &users, ctx).await?;
    Ok(Action::await_change())
}

/// Lets a template go that nobody uses. The API server is asked once more: what a watch told may be old.
async fn let_go(object: &WorkspaceTemplate, ctx: &Context) -> Result<(), K8sError> {
    let namespace = ctx.common.settings.namespace.as_deref();
    // One that cannot be read was counted by the watch, which needs no more of it than the name of its template.
    let all = readable::<WorkspaceTemplateApply>(ctx.common.kube.list(namespace, "").await?);
    let me = key(object);
    if all.iter().all(|it| template_of(it) != Some(me.clone())) {
        ctx.common.kube.remove_finalizers(object, &[names::TEMPLATE_FINALIZER]).await?;
    }
    Ok(())
}

/// The template that a workspace uses.
fn template_of(user: &WorkspaceTemplateApply) -> Option<Key> {
    let reference = user.spec.template_ref.as_ref()?;
    let namespace = reference.namespace.clone().filter(|it| !it.is_empty()).or_else(|| user.namespace());
    Some(Key::new(&namespace.unwrap_or_default(), &reference.name))
}

fn key(object: &WorkspaceTemplate) -> Key {
    Key::new(&object.namespace().unwrap_or_default(), &object.name_any())
}

async fn say(
    object: &WorkspaceTemplate,
    verdict: Option<&Verdict>,
    users: &[String],
    ctx: &Context,
) -> Result<(), K8sError> {
    let before: Option<&WorkspaceTemplateObjectStatus> = object.status.as_ref();
    let mut status = before.cloned().unwrap_or_default();
    let (generation, now) = (object.metadata.generation, clock::now());
    let valid = match verdict {
        None => None,
        Some(Verdict::Valid(note)) => Some(Said::yes(types::VALID, reasons::TEMPLATE_VALID, note.clone())),
        Some(Verdict::Invalid(why)) => Some(Said::no(types::VALID, reasons::TEMPLATE_INVALID, why.clone())),
    };
    if let Some(Verdict::Invalid(why)) = verdict {
        ctx.common.events.tell(object, News::warning("Validate", "TemplateInvalid", why.clone())).await;
    }
    let deleting = if object.metadata.deletion_timestamp.is_some() {
        let message = format!("is used by {}", users.join(", "));
        Some(Said::yes(types::DELETING, reasons::IN_USE, message))
    } else {
        None
    };
    for said in valid.into_iter().chain(deleting) {
        let _transition = conditions::set(&mut status.conditions, said, generation, now);
    }
    status.observed_generation = generation;
    ctx.common.kube.write_status(object, before, &status).await?;
    Ok(())
}

/// The name of a template, for the background.
fn reference(object: &WorkspaceTemplate) -> ObjectRef<DeserializeGuard<WorkspaceTemplate>> {
    ObjectRef::new(&object.name_any()).within(&object.namespace().unwrap_or_default())
}
