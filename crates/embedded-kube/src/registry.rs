//! What is served: one [`Resource`] per group, version and plural.
//!
//! Built-in resources are there from the start, those of a CRD come and go with it. The registry is read on every
//! request and changed rarely, so readers take a snapshot without a lock.

use std::{collections::BTreeMap, fmt, pin::pin, sync::Arc};

use arc_swap::ArcSwap;
use serde_json::Value;
use tokio::sync::Notify;

use crate::{
    failure::{Answer, FieldError, GroupResource},
    shape::Shape,
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
    /// Lives in a namespace.
    pub namespaced: bool,
    /// Main verbs as discovery names them, sorted: `create`, `delete`, `deletecollection`, `get`, `list`, `patch`, …
    pub verbs: &'static [&'static str],
    /// Has `/status`.
    pub status: bool,
    /// Has `/scale`, and where its numbers are.
    pub scale: Option<Scale>,
    /// Structure, for pruning, apply, strategic merge and `OpenAPI`.
    pub shape: Shape,
    /// Columns of the table; computed by the kind for built-in ones.
    pub columns: Vec<Column>,
    /// Field selectors beside `metadata.name` and `metadata.namespace`: paths without the leading dot, `spec.nodeName`.
    pub selectable: Vec<String>,
    /// Where objects are kept: `group/plural`. Versions of one kind share it (events of both groups do too).
    pub storage: String,
    /// Version that is written.
    pub storage_version: String,
    /// Made from a CRD: items of lists then carry their type, names and so on follow the CRD.
    pub custom: bool,
    /// Objects older than this revision were written under another schema: they are pruned and defaulted when read.
    pub schema_since: u64,
    /// Defaults, checks and printing.
    pub rules: Arc<dyn Rules>,
}

/// Where a scale subresource reads and writes.
#[derive(Debug, Clone)]
pub struct Scale {
    /// Path of the wished number, such as `spec.replicas`.
    pub spec: String,
    /// Path of the present number.
    pub status: String,
    /// Path of the selector as text, if the kind has one.
    pub selector: Option<String>,
}

/// A column of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Column {
    /// Heading.
    pub name: String,
    /// `string`, `integer`, `number`, `boolean` or `date`.
    pub kind: String,
    /// Format, such as `name` or `date-time`; may be empty.
    pub format: String,
    /// What it means.
    pub description: String,
    /// 0 is always shown, higher only in wide tables.
    pub priority: i32,
    /// Where a custom resource has its value; empty for built-in kinds.
    pub path: String,
}

/// Which part of an object a request is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Part {
    /// The object.
    Main,
    /// `/status`.
    Status,
    /// `/scale`.
    Scale,
}

/// What one kind does beyond storing: defaults, checks, printing. No I/O, no clock.
///
/// Order on create: prune (by shape), `default`, `prepare_create`, `check`. On update: prune, `default`,
/// `prepare_update`, `check_update`. Metadata common to all kinds (name, uid, finalizers, owners, …) is done elsewhere.
pub trait Rules: Send + Sync {
    /// Fills in what is missing. Also called on what is read, if the schema has changed since.
    fn default(&self, object: &mut Value);

    /// Before a create: drops or sets what a client must not decide. `status` is already gone where `/status` exists.
    fn prepare_create(&self, _object: &mut Value) {}

    /// Before an update: carries over what a client must not change.
    fn prepare_update(&self, _part: Part, _object: &mut Value, _old: &Value) {}

    /// Faults of a new object; `metadata` is checked elsewhere except for the name (see [`Rules::check_name`]).
    fn check(&self, object: &Value) -> Vec<FieldError>;

    /// Faults of a changed object.
    fn check_update(&self, part: Part, object: &Value, old: &Value) -> Vec<FieldError>;

    /// Complaints about a name; `prefix` is set for a generateName.
    fn check_name(&self, name: &str, prefix: bool) -> Vec<String>;

    /// Whether a change from `old` gives the object a new generation. Metadata never does.
    fn is_new_generation(&self, object: &Value, old: &Value) -> bool;

    /// Warnings for the `Warning` header.
    fn warnings(&self, _object: &Value) -> Vec<String> {
        Vec::new()
    }

    /// Cells of a table row, one per column; `None` if the columns' paths say it all.
    fn cells(&self, _object: &Value, _now: jiff::Timestamp) -> Option<Vec<Value>> {
        None
    }

    /// The schema as its author wrote it, descriptions and all, for `OpenAPI`; built-in kinds have none.
    fn schema(&self) -> Option<&Value> {
        None
    }

    /// What everybody is told who uses this version.
    fn deprecation(&self) -> Option<&str> {
        None
    }

    /// Why nothing of this kind may be created now; existing objects can still be changed and deleted.
    fn refuses_create(&self) -> Option<&str> {
        None
    }

    /// What the first delete makes of an object, where the kind decides that itself.
    fn first_delete(&self, _object: &Value, _now: jiff::Timestamp) -> Option<Value> {
        None
    }

    /// From the stored version to this one.
    #[expect(clippy::wrong_self_convention, reason = "it reads as the pair of `to_storage`")]
    fn from_storage(&self, _object: &mut Value) {}

    /// From this version to the stored one.
    fn to_storage(&self, _object: &mut Value) -> Answer<()> {
        Ok(())
    }
}

impl Resource {
    /// Group and plural, as error texts want it.
    pub fn group_resource(&self) -> GroupResource {
        GroupResource::new(&self.id.group, &self.id.plural)
    }

    /// The group that faults of an object name: events of both groups are those of the core group.
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

/// All that is served at one moment.
pub type Catalogue = BTreeMap<ResourceId, Arc<Resource>>;

/// What is served now.
#[derive(Default)]
pub struct Registry {
    current: ArcSwap<Catalogue>,
    changed: Notify,
}

impl Registry {
    /// With these resources from the start.
    pub fn with(resources: impl IntoIterator<Item = Resource>) -> Self {
        let catalogue: Catalogue =
            resources.into_iter().map(|resource| (resource.id.clone(), Arc::new(resource))).collect();
        Self { current: ArcSwap::from_pointee(catalogue), changed: Notify::new() }
    }

    /// All that is served now.
    pub fn all(&self) -> Arc<Catalogue> {
        self.current.load_full()
    }

    /// One resource.
    pub fn find(&self, group: &str, version: &str, plural: &str) -> Option<Arc<Resource>> {
        let id =
            ResourceId { group: group.to_owned(), version: version.to_owned(), plural: plural.to_owned() };
        self.current.load().get(&id).cloned()
    }

    /// One resource by kind.
    pub fn find_kind(&self, group: &str, version: &str, kind: &str) -> Option<Arc<Resource>> {
        let all = self.current.load();
        all.values()
            .find(|one| one.id.group == group && one.id.version == version && one.kind == kind)
            .cloned()
    }

    /// Exchanges everything that comes from one CRD (told by group and plural) for these versions, which may be none.
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

    /// Ends when a resource is no longer served, or under another schema.
    pub async fn outdated(&self, resource: &Resource) {
        loop {
            let mut changed = pin!(self.changed.notified());
            // Listens before it looks, so that no change falls in between.
            changed.as_mut().enable();
            let now = self.current.load().get(&resource.id).map(|now| now.schema_since);
            if now != Some(resource.schema_since) {
                return;
            }
            changed.await;
        }
    }
}
