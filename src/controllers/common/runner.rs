//! One reconcile from outside: counted, logged, and tried again as its error says.

use std::{error::Error, fmt::Debug, future::Ready, sync::Arc};

use futures::{FutureExt as _, TryStreamExt as _};
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

use super::{Context, End, policy::Classed, unreadable};
use crate::{api::names, error::Class, k8s::K8sError};

/// Objects of a kind as the settings want them: of one namespace, or of all.
pub fn api<K>(ctx: &Context) -> Api<K>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
{
    let client = ctx.kube.client().clone();
    match &ctx.settings.namespace {
        Some(namespace) => Api::namespaced(client, namespace),
        None => Api::all(client),
    }
}

/// Which objects of a controller's own kind are watched.
pub fn own(ctx: &Context) -> watcher::Config {
    match &ctx.settings.watch_filter {
        Some(filter) => watcher::Config::default().labels(&format!("{}={filter}", names::WATCH_FILTER_LABEL)),
        None => watcher::Config::default(),
    }
}

/// A controller of these objects that says what waits in its queue.
pub fn controller<K>(
    kind: &'static str,
    ctx: &Context,
    objects: Api<K>,
    which: watcher::Config,
) -> Controller<K>
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
{
    let ((reader, writer), meter) = (reflector::store(), Arc::clone(&ctx.meter));
    let changes = reflector(writer, watcher(objects, which)).applied_objects();
    Controller::for_stream(changes.inspect_ok(move |it| meter.told(kind, &path(it.meta()))), reader)
}

/// A controller's work until its end, after `stop`. One that is told to stop before it has seen its objects would wait for
/// them for ever, with the lease in its hands; but it has begun nothing, so it can be left where it is.
pub async fn finish<K>(work: impl Future<Output = ()>, objects: Store<K>, stop: impl Future<Output = ()>)
where
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

/// A mapping from something that changed to the objects it concerns, which then wait in the queue.
pub fn concerning<K, O>(
    kind: &'static str,
    ctx: &Context,
    of: impl Fn(O) -> Vec<ObjectRef<K>> + Send + Sync + 'static,
) -> impl Fn(O) -> Vec<ObjectRef<K>> + Send + Sync + 'static
where
    K: Resource,
{
    let meter = Arc::clone(&ctx.meter);
    move |changed| {
        let concerned = of(changed);
        for it in &concerned {
            meter.told(kind, &joined(it.namespace.as_deref(), &it.name));
        }
        concerned
    }
}

/// Reconciles an object, if it can be read.
pub async fn drive<K, E, F>(
    kind: &'static str,
    object: Arc<DeserializeGuard<K>>,
    ctx: Arc<Context>,
    reconcile: impl FnOnce(Arc<K>, Arc<Context>) -> F,
) -> Result<Action, E>
where
    K: Resource<DynamicType = ()> + DeserializeOwned + Clone,
    E: Classed + From<K8sError>,
    F: Future<Output = Result<Action, E>>,
{
    let finish = ctx.meter.begin(kind, &path(object.meta()));
    let outcome = match &object.0 {
        Ok(readable) => reconcile(Arc::new(readable.clone()), ctx.clone()).await,
        Err(invalid) => match unreadable::tell::<K>(invalid, &ctx).await {
            Ok(()) => Ok(Action::await_change()),
            Err(error) => Err(error.into()),
        },
    };
    match &outcome {
        Ok(_) => {
            ctx.attempts.went_well(&key(kind, object.meta()));
            finish(End::Done);
        }
        Err(error) => finish(End::Failed(error.class())),
    }
    outcome
}

/// When an object is looked at again after an error.
pub fn policy<K, E>(kind: &'static str, object: &DeserializeGuard<K>, error: &E, ctx: &Context) -> Action
where
    K: Resource<DynamicType = ()>,
    E: Classed,
{
    let key = key(kind, object.meta());
    let (class, category) = (error.class(), error.category());
    let why = whole(error);
    match class {
        Class::Waiting | Class::Conflict => tracing::debug!(object = key, category, why, "later"),
        Class::Invalid | Class::Transient => tracing::warn!(object = key, category, why, "did not work"),
        Class::Terminal => tracing::error!(object = key, category, why, "needs a person"),
    }
    ctx.attempts.failed(&key, class)
}

/// What a controller says of one reconcile.
type Told<K, E, W> = Result<(ObjectRef<K>, Action), ControllerError<E, W>>;

/// Logs what a controller says of itself; the outcome of each reconcile was logged already.
pub fn log<K, E, W>(
    kind: &'static str,
    ctx: &Context,
) -> impl FnMut(Told<K, E, W>) -> Ready<()> + use<K, E, W>
where
    K: Resource,
    K::DynamicType: Debug,
    E: Error + 'static,
    W: Error + 'static,
{
    let meter = Arc::clone(&ctx.meter);
    move |event| {
        match event {
            Err(ControllerError::ObjectNotFound(gone)) => {
                meter.vanished(kind, &joined(gone.namespace.as_deref(), &gone.name));
            }
            Err(error @ (ControllerError::QueueError(_) | ControllerError::RunnerError(_))) => {
                tracing::warn!(kind, why = whole(&error), "the watch stumbled");
            }
            _ => {}
        }
        std::future::ready(())
    }
}

fn key(kind: &str, meta: &kube::core::ObjectMeta) -> String {
    format!("{kind} {}", path(meta))
}

/// Namespace and name of an object.
pub fn path(meta: &kube::core::ObjectMeta) -> String {
    joined(meta.namespace.as_deref(), meta.name.as_deref().unwrap_or_default())
}

fn joined(namespace: Option<&str>, name: &str) -> String {
    format!("{}/{name}", namespace.unwrap_or_default())
}

/// An error with its causes.
fn whole(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        text = format!("{text}: {cause}");
        next = cause.source();
    }
    text
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
        timeout(Duration::from_secs(1), finish(forever(), objects.clone(), told())).await.unwrap();
        // Whoever has seen its objects may be in the middle of something, and ends by itself.
        writer.apply_watcher_event(&watcher::Event::Init);
        writer.apply_watcher_event(&watcher::Event::InitDone);
        timeout(Duration::from_secs(1), finish(forever(), objects.clone(), told())).await.unwrap_err();
        finish(std::future::ready(()), objects, forever()).await;
    }
}
