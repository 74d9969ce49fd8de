//! API discovery in the legacy and the aggregated format.
//!
//! Legacy: `/api`, `/api/v1`, `/apis`, `/apis/<group>`, `/apis/<group>/<version>`. Aggregated: everything at once from
//! `/api` and `/apis`, requested by the `Accept` header and tagged with an `ETag`. Documents are built from a
//! [`Catalogue`] and cached until it changes.

mod document;
mod groups;
mod resources;
mod version;

#[cfg(test)]
mod tests;

use std::{collections::HashMap, sync::Arc};

use parking_lot::Mutex;
use serde_json::{Value, json};

use self::groups::{ApiGroup, sorted_groups};
pub use self::{
    document::{DocumentRequest, DocumentResponse, etag_hash, not_acceptable},
    resources::subresources,
    version::version_document,
};
use crate::{
    registry::{Catalogue, api_version},
    status_error::ApiResult,
};

const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

/// Discovery documents and their cache.
#[derive(Default)]
pub struct Discovery {
    cache: Mutex<Cache>,
}

#[derive(Default)]
struct Cache {
    catalogue: Option<Arc<Catalogue>>,
    pages: HashMap<String, DocumentResponse>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum DiscoveryFormat {
    Legacy,
    Aggregated,
}

impl Discovery {
    /// Responds to a discovery path; `None` for every other path and for groups and versions that are not served.
    pub fn respond(
        &self,
        catalogue: &Arc<Catalogue>,
        ask: &DocumentRequest<'_>,
    ) -> Option<ApiResult<DocumentResponse>> {
        let path = ask.path.trim_end_matches('/');
        let is_root = matches!(path, "/api" | "/apis");
        if !is_root && !path.starts_with("/api/") && !path.starts_with("/apis/") {
            return None;
        }
        let form = negotiate_format(ask.accept, is_root);
        // `/api` contains the address that the client used, so it is not cached.
        if path == "/api" && form == Some(DiscoveryFormat::Legacy) {
            return Some(Ok(DocumentResponse::json(&api_versions(catalogue, ask.host))));
        }
        let page = self.cached_document(catalogue, path, form.unwrap_or(DiscoveryFormat::Legacy))?;
        match form {
            None => Some(Err(not_acceptable())),
            Some(DiscoveryFormat::Aggregated) => Some(Ok(page.or_not_modified(ask))),
            Some(DiscoveryFormat::Legacy) => Some(Ok(page)),
        }
    }

    fn cached_document(
        &self,
        catalogue: &Arc<Catalogue>,
        path: &str,
        form: DiscoveryFormat,
    ) -> Option<DocumentResponse> {
        let mut cache = self.cache.lock();
        if !cache.catalogue.as_ref().is_some_and(|of| Arc::ptr_eq(of, catalogue)) {
            *cache = Cache { catalogue: Some(Arc::clone(catalogue)), pages: HashMap::new() };
        }
        let key = format!("{path} {}", form == DiscoveryFormat::Aggregated);
        if let Some(page) = cache.pages.get(&key) {
            return Some(page.clone());
        }
        let page = match form {
            DiscoveryFormat::Legacy => DocumentResponse::json(&legacy_document(catalogue, path)?),
            DiscoveryFormat::Aggregated => {
                DocumentResponse::json(&aggregated_document(catalogue, path)).with_etag(AGGREGATED)
            }
        };
        cache.pages.insert(key, page.clone());
        Some(page)
    }
}

/// The first supported format in the `Accept` header.
fn negotiate_format(accept: &str, is_root: bool) -> Option<DiscoveryFormat> {
    if accept.trim().is_empty() {
        return Some(DiscoveryFormat::Legacy);
    }
    accept.split(',').find_map(|clause| {
        let mut parts = clause.split(';').map(str::trim);
        let media = parts.next().unwrap_or_default().to_ascii_lowercase();
        let parameters: Vec<&str> = parts.filter(|one| !one.starts_with("q=")).collect();
        let is_json = matches!(media.as_str(), "application/json" | "application/*" | "*/*");
        let wants = |parameter: &str| parameters.contains(&parameter);
        if !is_json {
            None
        } else if wants("as=APIGroupDiscoveryList") {
            let is_known = is_root && wants("g=apidiscovery.k8s.io") && wants("v=v2");
            is_known.then_some(DiscoveryFormat::Aggregated)
        } else {
            Some(DiscoveryFormat::Legacy)
        }
    })
}

fn api_versions(catalogue: &Catalogue, host: &str) -> Value {
    let all = sorted_groups(catalogue);
    let versions: Vec<&str> =
        all.iter().filter(|group| group.name.is_empty()).flat_map(ApiGroup::version_names).collect();
    json!({
        "kind": "APIVersions", "versions": versions,
        "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": host}],
    })
}

fn legacy_document(catalogue: &Catalogue, path: &str) -> Option<Value> {
    let all = sorted_groups(catalogue);
    if path == "/apis" {
        let groups: Vec<Value> = all.iter().filter(|group| !group.name.is_empty()).map(group_json).collect();
        return Some(json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}));
    }
    let (group, version) = match path.strip_prefix("/apis/") {
        Some(rest) => rest.split_once('/').map_or((rest, None), |(group, version)| (group, Some(version))),
        None => ("", path.strip_prefix("/api/")),
    };
    let group =
        all.iter().find(|one| one.name == group && (path.starts_with("/api/") == one.name.is_empty()))?;
    let Some(version) = version else {
        let mut value = json!({"kind": "APIGroup", "apiVersion": "v1"});
        merge(&mut value, group_json(group));
        return Some(value);
    };
    let (_, members) = group.versions.iter().find(|(name, _)| *name == version)?;
    let resources: Vec<Value> = members.iter().flat_map(|one| resources::api_resource_entries(one)).collect();
    let mut value = json!({"kind": "APIResourceList"});
    if !group.name.is_empty() {
        value["apiVersion"] = "v1".into();
    }
    value["groupVersion"] = api_version(group.name, version).into();
    value["resources"] = resources.into();
    Some(value)
}

fn merge(value: &mut Value, more: Value) {
    if let (Value::Object(value), Value::Object(more)) = (value, more) {
        value.extend(more);
    }
}

fn group_json(group: &ApiGroup<'_>) -> Value {
    let versions: Vec<Value> = group
        .version_names()
        .map(|version| json!({"groupVersion": api_version(group.name, version), "version": version}))
        .collect();
    let preferred = versions.first().cloned();
    json!({"name": group.name, "versions": versions, "preferredVersion": preferred})
}

fn aggregated_document(catalogue: &Catalogue, path: &str) -> Value {
    let all = sorted_groups(catalogue);
    let wanted = all.iter().filter(|group| group.name.is_empty() == (path == "/api"));
    let items: Vec<Value> = wanted.map(aggregated_group).collect();
    json!({
        "kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "metadata": {}, "items": items,
    })
}

fn aggregated_group(group: &ApiGroup<'_>) -> Value {
    let versions: Vec<Value> = group
        .versions
        .iter()
        .map(|(version, members)| {
            let resources: Vec<Value> =
                members.iter().map(|one| resources::group_discovery_entry(one)).collect();
            json!({"version": version, "resources": resources, "freshness": "Current"})
        })
        .collect();
    let metadata = if group.name.is_empty() { json!({}) } else { json!({"name": group.name}) };
    json!({"metadata": metadata, "versions": versions})
}
