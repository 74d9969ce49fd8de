//! Parts of an object: the four kinds of patches.

use serde_json::Value;

use super::{
    Server,
    change::{self, Tracking},
    create, intake,
    options::WriteOptions,
    update,
};
use crate::{
    decode,
    failure::{Answer, Failure, FieldError},
    object::{Meta, MetaMut},
    patch,
    registry::{Part, Registry},
    request::{FieldValidation, Reply, Request},
};

pub const JSON: &str = "application/json-patch+json";
pub const MERGE: &str = "application/merge-patch+json";
pub const STRATEGIC: &str = "application/strategic-merge-patch+json";
pub const APPLY: &str = "application/apply-patch+yaml";

impl Server {
    pub(super) async fn patch(&self, request: &Request, part: Part) -> Answer<Reply> {
        check_type(request)?;
        let options = read_options(request)?;
        if request.content_type == APPLY {
            return self.apply(request, part, &options).await;
        }
        let mut warnings = Vec::new();
        let reply = self
            .change_and_show(request, &options, Vec::new(), |_, old| {
                let (new, found) = patched(request, &options, &self.registry, old)?;
                warnings = found;
                change::advance(request, &options, part, (old, new), Tracking::ByDifference)
            })
            .await?;
        Ok(with_warnings(reply, warnings))
    }

    async fn apply(&self, request: &Request, part: Part, options: &WriteOptions) -> Answer<Reply> {
        let resource = &request.resource;
        let (config, duplicates) = decode::decode("application/yaml", &request.body, &resource.kind)
            .map_err(|failure| Failure::bad_request(format!("error decoding YAML: {failure}")))?;
        if options.validation == FieldValidation::Strict && !duplicates.is_empty() {
            return Err(Failure::bad_request(format!(
                "error strict decoding YAML: {}",
                duplicates.join(", ")
            )));
        }
        let force = request.options.force.unwrap_or(false);
        if part == Part::Main && self.is_absent(request) {
            let reply = self.create_by_apply(request, options, &config).await;
            // Somebody else was quicker: then this is a change like any other.
            if !reply.as_ref().is_err_and(|failure| failure.reason() == "AlreadyExists") {
                return reply;
            }
        }
        let reply = self
            .change_and_show(request, options, Vec::new(), |_, old| {
                let writer = create::writer(request, options);
                let mut new = patch::apply(Some(old), &config, &resource.shape, &writer, force)?;
                check_unknown(request, options, &new)?;
                intake::clean(&mut new, resource);
                update::fit_name(&mut new, request)?;
                change::advance(request, options, part, (old, new), Tracking::Applied)
            })
            .await?;
        Ok(with_warnings(reply, duplicates))
    }

    async fn create_by_apply(
        &self,
        request: &Request,
        options: &WriteOptions,
        config: &Value,
    ) -> Answer<Reply> {
        let resource = &request.resource;
        let writer = create::writer(request, options);
        let mut object = patch::apply(None, config, &resource.shape, &writer, true)?;
        let warnings = check_unknown(request, options, &object)?;
        intake::clean(&mut object, resource);
        if !object.uid().is_empty() {
            let why = format!(
                "uid mismatch: the provided object specified uid {}, and no existing object was found",
                object.uid()
            );
            return Err(Failure::conflict(&resource.group_resource(), &request.name, &why));
        }
        update::fit_name(&mut object, request)?;
        object.drop_meta("resourceVersion");
        create::drop_status(&mut object, resource);
        resource.rules.default(&mut object);
        self.store_new(request, object, warnings, options.dry_run).await
    }
}

fn check_type(request: &Request) -> Answer<()> {
    let known: &[&str] =
        if request.resource.custom { &[JSON, MERGE, APPLY] } else { &[JSON, MERGE, STRATEGIC, APPLY] };
    if known.contains(&request.content_type.as_str()) {
        return Ok(());
    }
    let text = format!(
        "the body of the request was in an unknown format - accepted media types include: {}",
        known.join(", ")
    );
    Err(Failure::new(415, "UnsupportedMediaType", text, None))
}

fn read_options(request: &Request) -> Answer<WriteOptions> {
    let mut errors = Vec::new();
    if request.content_type == APPLY {
        if request.options.field_manager.is_empty() {
            errors.push(FieldError::required("fieldManager", "is required for apply patch"));
        }
    } else if request.options.force.is_some() {
        errors.push(FieldError::forbidden("force", "may not be specified for non-apply patch"));
    }
    WriteOptions::read(request, "PatchOptions", errors)
}

/// The object after the patch, and what is odd about it.
fn patched(
    request: &Request,
    options: &WriteOptions,
    registry: &Registry,
    old: &Value,
) -> Answer<(Value, Vec<String>)> {
    let resource = &request.resource;
    let mut new = match request.content_type.as_str() {
        JSON => patch::json_patch(old, &request.body)?,
        MERGE => patch::merge_patch(old, &request.body)?,
        _ => patch::strategic_merge(old, &request.body, &resource.shape)?,
    };
    if let Err(why) = intake::fit_type(&mut new, resource, registry) {
        return Err(unprocessable(&shown(request, &new), why.message()));
    }
    if let Some(why) = intake::mistyped(&new, resource) {
        return Err(unprocessable(&shown(request, &new), &why));
    }
    let mut all = check_patch(request, options, &new)?;
    intake::clean(&mut new, resource);
    update::fit_name(&mut new, request)?;
    intake::dedupe_patched_owners(&mut new, &mut all);
    Ok((new, all))
}

/// What texts show of a patch that does not work out.
fn shown(request: &Request, object: &Value) -> String {
    if request.content_type == STRATEGIC { patch::shown_patch(&request.body) } else { object.to_string() }
}

/// Fields given twice in the patch, and unknown fields after it: refused, told, or neither.
fn check_patch(request: &Request, options: &WriteOptions, object: &Value) -> Answer<Vec<String>> {
    if options.validation == FieldValidation::Ignore {
        return Ok(Vec::new());
    }
    let mut faults = match request.content_type.as_str() {
        JSON => patch::json_patch_faults(&request.body),
        _ => patch::duplicate_fields(&request.body),
    };
    faults.extend(intake::unknown(object, &request.resource));
    if faults.is_empty() || options.validation == FieldValidation::Warn {
        return Ok(faults);
    }
    let why = format!("strict decoding error: {}", faults.join(", "));
    Err(unprocessable(&shown(request, object), &why))
}

/// Unknown fields of an applied object: refused, told, or neither.
fn check_unknown(request: &Request, options: &WriteOptions, object: &Value) -> Answer<Vec<String>> {
    if options.validation == FieldValidation::Ignore {
        return Ok(Vec::new());
    }
    let unknown = intake::unknown(object, &request.resource);
    if unknown.is_empty() || options.validation == FieldValidation::Warn {
        return Ok(unknown);
    }
    Err(unprocessable(&object.to_string(), &format!("strict decoding error: {}", unknown.join(", "))))
}

fn unprocessable(shown: &str, why: &str) -> Failure {
    let error = FieldError::invalid("patch", shown, why);
    Failure::invalid("", "", "", &[error])
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
