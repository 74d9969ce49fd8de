//! The served resources: one [`Resource`] per group, version and plural.
//!
//! Built-in resources are always served; resources of a CRD come and go with it. The registry is read on every request
//! and rarely changed, so readers take a snapshot without a lock.

use std::{collections::BTreeMap, fmt, pin::pin, sync::Arc};

use arc_swap::ArcSwap;
use serde_json::Value;
use tokio::sync::Notify;

use crate::{
    shape::Shape,
    status_error::{ApiResult, FieldError, GroupResource},
};

/// Group, version and plural.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ResourceId {
    /// API group; empty for core.
    pub group: String,
    /// Version, such as `v1`.
    pub version: String,
    /// Plural.
    pub plural: String,
}

/// One resource at one version.
pub struct Resource {
    /// Group, version, plural.
    pub id: ResourceId,
    /// Kind, such as `Deployment`.
    pub kind: String,
    /// Kind of lists, such as `DeploymentList`.
    pub list_kind: String,
    /// Singular.
    pub singular: String,
    /// Short names.
    pub short_names: Vec<String>,
    /// Categories, such as `all`.
    pub categories: Vec<String>,
    /// Whether objects belong to a namespace.
    pub namespaced: bool,
    /// Main verbs as discovery names them, sorted: `create`, `delete`, `deletecollection`, `get`, `list`, `patch`, …
    pub verbs: &'static [&'static str],
    /// Whether `/status` is served.
    pub has_status: bool,
    /// Field paths of `/scale`, if it is served.
    pub scale: Option<Scale>,
    /// Structure, for pruning, apply, strategic merge and `OpenAPI`.
    pub shape: Shape,
    /// Printer columns; built-in kinds compute their cells.
    pub columns: Vec<Column>,
    /// Supported field selectors beside `metadata.name` and `metadata.namespace`: paths without the leading dot,
    /// `spec.nodeName`.
    pub selectable_fields: Vec<String>,
    /// Prefix of the storage keys: `group/plural`. All versions of a kind share it (events of both groups do too).
    pub storage_prefix: String,
    /// Version that is stored.
    pub storage_version: String,
    /// Whether a CRD defines it: list items then carry their type, and names follow the CRD.
    pub is_custom: bool,
    /// Objects older than this revision were written under another schema: they are pruned and defaulted when read.
    pub schema_revision: u64,
    /// Defaults, validation and printing.
    pub strategy: Arc<dyn ResourceStrategy>,
}

/// Field paths of the scale subresource.
#[derive(Debug, Clone)]
pub struct Scale {
    /// Path of the desired replica count, such as `spec.replicas`.
    pub spec: String,
    /// Path of the observed replica count.
    pub status: String,
    /// Path of the selector as text, if there is one.
    pub selector: Option<String>,
}

/// A printer column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Column {
    /// Heading.
    pub name: String,
    /// `string`, `integer`, `number`, `boolean` or `date`.
    pub kind: String,
    /// Format, such as `name` or `date-time`; may be empty.
    pub format: String,
    /// Description.
    pub description: String,
    /// 0 is always shown, higher values only in wide output.
    pub priority: i32,
    /// `JSONPath` of the value in a custom resource; empty for built-in kinds.
    pub path: String,
}

/// Part of an object that a request reads or writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ObjectPart {
    /// The object.
    Object,
    /// `/status`.
    Status,
    /// `/scale`.
    Scale,
}

/// Kind-specific behaviour, like the registry strategies of kube-apiserver: defaults, validation, printing. No I/O, no
/// clock.
///
/// Order on create: prune (by shape), `set_defaults`, `prepare_create`, `validate`. On update: prune, `set_defaults`,
/// `prepare_update`, `validate_update`. Metadata common to all kinds (name, uid, finalizers, owners, …) is handled
/// elsewhere.
pub trait ResourceStrategy: Send + Sync {
    /// Sets defaults. Also called on objects that are read, if the schema has changed since they were written.
    fn set_defaults(&self, object: &mut Value);

    /// Before a create: drops or sets the fields that clients cannot set. `status` is already removed where `/status`
    /// exists.
    fn prepare_create(&self, _object: &mut Value) {}

    /// Before an update: restores the fields that clients cannot change.
    fn prepare_update(&self, _part: ObjectPart, _object: &mut Value, _old: &Value) {}

    /// Validates a new object; `metadata` is validated elsewhere except for the name (see [`Rules::check_name`]).
    fn validate(&self, object: &Value) -> Vec<FieldError>;

    /// Validates an update.
    fn validate_update(&self, part: ObjectPart, object: &Value, old: &Value) -> Vec<FieldError>;

    /// Validates a name; `prefix` is set for a generateName.
    fn validate_name(&self, name: &str, prefix: bool) -> Vec<String>;

    /// Whether the change from `old` increments `metadata.generation`. Metadata changes never do.
    fn bumps_generation(&self, object: &Value, old: &Value) -> bool;

    /// Warnings for the `Warning` header.
    fn warnings(&self, _object: &Value) -> Vec<String> {
        Vec::new()
    }

    /// Cells of a table row, one per column; `None` if the columns' paths define them.
    fn cells(&self, _object: &Value, _now: jiff::Timestamp) -> Option<Vec<Value>> {
        None
    }

    /// The schema as written by its author, with descriptions, for `OpenAPI`; `None` for built-in kinds.
    fn schema(&self) -> Option<&Value> {
        None
    }

    /// Deprecation warning of this version.
    fn deprecation_warning(&self) -> Option<&str> {
        None
    }

    /// Why no object of this kind can be created now; existing objects can still be updated and deleted.
    fn create_forbidden_reason(&self) -> Option<&str> {
        None
    }

    /// The object after the first delete, for kinds with their own deletion flow.
    fn begin_deletion(&self, _object: &Value, _now: jiff::Timestamp) -> Option<Value> {
        None
    }

    /// Converts from the storage version to this one.
    #[expect(clippy::wrong_self_convention, reason = "named as the counterpart of `to_storage`")]
    fn from_storage(&self, _object: &mut Value) {}

    /// Converts from this version to the storage version.
    fn to_storage(&self, _object: &mut Value) -> ApiResult<()> {
        Ok(())
    }
}

impl Resource {
    /// Group and plural, for error texts.
    pub fn group_resource(&self) -> GroupResource {
        GroupResource::new(&self.id.group, &self.id.plural)
    }

    /// The group that validation errors name: events of both groups use the core group.
    pub fn error_group(&self) -> &str {
        if self.id.group == "events.k8s.io" { "" } else { &self.id.group }
    }

    /// `v1`, `apps/v1`.
    pub fn api_version(&self) -> String {
        api_version(&self.id.group, &self.id.version)
    }
}

impl fmt::Debug for Resource {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Resource").field("id", &self.id).field("kind", &self.kind).finish_non_exhaustive()
    }
}

/// `v1` for the core group, else `group/version`.
pub fn api_version(group: &str, version: &str) -> String {
    if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") }
}

/// All served resources at one point in time.
pub type Catalogue = BTreeMap<ResourceId, Arc<Resource>>;

/// The served resources.
#[derive(Default)]
pub struct Registry {
    current: ArcSwap<Catalogue>,
    changed: Notify,
}

impl Registry {
    /// A registry with these resources.
    pub fn new(resources: impl IntoIterator<Item = Resource>) -> Self {
        let catalogue: Catalogue =
            resources.into_iter().map(|resource| (resource.id.clone(), Arc::new(resource))).collect();
        Self { current: ArcSwap::from_pointee(catalogue), changed: Notify::new() }
    }

    /// A snapshot of all served resources.
    pub fn catalogue(&self) -> Arc<Catalogue> {
        self.current.load_full()
    }

    /// One resource.
    pub fn find(&self, group: &str, version: &str, plural: &str) -> Option<Arc<Resource>> {
        let id =
            ResourceId { group: group.to_owned(), version: version.to_owned(), plural: plural.to_owned() };
        self.current.load().get(&id).cloned()
    }

    /// Finds a resource by kind.
    pub fn find_kind(&self, group: &str, version: &str, kind: &str) -> Option<Arc<Resource>> {
        let all = self.current.load();
        all.values()
            .find(|one| one.id.group == group && one.id.version == version && one.kind == kind)
            .cloned()
    }

    /// Replaces the resources of one CRD (identified by group and plural) with these versions, which may be none.
    pub fn replace(&self, owner: &GroupResource, versions: Vec<Resource>) {
        let versions: Vec<Arc<Resource>> = versions.into_iter().map(Arc::new).collect();
        self.current.rcu(|all| {
            let mut next: Catalogue = (**all).clone();
            next.retain(|id, _| id.group != owner.group || id.plural != owner.resource);
            next.extend(versions.iter().map(|resource| (resource.id.clone(), Arc::clone(resource))));
            next
        });
        self.changed.notify_waiters();
    }

    /// Resolves when a resource is no longer served, or is served under another schema.
    pub async fn wait_until_outdated(&self, resource: &Resource) {
        loop {
            let mut changed = pin!(self.changed.notified());
            // Registers for notifications before it checks, so no change is missed in between.
            changed.as_mut().enable();
            let now = self.current.load().get(&resource.id).map(|now| now.schema_revision);
            if now != Some(resource.schema_revision) {
                return;
            }
            changed.await;
        }
    }
}
