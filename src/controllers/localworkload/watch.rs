//! Which local workloads a change concerns.

use futures::Stream;
use k8s_openapi::api::{apps::v1::Deployment, core::v1::Service};
use kube::{
    Resource as _, ResourceExt as _,
    core::{DeserializeGuard, PartialObjectMeta},
    runtime::{
        WatchStreamExt as _,
        reflector::{ObjectRef, Store, store::Writer},
        watcher,
    },
};
use sandbox::api::{LocalWorkload, Sandbox};

use super::look;
use crate::controllers::common::{Context, drive};

/// A local workload, also one that cannot be read.
pub(super) type Seen = DeserializeGuard<LocalWorkload>;

/// Sandboxes, as they change.
pub(super) fn sandboxes(
    ctx: &Context,
) -> impl Stream<Item = Result<DeserializeGuard<Sandbox>, watcher::Error>> + Send + 'static {
    let all = drive::api::<DeserializeGuard<Sandbox>>(ctx);
    watcher::watcher(all, watcher::Config::default()).default_backoff().touched_objects()
}

/// Deployments, as they change. Few of them have local workloads, so what changes is not looked at here.
pub(super) fn baselines(
    ctx: &Context,
) -> impl Stream<Item = Result<PartialObjectMeta<Deployment>, watcher::Error>> + Send + 'static {
    watcher::watcher(drive::api(ctx), watcher::Config::default()).default_backoff().touched_objects()
}

/// Services, as they change; not those of forks.
pub(super) fn services(
    ctx: &Context,
) -> impl Stream<Item = Result<PartialObjectMeta<Service>, watcher::Error>> + Send + 'static {
    let unforked = watcher::Config::default().labels(&look::unforked());
    watcher::watcher(drive::api(ctx), unforked).default_backoff().touched_objects()
}

/// Local workloads, as they change: one that goes may have been in another's way. Who is woken by it finds it kept already.
pub(super) fn locals(
    ctx: &Context,
    keep: Writer<Seen>,
) -> impl Stream<Item = Result<Seen, watcher::Error>> + Send + 'static {
    let all = watcher::watcher(drive::api(ctx), watcher::Config::default());
    all.default_backoff().reflect(keep).touched_objects()
}

/// The other local workloads of the same sandbox that stand in for the same baseline. Mostly there are none.
pub(super) fn of_rival(all: Store<Seen>) -> impl Fn(Seen) -> Vec<ObjectRef<Seen>> + Send + Sync + 'static {
    move |local| {
        let name = local.name_any();
        let Ok(one) = &local.0 else { return Vec::new() };
        beside(&all, local.meta().namespace.as_deref(), |it| {
            it.spec.sandbox_ref == one.spec.sandbox_ref
                && it.spec.from.name == one.spec.from.name
                && it.name_any() != name
        })
    }
}

/// The local workloads of a sandbox.
pub(super) fn of_sandbox(
    all: Store<Seen>,
) -> impl Fn(DeserializeGuard<Sandbox>) -> Vec<ObjectRef<Seen>> + Send + Sync + 'static {
    move |sandbox| {
        let name = sandbox.name_any();
        beside(&all, sandbox.namespace().as_deref(), |it| it.spec.sandbox_ref.name == name)
    }
}

/// The local workloads that stand in for a Deployment.
pub(super) fn of_baseline(
    all: Store<Seen>,
) -> impl Fn(PartialObjectMeta<Deployment>) -> Vec<ObjectRef<Seen>> + Send + Sync + 'static {
    move |baseline| {
        let name = baseline.name_any();
        beside(&all, baseline.namespace().as_deref(), |it| it.spec.from.name == name)
    }
}

/// The local workloads to whose baselines a Service may lead now, or did before: all of its namespace.
pub(super) fn of_service(
    all: Store<Seen>,
) -> impl Fn(PartialObjectMeta<Service>) -> Vec<ObjectRef<Seen>> + Send + Sync + 'static {
    move |service| beside(&all, service.namespace().as_deref(), |_| true)
}

fn beside(
    all: &Store<Seen>,
    namespace: Option<&str>,
    concerns: impl Fn(&LocalWorkload) -> bool,
) -> Vec<ObjectRef<Seen>> {
    let is = |it: &Seen| it.meta().namespace.as_deref() == namespace && it.0.as_ref().is_ok_and(&concerns);
    all.state().iter().filter(|it| is(it)).map(|it| ObjectRef::from_obj(it.as_ref())).collect()
}
