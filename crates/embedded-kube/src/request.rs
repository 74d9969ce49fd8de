//! A decoded request and its reply before encoding: the interface between `http_server` and `handlers`.

use std::{pin::Pin, sync::Arc};

use bytes::Bytes;
use futures::Stream;
use serde_json::Value;

use crate::{object::Document, registry::Resource, status_error::StatusError};

/// An authenticated user.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct User {
    /// Name.
    pub name: String,
    /// Unique id; may be empty.
    pub uid: String,
    /// Groups; `system:masters` bypasses authorization.
    pub groups: Vec<String>,
    /// Additional attributes.
    pub extra: std::collections::BTreeMap<String, Vec<String>>,
}

/// API verb.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Verb {
    /// Reads one object.
    Get,
    /// Lists objects.
    List,
    /// Streams changes.
    Watch,
    /// Creates an object.
    Create,
    /// Replaces an object.
    Update,
    /// Patches an object.
    Patch,
    /// Deletes one object.
    Delete,
    /// Deletes a collection.
    DeleteCollection,
}

impl Verb {
    /// Name in RBAC and discovery.
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

/// How unknown and duplicate fields are handled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum FieldValidation {
    /// Dropped silently.
    Ignore,
    /// Dropped with a warning; the default.
    #[default]
    Warn,
    /// Rejected.
    Strict,
}

/// All query parameters, decoded. For strings, empty means "not given".
#[derive(Debug, Clone, Default)]
pub struct RequestOptions {
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

/// A request for a served resource.
#[derive(Debug, Clone)]
pub struct Request {
    /// Caller.
    pub user: User,
    /// `User-Agent` of the client; the field manager defaults to it.
    pub agent: String,
    /// Verb.
    pub verb: Verb,
    /// Resource.
    pub resource: Arc<Resource>,
    /// Namespace; empty for all, and for cluster-scoped resources.
    pub namespace: String,
    /// Object name; empty for lists and creates.
    pub name: String,
    /// Subresource as in the path: empty, `status`, `scale`, `binding`, `token`, `finalize`, `eviction`, …
    pub subresource: String,
    /// Query parameters.
    pub options: RequestOptions,
    /// Raw body.
    pub body: Bytes,
    /// Media type of the body without parameters, lower case; empty if none was named.
    pub content_type: String,
    /// Why this request may update but not create objects; `None` if it may do both.
    pub create_denied: Option<StatusError>,
}

/// One object in a reply.
#[derive(Debug, Clone)]
pub enum ObjectBody {
    /// As stored; copied without parsing.
    Stored(Document),
    /// Built for this reply.
    Value(Value),
}

impl ObjectBody {
    /// Parses the object.
    pub fn value(&self) -> Value {
        match self {
            Self::Stored(document) => document.value(),
            Self::Value(value) => value.clone(),
        }
    }
}

/// A list before it is encoded.
#[derive(Debug, Clone)]
pub struct ObjectList {
    /// Revision of the snapshot.
    pub resource_version: String,
    /// Token for the next page; empty on the last.
    pub continue_token: String,
    /// Number of remaining objects, if known.
    pub remaining_items: Option<u64>,
    /// Objects of this page. For built-in resources they are encoded without apiVersion and kind.
    pub items: Vec<ObjectBody>,
}

/// Type of a watch event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WatchEventType {
    /// The object was created or now matches the selector.
    Added,
    /// The object was updated.
    Modified,
    /// The object was deleted or no longer matches the selector.
    Deleted,
    /// Carries only a resourceVersion.
    Bookmark,
    /// The watch ends with a `Status`.
    Error,
}

impl WatchEventType {
    /// Name in the watch protocol.
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
    /// Event type.
    pub event_type: WatchEventType,
    /// The current object, or its last state after a delete.
    pub object: ObjectBody,
}

/// Stream of watch events; ends at the timeout or when the client disconnects.
pub type WatchEventStream = Pin<Box<dyn Stream<Item = WatchEvent> + Send>>;

/// A reply before encoding.
pub enum Reply {
    /// One object, or a `Status`.
    Object {
        /// 200, 201 or 202.
        code: u16,
        /// The object.
        object: ObjectBody,
        /// For the `Warning` header.
        warnings: Vec<String>,
    },
    /// Many objects.
    List(ObjectList),
    /// A stream.
    Watch(WatchEventStream),
}

impl From<StatusError> for WatchEvent {
    fn from(failure: StatusError) -> Self {
        Self { event_type: WatchEventType::Error, object: ObjectBody::Value(failure.status()) }
    }
}
