//! Watches that trigger a reconcile: the identities, and the workspaces that use them.

use std::sync::Arc;

use capt_kinds::api::{CaptIdentity, WorkspaceTemplateApply};
use kube::{
    Api, Resource,
    api::PartialObjectMeta,
    core::DeserializeGuard,
    runtime::{WatchStreamExt, controller::Config, reflector::ObjectRef, watcher},
};
use tokio_util::sync::CancellationToken;

use super::{IdentityContext, reconcile};
use crate::common::runner;

const KIND: &str = "CAPTIdentity";

/// Runs the controller until `stop`.
pub async fn run(ctx: Arc<IdentityContext>, stop: CancellationToken) {
    let client = ctx.common.kube.client().clone();
    let objects = Api::<DeserializeGuard<CaptIdentity>>::all(client.clone());
    let controller = runner::build_controller(KIND, &ctx.common, objects, watcher::Config::default());
    let users: Api<PartialObjectMeta<WorkspaceTemplateApply>> = match &ctx.common.settings.namespace {
        Some(namespace) => Api::namespaced(client, namespace),
        None => Api::all(client),
    };
    let all = controller.store();
    let users = watcher(users, watcher::Config::default()).default_backoff().touched_objects();
    // Only deletions wait for workspaces, and identities are few, so every change reconciles all of them.
    let of_user = move |_: PartialObjectMeta<WorkspaceTemplateApply>| {
        let waiting = all.state().into_iter().filter(|it| it.meta().deletion_timestamp.is_some());
        waiting.map(|it| ObjectRef::from_obj(it.as_ref())).collect::<Vec<_>>()
    };
    let controller = controller
        .with_config(Config::default().concurrency(4))
        .watches_stream(users, runner::counted_mapper(KIND, &ctx.common, of_user));
    let reconcile =
        |object: Arc<CaptIdentity>, ctx: Arc<IdentityContext>| async move { reconcile(&object, &ctx).await };
    runner::run(KIND, controller, ctx, stop.cancelled_owned(), reconcile).await;
}
