//! Lookups of other objects. The webhook has no client; the operator implements the trait.

use std::collections::BTreeMap;

use capt_kinds::api::WorkspaceTemplate;
use capt_model::model::{ObjectKey, newtypes::Namespace};
use futures::future::{BoxFuture, FutureExt as _};

/// Annotations of an object.
pub type Annotations = BTreeMap<String, String>;

/// A pending lookup; `None` if the object does not exist.
pub type LookupFuture<'a, T> = BoxFuture<'a, Result<Option<T>, LookupError>>;

/// A failed lookup.
#[derive(Debug, thiserror::Error)]
#[error("cannot look up {what}")]
pub struct LookupError {
    /// Kind and name.
    pub what: String,
    /// The cause.
    #[source]
    pub source: Box<dyn std::error::Error + Send + Sync>,
}

/// Looks up other objects. Should be fast: every lookup delays a write to the API server.
pub trait Lookup: Send + Sync + 'static {
    /// A template.
    fn template<'a>(&'a self, key: &'a ObjectKey) -> LookupFuture<'a, WorkspaceTemplate>;
    /// Annotations of a workspace, by its name or that of its `WorkspaceTemplateApply`.
    fn workspace<'a>(&'a self, key: &'a ObjectKey) -> LookupFuture<'a, Annotations>;
    /// Annotations of a namespace.
    fn namespace<'a>(&'a self, name: &'a Namespace) -> LookupFuture<'a, Annotations>;
    /// Annotations of a Secret; never its data.
    fn secret<'a>(&'a self, key: &'a ObjectKey) -> LookupFuture<'a, Annotations>;
    /// Annotations of a config map.
    fn config_map<'a>(&'a self, key: &'a ObjectKey) -> LookupFuture<'a, Annotations>;
}

/// Finds no objects, so that only the object itself is validated.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoLookup;

impl Lookup for NoLookup {
    fn template<'a>(&'a self, _: &'a ObjectKey) -> LookupFuture<'a, WorkspaceTemplate> {
        futures::future::ready(Ok(None)).boxed()
    }

    fn workspace<'a>(&'a self, _: &'a ObjectKey) -> LookupFuture<'a, Annotations> {
        futures::future::ready(Ok(None)).boxed()
    }

    fn namespace<'a>(&'a self, _: &'a Namespace) -> LookupFuture<'a, Annotations> {
        futures::future::ready(Ok(None)).boxed()
    }

    fn secret<'a>(&'a self, _: &'a ObjectKey) -> LookupFuture<'a, Annotations> {
        futures::future::ready(Ok(None)).boxed()
    }

    fn config_map<'a>(&'a self, _: &'a ObjectKey) -> LookupFuture<'a, Annotations> {
        futures::future::ready(Ok(None)).boxed()
    }
}
