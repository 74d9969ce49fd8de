//! Maps a parsed path to a resource and verb, or to kube-apiserver's error. Pure.
//!
//! kube-apiserver routes built-in and custom resources in different components, with different error texts.

use std::sync::Arc;

use http::Method;

use super::{query::Query, request_info::RequestInfo};
use crate::{
    auth::Attributes,
    decode,
    registry::{Registry, Resource},
    request::Verb,
    status_error::{StatusDetails, StatusError},
};

/// Result of routing.
pub enum Route {
    /// A resource.
    Resource(Arc<Resource>),
    /// 404 in plain text.
    NotFound,
    /// An error.
    Rejected(StatusError),
}

/// The verb; `None` for a method that is not supported here.
pub fn request_verb(method: &Method, address: &RequestInfo, query: &Query) -> Option<Verb> {
    if address.watch_prefix {
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

/// Attributes for authorization.
pub fn authorization_attributes(verb: Option<Verb>, address: &RequestInfo, query: &Query) -> Attributes {
    let name = match verb {
        // A list restricted to one name is authorized for that name.
        Some(Verb::List | Verb::Watch | Verb::DeleteCollection) if address.name.is_empty() => {
            name_from_selector(query.get("fieldSelector").unwrap_or_default())
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

fn name_from_selector(selector: &str) -> String {
    selector
        .split(',')
        .find_map(|term| {
            let value = term.trim().strip_prefix("metadata.name=")?;
            Some(value.strip_prefix('=').unwrap_or(value).to_owned())
        })
        .unwrap_or_default()
}

/// Routes a request.
pub fn route(registry: &Registry, method: &Method, address: &RequestInfo, verb: Option<Verb>) -> Route {
    let Some(resource) = registry.find(&address.group, &address.version, &address.resource) else {
        let all = registry.catalogue();
        let ours = all.values().any(|one| !one.is_custom && one.id.group == address.group);
        return if ours { Route::Rejected(StatusError::path_not_found()) } else { Route::NotFound };
    };
    if resource.is_custom {
        return route_custom(resource, address, verb);
    }
    match allowed_methods(&resource, address) {
        Some(allowed) if allowed.contains(method) => Route::Resource(resource),
        Some(_) => Route::Rejected(generic_error(
            405,
            "MethodNotAllowed",
            "the server does not allow this method on the requested resource",
        )),
        None => Route::Rejected(StatusError::path_not_found()),
    }
}

fn generic_error(code: u16, reason: &'static str, text: impl Into<String>) -> StatusError {
    StatusError::new(code, reason, text, Some(StatusDetails::default()))
}

/// Methods of a built-in resource's path; `None` if the path does not exist.
fn allowed_methods(resource: &Resource, address: &RequestInfo) -> Option<Vec<Method>> {
    let wrong_scope = if resource.namespaced {
        !address.in_namespace && !address.name.is_empty()
    } else {
        address.in_namespace
    };
    if wrong_scope || address.has_extra_segments {
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
    if address.watch_prefix {
        return known(&[("watch", Method::GET)]);
    }
    if !address.subresource.is_empty() {
        return subresource_methods(resource, &address.subresource);
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

fn subresource_methods(resource: &Resource, name: &str) -> Option<Vec<Method>> {
    match (resource.id.plural.as_str(), name) {
        (_, "status") if resource.has_status => Some(vec![Method::GET, Method::PUT, Method::PATCH]),
        (_, "scale") if resource.scale.is_some() => Some(vec![Method::GET, Method::PUT, Method::PATCH]),
        ("namespaces", "finalize") => Some(vec![Method::PUT]),
        ("pods", "binding" | "eviction") | ("serviceaccounts", "token") => Some(vec![Method::POST]),
        _ => None,
    }
}

fn route_custom(resource: Arc<Resource>, address: &RequestInfo, verb: Option<Verb>) -> Route {
    let collective = matches!(verb, Some(Verb::List | Verb::Watch));
    let wrong_scope = if resource.namespaced {
        address.namespace.is_empty() && !collective
    } else {
        !address.namespace.is_empty()
    };
    if wrong_scope {
        return Route::NotFound;
    }
    let unsupported = || {
        let action = verb.map(Verb::name).unwrap_or_default();
        Route::Rejected(StatusError::method_not_supported(&resource.group_resource(), action))
    };
    let part = matches!(verb, Some(Verb::Get | Verb::Update | Verb::Patch));
    match address.subresource.as_str() {
        "" if verb.is_some() => Route::Resource(resource),
        "status" if resource.has_status && part => Route::Resource(resource),
        "scale" if resource.scale.is_some() && part => Route::Resource(resource),
        "status" if resource.has_status => unsupported(),
        "scale" if resource.scale.is_some() => unsupported(),
        "" => unsupported(),
        _ => Route::Rejected(StatusError::not_found(&resource.group_resource(), &address.name)),
    }
}

const PATCH_MEDIA_TYPES: [&str; 4] = [
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
    "application/apply-patch+yaml",
];

/// Rejects patch types that the resource does not support.
pub fn check_patch(resource: &Resource, content_type: &str) -> Result<(), StatusError> {
    let takes = PATCH_MEDIA_TYPES.contains(&content_type)
        && !(resource.is_custom && content_type == "application/strategic-merge-patch+json");
    if takes {
        return Ok(());
    }
    Err(if resource.is_custom {
        let [json, merge, _, apply] = PATCH_MEDIA_TYPES;
        decode::unsupported_media_type(&[json, merge, apply])
    } else {
        generic_error(415, "UnsupportedMediaType", "415: Unsupported Media Type")
    })
}

/// Rejects an `Accept` header that a built-in resource cannot satisfy. Custom resources are handled by the negotiation.
pub fn check_accept(resource: &Resource, accept: &str, verb: Verb) -> Result<(), StatusError> {
    let plain = ["application/json", "application/yaml", "application/vnd.kubernetes.protobuf"];
    let kinds = accept.split(',').map(|clause| clause.split(';').next().unwrap_or_default().trim());
    let served = accept.is_empty() || resource.is_custom;
    if served || kinds.into_iter().any(|kind| kind == "*/*" || plain.contains(&kind)) {
        return Ok(());
    }
    let mut all = plain.to_vec();
    if matches!(verb, Verb::List | Verb::Watch) {
        all.extend(["application/json;stream=watch", "application/vnd.kubernetes.protobuf;stream=watch"]);
    }
    let text = format!("406: Not Acceptable\n\nAvailable representations: {}", all.join(", "));
    Err(generic_error(406, "NotAcceptable", text))
}
