//! Create.

use serde_json::Value;
use uuid::Uuid;

use super::{
    RequestHandler, decode_body, metadata_validation, object_converter, storage_key,
    write_options::WriteOptions,
};
use crate::{
    clock, crd,
    object::{Draft, MetaAccessor, MetaAccessorMut},
    patch::{self, WriteContext},
    registry::Resource,
    request::{ObjectBody, Reply, Request},
    status_error::{ApiResult, StatusError},
    store::{Precondition, RevisionGuard, WriteError},
};

/// How many generated names are tried.
const MAX_NAME_ATTEMPTS: usize = 8;
/// How often admission is repeated when the namespace or CRD changes concurrently.
const MAX_ADMISSION_ATTEMPTS: usize = 32;
const SUFFIX_LETTERS: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
const SUFFIX_LENGTH: usize = 5;
const MAX_GENERATED_NAME: usize = 63;

/// Request limit of a real server's etcd, and therefore the maximum object size.
const MAX_OBJECT_BYTES: usize = 1_572_864;

/// Metadata that only the server sets.
const SERVER_METADATA: &[&str] =
    &["uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "selfLink"];

impl RequestHandler {
    pub(super) async fn create(&self, request: &Request) -> ApiResult<Reply> {
        let options = WriteOptions::read(request, "CreateOptions", Vec::new())?;
        let mut intake = decode_body::decode_object(request, options.validation, &self.registry)?;
        let object = &mut intake.object;
        if !object.resource_version().is_empty() {
            // kube-apiserver returns an internal error here, and clients rely on it.
            return Err(StatusError::new(
                500,
                "",
                "resourceVersion should not be set on objects to be created",
                None,
            ));
        }
        for field in SERVER_METADATA {
            object.drop_meta(field);
        }
        decode_body::check_namespace(object, request)?;
        decode_body::dedupe_owners(object, &mut intake.warnings);
        drop_status(object, &request.resource);
        request.resource.strategy.set_defaults(object);
        decode_body::prune_and_normalise(object, &request.resource);
        let writer = write_context(request, &options);
        patch::update_managed_fields(None, object, &request.resource.shape, &writer)?;
        self.create_decoded(request, intake.object, intake.warnings, options.dry_run).await
    }

    /// Second half of a create: the object is already defaulted and has its managed fields.
    pub(super) async fn create_decoded(
        &self,
        request: &Request,
        mut object: Value,
        mut warnings: Vec<String>,
        dry_run: bool,
    ) -> ApiResult<Reply> {
        let resource = &request.resource;
        let guards = self.admit(request, object.name())?;
        object.set_meta("uid", Uuid::new_v4().to_string());
        object.set_meta("creationTimestamp", clock::format_time(clock::now()));
        let base = object.meta_str("generateName").to_owned();
        let generated = object.name().is_empty() && !base.is_empty();
        for attempt in 1..=MAX_NAME_ATTEMPTS {
            let mut object = object.clone();
            if generated {
                object.set_meta("name", generate_name(&base));
            }
            Self::validate_new(resource, &mut object)?;
            // As in kube-apiserver this check comes last, so an invalid object is invalid for every caller.
            if let Some(refusal) = &request.create_denied {
                return Err(refusal.clone());
            }
            if attempt == 1 {
                warnings.extend(resource.strategy.warnings(&object));
            }
            match self.insert(request, &object, guards.clone(), dry_run).await? {
                Some(body) => return Ok(Reply::Object { code: 201, object: body, warnings }),
                None if generated && attempt < MAX_NAME_ATTEMPTS => {}
                None => return Err(name_taken_error(resource, object.name(), generated)),
            }
        }
        Err(name_taken_error(resource, &base, generated))
    }

    fn validate_new(resource: &Resource, object: &mut Value) -> ApiResult<()> {
        resource.strategy.prepare_create(object);
        if resource.strategy.bumps_generation(object, &Value::Null) {
            object.set_meta("generation", 1);
        }
        let mut errors = metadata_validation::validate_new(object, resource);
        errors.extend(resource.strategy.validate(object));
        if errors.is_empty() {
            decode_body::prune_and_normalise(object, resource);
            return Ok(());
        }
        Err(StatusError::invalid(resource.error_group(), &resource.kind, object.name(), &errors))
    }

    /// Rejects creates in a terminating namespace or of a terminating CRD. The guards make this race-free: a deletion
    /// first updates the namespace or CRD and then looks for its objects, so a write that passes the guards is found.
    pub(super) fn admit(&self, request: &Request, name: &str) -> ApiResult<Vec<RevisionGuard>> {
        if let Some(why) = request.resource.strategy.create_forbidden_reason() {
            return Err(StatusError::forbidden(&request.resource.group_resource(), name, why));
        }
        let definition = self.admit_definition(request, name)?;
        let namespace = self.admit_namespace(request, name)?;
        Ok(definition.into_iter().chain(namespace).collect())
    }

    /// Rejects creates of a kind whose CRD is deleted or terminating.
    fn admit_definition(&self, request: &Request, name: &str) -> ApiResult<Option<RevisionGuard>> {
        let resource = &request.resource;
        if !resource.is_custom {
            return Ok(None);
        }
        let key = crd::crd_key(&resource.group_resource());
        let entry = self.store.get(&key).ok_or_else(StatusError::path_not_found)?;
        if crd::is_terminating(&entry.document) {
            return Err(StatusError::forbidden(
                &resource.group_resource(),
                name,
                crd::CRD_TERMINATING_MESSAGE,
            ));
        }
        Ok(Some(RevisionGuard { key: key.into(), revision: entry.revision }))
    }

    /// `None` if the name is in use.
    pub(super) async fn insert(
        &self,
        request: &Request,
        object: &Value,
        mut guards: Vec<RevisionGuard>,
        dry_run: bool,
    ) -> ApiResult<Option<ObjectBody>> {
        let resource = &request.resource;
        let key = storage_key(resource, &request.namespace, object.name());
        if dry_run {
            return Ok(self.store.get(&key).is_none().then(|| ObjectBody::Value(object.clone())));
        }
        let draft = build_draft(resource, object)?;
        for _ in 0..MAX_ADMISSION_ATTEMPTS {
            match self.store.write_guarded(&key, Precondition::Absent, Some(draft.clone()), guards).await {
                Ok(written) => {
                    return Ok(Some(
                        object_converter(resource).convert_document(&written.document, written.revision),
                    ));
                }
                Err(WriteError::Conflict(_)) => return Ok(None),
                Err(WriteError::GuardChanged) => guards = self.admit(request, object.name())?,
                Err(WriteError::Io(error)) => return Err(StatusError::internal(error)),
            }
        }
        Err(StatusError::stale_resource_version(&resource.group_resource(), object.name()))
    }
}

/// Serializes the object in its storage version.
pub fn build_draft(resource: &Resource, object: &Value) -> ApiResult<Draft> {
    let mut stored = object.clone();
    resource.strategy.to_storage(&mut stored)?;
    if resource.is_custom
        && let Some(map) = stored.as_object_mut()
    {
        let version = crate::registry::api_version(&resource.id.group, &resource.storage_version);
        map.insert("apiVersion".into(), version.into());
    }
    let draft = Draft::from_value(&stored)?;
    if draft.size() <= MAX_OBJECT_BYTES {
        return Ok(draft);
    }
    // Drops managed fields rather than rejecting the object.
    stored.drop_meta("managedFields");
    let draft = Draft::from_value(&stored)?;
    if draft.size() <= MAX_OBJECT_BYTES {
        Ok(draft)
    } else {
        Err(StatusError::new(500, "", "etcdserver: request is too large", None))
    }
}

/// The main endpoint does not write the status. Nodes are the exception: they register with theirs.
pub fn drop_status(object: &mut Value, resource: &Resource) {
    if resource.has_status && !(resource.id.group.is_empty() && resource.id.plural == "nodes") {
        object.drop_field("status");
    }
}

pub fn write_context<'a>(request: &'a Request, options: &'a WriteOptions) -> WriteContext<'a> {
    WriteContext {
        manager: &options.manager,
        api_version: &options.api_version,
        kind: &request.resource.kind,
        subresource: &request.subresource,
        reset_fields: reset_fields(&request.resource, &request.subresource),
        replicas_path: request.resource.scale.as_ref().map_or("", |scale| &scale.spec),
        now: clock::now(),
    }
}

/// Fields that an endpoint never writes, so no manager becomes their owner there.
fn reset_fields(resource: &Resource, subresource: &str) -> &'static [&'static str] {
    let definition = resource.id.plural == "customresourcedefinitions";
    match (subresource, resource.id.plural.as_str()) {
        ("", _) if resource.has_status => &["status"],
        ("finalize", _) => &["status"],
        ("status", _) if resource.is_custom || definition => &["metadata", "spec"],
        ("status", "deployments") => &["spec", "metadata.labels"],
        ("status", "pods") => &["spec", "metadata.deletionTimestamp", "metadata.ownerReferences"],
        ("status", _) => &["spec"],
        _ => &[],
    }
}

fn name_taken_error(resource: &Resource, name: &str, generated: bool) -> StatusError {
    let failure = StatusError::already_exists(&resource.group_resource(), name);
    if !generated {
        return failure;
    }
    let text = format!("{failure}, the server was not able to generate a unique name for the object");
    let mut details = failure.details().cloned().unwrap_or_default();
    details.retry_after_seconds = 1;
    StatusError::new(409, "AlreadyExists", text, Some(details))
}

/// A base and five random characters, truncated to a valid name.
fn generate_name(base: &str) -> String {
    let most = MAX_GENERATED_NAME - SUFFIX_LENGTH;
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
