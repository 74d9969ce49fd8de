//! A new object.

use serde_json::Value;
use uuid::Uuid;

use super::{Server, intake, key, meta, options::WriteOptions, viewer};
use crate::{
    clock, crd,
    failure::{Answer, Failure},
    object::{Draft, Meta, MetaMut},
    patch::{self, Writer},
    registry::Resource,
    request::{Body, Reply, Request},
    store::{Expect, Guard, WriteError},
};

/// How often a generated name is tried.
const NAME_ATTEMPTS: usize = 8;
/// How often a create looks again at a namespace and a definition that others change meanwhile.
const ADMISSIONS: usize = 32;
const SUFFIX_LETTERS: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
const SUFFIX_LENGTH: usize = 5;
const GENERATED_LIMIT: usize = 63;

/// What a real server's etcd takes in one request, and so the largest object there can be.
const LARGEST: usize = 1_572_864;

/// Metadata that is the server's own.
const SYSTEM: &[&str] =
    &["uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "selfLink"];

impl Server {
    pub(super) async fn create(&self, request: &Request) -> Answer<Reply> {
        let options = WriteOptions::read(request, "CreateOptions", Vec::new())?;
        let mut intake = intake::read(request, options.validation, &self.registry)?;
        let object = &mut intake.object;
        if !object.resource_version().is_empty() {
            // The real server calls this a fault of its own, and clients have learned to read it so.
            return Err(Failure::new(
                500,
                "",
                "resourceVersion should not be set on objects to be created",
                None,
            ));
        }
        for field in SYSTEM {
            object.drop_meta(field);
        }
        intake::fit_namespace(object, request)?;
        intake::dedupe_owners(object, &mut intake.warnings);
        drop_status(object, &request.resource);
        request.resource.rules.default(object);
        intake::clean(object, &request.resource);
        let writer = writer(request, &options);
        patch::track(None, object, &request.resource.shape, &writer)?;
        self.store_new(request, intake.object, intake.warnings, options.dry_run).await
    }

    /// The rest of a create: the object is defaulted and says who manages its fields.
    pub(super) async fn store_new(
        &self,
        request: &Request,
        mut object: Value,
        mut warnings: Vec<String>,
        dry_run: bool,
    ) -> Answer<Reply> {
        let resource = &request.resource;
        let guards = self.admit(request, object.name())?;
        object.set_meta("uid", Uuid::new_v4().to_string());
        object.set_meta("creationTimestamp", clock::seconds(clock::now()));
        let base = object.meta("generateName").to_owned();
        let generated = object.name().is_empty() && !base.is_empty();
        for attempt in 1..=NAME_ATTEMPTS {
            let mut object = object.clone();
            if generated {
                object.set_meta("name", generate(&base));
            }
            Self::finish_new(resource, &mut object)?;
            // The real server asks this last too, so that an object that could not be is invalid for everybody.
            if let Some(refusal) = &request.create_refused {
                return Err(refusal.clone());
            }
            if attempt == 1 {
                warnings.extend(resource.rules.warnings(&object));
            }
            match self.insert(request, &object, guards.clone(), dry_run).await? {
                Some(body) => return Ok(Reply::Object { code: 201, object: body, warnings }),
                None if generated && attempt < NAME_ATTEMPTS => {}
                None => return Err(taken(resource, object.name(), generated)),
            }
        }
        Err(taken(resource, &base, generated))
    }

    fn finish_new(resource: &Resource, object: &mut Value) -> Answer<()> {
        resource.rules.prepare_create(object);
        if resource.rules.is_new_generation(object, &Value::Null) {
            object.set_meta("generation", 1);
        }
        let mut errors = meta::check_new(object, resource);
        errors.extend(resource.rules.check(object));
        if errors.is_empty() {
            intake::clean(object, resource);
            return Ok(());
        }
        Err(Failure::invalid(resource.error_group(), &resource.kind, object.name(), &errors))
    }

    /// Refuses what nobody would look after. What is told relies on the guards: whoever ends a namespace or a CRD
    /// changes it first and looks for its objects then, so a write that meets them is found.
    pub(super) fn admit(&self, request: &Request, name: &str) -> Answer<Vec<Guard>> {
        if let Some(why) = request.resource.rules.refuses_create() {
            return Err(Failure::forbidden(&request.resource.group_resource(), name, why));
        }
        let definition = self.admit_definition(request, name)?;
        let namespace = self.admit_namespace(request, name)?;
        Ok(definition.into_iter().chain(namespace).collect())
    }

    /// Nothing new of a kind whose definition is gone, or will soon be.
    fn admit_definition(&self, request: &Request, name: &str) -> Answer<Option<Guard>> {
        let resource = &request.resource;
        if !resource.custom {
            return Ok(None);
        }
        let key = crd::key(&resource.group_resource());
        let entry = self.store.get(&key).ok_or_else(Failure::no_such_path)?;
        if crd::is_ending(&entry.document) {
            return Err(Failure::forbidden(&resource.group_resource(), name, crd::ENDING));
        }
        Ok(Some(Guard { key: key.into(), revision: entry.revision }))
    }

    /// `None` if the name is taken.
    pub(super) async fn insert(
        &self,
        request: &Request,
        object: &Value,
        mut guards: Vec<Guard>,
        dry_run: bool,
    ) -> Answer<Option<Body>> {
        let resource = &request.resource;
        let key = key(resource, &request.namespace, object.name());
        if dry_run {
            return Ok(self.store.get(&key).is_none().then(|| Body::Value(object.clone())));
        }
        let draft = draft(resource, object)?;
        for _ in 0..ADMISSIONS {
            match self.store.write_guarded(&key, Expect::Absent, Some(draft.clone()), guards).await {
                Ok(written) => {
                    return Ok(Some(viewer(resource).show_document(&written.document, written.revision)));
                }
                Err(WriteError::Conflict(_)) => return Ok(None),
                Err(WriteError::Unguarded) => guards = self.admit(request, object.name())?,
                Err(WriteError::Io(error)) => return Err(Failure::internal(error)),
            }
        }
        Err(Failure::modified(&resource.group_resource(), object.name()))
    }
}

/// The object in its stored version, ready to be written.
pub fn draft(resource: &Resource, object: &Value) -> Answer<Draft> {
    let mut stored = object.clone();
    resource.rules.to_storage(&mut stored)?;
    if resource.custom
        && let Some(map) = stored.as_object_mut()
    {
        let version = crate::registry::api_version(&resource.id.group, &resource.storage_version);
        map.insert("apiVersion".into(), version.into());
    }
    let draft = Draft::of(&stored)?;
    if draft.size() <= LARGEST {
        return Ok(draft);
    }
    // Who manages what can be forgotten rather than the object refused.
    stored.drop_meta("managedFields");
    let draft = Draft::of(&stored)?;
    if draft.size() <= LARGEST {
        Ok(draft)
    } else {
        Err(Failure::new(500, "", "etcdserver: request is too large", None))
    }
}

/// Status is not for the main endpoint to write. Nodes are the exception: they register with theirs.
pub fn drop_status(object: &mut Value, resource: &Resource) {
    if resource.status && !(resource.id.group.is_empty() && resource.id.plural == "nodes") {
        object.drop_field("status");
    }
}

pub fn writer<'a>(request: &'a Request, options: &'a WriteOptions) -> Writer<'a> {
    Writer {
        manager: &options.manager,
        api_version: &options.api_version,
        kind: &request.resource.kind,
        subresource: &request.subresource,
        reset: reset_of(&request.resource, &request.subresource),
        replicas: request.resource.scale.as_ref().map_or("", |scale| &scale.spec),
        now: clock::now(),
    }
}

/// Fields that an endpoint does not change, whatever is sent to it: nobody becomes their owner there.
fn reset_of(resource: &Resource, subresource: &str) -> &'static [&'static str] {
    let definition = resource.id.plural == "customresourcedefinitions";
    match (subresource, resource.id.plural.as_str()) {
        ("", _) if resource.status => &["status"],
        ("finalize", _) => &["status"],
        ("status", _) if resource.custom || definition => &["metadata", "spec"],
        ("status", "deployments") => &["spec", "metadata.labels"],
        ("status", "pods") => &["spec", "metadata.deletionTimestamp", "metadata.ownerReferences"],
        ("status", _) => &["spec"],
        _ => &[],
    }
}

fn taken(resource: &Resource, name: &str, generated: bool) -> Failure {
    let failure = Failure::already_exists(&resource.group_resource(), name);
    if !generated {
        return failure;
    }
    let text = format!("{failure}, the server was not able to generate a unique name for the object");
    let mut details = failure.details().cloned().unwrap_or_default();
    details.retry_after_seconds = 1;
    Failure::new(409, "AlreadyExists", text, Some(details))
}

/// A base and five random letters, cut so that the whole is a name.
fn generate(base: &str) -> String {
    let most = GENERATED_LIMIT - SUFFIX_LENGTH;
    let cut = base
        .char_indices()
        .map(|(place, letter)| place + letter.len_utf8())
        .take_while(|end| *end <= most)
        .last();
    let random = Uuid::new_v4();
    let suffix = random.as_bytes().iter().take(SUFFIX_LENGTH).filter_map(|byte| {
        SUFFIX_LETTERS.get(usize::from(*byte) % SUFFIX_LETTERS.len()).copied().map(char::from)
    });
    let mut name = base.get(..cut.unwrap_or_default()).unwrap_or_default().to_owned();
    name.extend(suffix);
    name
}
