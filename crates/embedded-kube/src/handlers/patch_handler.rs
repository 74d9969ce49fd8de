//! Patch: the four patch types.

use serde_json::Value;

use super::{
    RequestHandler, create, decode_body,
    guaranteed_update::{self, ManagedFieldsMode},
    update,
    write_options::WriteOptions,
};
use crate::{
    decode,
    object::{MetaAccessor, MetaAccessorMut},
    patch,
    registry::{ObjectPart, Registry},
    request::{FieldValidation, Reply, Request},
    status_error::{ApiResult, FieldError, StatusError},
};

pub const JSON_PATCH: &str = "application/json-patch+json";
pub const MERGE_PATCH: &str = "application/merge-patch+json";
pub const STRATEGIC_MERGE_PATCH: &str = "application/strategic-merge-patch+json";
pub const APPLY_PATCH: &str = "application/apply-patch+yaml";

impl RequestHandler {
    pub(super) async fn patch(&self, request: &Request, part: ObjectPart) -> ApiResult<Reply> {
        check_patch_type(request)?;
        let options = read_options(request)?;
        if request.content_type == APPLY_PATCH {
            return self.apply(request, part, &options).await;
        }
        let mut warnings = Vec::new();
        let reply = self
            .update_and_reply(request, &options, Vec::new(), |_, old| {
                let (new, found) = apply_patch(request, &options, &self.registry, old)?;
                warnings = found;
                guaranteed_update::prepare_update(
                    request,
                    &options,
                    part,
                    (old, new),
                    ManagedFieldsMode::ByDifference,
                )
            })
            .await?;
        Ok(with_warnings(reply, warnings))
    }

    async fn apply(&self, request: &Request, part: ObjectPart, options: &WriteOptions) -> ApiResult<Reply> {
        let resource = &request.resource;
        let (config, duplicates) = decode::decode("application/yaml", &request.body, &resource.kind)
            .map_err(|failure| StatusError::bad_request(format!("error decoding YAML: {failure}")))?;
        if options.validation == FieldValidation::Strict && !duplicates.is_empty() {
            return Err(StatusError::bad_request(format!(
                "error strict decoding YAML: {}",
                duplicates.join(", ")
            )));
        }
        let force = request.options.force.unwrap_or(false);
        if part == ObjectPart::Object && self.is_missing(request) {
            let reply = self.create_by_apply(request, options, &config).await;
            // Another writer created it meanwhile: continue as an update.
            if !reply.as_ref().is_err_and(|failure| failure.reason() == "AlreadyExists") {
                return reply;
            }
        }
        let reply = self
            .update_and_reply(request, options, Vec::new(), |_, old| {
                let writer = create::write_context(request, options);
                let mut new = patch::apply(Some(old), &config, &resource.shape, &writer, force)?;
                check_unknown(request, options, &new)?;
                decode_body::prune_and_normalise(&mut new, resource);
                update::check_name(&mut new, request)?;
                guaranteed_update::prepare_update(
                    request,
                    options,
                    part,
                    (old, new),
                    ManagedFieldsMode::Applied,
                )
            })
            .await?;
        Ok(with_warnings(reply, duplicates))
    }

    async fn create_by_apply(
        &self,
        request: &Request,
        options: &WriteOptions,
        config: &Value,
    ) -> ApiResult<Reply> {
        let resource = &request.resource;
        let writer = create::write_context(request, options);
        let mut object = patch::apply(None, config, &resource.shape, &writer, true)?;
        let warnings = check_unknown(request, options, &object)?;
        decode_body::prune_and_normalise(&mut object, resource);
        if !object.uid().is_empty() {
            let why = format!(
                "uid mismatch: the provided object specified uid {}, and no existing object was found",
                object.uid()
            );
            return Err(StatusError::conflict(&resource.group_resource(), &request.name, &why));
        }
        update::check_name(&mut object, request)?;
        object.drop_meta("resourceVersion");
        create::drop_status(&mut object, resource);
        resource.strategy.set_defaults(&mut object);
        self.create_decoded(request, object, warnings, options.dry_run).await
    }
}

fn check_patch_type(request: &Request) -> ApiResult<()> {
    let known: &[&str] = if request.resource.is_custom {
        &[JSON_PATCH, MERGE_PATCH, APPLY_PATCH]
    } else {
        &[JSON_PATCH, MERGE_PATCH, STRATEGIC_MERGE_PATCH, APPLY_PATCH]
    };
    if known.contains(&request.content_type.as_str()) {
        return Ok(());
    }
    let text = format!(
        "the body of the request was in an unknown format - accepted media types include: {}",
        known.join(", ")
    );
    Err(StatusError::new(415, "UnsupportedMediaType", text, None))
}

fn read_options(request: &Request) -> ApiResult<WriteOptions> {
    let mut errors = Vec::new();
    if request.content_type == APPLY_PATCH {
        if request.options.field_manager.is_empty() {
            errors.push(FieldError::required("fieldManager", "is required for apply patch"));
        }
    } else if request.options.force.is_some() {
        errors.push(FieldError::forbidden("force", "may not be specified for non-apply patch"));
    }
    WriteOptions::read(request, "PatchOptions", errors)
}

/// The patched object, and warnings.
fn apply_patch(
    request: &Request,
    options: &WriteOptions,
    registry: &Registry,
    old: &Value,
) -> ApiResult<(Value, Vec<String>)> {
    let resource = &request.resource;
    let mut new = match request.content_type.as_str() {
        JSON_PATCH => patch::json_patch(old, &request.body)?,
        MERGE_PATCH => patch::merge_patch(old, &request.body)?,
        _ => patch::strategic_merge(old, &request.body, &resource.shape)?,
    };
    if let Err(why) = decode_body::check_type_meta(&mut new, resource, registry) {
        return Err(unprocessable(&patch_excerpt(request, &new), why.message()));
    }
    if let Some(why) = decode_body::type_error(&new, resource) {
        return Err(unprocessable(&patch_excerpt(request, &new), &why));
    }
    let mut all = check_patch(request, options, &new)?;
    decode_body::prune_and_normalise(&mut new, resource);
    update::check_name(&mut new, request)?;
    decode_body::dedupe_patched_owners(&mut new, &mut all);
    Ok((new, all))
}

/// The excerpt of a patch that error texts show.
fn patch_excerpt(request: &Request, object: &Value) -> String {
    if request.content_type == STRATEGIC_MERGE_PATCH {
        patch::format_patch(&request.body)
    } else {
        object.to_string()
    }
}

/// Handles duplicate fields in the patch and unknown fields after it: error, warning, or neither.
fn check_patch(request: &Request, options: &WriteOptions, object: &Value) -> ApiResult<Vec<String>> {
    if options.validation == FieldValidation::Ignore {
        return Ok(Vec::new());
    }
    let mut faults = match request.content_type.as_str() {
        JSON_PATCH => patch::json_patch_strict_errors(&request.body),
        _ => patch::duplicate_fields(&request.body),
    };
    faults.extend(decode_body::unknown_field_errors(object, &request.resource));
    if faults.is_empty() || options.validation == FieldValidation::Warn {
        return Ok(faults);
    }
    let why = format!("strict decoding error: {}", faults.join(", "));
    Err(unprocessable(&patch_excerpt(request, object), &why))
}

/// Handles unknown fields of an applied object: error, warning, or neither.
fn check_unknown(request: &Request, options: &WriteOptions, object: &Value) -> ApiResult<Vec<String>> {
    if options.validation == FieldValidation::Ignore {
        return Ok(Vec::new());
    }
    let unknown = decode_body::unknown_field_errors(object, &request.resource);
    if unknown.is_empty() || options.validation == FieldValidation::Warn {
        return Ok(unknown);
    }
    Err(unprocessable(&object.to_string(), &format!("strict decoding error: {}", unknown.join(", "))))
}

fn unprocessable(shown: &str, why: &str) -> StatusError {
    let error = FieldError::invalid("patch", shown, why);
    StatusError::invalid("", "", "", &[error])
}

fn with_warnings(reply: Reply, more: Vec<String>) -> Reply {
    match reply {
        Reply::Object { code, object, mut warnings } => {
            warnings.extend(more);
            Reply::Object { code, object, warnings }
        }
        other => other,
    }
}
