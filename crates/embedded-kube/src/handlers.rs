//! Request handlers: the API verbs on top of the store.
//!
//! `http_server` has already authenticated, authorized and routed the request. Here an object is read, defaulted,
//! validated and written, and its managed fields are updated. Generic behaviour is in the files below; kind-specific
//! behaviour is behind [`Rules`](crate::registry::Rules).

mod continue_token;
mod crd_cleanup;
mod create;
mod decode_body;
mod delete;
mod delete_collection;
mod get;
mod guaranteed_update;
mod list;
mod metadata_validation;
mod namespaces;
mod object_converter;
mod patch_handler;
mod pods;
mod scale;
mod update;
mod watch;
mod write_options;

use std::sync::Arc;

use self::object_converter::ObjectConverter;
use crate::{
    registry::{ObjectPart, Registry, Resource},
    request::{Reply, Request, Verb},
    status_error::{ApiResult, StatusError},
    store::Store,
};

/// Handles the requests of one cluster. Cheap to clone.
#[derive(Clone)]
pub struct RequestHandler {
    store: Store,
    registry: Arc<Registry>,
}

impl RequestHandler {
    /// Handles requests with this store and registry.
    pub fn new(store: Store, registry: Arc<Registry>) -> Self {
        Self { store, registry }
    }

    /// The store.
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// The served resources.
    pub fn registry(&self) -> &Arc<Registry> {
        &self.registry
    }

    /// Handles one request.
    pub async fn handle(&self, request: Request) -> ApiResult<Reply> {
        let plural = request.resource.id.plural.as_str();
        match request.subresource.as_str() {
            "" => self.handle_object(&request).await,
            "status" if request.resource.has_status => {
                self.handle_subresource(&request, ObjectPart::Status).await
            }
            "scale" if request.resource.scale.is_some() => self.handle_scale(&request).await,
            "finalize" if plural == "namespaces" && request.verb == Verb::Update => {
                self.finalize(&request).await
            }
            "binding" if plural == "pods" && request.verb == Verb::Create => self.bind(&request).await,
            "eviction" if plural == "pods" && request.verb == Verb::Create => self.evict(&request).await,
            _ => Err(StatusError::path_not_found()),
        }
    }

    async fn handle_object(&self, request: &Request) -> ApiResult<Reply> {
        if !request.resource.verbs.contains(&request.verb.name()) {
            return Err(StatusError::method_not_supported(
                &request.resource.group_resource(),
                request.verb.name(),
            ));
        }
        match request.verb {
            Verb::Get => self.get(request),
            Verb::List => self.list(request),
            Verb::Watch => self.watch(request),
            Verb::Create => self.create(request).await,
            Verb::Update => self.update(request, ObjectPart::Object).await,
            Verb::Patch => self.patch(request, ObjectPart::Object).await,
            Verb::Delete => self.delete(request).await,
            Verb::DeleteCollection => self.delete_collection(request).await,
        }
    }

    async fn handle_subresource(&self, request: &Request, part: ObjectPart) -> ApiResult<Reply> {
        match request.verb {
            Verb::Get => self.get(request),
            Verb::Update => self.update(request, part).await,
            Verb::Patch => self.patch(request, part).await,
            other => Err(StatusError::method_not_supported(&request.resource.group_resource(), other.name())),
        }
    }
}

/// Storage key of an object.
fn storage_key(resource: &Resource, namespace: &str, name: &str) -> String {
    let namespace = if resource.namespaced { namespace } else { "" };
    format!("{}/{namespace}/{name}", resource.storage_prefix)
}

/// Key prefix of a resource, or of a resource in one namespace.
fn storage_key_prefix(resource: &Resource, namespace: &str) -> String {
    if resource.namespaced && !namespace.is_empty() {
        format!("{}/{namespace}/", resource.storage_prefix)
    } else {
        format!("{}/", resource.storage_prefix)
    }
}

fn object_converter(resource: &Arc<Resource>) -> ObjectConverter {
    ObjectConverter::new(Arc::clone(resource))
}

#[cfg(test)]
mod tests;
