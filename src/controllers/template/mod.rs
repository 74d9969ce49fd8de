//! `WorkspaceTemplate`: looked over before anybody uses it, and held while somebody does.

mod background;
mod judge;

use std::sync::Arc;

use futures::StreamExt as _;
use kube::{
    Api, ResourceExt,
    api::PartialObjectMeta,
    core::DeserializeGuard,
    runtime::{
        Controller, WatchStreamExt,
        controller::{Action, Config},
        reflector::ObjectRef,
        watcher,
    },
};
use terraform_driver::clock;
use tokio_util::sync::CancellationToken;

use self::background::Background;
pub use self::judge::{Verdict, judge};
use crate::{
    api::{
        WorkspaceTemplate, WorkspaceTemplateApply, WorkspaceTemplateObjectStatus,
        conditions::{reasons, types},
        names,
    },
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

/// Runs until `stop`.
pub async fn run(ctx: Arc<Context>, stop: CancellationToken) {
    let client = ctx.common.kube.client().clone();
    let (background, told) = Background::new(ctx.runs.clone());
    let background = Arc::new(background);
    let controller = match &ctx.common.settings.namespace {
        Some(namespace) => Controller::new(
            Api::<DeserializeGuard<WorkspaceTemplate>>::namespaced(client.clone(), namespace),
            watcher::Config::default(),
        ),
        None => Controller::new(Api::all(client.clone()), watcher::Config::default()),
    };
    let users: Api<PartialObjectMeta<WorkspaceTemplateApply>> = match &ctx.common.settings.namespace {
        Some(namespace) => Api::namespaced(client, namespace),
        None => Api::all(client),
    };
    let all = controller.store();
    let users = watcher(users, watcher::Config::default()).default_backoff().touched_objects();
    // Which template a workspace used before an edit is not known here; there are few templates, so all are looked at.
    let of_user = move |_: PartialObjectMeta<WorkspaceTemplateApply>| {
        all.state().iter().map(|it| ObjectRef::from_obj(it.as_ref())).collect::<Vec<_>>()
    };
    controller
        .with_config(Config::default().concurrency(8))
        .watches_stream(users, of_user)
        .reconcile_on(told)
        .graceful_shutdown_on(stop.cancelled_owned())
        .run(
            move |object, ctx: Arc<Context>| {
                let (common, background) = (Arc::clone(&ctx.common), Arc::clone(&background));
                drive::drive(KIND, object, common, move |object, _| async move {
                    reconcile(&object, &ctx, &background).await
                })
            },
            |object, error, ctx| drive::policy(KIND, &object, error, &ctx.common),
            ctx,
        )
        .for_each(|event| {
            drive::log(KIND, event);
            std::future::ready(())
        })
        .await;
}

/// Looks a template over, and holds it while it is used.
async fn reconcile(
    object: &WorkspaceTemplate,
    ctx: &Context,
    background: &Background,
) -> Result<Action, K8sError> {
    if !passes(&object.metadata, ctx.common.settings.watch_filter.as_deref()) {
        return Ok(Action::await_change());
    }
    let users = users(object, ctx).await?;
    let held = object.finalizers().iter().any(|it| it == names::TEMPLATE_FINALIZER);
    if object.metadata.deletion_timestamp.is_some() {
        if users.is_empty() {
            ctx.common.kube.remove_finalizers(object, &[names::TEMPLATE_FINALIZER]).await?;
            return Ok(Action::await_change());
        }
    } else if users.is_empty() == held {
        if held {
            ctx.common.kube.remove_finalizers(object, &[names::TEMPLATE_FINALIZER]).await?;
        } else {
            ctx.common.kube.add_finalizer(object, names::TEMPLATE_FINALIZER).await?;
        }
        return Ok(Action::await_change());
    }
    let verdict = background.verdict(object);
    say(object, verdict.as_ref(), &users, ctx).await?;
    Ok(Action::await_change())
}

/// Names of the workspaces that use a template.
async fn users(object: &WorkspaceTemplate, ctx: &Context) -> Result<Vec<String>, K8sError> {
    let (home, name) = (object.namespace().unwrap_or_default(), object.name_any());
    let all = ctx.common.kube.list(ctx.common.settings.namespace.as_deref(), "").await?;
    let all = readable::<WorkspaceTemplateApply>(all);
    let uses = |it: &&WorkspaceTemplateApply| {
        it.spec.template_ref.as_ref().is_some_and(|reference| {
            let there = reference.namespace.clone().filter(|it| !it.is_empty()).or_else(|| it.namespace());
            reference.name == name && there.as_deref() == Some(&home)
        })
    };
    let mut names: Vec<String> = all
        .iter()
        .filter(uses)
        .map(|it| format!("{}/{}", it.namespace().unwrap_or_default(), it.name_any()))
        .collect();
    names.sort();
    Ok(names)
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
