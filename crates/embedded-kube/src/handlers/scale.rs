//! The scale subresource.

use serde_json::{Value, json};

use super::{
    RequestHandler,
    guaranteed_update::{self, ManagedFieldsMode},
    object_converter, patch_handler,
    write_options::WriteOptions,
};
use crate::{
    decode,
    object::{MetaAccessor, MetaAccessorMut, get_path, get_path_mut},
    patch,
    registry::{ObjectPart, Resource, Scale},
    request::{ObjectBody, Reply, Request, Verb},
    selectors::LabelSelector,
    status_error::{ApiResult, FieldError, StatusError},
    types,
};

impl RequestHandler {
    pub(super) async fn handle_scale(&self, request: &Request) -> ApiResult<Reply> {
        match request.verb {
            Verb::Get => {
                let entry = self.current_entry(request)?;
                let object = object_converter(&request.resource).value(&entry);
                check_replicas(&request.resource, &object)?;
                Ok(scale_reply(&request.resource, &object))
            }
            Verb::Update | Verb::Patch => self.update_scale(request).await,
            other => Err(StatusError::method_not_supported(&request.resource.group_resource(), other.name())),
        }
    }

    async fn update_scale(&self, request: &Request) -> ApiResult<Reply> {
        let resource = &request.resource;
        let kind = if request.verb == Verb::Update { "UpdateOptions" } else { "PatchOptions" };
        let options = WriteOptions::read(request, kind, Vec::new())?;
        let reply = self
            .update_and_reply(request, &options, Vec::new(), |_, old| {
                let present = scale_of(resource, old);
                let wanted = requested_scale(request, &present)?;
                let replicas = validate_scale(request, &wanted)?;
                let mut new = old.clone();
                new.set_meta("resourceVersion", wanted.resource_version());
                if let Some(scale) = &resource.scale {
                    set_dotted(&mut new, &scale.spec, replicas.into());
                }
                guaranteed_update::prepare_update(
                    request,
                    &options,
                    ObjectPart::Scale,
                    (old, new),
                    ManagedFieldsMode::ByDifference,
                )
            })
            .await?;
        Ok(match reply {
            Reply::Object { object, .. } => scale_reply(resource, &object.value()),
            other => other,
        })
    }
}

/// The requested Scale, from the body or a patch.
fn requested_scale(request: &Request, present: &Value) -> ApiResult<Value> {
    if request.verb == Verb::Update {
        let (mut scale, _) = decode::decode(&request.content_type, &request.body, "Scale")?;
        if scale.resource_version().is_empty() {
            scale.set_meta("resourceVersion", present.resource_version());
        }
        return Ok(scale);
    }
    match request.content_type.as_str() {
        patch_handler::JSON_PATCH => patch::json_patch(present, &request.body),
        patch_handler::APPLY_PATCH => {
            let (config, _) = decode::decode("application/yaml", &request.body, "Scale")?;
            let bytes = serde_json::to_vec(&config).map_err(StatusError::internal)?;
            patch::merge_patch(present, &bytes)
        }
        patch_handler::MERGE_PATCH => patch::merge_patch(present, &request.body),
        _ => match types::shape_of("autoscaling", "v1", "Scale") {
            Some(shape) => patch::strategic_merge(present, &request.body, &shape),
            None => patch::merge_patch(present, &request.body),
        },
    }
}

fn validate_scale(request: &Request, scale: &Value) -> ApiResult<i64> {
    let kind = crate::object::str_at(scale, &["kind"]);
    if !kind.is_empty() && kind != "Scale" {
        let why = format!("converting (v1.{kind}) to (autoscaling.Scale): unknown conversion");
        return Err(undecodable(kind, &why));
    }
    let wrong =
        types::shape_of("autoscaling", "v1", "Scale").and_then(|shape| types::check_types(scale, &shape));
    if let Some(why) = wrong {
        return Err(undecodable("Scale", &why));
    }
    let name = scale.name();
    if !name.is_empty() && name != request.name {
        return Err(StatusError::bad_request(format!(
            "the name of the object ({name}) does not match the name on the URL ({})",
            request.name
        )));
    }
    let replicas = get_path(scale, &["spec", "replicas"]).and_then(Value::as_i64).unwrap_or_default();
    // A custom resource validates its replica count itself, by its own path.
    if replicas < 0 && !request.resource.is_custom {
        let error = FieldError::invalid("spec.replicas", replicas, "must be greater than or equal to 0");
        return Err(StatusError::invalid("autoscaling", "Scale", &request.name, &[error]));
    }
    Ok(replicas)
}

fn undecodable(kind: &str, why: &str) -> StatusError {
    StatusError::bad_request(format!("{kind} in version \"v1\" cannot be handled as a Scale: {why}"))
}

/// A custom resource without a replica count has no scale.
fn check_replicas(resource: &Resource, object: &Value) -> ApiResult<()> {
    let missing = |scale: &&Scale| get_dotted(object, &scale.spec).is_none();
    match resource.scale.as_ref().filter(|_| resource.is_custom).filter(missing) {
        Some(scale) => {
            Err(StatusError::internal(format!("the spec replicas field \".{}\" does not exist", scale.spec)))
        }
        None => Ok(()),
    }
}

fn scale_reply(resource: &Resource, object: &Value) -> Reply {
    Reply::Object { code: 200, object: ObjectBody::Value(scale_of(resource, object)), warnings: Vec::new() }
}

fn scale_of(resource: &Resource, object: &Value) -> Value {
    let mut metadata = json!({ "name": object.name() });
    for field in ["namespace", "uid", "resourceVersion", "creationTimestamp"] {
        if let Some(value) = get_path(object, &["metadata", field]) {
            metadata[field] = value.clone();
        }
    }
    let number = |path: &str| get_dotted(object, path).and_then(Value::as_i64);
    let mut scale =
        json!({ "kind": "Scale", "apiVersion": "autoscaling/v1", "metadata": metadata, "spec": {} });
    let Some(paths) = &resource.scale else { return scale };
    if let Some(replicas) = number(&paths.spec).filter(|replicas| *replicas != 0) {
        scale["spec"]["replicas"] = replicas.into();
    }
    scale["status"] = json!({ "replicas": number(&paths.status).unwrap_or_default() });
    if let Some(selector) = selector_text(object, paths).filter(|text| !text.is_empty()) {
        scale["status"]["selector"] = selector.into();
    }
    scale
}

/// Built-in kinds have a selector object, custom resources a string.
fn selector_text(object: &Value, paths: &Scale) -> Option<String> {
    let value = get_dotted(object, paths.selector.as_deref()?)?;
    match value {
        Value::String(text) => Some(text.clone()),
        other => LabelSelector::from_value(Some(other)).ok().map(|selector| selector.to_string()),
    }
}

fn get_dotted<'a>(object: &'a Value, path: &str) -> Option<&'a Value> {
    let steps: Vec<&str> = path.split('.').filter(|step| !step.is_empty()).collect();
    get_path(object, &steps)
}

fn set_dotted(object: &mut Value, path: &str, value: Value) {
    let steps: Vec<&str> = path.split('.').filter(|step| !step.is_empty()).collect();
    if let Some(place) = get_path_mut(object, &steps) {
        *place = value;
    }
}
