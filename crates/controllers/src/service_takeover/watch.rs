//! What triggers a reconcile of a Service: the Services, and changes of other objects that concern a takeover.

use std::sync::Arc;

use capt_kinds::sandbox::names;
use k8s_openapi::api::core::v1::Service;
use kube::{
    Resource as _,
    runtime::{controller::Config, reflector::ObjectRef, watcher},
};
use sandbox::service::{TakeoverMode, is_managed, takeover_mode};
use tokio_util::sync::CancellationToken;

use super::{
    Context, GuardedService, build,
    dereference::TakeoverWatches,
    reconcile,
    watch_cache::{CacheChange, ServiceEndpoints},
};
use crate::common::runner;

const KIND: &str = "Service";

type ServiceRefs = Vec<ObjectRef<GuardedService>>;

/// Runs until `stop`.
pub async fn run(ctx: Arc<Context>, stop: CancellationToken) {
    let objects = runner::scoped_api::<GuardedService>(&ctx.common);
    let controller = runner::build_controller(KIND, &ctx.common, objects, watcher::Config::default());
    let (seen, woken) = TakeoverWatches::start(&ctx.common, controller.store());
    let controller = controller
        // Sequential: two Services of a namespace must not be assigned the same listener port.
        .with_config(Config::default().concurrency(1))
        .reconcile_on(woken);
    let halt = stop.clone();
    let reconcile = move |object: Arc<Service>, ctx: Arc<Context>| {
        let (seen, halt) = (Arc::clone(&seen), halt.clone());
        async move { reconcile(&object, &seen, &ctx, &halt).await }
    };
    runner::run(KIND, controller, ctx, stop.cancelled_owned(), reconcile).await;
}

/// The Service of an `EndpointSlice`, if relevant. For the slice of a deleted base Service, the Service that it belonged to.
pub(super) fn services_of_slice(
    seen: &TakeoverWatches,
    change: &CacheChange<ServiceEndpoints>,
) -> ServiceRefs {
    let Some(slice) = change.now.as_ref().or(change.before.as_ref()) else { return Vec::new() };
    let is_kept =
        |it: &GuardedService| it.0.as_ref().is_ok_and(|it| build::base_service_name(it) == slice.service);
    match seen.service(&change.namespace, &slice.service) {
        Some(found) if is_relevant(seen, &found) => vec![ObjectRef::from_obj(found.as_ref())],
        Some(_) => Vec::new(),
        None => select_services(seen, &change.namespace, |it| is_relevant(seen, it) && is_kept(it)),
    }
}

/// The relevant Services of a namespace.
pub(super) fn relevant_in_namespace(seen: &TakeoverWatches, namespace: &str) -> ServiceRefs {
    select_services(seen, namespace, |it| is_relevant(seen, it))
}

/// All Services of a namespace whose routing annotation changed, including its removal.
pub(super) fn all_in_namespace(seen: &TakeoverWatches, change: &CacheChange<bool>) -> ServiceRefs {
    select_services(seen, &change.name, |_| true)
}

/// The Services with mode `while-active` that the changed object overrides or overrode.
pub(super) fn while_active_services(
    seen: &TakeoverWatches,
    change: &CacheChange<Vec<String>>,
) -> ServiceRefs {
    let concerned: Vec<&String> = [&change.before, &change.now].into_iter().flatten().flatten().collect();
    select_services(seen, &change.namespace, |it| {
        let annotations = it.meta().annotations.as_ref();
        annotations.is_some_and(|it| takeover_mode(it) == Some(TakeoverMode::WhileActive))
            && concerned.iter().any(|name| it.meta().name.as_ref() == Some(*name))
    })
}

fn select_services(
    seen: &TakeoverWatches,
    namespace: &str,
    is: impl Fn(&GuardedService) -> bool,
) -> ServiceRefs {
    let all = seen.services.state();
    let here = all.iter().filter(|it| it.meta().namespace.as_deref() == Some(namespace));
    here.filter(|it| is(it)).map(|it: &Arc<GuardedService>| ObjectRef::from_obj(it.as_ref())).collect()
}

/// Whether a Service has an annotation of our group, or its namespace enables routing.
fn is_relevant(seen: &TakeoverWatches, object: &GuardedService) -> bool {
    let annotations = object.meta().annotations.as_ref();
    let is_named = annotations.is_some_and(|all| all.keys().any(|it| it.starts_with(names::GROUP)));
    let is_a_fork = object.0.as_ref().is_ok_and(is_managed);
    is_named
        || (!is_a_fork && seen.is_namespace_routed(object.meta().namespace.as_deref().unwrap_or_default()))
}
