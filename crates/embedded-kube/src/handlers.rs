//! What a request means: the verbs of the API on the store.
//!
//! `front` has already found out who asks for what and whether they may. Here an object is read, defaulted, checked,
//! tracked and written; every rule that is the same for all kinds is in one of the files below, what differs by kind is
//! behind [`Rules`](crate::registry::Rules).

mod change;
mod cleaning;
mod collection;
mod create;
mod delete;
mod get;
mod intake;
mod list;
mod meta;
mod namespaces;
mod options;
mod patching;
mod pods;
mod scale;
mod token;
mod update;
mod view;
mod watch;

use std::sync::Arc;

use self::view::Viewer;
use crate::{
    failure::{Answer, Failure},
    registry::{Part, Registry, Resource},
    request::{Reply, Request, Verb},
    store::Store,
};

/// Answers requests from one store. Cheap to clone.
#[derive(Clone)]
pub struct Server {
    store: Store,
    registry: Arc<Registry>,
}

impl Server {
    /// On this store, with what is served in this registry.
    pub fn new(store: Store, registry: Arc<Registry>) -> Self {
        Self { store, registry }
    }

    /// The store behind it.
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// What is served.
    pub fn registry(&self) -> &Arc<Registry> {
        &self.registry
    }

    /// Does what is asked.
    pub async fn handle(&self, request: Request) -> Answer<Reply> {
        let plural = request.resource.id.plural.as_str();
        match request.subresource.as_str() {
            "" => self.handle_main(&request).await,
            "status" if request.resource.status => self.handle_part(&request, Part::Status).await,
            "scale" if request.resource.scale.is_some() => self.handle_scale(&request).await,
            "finalize" if plural == "namespaces" && request.verb == Verb::Update => {
                self.finalize(&request).await
            }
            "binding" if plural == "pods" && request.verb == Verb::Create => self.bind(&request).await,
            "eviction" if plural == "pods" && request.verb == Verb::Create => self.evict(&request).await,
            _ => Err(Failure::no_such_path()),
        }
    }

    async fn handle_main(&self, request: &Request) -> Answer<Reply> {
        if !request.resource.verbs.contains(&request.verb.name()) {
            return Err(Failure::method_not_supported(
                &request.resource.group_resource(),
                request.verb.name(),
            ));
        }
        match request.verb {
            Verb::Get => self.get(request),
            Verb::List => self.list(request),
            Verb::Watch => self.watch(request),
            Verb::Create => self.create(request).await,
            Verb::Update => self.update(request, Part::Main).await,
            Verb::Patch => self.patch(request, Part::Main).await,
            Verb::Delete => self.delete(request).await,
            Verb::DeleteCollection => self.delete_collection(request).await,
        }
    }

    async fn handle_part(&self, request: &Request, part: Part) -> Answer<Reply> {
        match request.verb {
            Verb::Get => self.get(request),
            Verb::Update => self.update(request, part).await,
            Verb::Patch => self.patch(request, part).await,
            other => Err(Failure::method_not_supported(&request.resource.group_resource(), other.name())),
        }
    }
}

/// Where an object is kept.
fn key(resource: &Resource, namespace: &str, name: &str) -> String {
    let namespace = if resource.namespaced { namespace } else { "" };
    format!("{}/{namespace}/{name}", resource.storage)
}

/// Where all objects of a resource are, or those of one namespace.
fn prefix(resource: &Resource, namespace: &str) -> String {
    if resource.namespaced && !namespace.is_empty() {
        format!("{}/{namespace}/", resource.storage)
    } else {
        format!("{}/", resource.storage)
    }
}

fn viewer(resource: &Arc<Resource>) -> Viewer {
    Viewer::new(Arc::clone(resource))
}

#[cfg(test)]
mod tests;
