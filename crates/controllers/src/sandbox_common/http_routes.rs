//! Watch cache of `HTTPRoute` objects.
//!
//! The CRD belongs to the Gateway API and may be installed or removed at any time: a cluster that does not serve it is a valid
//! state, not an error.

use std::{
    collections::BTreeMap,
    sync::{Arc, PoisonError, RwLock},
};

use futures::{Stream, StreamExt as _};
use kube::{
    Api, ResourceExt as _,
    core::{ApiResource, DynamicObject, GroupVersionKind},
    runtime::{
        WatchStreamExt as _,
        watcher::{self, Event, watcher},
    },
};
use sandbox::mesh::{HttpRouteListing, NamespacedName, has_service_parent};
use serde_json::Value;
use tokio::sync::watch;

use crate::common::Context;

/// The `ApiResource` of `HTTPRoute`.
pub fn http_route_resource() -> ApiResource {
    let kind = GroupVersionKind::gvk("gateway.networking.k8s.io", "v1", "HTTPRoute");
    ApiResource::from_gvk_with_plural(&kind, "httproutes")
}

/// Cache of the `HTTPRoute` objects that concern Services.
#[derive(Debug, Clone, Default)]
pub struct HttpRouteCache(Arc<RwLock<HttpRouteListing>>);

impl HttpRouteCache {
    /// The current content.
    pub fn snapshot(&self) -> HttpRouteListing {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Watches the objects while the future is polled, and increments `tell` after each change.
    pub fn watch_objects(&self, ctx: &Context, tell: watch::Sender<u64>) -> impl Future<Output = ()> + use<> {
        let (client, kind) = (ctx.kube.client().clone(), http_route_resource());
        let api: Api<DynamicObject> = match &ctx.settings.namespace {
            Some(namespace) => Api::namespaced_with(client, namespace, &kind),
            None => Api::all_with(client, &kind),
        };
        let events = watcher(api, watcher::Config::default()).default_backoff();
        let routes = self.clone();
        async move { routes.handle_events(events, &tell).await }
    }

    async fn handle_events(
        &self,
        events: impl Stream<Item = Result<Event<DynamicObject>, watcher::Error>>,
        tell: &watch::Sender<u64>,
    ) {
        let mut events = std::pin::pin!(events);
        let mut listed = BTreeMap::new();
        while let Some(event) = events.next().await {
            match event {
                Ok(Event::Init) => listed.clear(),
                Ok(Event::InitApply(object)) => drop(upsert_relevant(&mut listed, object)),
                Ok(Event::InitDone) => {
                    self.replace(HttpRouteListing::Listed(Arc::new(std::mem::take(&mut listed))), tell);
                }
                Ok(Event::Apply(object)) => self.update(tell, |all| upsert_relevant(all, object)),
                Ok(Event::Delete(object)) => {
                    self.update(tell, |all| all.remove(&namespaced_name(&object)).is_some());
                }
                Err(error) if is_not_served(&error) => self.replace(HttpRouteListing::NotServed, tell),
                Err(error) => tracing::debug!(%error, "HTTPRoute watch error, restarting"),
            }
        }
    }

    fn replace(&self, now: HttpRouteListing, tell: &watch::Sender<u64>) {
        let mut seen = self.0.write().unwrap_or_else(PoisonError::into_inner);
        if *seen != now {
            *seen = now;
            tell.send_modify(|count| *count += 1);
        }
    }

    fn update(
        &self,
        tell: &watch::Sender<u64>,
        change: impl FnOnce(&mut BTreeMap<NamespacedName, Value>) -> bool,
    ) {
        let mut seen = self.0.write().unwrap_or_else(PoisonError::into_inner);
        if let HttpRouteListing::Listed(all) = &mut *seen
            && change(Arc::make_mut(all))
        {
            tell.send_modify(|count| *count += 1);
        }
    }
}

/// Stores an object that references Services and removes any other; returns whether the content changed.
fn upsert_relevant(all: &mut BTreeMap<NamespacedName, Value>, mut object: DynamicObject) -> bool {
    object.metadata.managed_fields = None;
    let name = namespaced_name(&object);
    match serde_json::to_value(&object) {
        Ok(value) if has_service_parent(&value) => {
            all.insert(name, value.clone()).is_none_or(|before| before != value)
        }
        _ => all.remove(&name).is_some(),
    }
}

fn namespaced_name(object: &DynamicObject) -> NamespacedName {
    (object.namespace().unwrap_or_default(), object.name_any())
}

fn is_not_served(error: &watcher::Error) -> bool {
    let cause = match error {
        watcher::Error::InitialListFailed(cause)
        | watcher::Error::WatchStartFailed(cause)
        | watcher::Error::WatchFailed(cause) => cause,
        watcher::Error::WatchError(status) => return status.code == 404,
        watcher::Error::NoResourceVersion => return false,
    };
    matches!(cause, kube::Error::Api(status) if status.code == 404)
}
