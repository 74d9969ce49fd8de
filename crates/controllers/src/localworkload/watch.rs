//! Maps changes of other objects to the local workloads to reconcile.

use std::sync::Arc;

use capt_kinds::sandbox::{LocalWorkload, Sandbox};
use futures::Stream;
use k8s_openapi::api::{apps::v1::Deployment, core::v1::Service};
use kube::{
    Resource as _, ResourceExt as _,
    core::{DeserializeGuard, PartialObjectMeta},
    runtime::{
        WatchStreamExt as _,
        controller::Config,
        reflector::{self, ObjectRef, Store, store::Writer},
        watcher,
    },
};
use tokio_util::sync::WaitForCancellationFutureOwned;

use super::{dereference, reconcile};
use crate::common::{Context, runner};

const KIND: &str = "LocalWorkload";

/// A local workload, including one that does not decode.
pub(super) type GuardedLocalWorkload = DeserializeGuard<LocalWorkload>;

/// Runs until `stop`.
pub async fn run(ctx: Arc<Context>, stop: WaitForCancellationFutureOwned) {
    let objects = runner::scoped_api::<DeserializeGuard<LocalWorkload>>(&ctx);
    let controller = runner::build_controller(KIND, &ctx, objects, runner::own_watch_config(&ctx));
    let (rivals, writer) = reflector::store();
    let concerns = runner::counted_mapper(KIND, &ctx, locals_of_sandbox(controller.store()));
    let of_baseline = runner::counted_mapper(KIND, &ctx, locals_of_baseline(controller.store()));
    let of_service = runner::counted_mapper(KIND, &ctx, locals_of_service(controller.store()));
    let of_rival = runner::counted_mapper(KIND, &ctx, locals_of_competitor(controller.store()));
    let controller = controller
        .with_config(Config::default().concurrency(ctx.settings.concurrency))
        .watches_stream(watch_sandboxes(&ctx), concerns)
        .watches_stream(watch_baselines(&ctx), of_baseline)
        .watches_stream(watch_services(&ctx), of_service)
        .watches_stream(watch_local_workloads(&ctx, writer), of_rival);
    let reconcile = move |object: Arc<LocalWorkload>, ctx: Arc<Context>| {
        let rivals = rivals.clone();
        async move { reconcile(&object, &rivals, &ctx).await }
    };
    runner::run(KIND, controller, ctx, stop, reconcile).await;
}

/// Watches Sandboxes.
pub(super) fn watch_sandboxes(
    ctx: &Context,
) -> impl Stream<Item = Result<DeserializeGuard<Sandbox>, watcher::Error>> + Send + 'static {
    let all = runner::scoped_api::<DeserializeGuard<Sandbox>>(ctx);
    watcher::watcher(all, watcher::Config::default()).default_backoff().touched_objects()
}

/// Watches Deployments. Few have local workloads, so all changes pass unfiltered.
pub(super) fn watch_baselines(
    ctx: &Context,
) -> impl Stream<Item = Result<PartialObjectMeta<Deployment>, watcher::Error>> + Send + 'static {
    watcher::watcher(runner::scoped_api(ctx), watcher::Config::default()).default_backoff().touched_objects()
}

/// Watches Services, without those of forks.
pub(super) fn watch_services(
    ctx: &Context,
) -> impl Stream<Item = Result<PartialObjectMeta<Service>, watcher::Error>> + Send + 'static {
    let unforked = watcher::Config::default().labels(&dereference::unforked_selector());
    watcher::watcher(runner::scoped_api(ctx), unforked).default_backoff().touched_objects()
}

/// Watches local workloads: a deleted one may have blocked another. The store is updated before the trigger.
pub(super) fn watch_local_workloads(
    ctx: &Context,
    keep: Writer<GuardedLocalWorkload>,
) -> impl Stream<Item = Result<GuardedLocalWorkload, watcher::Error>> + Send + 'static {
    let all = watcher::watcher(runner::scoped_api(ctx), watcher::Config::default());
    all.default_backoff().reflect(keep).touched_objects()
}

/// The other local workloads of the same Sandbox and baseline, usually none.
pub(super) fn locals_of_competitor(
    all: Store<GuardedLocalWorkload>,
) -> impl Fn(GuardedLocalWorkload) -> Vec<ObjectRef<GuardedLocalWorkload>> + Send + Sync + 'static {
    move |local| {
        let name = local.name_any();
        let Ok(one) = &local.0 else { return Vec::new() };
        select_locals(&all, local.meta().namespace.as_deref(), |it| {
            it.spec.sandbox_ref == one.spec.sandbox_ref
                && it.spec.from.name == one.spec.from.name
                && it.name_any() != name
        })
    }
}

/// The local workloads of a Sandbox.
pub(super) fn locals_of_sandbox(
    all: Store<GuardedLocalWorkload>,
) -> impl Fn(DeserializeGuard<Sandbox>) -> Vec<ObjectRef<GuardedLocalWorkload>> + Send + Sync + 'static {
    move |sandbox| {
        let name = sandbox.name_any();
        select_locals(&all, sandbox.namespace().as_deref(), |it| it.spec.sandbox_ref.name == name)
    }
}

/// The local workloads of a baseline.
pub(super) fn locals_of_baseline(
    all: Store<GuardedLocalWorkload>,
) -> impl Fn(PartialObjectMeta<Deployment>) -> Vec<ObjectRef<GuardedLocalWorkload>> + Send + Sync + 'static {
    move |baseline| {
        let name = baseline.name_any();
        select_locals(&all, baseline.namespace().as_deref(), |it| it.spec.from.name == name)
    }
}

/// All local workloads in the namespace of a Service, whose baselines it may select or may have selected.
pub(super) fn locals_of_service(
    all: Store<GuardedLocalWorkload>,
) -> impl Fn(PartialObjectMeta<Service>) -> Vec<ObjectRef<GuardedLocalWorkload>> + Send + Sync + 'static {
    move |service| select_locals(&all, service.namespace().as_deref(), |_| true)
}

fn select_locals(
    all: &Store<GuardedLocalWorkload>,
    namespace: Option<&str>,
    concerns: impl Fn(&LocalWorkload) -> bool,
) -> Vec<ObjectRef<GuardedLocalWorkload>> {
    let is = |it: &GuardedLocalWorkload| {
        it.meta().namespace.as_deref() == namespace && it.0.as_ref().is_ok_and(&concerns)
    };
    all.state().iter().filter(|it| is(it)).map(|it| ObjectRef::from_obj(it.as_ref())).collect()
}
