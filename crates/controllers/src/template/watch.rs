//! What triggers a reconcile of a template: the templates, their users, and the end of a validation.

use std::sync::Arc;

use capt_kinds::api::WorkspaceTemplate;
use kube::{
    core::DeserializeGuard,
    runtime::{controller::Config, watcher},
};
use tokio_util::sync::CancellationToken;

use super::{
    TemplateContext, reconcile, usage_index::TemplateUsageIndex, validation_worker::ValidationWorker,
};
use crate::common::runner;

const KIND: &str = "WorkspaceTemplate";

/// Runs the controller until `stop`.
pub async fn run(ctx: Arc<TemplateContext>, stop: CancellationToken) {
    let (background, judged) = ValidationWorker::new(ctx.runs.clone());
    let (background, users) = (Arc::new(background), TemplateUsageIndex::default());
    let objects = runner::scoped_api::<DeserializeGuard<WorkspaceTemplate>>(&ctx.common);
    let controller = runner::build_controller(KIND, &ctx.common, objects, watcher::Config::default());
    let used = users.watch(&ctx.common);
    let controller =
        controller.with_config(Config::default().concurrency(8)).reconcile_on(judged).reconcile_on(used);
    let reconcile = move |object: Arc<WorkspaceTemplate>, ctx: Arc<TemplateContext>| {
        let (background, users) = (Arc::clone(&background), users.clone());
        async move { reconcile(&object, &ctx, (&background, &users)).await }
    };
    runner::run(KIND, controller, ctx, stop.cancelled_owned(), reconcile).await;
}
