//! Discovery: what is served, told in the two ways that clients know.
//!
//! Legacy: `/api`, `/api/v1`, `/apis`, `/apis/<group>`, `/apis/<group>/<version>`. Aggregated: all of it at once from
//! `/api` and `/apis`, asked for by the `Accept` header, with an `ETag`. Answers are made from a [`Catalogue`] and kept
//! until there is another one.

mod groups;
mod page;
mod resources;
mod version;

#[cfg(test)]
mod tests;

use std::{collections::HashMap, sync::Arc};

use parking_lot::Mutex;
use serde_json::{Value, json};

use self::groups::{Group, groups};
pub use self::{
    page::{Ask, Page, hash, not_acceptable},
    resources::subresources,
    version::version,
};
use crate::{
    failure::Answer,
    registry::{Catalogue, api_version},
};

const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

/// Discovery with its cache.
#[derive(Default)]
pub struct Discovery {
    cache: Mutex<Cache>,
}

#[derive(Default)]
struct Cache {
    of: Option<Arc<Catalogue>>,
    pages: HashMap<String, Page>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    Legacy,
    Aggregated,
}

impl Discovery {
    /// The answer to a path of discovery; `None` for every other path, and for groups and versions that are not served.
    pub fn respond(&self, catalogue: &Arc<Catalogue>, ask: &Ask<'_>) -> Option<Answer<Page>> {
        let path = ask.path.trim_end_matches('/');
        let is_root = matches!(path, "/api" | "/apis");
        if !is_root && !path.starts_with("/api/") && !path.starts_with("/apis/") {
            return None;
        }
        let form = form(ask.accept, is_root);
        // The address in /api is the one that the client used, so this page is not kept.
        if path == "/api" && form == Some(Form::Legacy) {
            return Some(Ok(Page::json(&api_versions(catalogue, ask.host))));
        }
        let page = self.page(catalogue, path, form.unwrap_or(Form::Legacy))?;
        match form {
            None => Some(Err(not_acceptable())),
            Some(Form::Aggregated) => Some(Ok(page.unless_known(ask))),
            Some(Form::Legacy) => Some(Ok(page)),
        }
    }

    fn page(&self, catalogue: &Arc<Catalogue>, path: &str, form: Form) -> Option<Page> {
        let mut cache = self.cache.lock();
        if !cache.of.as_ref().is_some_and(|of| Arc::ptr_eq(of, catalogue)) {
            *cache = Cache { of: Some(Arc::clone(catalogue)), pages: HashMap::new() };
        }
        let key = format!("{path} {}", form == Form::Aggregated);
        if let Some(page) = cache.pages.get(&key) {
            return Some(page.clone());
        }
        let page = match form {
            Form::Legacy => Page::json(&legacy(catalogue, path)?),
            Form::Aggregated => Page::json(&aggregated(catalogue, path)).tagged(AGGREGATED),
        };
        cache.pages.insert(key, page.clone());
        Some(page)
    }
}

/// The first form in the `Accept` header that we have; `None` if there is none.
fn form(accept: &str, is_root: bool) -> Option<Form> {
    if accept.trim().is_empty() {
        return Some(Form::Legacy);
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
            is_known.then_some(Form::Aggregated)
        } else {
            Some(Form::Legacy)
        }
    })
}

fn api_versions(catalogue: &Catalogue, host: &str) -> Value {
    let all = groups(catalogue);
    let versions: Vec<&str> =
        all.iter().filter(|group| group.name.is_empty()).flat_map(Group::version_names).collect();
    json!({
        "kind": "APIVersions", "versions": versions,
        "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": host}],
    })
}

fn legacy(catalogue: &Catalogue, path: &str) -> Option<Value> {
    let all = groups(catalogue);
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
    let resources: Vec<Value> = members.iter().flat_map(|one| resources::legacy(one)).collect();
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

fn group_json(group: &Group<'_>) -> Value {
    let versions: Vec<Value> = group
        .version_names()
        .map(|version| json!({"groupVersion": api_version(group.name, version), "version": version}))
        .collect();
    let preferred = versions.first().cloned();
    json!({"name": group.name, "versions": versions, "preferredVersion": preferred})
}

fn aggregated(catalogue: &Catalogue, path: &str) -> Value {
    let all = groups(catalogue);
    let wanted = all.iter().filter(|group| group.name.is_empty() == (path == "/api"));
    let items: Vec<Value> = wanted.map(aggregated_group).collect();
    json!({
        "kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "metadata": {}, "items": items,
    })
}

fn aggregated_group(group: &Group<'_>) -> Value {
    let versions: Vec<Value> = group
        .versions
        .iter()
        .map(|(version, members)| {
            let resources: Vec<Value> = members.iter().map(|one| resources::aggregated(one)).collect();
            json!({"version": version, "resources": resources, "freshness": "Current"})
        })
        .collect();
    let metadata = if group.name.is_empty() { json!({}) } else { json!({"name": group.name}) };
    json!({"metadata": metadata, "versions": versions})
}
