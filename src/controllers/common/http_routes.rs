//! The `HTTPRoute` objects of a cluster, if it serves them.
//!
//! The kind is not ours and may come and go: where it is not served that is something to know, and not an error.

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
use sandbox::mesh::{Name, Seen, concerns_services};
use serde_json::Value;
use tokio::sync::watch;

use super::Context;

/// The kind.
pub fn kind() -> ApiResource {
    let kind = GroupVersionKind::gvk("gateway.networking.k8s.io", "v1", "HTTPRoute");
    ApiResource::from_gvk_with_plural(&kind, "httproutes")
}

/// What was seen last.
#[derive(Debug, Clone, Default)]
pub struct HttpRoutes(Arc<RwLock<Seen>>);

impl HttpRoutes {
    /// What was seen last.
    pub fn seen(&self) -> Seen {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Follows the objects for as long as it is polled, and tells whenever something is different.
    pub fn follow(&self, ctx: &Context, tell: watch::Sender<u64>) -> impl Future<Output = ()> + use<> {
        let (client, kind) = (ctx.kube.client().clone(), kind());
        let api: Api<DynamicObject> = match &ctx.settings.namespace {
            Some(namespace) => Api::namespaced_with(client, namespace, &kind),
            None => Api::all_with(client, &kind),
        };
        let events = watcher(api, watcher::Config::default()).default_backoff();
        let routes = self.clone();
        async move { routes.hear(events, &tell).await }
    }

    async fn hear(
        &self,
        events: impl Stream<Item = Result<Event<DynamicObject>, watcher::Error>>,
        tell: &watch::Sender<u64>,
    ) {
        let mut events = std::pin::pin!(events);
        let mut listed = BTreeMap::new();
        while let Some(event) = events.next().await {
            match event {
                Ok(Event::Init) => listed.clear(),
                Ok(Event::InitApply(object)) => drop(insert(&mut listed, object)),
                Ok(Event::InitDone) => self.become_(Seen::All(Arc::new(std::mem::take(&mut listed))), tell),
                Ok(Event::Apply(object)) => self.change(tell, |all| insert(all, object)),
                Ok(Event::Delete(object)) => self.change(tell, |all| all.remove(&name(&object)).is_some()),
                Err(error) if is_not_served(&error) => self.become_(Seen::NotServed, tell),
                Err(error) => tracing::debug!(%error, "the watch of HTTPRoute objects stumbled"),
            }
        }
    }

    fn become_(&self, now: Seen, tell: &watch::Sender<u64>) {
        let mut seen = self.0.write().unwrap_or_else(PoisonError::into_inner);
        if *seen != now {
            *seen = now;
            tell.send_modify(|count| *count += 1);
        }
    }

    fn change(&self, tell: &watch::Sender<u64>, change: impl FnOnce(&mut BTreeMap<Name, Value>) -> bool) {
        let mut seen = self.0.write().unwrap_or_else(PoisonError::into_inner);
        if let Seen::All(all) = &mut *seen
            && change(Arc::make_mut(all))
        {
            tell.send_modify(|count| *count += 1);
        }
    }
}

/// Keeps an object if it is of any concern; whether anything is different.
fn insert(all: &mut BTreeMap<Name, Value>, mut object: DynamicObject) -> bool {
    object.metadata.managed_fields = None;
    let name = name(&object);
    match serde_json::to_value(&object) {
        Ok(value) if concerns_services(&value) => {
            all.insert(name, value.clone()).is_none_or(|before| before != value)
        }
        _ => all.remove(&name).is_some(),
    }
}

fn name(object: &DynamicObject) -> Name {
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
