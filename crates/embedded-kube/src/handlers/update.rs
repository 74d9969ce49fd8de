//! Update: replaces an object.

use serde_json::Value;

use super::{
    RequestHandler, create, decode_body,
    guaranteed_update::{self, ManagedFieldsMode},
    storage_key,
    write_options::WriteOptions,
};
use crate::{
    object::MetaAccessor,
    patch,
    registry::{ObjectPart, Resource},
    request::{Reply, Request},
    status_error::{ApiResult, StatusError},
};

impl RequestHandler {
    pub(super) async fn update(&self, request: &Request, part: ObjectPart) -> ApiResult<Reply> {
        let options = WriteOptions::read(request, "UpdateOptions", Vec::new())?;
        let mut intake = decode_body::decode_object(request, options.validation, &self.registry)?;
        check_name(&mut intake.object, request)?;
        decode_body::dedupe_owners(&mut intake.object, &mut intake.warnings);
        if part == ObjectPart::Object && creates_on_update(&request.resource) && self.is_missing(request) {
            return self.create_by_update(request, &options, intake.object, intake.warnings).await;
        }
        let mut warnings = intake.warnings;
        warnings.extend(request.resource.strategy.warnings(&intake.object));
        let object = intake.object;
        self.update_and_reply(request, &options, warnings, |_, old| {
            guaranteed_update::prepare_update(
                request,
                &options,
                part,
                (old, object.clone()),
                ManagedFieldsMode::ByDifference,
            )
        })
        .await
    }

    pub(super) fn is_missing(&self, request: &Request) -> bool {
        self.store.get(&storage_key(&request.resource, &request.namespace, &request.name)).is_none()
    }

    async fn create_by_update(
        &self,
        request: &Request,
        options: &WriteOptions,
        mut object: Value,
        warnings: Vec<String>,
    ) -> ApiResult<Reply> {
        let resource = &request.resource;
        if !object.uid().is_empty() {
            let why =
                format!("Precondition failed: UID in precondition: {}, UID in object meta: ", object.uid());
            return Err(StatusError::conflict(&resource.group_resource(), &request.name, &why));
        }
        if !matches!(object.resource_version(), "" | "0") {
            return Err(StatusError::not_found(&resource.group_resource(), &request.name));
        }
        create::drop_status(&mut object, resource);
        resource.strategy.set_defaults(&mut object);
        decode_body::prune_and_normalise(&mut object, resource);
        patch::update_managed_fields(
            None,
            &mut object,
            &resource.shape,
            &create::write_context(request, options),
        )?;
        self.create_decoded(request, object, warnings, options.dry_run).await
    }
}

/// Sets name and namespace of the path; others are rejected.
pub fn check_name(object: &mut Value, request: &Request) -> ApiResult<()> {
    if request.name.is_empty() {
        return Err(StatusError::bad_request("name must be provided"));
    }
    decode_body::check_namespace(object, request)?;
    let given = object.name().to_owned();
    if given.is_empty() {
        return Err(StatusError::bad_request(format!(
            "the name of the object ({} based on URL) was undeterminable: name must be provided",
            request.name
        )));
    }
    if given != request.name {
        return Err(StatusError::bad_request(format!(
            "the name of the object ({given}) does not match the name on the URL ({})",
            request.name
        )));
    }
    Ok(())
}

fn creates_on_update(resource: &Resource) -> bool {
    matches!(
        (resource.id.group.as_str(), resource.id.plural.as_str()),
        ("", "events" | "services" | "endpoints")
            | ("events.k8s.io", "events")
            | ("coordination.k8s.io", "leases")
            | ("rbac.authorization.k8s.io", _)
    )
}
