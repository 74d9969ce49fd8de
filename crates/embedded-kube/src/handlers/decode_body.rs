//! Decodes a request body into an object of the resource's type: field validation and pruning.

use serde_json::Value;

use crate::{
    decode,
    object::{MetaAccessor, MetaAccessorMut, str_at},
    registry::{Registry, Resource},
    request::{FieldValidation, Request},
    status_error::{ApiResult, FieldError, StatusError},
    types,
};

/// An object from a client, of the resource's type, without unknown fields.
#[derive(Debug)]
pub struct DecodedBody {
    pub object: Value,
    pub warnings: Vec<String>,
}

/// Decodes the body of a create or update.
pub fn decode_object(
    request: &Request,
    validation: FieldValidation,
    registry: &Registry,
) -> ApiResult<DecodedBody> {
    let (mut object, duplicates) =
        decode::decode(&request.content_type, &request.body, &request.resource.kind)?;
    let resource = &request.resource;
    check_type_meta(&mut object, resource, registry)?;
    if let Some(why) = type_error(&object, resource) {
        return Err(StatusError::bad_request(format!("{}: {why}", cannot_be_handled(&object, resource))));
    }
    let mut problems = duplicates;
    let warnings = match validation {
        FieldValidation::Ignore => Vec::new(),
        FieldValidation::Warn | FieldValidation::Strict => {
            problems.extend(unknown_field_errors(&object, resource));
            problems
        }
    };
    if validation == FieldValidation::Strict && !warnings.is_empty() {
        let text = format!("strict decoding error: {}", warnings.join(", "));
        return Err(StatusError::bad_request(format!("{}: {text}", cannot_be_handled(&object, resource))));
    }
    prune_and_normalise(&mut object, resource);
    Ok(DecodedBody { object, warnings })
}

/// Drops unknown fields and the empty values that kube-apiserver never stores.
pub fn prune_and_normalise(object: &mut Value, resource: &Resource) {
    if resource.is_custom {
        types::prune(object, &resource.shape);
    } else {
        types::normalise(object, &resource.shape);
    }
}

/// Unknown fields, with the texts of the strict decoder.
pub fn unknown_field_errors(object: &Value, resource: &Resource) -> Vec<String> {
    let mut paths = types::unknown_fields(object, &resource.shape);
    if resource.is_custom {
        paths.sort();
    }
    paths.into_iter().map(|path| format!("unknown field \"{path}\"")).collect()
}

/// Why an object cannot be decoded. In a custom resource only the metadata is typed.
pub fn type_error(object: &Value, resource: &Resource) -> Option<String> {
    if !resource.is_custom {
        return types::check_types(object, &resource.shape);
    }
    let shape = resource.shape.field("metadata")?;
    types::check_types(object.get("metadata")?, shape)
}

fn cannot_be_handled(object: &Value, resource: &Resource) -> String {
    let kind = str_at(object, &["kind"]);
    format!("{kind} in version \"{}\" cannot be handled as a {}", resource.id.version, resource.kind)
}

/// A missing type defaults to the resource's if it is built in; another type is rejected.
pub fn check_type_meta(object: &mut Value, resource: &Resource, registry: &Registry) -> ApiResult<()> {
    let given = (str_at(object, &["apiVersion"]).to_owned(), str_at(object, &["kind"]).to_owned());
    let expected = resource.api_version();
    let fits = |given: &str, wanted: &str| given == wanted || (given.is_empty() && !resource.is_custom);
    if !fits(&given.0, &expected) || !fits(&given.1, &resource.kind) {
        return Err(if resource.is_custom {
            custom_type_mismatch(object, resource, &given)
        } else {
            built_in_type_mismatch(resource, registry, &given)
        });
    }
    if let Some(map) = object.as_object_mut() {
        map.insert("apiVersion".into(), expected.into());
        map.insert("kind".into(), resource.kind.clone().into());
        return Ok(());
    }
    Err(StatusError::bad_request(format!(
        "the object provided is unrecognized (must be of type {}): json: cannot unmarshal into a map",
        resource.kind
    )))
}

fn custom_type_mismatch(
    object: &Value,
    resource: &Resource,
    (api_version, kind): &(String, String),
) -> StatusError {
    let missing = [("Kind", kind), ("apiVersion", api_version)].into_iter().find(|(_, text)| text.is_empty());
    if let Some((what, _)) = missing {
        let body = object.to_string();
        return StatusError::bad_request(format!(
            "the object provided is unrecognized (must be of type {}): Object '{what}' is missing in '{body}' ({})",
            resource.kind,
            decode::body_excerpt(body.as_bytes())
        ));
    }
    if kind == &resource.kind {
        return type_mismatch(api_version, resource);
    }
    let error = FieldError::invalid("kind", kind.as_str(), format!("must be {}", resource.kind));
    StatusError::invalid(&resource.id.group, kind, object.name(), &[error])
}

/// The errors of kube-apiserver's decoder: it looks up the type in the body and cannot convert it to the expected one.
fn built_in_type_mismatch(
    resource: &Resource,
    registry: &Registry,
    (api_version, kind): &(String, String),
) -> StatusError {
    let expected = resource.api_version();
    let api_version = if api_version.is_empty() { &expected } else { api_version };
    let kind = if kind.is_empty() { &resource.kind } else { kind };
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    let why = if registry.find_kind(group, version, kind).is_none() {
        format!(
            "no kind \"{kind}\" is registered for version \"{api_version}\" in scheme \"pkg/runtime/scheme.go:111\""
        )
    } else if kind == &resource.kind {
        return type_mismatch(api_version, resource);
    } else {
        let family = resource.id.group.split('.').next().filter(|name| !name.is_empty()).unwrap_or("core");
        format!("converting ({version}.{kind}) to ({family}.{}): unknown conversion", resource.kind)
    };
    StatusError::bad_request(format!(
        "{kind} in version \"{version}\" cannot be handled as a {}: {why}",
        resource.kind
    ))
}

fn type_mismatch(given: &str, resource: &Resource) -> StatusError {
    let expected = resource.api_version();
    StatusError::bad_request(format!(
        "the API version in the data ({given}) does not match the expected API version ({expected})"
    ))
}

/// Sets the namespace of the path; another one is rejected.
pub fn check_namespace(object: &mut Value, request: &Request) -> ApiResult<()> {
    let given = object.namespace().to_owned();
    let expected = if request.resource.namespaced { request.namespace.as_str() } else { "" };
    if !given.is_empty() && given != expected {
        if !request.resource.namespaced {
            object.drop_meta("namespace");
            return Ok(());
        }
        return Err(StatusError::bad_request(
            "the namespace of the provided object does not match the namespace sent on the request",
        ));
    }
    if !expected.is_empty() {
        object.set_meta("namespace", expected);
    }
    Ok(())
}

/// Removes duplicate owner references, with a warning.
pub fn dedupe_owners(object: &mut Value, warnings: &mut Vec<String>) {
    dedupe_owners_with_warning(object, "", warnings);
}

/// As [`dedupe_owners`], for a patched object: kube-apiserver detects it later, with another text.
pub fn dedupe_patched_owners(object: &mut Value, warnings: &mut Vec<String>) {
    dedupe_owners_with_warning(object, " after mutating admission happens", warnings);
}

fn dedupe_owners_with_warning(object: &mut Value, when: &str, warnings: &mut Vec<String>) {
    let Some(owners) = object.pointer_mut("/metadata/ownerReferences").and_then(Value::as_array_mut) else {
        return;
    };
    let mut seen: Vec<Value> = Vec::with_capacity(owners.len());
    let mut doubles = Vec::new();
    for owner in owners.drain(..) {
        if seen.contains(&owner) {
            doubles.push(str_at(&owner, &["uid"]).to_owned());
        } else {
            seen.push(owner);
        }
    }
    *owners = seen;
    if !doubles.is_empty() {
        warnings.push(format!(
            ".metadata.ownerReferences contains duplicate entries{when}; API server dedups owner references in 1.20+, and may reject such requests as early as 1.24; please fix your requests; duplicate UID(s) observed: {}",
            doubles.join(", ")
        ));
    }
}
