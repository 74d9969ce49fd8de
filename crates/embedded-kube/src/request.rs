//! A request, understood, and its reply before it is encoded. The border between `front` (HTTP) and `verbs` (meaning).

use std::{pin::Pin, sync::Arc};

use bytes::Bytes;
use futures::Stream;
use serde_json::Value;

use crate::{failure::Failure, object::Document, registry::Resource};

/// Who asks.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct User {
    /// Name.
    pub name: String,
    /// Unique id; may be empty.
    pub uid: String,
    /// Groups; `system:masters` may do everything.
    pub groups: Vec<String>,
    /// Further facts.
    pub extra: std::collections::BTreeMap<String, Vec<String>>,
}

/// What is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Verb {
    /// One object.
    Get,
    /// All objects.
    List,
    /// Changes from now or from a revision on.
    Watch,
    /// A new object.
    Create,
    /// The whole object anew.
    Update,
    /// Parts of an object.
    Patch,
    /// One object gone.
    Delete,
    /// All objects gone.
    DeleteCollection,
}

impl Verb {
    /// As RBAC and discovery name it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Get => "get",
            Self::List => "list",
            Self::Watch => "watch",
            Self::Create => "create",
            Self::Update => "update",
            Self::Patch => "patch",
            Self::Delete => "delete",
            Self::DeleteCollection => "deletecollection",
        }
    }
}

/// How unknown and duplicate fields are answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum FieldValidation {
    /// Dropped in silence.
    Ignore,
    /// Dropped with a warning; the server's own choice.
    #[default]
    Warn,
    /// Refused.
    Strict,
}

/// Query parameters, all of them, decoded. Empty and `None` both mean "not given" where a text is concerned.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// `labelSelector`.
    pub label_selector: String,
    /// `fieldSelector`.
    pub field_selector: String,
    /// `resourceVersion`.
    pub resource_version: String,
    /// `resourceVersionMatch`.
    pub resource_version_match: String,
    /// `limit`.
    pub limit: Option<u64>,
    /// `continue`.
    pub continue_token: String,
    /// `timeoutSeconds`.
    pub timeout_seconds: Option<u64>,
    /// `allowWatchBookmarks`.
    pub bookmarks: bool,
    /// `sendInitialEvents`.
    pub send_initial_events: Option<bool>,
    /// `dryRun`: every value given.
    pub dry_run: Vec<String>,
    /// `fieldManager`.
    pub field_manager: String,
    /// `fieldValidation`, as given.
    pub field_validation: String,
    /// `force` (apply).
    pub force: Option<bool>,
    /// `propagationPolicy` of a delete without a body.
    pub propagation_policy: String,
    /// `gracePeriodSeconds` of a delete without a body.
    pub grace_period_seconds: Option<i64>,
    /// `orphanDependents` of a delete without a body.
    pub orphan_dependents: Option<bool>,
}

/// A request that names a resource we serve.
#[derive(Debug, Clone)]
pub struct Request {
    /// Who asks.
    pub user: User,
    /// The client's `User-Agent`; gives the field manager where none is named.
    pub agent: String,
    /// What is asked for.
    pub verb: Verb,
    /// Of which resource.
    pub resource: Arc<Resource>,
    /// In which namespace; empty for all, and for cluster-scoped resources.
    pub namespace: String,
    /// Which object; empty for lists and creates.
    pub name: String,
    /// Subresource as in the path: empty, `status`, `scale`, `binding`, `token`, `finalize`, `eviction`, …
    pub subresource: String,
    /// Query parameters.
    pub options: Options,
    /// The body as it came.
    pub body: Bytes,
    /// Media type of the body without parameters, lower case; empty if none was named.
    pub content_type: String,
    /// Why this request may change what is there but not create what is not; `None` if it may do both.
    pub create_refused: Option<Failure>,
}

/// One object in a reply.
#[derive(Debug, Clone)]
pub enum Body {
    /// As it is stored, to be copied.
    Stored(Document),
    /// Made for this reply.
    Value(Value),
}

impl Body {
    /// Parsed.
    pub fn value(&self) -> Value {
        match self {
            Self::Stored(document) => document.value(),
            Self::Value(value) => value.clone(),
        }
    }
}

/// A list before it is encoded.
#[derive(Debug, Clone)]
pub struct List {
    /// Snapshot's revision.
    pub resource_version: String,
    /// Token for the next page; empty on the last.
    pub continue_token: String,
    /// Objects that are left, if known.
    pub remaining: Option<u64>,
    /// Objects of this page. For built-in resources they are encoded without apiVersion and kind.
    pub items: Vec<Body>,
}

/// Kind of a watch event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// It is there now.
    Added,
    /// It has changed.
    Modified,
    /// It is gone.
    Deleted,
    /// Nothing but a revision.
    Bookmark,
    /// The watch ends with a `Status`.
    Error,
}

impl Change {
    /// As the wire has it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Added => "ADDED",
            Self::Modified => "MODIFIED",
            Self::Deleted => "DELETED",
            Self::Bookmark => "BOOKMARK",
            Self::Error => "ERROR",
        }
    }
}

/// One event of a watch.
#[derive(Debug, Clone)]
pub struct WatchEvent {
    /// What happened.
    pub change: Change,
    /// To which object (as it is now, or was last).
    pub object: Body,
}

/// Events until the timeout or the client ends it.
pub type Events = Pin<Box<dyn Stream<Item = WatchEvent> + Send>>;

/// An answer before it is encoded.
pub enum Reply {
    /// One object, or a `Status`.
    Object {
        /// 200, 201 or 202.
        code: u16,
        /// The object.
        object: Body,
        /// For the `Warning` header.
        warnings: Vec<String>,
    },
    /// Many objects.
    List(List),
    /// A stream.
    Watch(Events),
}

impl From<Failure> for WatchEvent {
    fn from(failure: Failure) -> Self {
        Self { change: Change::Error, object: Body::Value(failure.status()) }
    }
}
