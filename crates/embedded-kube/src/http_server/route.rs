//! From an address to a resource and a verb, or to the refusal that the real server has for it. Pure.
//!
//! Built-in and custom resources are routed by different parts of the real server, and it shows in the texts.

use std::sync::Arc;

use http::Method;

use super::{path::Address, query::Query};
use crate::{
    auth::Attributes,
    decode,
    failure::{Details, Failure},
    registry::{Registry, Resource},
    request::Verb,
};

/// Where an address leads.
pub enum Route {
    /// To a resource.
    To(Arc<Resource>),
    /// Nowhere: a page of plain text.
    Nowhere,
    /// To a refusal.
    Refused(Failure),
}

/// What is asked for; `None` for a method that means nothing here.
pub fn verb(method: &Method, address: &Address, query: &Query) -> Option<Verb> {
    if address.watch {
        return Some(Verb::Watch);
    }
    let one = !address.name.is_empty();
    Some(match *method {
        Method::GET | Method::HEAD if one => Verb::Get,
        Method::GET | Method::HEAD if query.flag("watch").unwrap_or_default() => Verb::Watch,
        Method::GET | Method::HEAD => Verb::List,
        Method::POST => Verb::Create,
        Method::PUT => Verb::Update,
        Method::PATCH => Verb::Patch,
        Method::DELETE if one => Verb::Delete,
        Method::DELETE => Verb::DeleteCollection,
        _ => return None,
    })
}

/// What must be allowed for it.
pub fn attributes(verb: Option<Verb>, address: &Address, query: &Query) -> Attributes {
    let name = match verb {
        // A list of one name is as good as a get.
        Some(Verb::List | Verb::Watch | Verb::DeleteCollection) if address.name.is_empty() => {
            exact_name(query.get("fieldSelector").unwrap_or_default())
        }
        _ => address.name.clone(),
    };
    Attributes {
        verb: verb.map(Verb::name).unwrap_or_default().to_owned(),
        group: address.group.clone(),
        resource: address.resource.clone(),
        subresource: address.subresource.clone(),
        namespace: address.namespace.clone(),
        name,
        path: None,
    }
}

fn exact_name(selector: &str) -> String {
    selector
        .split(',')
        .find_map(|term| {
            let value = term.trim().strip_prefix("metadata.name=")?;
            Some(value.strip_prefix('=').unwrap_or(value).to_owned())
        })
        .unwrap_or_default()
}

/// Leads a request to its resource.
pub fn route(registry: &Registry, method: &Method, address: &Address, verb: Option<Verb>) -> Route {
    let Some(resource) = registry.find(&address.group, &address.version, &address.resource) else {
        let all = registry.all();
        let ours = all.values().any(|one| !one.custom && one.id.group == address.group);
        return if ours { Route::Refused(Failure::no_such_path()) } else { Route::Nowhere };
    };
    if resource.custom {
        return custom(resource, address, verb);
    }
    match methods(&resource, address) {
        Some(allowed) if allowed.contains(method) => Route::To(resource),
        Some(_) => Route::Refused(generic(
            405,
            "MethodNotAllowed",
            "the server does not allow this method on the requested resource",
        )),
        None => Route::Refused(Failure::no_such_path()),
    }
}

fn generic(code: u16, reason: &'static str, text: impl Into<String>) -> Failure {
    Failure::new(code, reason, text, Some(Details::default()))
}

/// Methods that a path of a built-in resource has; `None` if there is no such path.
fn methods(resource: &Resource, address: &Address) -> Option<Vec<Method>> {
    let wrong_scope = if resource.namespaced {
        !address.in_namespace && !address.name.is_empty()
    } else {
        address.in_namespace
    };
    if wrong_scope || address.deeper {
        return None;
    }
    let known = |pairs: &[(&str, Method)]| -> Option<Vec<Method>> {
        let methods: Vec<Method> = pairs
            .iter()
            .filter(|(verb, _)| resource.verbs.contains(verb))
            .map(|(_, method)| method.clone())
            .collect();
        (!methods.is_empty()).then_some(methods)
    };
    if address.watch {
        return known(&[("watch", Method::GET)]);
    }
    if !address.subresource.is_empty() {
        return subresource(resource, &address.subresource);
    }
    match (address.name.is_empty(), resource.namespaced && !address.in_namespace) {
        (true, true) => known(&[("list", Method::GET)]),
        (true, false) => {
            known(&[("list", Method::GET), ("create", Method::POST), ("deletecollection", Method::DELETE)])
        }
        (false, _) => known(&[
            ("get", Method::GET),
            ("update", Method::PUT),
            ("patch", Method::PATCH),
            ("delete", Method::DELETE),
        ]),
    }
}

fn subresource(resource: &Resource, name: &str) -> Option<Vec<Method>> {
    match (resource.id.plural.as_str(), name) {
        (_, "status") if resource.status => Some(vec![Method::GET, Method::PUT, Method::PATCH]),
        (_, "scale") if resource.scale.is_some() => Some(vec![Method::GET, Method::PUT, Method::PATCH]),
        ("namespaces", "finalize") => Some(vec![Method::PUT]),
        ("pods", "binding" | "eviction") | ("serviceaccounts", "token") => Some(vec![Method::POST]),
        _ => None,
    }
}

fn custom(resource: Arc<Resource>, address: &Address, verb: Option<Verb>) -> Route {
    let collective = matches!(verb, Some(Verb::List | Verb::Watch));
    let wrong_scope = if resource.namespaced {
        address.namespace.is_empty() && !collective
    } else {
        !address.namespace.is_empty()
    };
    if wrong_scope {
        return Route::Nowhere;
    }
    let unsupported = || {
        let action = verb.map(Verb::name).unwrap_or_default();
        Route::Refused(Failure::method_not_supported(&resource.group_resource(), action))
    };
    let part = matches!(verb, Some(Verb::Get | Verb::Update | Verb::Patch));
    match address.subresource.as_str() {
        "" if verb.is_some() => Route::To(resource),
        "status" if resource.status && part => Route::To(resource),
        "scale" if resource.scale.is_some() && part => Route::To(resource),
        "status" if resource.status => unsupported(),
        "scale" if resource.scale.is_some() => unsupported(),
        "" => unsupported(),
        _ => Route::Refused(Failure::not_found(&resource.group_resource(), &address.name)),
    }
}

const PATCHES: [&str; 4] = [
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
    "application/apply-patch+yaml",
];

/// Refuses a patch of a kind that the resource does not take.
pub fn check_patch(resource: &Resource, content_type: &str) -> Result<(), Failure> {
    let takes = PATCHES.contains(&content_type)
        && !(resource.custom && content_type == "application/strategic-merge-patch+json");
    if takes {
        return Ok(());
    }
    Err(if resource.custom {
        let [json, merge, _, apply] = PATCHES;
        decode::unsupported(&[json, merge, apply])
    } else {
        generic(415, "UnsupportedMediaType", "415: Unsupported Media Type")
    })
}

/// Refuses an `Accept` of which a built-in resource serves nothing. Custom ones are judged by the negotiation.
pub fn check_accept(resource: &Resource, accept: &str, verb: Verb) -> Result<(), Failure> {
    let plain = ["application/json", "application/yaml", "application/vnd.kubernetes.protobuf"];
    let kinds = accept.split(',').map(|clause| clause.split(';').next().unwrap_or_default().trim());
    let served = accept.is_empty() || resource.custom;
    if served || kinds.into_iter().any(|kind| kind == "*/*" || plain.contains(&kind)) {
        return Ok(());
    }
    let mut all = plain.to_vec();
    if matches!(verb, Verb::List | Verb::Watch) {
        all.extend(["application/json;stream=watch", "application/vnd.kubernetes.protobuf;stream=watch"]);
    }
    let text = format!("406: Not Acceptable\n\nAvailable representations: {}", all.join(", "));
    Err(generic(406, "NotAcceptable", text))
}
