//! Controller wiring shared by all kinds: watches, queue metrics, logging, and the error policy around each reconcile.

use std::{error::Error, fmt::Debug, future::Ready, sync::Arc};

use capt_kinds::api::names;
use capt_kube::error::ErrorClass;
use capt_util::error_chain::format_error_chain;
use futures::{FutureExt as _, StreamExt as _, TryStreamExt as _};
use kube::{
    Api, Resource,
    core::{DeserializeGuard, NamespaceResourceScope},
    runtime::{
        Controller, WatchStreamExt as _,
        controller::{Action, Error as ControllerError},
        reflector::{self, ObjectRef, Store, reflector},
        watcher,
    },
};
use serde::de::DeserializeOwned;

use super::{
    Context, ReconcileOutcome, invalid_object,
    reconcile_error::{ReconcileError, ReconcileStep},
};

/// The API of a kind, restricted to the namespace of the settings if one is set.
pub fn scoped_api<K>(ctx: &Context) -> Api<K>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
{
    let client = ctx.kube.client().clone();
    match &ctx.settings.namespace {
        Some(namespace) => Api::namespaced(client, namespace),
        None => Api::all(client),
    }
}

/// Watch config of a controller's own kind: applies the watch-filter label.
pub fn own_watch_config(ctx: &Context) -> watcher::Config {
    match &ctx.settings.watch_filter {
        Some(filter) => watcher::Config::default().labels(&format!("{}={filter}", names::WATCH_FILTER_LABEL)),
        None => watcher::Config::default(),
    }
}

/// A controller for these objects that counts queued objects.
pub fn build_controller<K>(
    kind: &'static str,
    ctx: &Context,
    objects: Api<K>,
    which: watcher::Config,
) -> Controller<K>
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
{
    let ((reader, writer), meter) = (reflector::store(), Arc::clone(&ctx.metrics));
    let changes = reflector(writer, watcher(objects, which)).applied_objects();
    Controller::for_stream(
        changes.inspect_ok(move |it| meter.enqueued(kind, &namespaced_name(it.meta()))),
        reader,
    )
}

/// The context of a controller, which includes the dependencies of every controller.
pub trait ControllerContext: Send + Sync + 'static {
    /// The dependencies of every controller.
    fn common(&self) -> &Context;
}

impl ControllerContext for Context {
    fn common(&self) -> &Context {
        self
    }
}

/// Runs a controller until `stop`, then until its running reconciles have finished: each object that a watch enqueues is
/// reconciled, its outcome is recorded, and the error policy decides when a failed one is retried.
pub fn run<K, C, F>(
    kind: &'static str,
    controller: Controller<DeserializeGuard<K>>,
    ctx: Arc<C>,
    stop: impl Future<Output = ()> + Send + Sync + 'static,
    reconcile: impl Fn(Arc<K>, Arc<C>) -> F + Clone + Send + 'static,
) -> impl Future<Output = ()> + Send
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
    C: ControllerContext,
    F: Future<Output = Result<Action, ReconcileError>> + Send + 'static,
{
    run_guarded(kind, controller, ctx, stop, move |object, ctx: Arc<C>| {
        let reconcile = reconcile.clone();
        async move { run_reconcile(kind, &object, &ctx, reconcile).await }
    })
}

/// Like [`run`], for a controller that handles objects that cannot be decoded itself.
pub fn run_guarded<K, C, F>(
    kind: &'static str,
    controller: Controller<DeserializeGuard<K>>,
    ctx: Arc<C>,
    stop: impl Future<Output = ()> + Send + Sync + 'static,
    reconcile: impl FnMut(Arc<DeserializeGuard<K>>, Arc<C>) -> F + Send + 'static,
) -> impl Future<Output = ()> + Send
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
    C: ControllerContext,
    F: Future<Output = Result<Action, ReconcileError>> + Send + 'static,
{
    let (objects, stop) = (controller.store(), stop.shared());
    let log = event_logger(kind, ctx.common());
    let work = controller
        .graceful_shutdown_on(stop.clone())
        .run(
            reconcile,
            move |object, error, ctx: Arc<C>| error_policy(kind, &object, error, ctx.common()),
            ctx,
        )
        .for_each(log);
    run_until_stopped(work, objects, stop)
}

/// Runs a controller until it has shut down after `stop`. A controller whose initial list has not completed would wait for it
/// forever and keep the leader lease; it has started no reconcile, so it is dropped instead.
async fn run_until_stopped<K>(
    work: impl Future<Output = ()>,
    objects: Store<K>,
    stop: impl Future<Output = ()>,
) where
    K: Resource<DynamicType = ()> + Clone + 'static,
{
    let unseen = async {
        stop.await;
        if objects.wait_until_ready().now_or_never().is_some() {
            std::future::pending::<()>().await;
        }
    };
    tokio::select! {
        () = work => {}
        () = unseen => {}
    }
}

/// Wraps a watch mapper so that the objects it enqueues are counted.
pub fn counted_mapper<K, O>(
    kind: &'static str,
    ctx: &Context,
    of: impl Fn(O) -> Vec<ObjectRef<K>> + Send + Sync + 'static,
) -> impl Fn(O) -> Vec<ObjectRef<K>> + Send + Sync + 'static
where
    K: Resource,
{
    let meter = Arc::clone(&ctx.metrics);
    move |changed| {
        let concerned = of(changed);
        for it in &concerned {
            meter.enqueued(kind, &join_namespaced_name(it.namespace.as_deref(), &it.name));
        }
        concerned
    }
}

/// Runs one reconcile and records its outcome. An object that cannot be decoded is reported in its status instead.
pub async fn run_reconcile<K, C, F>(
    kind: &'static str,
    object: &DeserializeGuard<K>,
    ctx: &Arc<C>,
    reconcile: impl FnOnce(Arc<K>, Arc<C>) -> F,
) -> Result<Action, ReconcileError>
where
    K: Resource<DynamicType = ()> + DeserializeOwned + Clone,
    C: ControllerContext,
    F: Future<Output = Result<Action, ReconcileError>>,
{
    let common = ctx.common();
    let finish = common.metrics.reconcile_started(kind, &namespaced_name(object.meta()));
    let outcome = match &object.0 {
        Ok(readable) => reconcile(Arc::new(readable.clone()), Arc::clone(ctx)).await,
        Err(invalid) => match invalid_object::report_invalid::<K>(invalid, common).await {
            Ok(()) => Ok(Action::await_change()),
            Err(error) => Err(ReconcileStep::Unreadable.wrap_error()(error)),
        },
    };
    match &outcome {
        Ok(_) => {
            common.backoff.reset(&backoff_key(kind, object.meta()));
            finish(ReconcileOutcome::Succeeded);
        }
        Err(error) => finish(ReconcileOutcome::Failed(error.class())),
    }
    outcome
}

/// The error policy: logs the error by its class and returns the requeue delay.
fn error_policy<K>(
    kind: &'static str,
    object: &DeserializeGuard<K>,
    error: &ReconcileError,
    ctx: &Context,
) -> Action
where
    K: Resource<DynamicType = ()>,
{
    let key = backoff_key(kind, object.meta());
    let (class, category) = (error.class(), error.category());
    let why = format_error_chain(error);
    match class {
        ErrorClass::Waiting | ErrorClass::Conflict => {
            tracing::debug!(object = key, category, why, "reconcile requeued");
        }
        ErrorClass::Invalid | ErrorClass::Transient => {
            tracing::warn!(object = key, category, why, "reconcile failed, retrying");
        }
        ErrorClass::Terminal => {
            tracing::error!(object = key, category, why, "reconcile failed, manual action required");
        }
    }
    ctx.backoff.record_failure(&key, class)
}

/// An item of the stream that a controller yields.
type ControllerResult<K, E, W> = Result<(ObjectRef<K>, Action), ControllerError<E, W>>;

/// Logs watch and queue errors of a controller; the outcome of each reconcile is logged by the error policy.
fn event_logger<K, E, W>(
    kind: &'static str,
    ctx: &Context,
) -> impl FnMut(ControllerResult<K, E, W>) -> Ready<()> + use<K, E, W>
where
    K: Resource,
    K::DynamicType: Debug,
    E: Error + 'static,
    W: Error + 'static,
{
    let meter = Arc::clone(&ctx.metrics);
    move |event| {
        match event {
            Err(ControllerError::ObjectNotFound(gone)) => {
                meter.object_gone(kind, &join_namespaced_name(gone.namespace.as_deref(), &gone.name));
            }
            Err(error @ (ControllerError::QueueError(_) | ControllerError::RunnerError(_))) => {
                tracing::warn!(kind, why = format_error_chain(&error), "watch error, restarting");
            }
            _ => {}
        }
        std::future::ready(())
    }
}

fn backoff_key(kind: &str, meta: &kube::core::ObjectMeta) -> String {
    format!("{kind} {}", namespaced_name(meta))
}

/// `namespace/name` of an object.
pub fn namespaced_name(meta: &kube::core::ObjectMeta) -> String {
    join_namespaced_name(meta.namespace.as_deref(), meta.name.as_deref().unwrap_or_default())
}

fn join_namespaced_name(namespace: Option<&str>, name: &str) -> String {
    format!("{}/{name}", namespace.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use k8s_openapi::api::core::v1::ConfigMap;
    use tokio::time::timeout;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn who_is_told_to_stop_before_it_saw_anything_stops() {
        let (objects, mut writer) = reflector::store::<ConfigMap>();
        let told = || async {};
        let forever = std::future::pending;
        timeout(Duration::from_secs(1), run_until_stopped(forever(), objects.clone(), told())).await.unwrap();
        // After the initial list a reconcile may be running, so that the controller ends by itself.
        writer.apply_watcher_event(&watcher::Event::Init);
        writer.apply_watcher_event(&watcher::Event::InitDone);
        timeout(Duration::from_secs(1), run_until_stopped(forever(), objects.clone(), told()))
            .await
            .unwrap_err();
        run_until_stopped(std::future::ready(()), objects, forever()).await;
    }
}
