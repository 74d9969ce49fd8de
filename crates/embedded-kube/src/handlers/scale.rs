//! The scale subresource: an object seen as a wished and a present number of replicas.

use serde_json::{Value, json};

use super::{
    Server,
    change::{self, Tracking},
    options::WriteOptions,
    patching, viewer,
};
use crate::{
    decode,
    failure::{Answer, Failure, FieldError},
    object::{Meta, MetaMut, at, at_mut},
    patch,
    registry::{Part, Resource, Scale},
    request::{Body, Reply, Request, Verb},
    selectors::LabelSelector,
    types,
};

impl Server {
    pub(super) async fn handle_scale(&self, request: &Request) -> Answer<Reply> {
        match request.verb {
            Verb::Get => {
                let entry = self.live(request)?;
                let object = viewer(&request.resource).value(&entry);
                check_number(&request.resource, &object)?;
                Ok(show(&request.resource, &object))
            }
            Verb::Update | Verb::Patch => self.rescale(request).await,
            other => Err(Failure::method_not_supported(&request.resource.group_resource(), other.name())),
        }
    }

    async fn rescale(&self, request: &Request) -> Answer<Reply> {
        let resource = &request.resource;
        let kind = if request.verb == Verb::Update { "UpdateOptions" } else { "PatchOptions" };
        let options = WriteOptions::read(request, kind, Vec::new())?;
        let reply = self
            .change_and_show(request, &options, Vec::new(), |_, old| {
                let present = scale_of(resource, old);
                let wanted = wanted(request, &present)?;
                let replicas = check(request, &wanted)?;
                let mut new = old.clone();
                new.set_meta("resourceVersion", wanted.resource_version());
                if let Some(scale) = &resource.scale {
                    set(&mut new, &scale.spec, replicas.into());
                }
                change::advance(request, &options, Part::Scale, (old, new), Tracking::ByDifference)
            })
            .await?;
        Ok(match reply {
            Reply::Object { object, .. } => show(resource, &object.value()),
            other => other,
        })
    }
}

/// The Scale a client wants, from its body or its patch.
fn wanted(request: &Request, present: &Value) -> Answer<Value> {
    if request.verb == Verb::Update {
        let (mut scale, _) = decode::decode(&request.content_type, &request.body, "Scale")?;
        if scale.resource_version().is_empty() {
            scale.set_meta("resourceVersion", present.resource_version());
        }
        return Ok(scale);
    }
    match request.content_type.as_str() {
        patching::JSON => patch::json_patch(present, &request.body),
        patching::APPLY => {
            let (config, _) = decode::decode("application/yaml", &request.body, "Scale")?;
            let bytes = serde_json::to_vec(&config).map_err(Failure::internal)?;
            patch::merge_patch(present, &bytes)
        }
        patching::MERGE => patch::merge_patch(present, &request.body),
        _ => match types::shape_of("autoscaling", "v1", "Scale") {
            Some(shape) => patch::strategic_merge(present, &request.body, &shape),
            None => patch::merge_patch(present, &request.body),
        },
    }
}

fn check(request: &Request, scale: &Value) -> Answer<i64> {
    let kind = crate::object::text(scale, &["kind"]);
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
        return Err(Failure::bad_request(format!(
            "the name of the object ({name}) does not match the name on the URL ({})",
            request.name
        )));
    }
    let replicas = at(scale, &["spec", "replicas"]).and_then(Value::as_i64).unwrap_or_default();
    // A custom resource checks its number itself, by its own path.
    if replicas < 0 && !request.resource.custom {
        let error = FieldError::invalid("spec.replicas", replicas, "must be greater than or equal to 0");
        return Err(Failure::invalid("autoscaling", "Scale", &request.name, &[error]));
    }
    Ok(replicas)
}

fn undecodable(kind: &str, why: &str) -> Failure {
    Failure::bad_request(format!("{kind} in version \"v1\" cannot be handled as a Scale: {why}"))
}

/// A custom resource without a number of replicas cannot be seen as one.
fn check_number(resource: &Resource, object: &Value) -> Answer<()> {
    let missing = |scale: &&Scale| get(object, &scale.spec).is_none();
    match resource.scale.as_ref().filter(|_| resource.custom).filter(missing) {
        Some(scale) => {
            Err(Failure::internal(format!("the spec replicas field \".{}\" does not exist", scale.spec)))
        }
        None => Ok(()),
    }
}

fn show(resource: &Resource, object: &Value) -> Reply {
    Reply::Object { code: 200, object: Body::Value(scale_of(resource, object)), warnings: Vec::new() }
}

fn scale_of(resource: &Resource, object: &Value) -> Value {
    let mut metadata = json!({ "name": object.name() });
    for field in ["namespace", "uid", "resourceVersion", "creationTimestamp"] {
        if let Some(value) = at(object, &["metadata", field]) {
            metadata[field] = value.clone();
        }
    }
    let number = |path: &str| get(object, path).and_then(Value::as_i64);
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

/// Built-in kinds have a selector object, custom ones name a text.
fn selector_text(object: &Value, paths: &Scale) -> Option<String> {
    let value = get(object, paths.selector.as_deref()?)?;
    match value {
        Value::String(text) => Some(text.clone()),
        other => LabelSelector::of(Some(other)).ok().map(|selector| selector.to_string()),
    }
}

fn get<'a>(object: &'a Value, path: &str) -> Option<&'a Value> {
    let steps: Vec<&str> = path.split('.').filter(|step| !step.is_empty()).collect();
    at(object, &steps)
}

fn set(object: &mut Value, path: &str, value: Value) {
    let steps: Vec<&str> = path.split('.').filter(|step| !step.is_empty()).collect();
    if let Some(place) = at_mut(object, &steps) {
        *place = value;
    }
}
