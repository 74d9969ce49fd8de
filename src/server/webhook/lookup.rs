//! What the webhook asks about other objects. It has no client of its own; somebody who has one answers.

use std::collections::BTreeMap;

use futures::future::{BoxFuture, FutureExt as _};

use crate::{
    api::WorkspaceTemplate,
    model::{ObjectKey, text::Namespace},
};

/// Annotations of an object.
pub type Annotations = BTreeMap<String, String>;

/// What was found: nothing if there is no such object.
pub type Found<'a, T> = BoxFuture<'a, Result<Option<T>, LookupError>>;

/// An object that could not be asked for.
#[derive(Debug, thiserror::Error)]
#[error("{what} could not be looked up")]
pub struct LookupError {
    /// Kind and name.
    pub what: String,
    /// Why.
    #[source]
    pub source: Box<dyn std::error::Error + Send + Sync>,
}

/// Answers questions about other objects. From a cache, at best: every answer is waited for by somebody at a terminal.
pub trait Lookup: Send + Sync + 'static {
    /// A template.
    fn template<'a>(&'a self, key: &'a ObjectKey) -> Found<'a, WorkspaceTemplate>;
    /// Annotations of a namespace.
    fn namespace<'a>(&'a self, name: &'a Namespace) -> Found<'a, Annotations>;
    /// Annotations of a Secret; never its data.
    fn secret<'a>(&'a self, key: &'a ObjectKey) -> Found<'a, Annotations>;
    /// Annotations of a config map.
    fn config_map<'a>(&'a self, key: &'a ObjectKey) -> Found<'a, Annotations>;
}

/// Knows no other object, so only what an object says of itself is looked at.
#[derive(Clone, Copy, Debug, Default)]
pub struct Blind;

impl Lookup for Blind {
    fn template<'a>(&'a self, _: &'a ObjectKey) -> Found<'a, WorkspaceTemplate> {
        futures::future::ready(Ok(None)).boxed()
    }

    fn namespace<'a>(&'a self, _: &'a Namespace) -> Found<'a, Annotations> {
        futures::future::ready(Ok(None)).boxed()
    }

    fn secret<'a>(&'a self, _: &'a ObjectKey) -> Found<'a, Annotations> {
        futures::future::ready(Ok(None)).boxed()
    }

    fn config_map<'a>(&'a self, _: &'a ObjectKey) -> Found<'a, Annotations> {
        futures::future::ready(Ok(None)).boxed()
    }
}
