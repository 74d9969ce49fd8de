//! Pod-specific behaviour: grace period, binding and eviction.

use serde_json::{Value, json};

use super::{RequestHandler, create, delete, guaranteed_update::UpdateDecision, write_options::WriteOptions};
use crate::{
    clock, decode,
    object::{MetaAccessor, get_path, get_path_mut, str_at},
    registry::Resource,
    request::{ObjectBody, Reply, Request},
    status_error::{ApiResult, GroupResource, StatusError},
};

/// Grace period in seconds; `None` for kinds without one.
pub fn grace_period(resource: &Resource, object: &Value, asked: Option<i64>) -> Option<i64> {
    if !resource.id.group.is_empty() || resource.id.plural != "pods" {
        return None;
    }
    // A pod that never started or has ended needs no grace period.
    let over = matches!(str_at(object, &["status", "phase"]), "Succeeded" | "Failed");
    if over || str_at(object, &["spec", "nodeName"]).is_empty() {
        return Some(0);
    }
    let own =
        get_path(object, &["spec", "terminationGracePeriodSeconds"]).and_then(Value::as_i64).unwrap_or(30);
    Some(asked.unwrap_or(if own < 0 { 1 } else { own }))
}

impl RequestHandler {
    /// `POST pods/NAME/binding`.
    pub(super) async fn bind(&self, request: &Request) -> ApiResult<Reply> {
        let options = WriteOptions::read(request, "CreateOptions", Vec::new())?;
        let (binding, _) = decode::decode(&request.content_type, &request.body, "Binding")?;
        let node = str_at(&binding, &["target", "name"]).to_owned();
        if node.is_empty() {
            return Err(StatusError::bad_request("target.name: Required value"));
        }
        if !binding.name().is_empty() && binding.name() != request.name {
            return Err(StatusError::bad_request("name in URL does not match name in Binding object"));
        }
        let resource = &request.resource;
        self.guaranteed_update(request, options.dry_run, |_, old| {
            let present = str_at(old, &["spec", "nodeName"]);
            if !present.is_empty() {
                let why = format!(
                    "pod {} is already assigned to node {}",
                    request.name,
                    crate::status_error::go_quote(present)
                );
                return Err(StatusError::conflict(
                    &GroupResource::new("", "pods/binding"),
                    &request.name,
                    &why,
                ));
            }
            let mut new = old.clone();
            if let Some(place) = get_path_mut(&mut new, &["spec", "nodeName"]) {
                *place = node.clone().into();
            }
            set_scheduled(&mut new);
            crate::patch::update_managed_fields(
                Some(old),
                &mut new,
                &resource.shape,
                &create::write_context(request, &options),
            )?;
            Ok(UpdateDecision::Write(new))
        })
        .await?;
        Ok(success())
    }

    /// `POST pods/NAME/eviction`: there are no disruption budgets, so it is a delete.
    pub(super) async fn evict(&self, request: &Request) -> ApiResult<Reply> {
        let (eviction, _) = decode::decode(&request.content_type, &request.body, "Eviction")?;
        if !eviction.name().is_empty() && eviction.name() != request.name {
            return Err(StatusError::bad_request("name in URL does not match name in Eviction object"));
        }
        let (given, errors) =
            delete::options_from_body(eviction.get("deleteOptions").unwrap_or(&Value::Null));
        let mut options = delete::validate_options(given, errors)?;
        options.dry_run |= !request.options.dry_run.is_empty();
        self.delete_with(request, &options).await?;
        Ok(success())
    }
}

fn set_scheduled(pod: &mut Value) {
    let Some(place) = get_path_mut(pod, &["status", "conditions"]) else { return };
    let mut conditions = place.as_array().cloned().unwrap_or_default();
    conditions.retain(|condition| str_at(condition, &["type"]) != "PodScheduled");
    conditions.push(json!({
        "type": "PodScheduled", "status": "True", "lastProbeTime": null,
        "lastTransitionTime": clock::format_time(clock::now()),
    }));
    *place = conditions.into();
}

fn success() -> Reply {
    let status =
        json!({ "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201 });
    Reply::Object { code: 201, object: ObjectBody::Value(status), warnings: Vec::new() }
}
