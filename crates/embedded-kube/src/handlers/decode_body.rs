//! From a body to an object of the right type: decoded, unknown fields answered, pruned.

use serde_json::Value;

use crate::{
    decode,
    failure::{Answer, Failure, FieldError},
    object::{Meta, MetaMut, text},
    registry::{Registry, Resource},
    request::{FieldValidation, Request},
    types,
};

/// An object from a client, of the resource's type, with nothing in it that the type does not know.
#[derive(Debug)]
pub struct Intake {
    pub object: Value,
    pub warnings: Vec<String>,
}

/// Reads the body of a create or an update.
pub fn read(request: &Request, validation: FieldValidation, registry: &Registry) -> Answer<Intake> {
    let (mut object, duplicates) =
        decode::decode(&request.content_type, &request.body, &request.resource.kind)?;
    let resource = &request.resource;
    fit_type(&mut object, resource, registry)?;
    if let Some(why) = mistyped(&object, resource) {
        return Err(Failure::bad_request(format!("{}: {why}", cannot_be_handled(&object, resource))));
    }
    let mut problems = duplicates;
    let warnings = match validation {
        FieldValidation::Ignore => Vec::new(),
        FieldValidation::Warn | FieldValidation::Strict => {
            problems.extend(unknown(&object, resource));
            problems
        }
    };
    if validation == FieldValidation::Strict && !warnings.is_empty() {
        let text = format!("strict decoding error: {}", warnings.join(", "));
        return Err(Failure::bad_request(format!("{}: {text}", cannot_be_handled(&object, resource))));
    }
    clean(&mut object, resource);
    Ok(Intake { object, warnings })
}

/// What the type does not know goes, and so do the empty values that the real server never writes.
pub fn clean(object: &mut Value, resource: &Resource) {
    if resource.custom {
        types::prune(object, &resource.shape);
    } else {
        types::normalise(object, &resource.shape);
    }
}

/// Fields the type does not know, as the strict decoder words them.
pub fn unknown(object: &Value, resource: &Resource) -> Vec<String> {
    let mut paths = types::unknown_fields(object, &resource.shape);
    if resource.custom {
        paths.sort();
    }
    paths.into_iter().map(|path| format!("unknown field \"{path}\"")).collect()
}

/// Why an object cannot be decoded. Of a custom resource only the metadata has a type of its own.
pub fn mistyped(object: &Value, resource: &Resource) -> Option<String> {
    if !resource.custom {
        return types::check_types(object, &resource.shape);
    }
    let shape = resource.shape.field("metadata")?;
    types::check_types(object.get("metadata")?, shape)
}

fn cannot_be_handled(object: &Value, resource: &Resource) -> String {
    let kind = text(object, &["kind"]);
    format!("{kind} in version \"{}\" cannot be handled as a {}", resource.id.version, resource.kind)
}

/// A missing type is the resource's, if that one is built in; another one is refused.
pub fn fit_type(object: &mut Value, resource: &Resource, registry: &Registry) -> Answer<()> {
    let given = (text(object, &["apiVersion"]).to_owned(), text(object, &["kind"]).to_owned());
    let expected = resource.api_version();
    let fits = |given: &str, wanted: &str| given == wanted || (given.is_empty() && !resource.custom);
    if !fits(&given.0, &expected) || !fits(&given.1, &resource.kind) {
        return Err(if resource.custom {
            misfit_custom(object, resource, &given)
        } else {
            misfit_built_in(resource, registry, &given)
        });
    }
    if let Some(map) = object.as_object_mut() {
        map.insert("apiVersion".into(), expected.into());
        map.insert("kind".into(), resource.kind.clone().into());
        return Ok(());
    }
    Err(Failure::bad_request(format!(
        "the object provided is unrecognized (must be of type {}): json: cannot unmarshal into a map",
        resource.kind
    )))
}

fn misfit_custom(object: &Value, resource: &Resource, (api_version, kind): &(String, String)) -> Failure {
    let missing = [("Kind", kind), ("apiVersion", api_version)].into_iter().find(|(_, text)| text.is_empty());
    if let Some((what, _)) = missing {
        let body = object.to_string();
        return Failure::bad_request(format!(
            "the object provided is unrecognized (must be of type {}): Object '{what}' is missing in '{body}' ({})",
            resource.kind,
            decode::summary(body.as_bytes())
        ));
    }
    if kind == &resource.kind {
        return mismatch(api_version, resource);
    }
    let error = FieldError::invalid("kind", kind.as_str(), format!("must be {}", resource.kind));
    Failure::invalid(&resource.id.group, kind, object.name(), &[error])
}

/// What the real decoder says: it looks for the type that the body names, and then cannot make it the expected one.
fn misfit_built_in(
    resource: &Resource,
    registry: &Registry,
    (api_version, kind): &(String, String),
) -> Failure {
    let expected = resource.api_version();
    let api_version = if api_version.is_empty() { &expected } else { api_version };
    let kind = if kind.is_empty() { &resource.kind } else { kind };
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    let why = if registry.find_kind(group, version, kind).is_none() {
        format!(
            "no kind \"{kind}\" is registered for version \"{api_version}\" in scheme \"pkg/runtime/scheme.go:111\""
        )
    } else if kind == &resource.kind {
        return mismatch(api_version, resource);
    } else {
        let family = resource.id.group.split('.').next().filter(|name| !name.is_empty()).unwrap_or("core");
        format!("converting ({version}.{kind}) to ({family}.{}): unknown conversion", resource.kind)
    };
    Failure::bad_request(format!(
        "{kind} in version \"{version}\" cannot be handled as a {}: {why}",
        resource.kind
    ))
}

fn mismatch(given: &str, resource: &Resource) -> Failure {
    let expected = resource.api_version();
    Failure::bad_request(format!(
        "the API version in the data ({given}) does not match the expected API version ({expected})"
    ))
}

/// The namespace of the path goes into the object; another one is refused.
pub fn fit_namespace(object: &mut Value, request: &Request) -> Answer<()> {
    let given = object.namespace().to_owned();
    let expected = if request.resource.namespaced { request.namespace.as_str() } else { "" };
    if !given.is_empty() && given != expected {
        if !request.resource.namespaced {
            object.drop_meta("namespace");
            return Ok(());
        }
        return Err(Failure::bad_request(
            "the namespace of the provided object does not match the namespace sent on the request",
        ));
    }
    if !expected.is_empty() {
        object.set_meta("namespace", expected);
    }
    Ok(())
}

/// Owners that are named twice are named once, with a warning.
pub fn dedupe_owners(object: &mut Value, warnings: &mut Vec<String>) {
    dedupe_owners_seen(object, "", warnings);
}

/// As [`dedupe_owners`], for an object that a patch made: the real server notices it later, and says so.
pub fn dedupe_patched_owners(object: &mut Value, warnings: &mut Vec<String>) {
    dedupe_owners_seen(object, " after mutating admission happens", warnings);
}

fn dedupe_owners_seen(object: &mut Value, when: &str, warnings: &mut Vec<String>) {
    let Some(owners) = object.pointer_mut("/metadata/ownerReferences").and_then(Value::as_array_mut) else {
        return;
    };
    let mut seen: Vec<Value> = Vec::with_capacity(owners.len());
    let mut doubles = Vec::new();
    for owner in owners.drain(..) {
        if seen.contains(&owner) {
            doubles.push(text(&owner, &["uid"]).to_owned());
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
