//! What is special about pods: they take their time to end, they are bound to nodes, they can be evicted.

use serde_json::{Value, json};

use super::{Server, change::Next, create, delete, options::WriteOptions};
use crate::{
    clock, decode,
    failure::{Answer, Failure, GroupResource},
    object::{Meta, at, at_mut, text},
    registry::Resource,
    request::{Body, Reply, Request},
};

/// Seconds a pod may take; `None` for kinds that end at once.
pub fn grace_period(resource: &Resource, object: &Value, asked: Option<i64>) -> Option<i64> {
    if !resource.id.group.is_empty() || resource.id.plural != "pods" {
        return None;
    }
    // Nobody has started it, or it has ended: there is nothing to wait for.
    let over = matches!(text(object, &["status", "phase"]), "Succeeded" | "Failed");
    if over || text(object, &["spec", "nodeName"]).is_empty() {
        return Some(0);
    }
    let own = at(object, &["spec", "terminationGracePeriodSeconds"]).and_then(Value::as_i64).unwrap_or(30);
    Some(asked.unwrap_or(if own < 0 { 1 } else { own }))
}

impl Server {
    /// `POST pods/NAME/binding`.
    pub(super) async fn bind(&self, request: &Request) -> Answer<Reply> {
        let options = WriteOptions::read(request, "CreateOptions", Vec::new())?;
        let (binding, _) = decode::decode(&request.content_type, &request.body, "Binding")?;
        let node = text(&binding, &["target", "name"]).to_owned();
        if node.is_empty() {
            return Err(Failure::bad_request("target.name: Required value"));
        }
        if !binding.name().is_empty() && binding.name() != request.name {
            return Err(Failure::bad_request("name in URL does not match name in Binding object"));
        }
        let resource = &request.resource;
        self.change(request, options.dry_run, |_, old| {
            let present = text(old, &["spec", "nodeName"]);
            if !present.is_empty() {
                let why = format!(
                    "pod {} is already assigned to node {}",
                    request.name,
                    crate::failure::quoted(present)
                );
                return Err(Failure::conflict(&GroupResource::new("", "pods/binding"), &request.name, &why));
            }
            let mut new = old.clone();
            if let Some(place) = at_mut(&mut new, &["spec", "nodeName"]) {
                *place = node.clone().into();
            }
            set_scheduled(&mut new);
            crate::patch::track(Some(old), &mut new, &resource.shape, &create::writer(request, &options))?;
            Ok(Next::Put(new))
        })
        .await?;
        Ok(success())
    }

    /// `POST pods/NAME/eviction`: nothing here disrupts, so it is a delete.
    pub(super) async fn evict(&self, request: &Request) -> Answer<Reply> {
        let (eviction, _) = decode::decode(&request.content_type, &request.body, "Eviction")?;
        if !eviction.name().is_empty() && eviction.name() != request.name {
            return Err(Failure::bad_request("name in URL does not match name in Eviction object"));
        }
        let (given, errors) = delete::of_body(eviction.get("deleteOptions").unwrap_or(&Value::Null));
        let mut options = delete::finish(given, errors)?;
        options.dry_run |= !request.options.dry_run.is_empty();
        self.delete_with(request, &options).await?;
        Ok(success())
    }
}

fn set_scheduled(pod: &mut Value) {
    let Some(place) = at_mut(pod, &["status", "conditions"]) else { return };
    let mut conditions = place.as_array().cloned().unwrap_or_default();
    conditions.retain(|condition| text(condition, &["type"]) != "PodScheduled");
    conditions.push(json!({
        "type": "PodScheduled", "status": "True", "lastProbeTime": null,
        "lastTransitionTime": clock::seconds(clock::now()),
    }));
    *place = conditions.into();
}

fn success() -> Reply {
    let status =
        json!({ "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201 });
    Reply::Object { code: 201, object: Body::Value(status), warnings: Vec::new() }
}
