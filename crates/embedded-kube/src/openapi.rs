//! `OpenAPI`: the schemas of what is served, for `kubectl explain`, client-side merges and checks of parameters.
//!
//! `/openapi/v3` names one document per group and version, each under a hash, so that clients may keep it for ever;
//! `/openapi/v2` is everything at once. Documents are made when they are asked for and kept until what they describe
//! changes. Structure comes from the table of types, descriptions from the types of `k8s-openapi`; for custom resources
//! both come from their own schema.

mod custom;
mod describe;
mod documents;
mod operations;
mod protobuf;
mod schemas;

#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use bytes::Bytes;
use jiff::{ToSpan as _, tz::TimeZone};
use parking_lot::Mutex;
use serde_json::{Value, json};

use crate::{
    clock,
    discovery::{Ask, Page, hash},
    failure::Answer,
    registry::{Catalogue, Resource},
};

const V2_PROTOBUF: &str = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";

/// `OpenAPI` with its cache.
#[derive(Default)]
pub struct OpenApi {
    cache: Mutex<Cache>,
}

#[derive(Default)]
struct Cache {
    of: Option<Arc<Catalogue>>,
    /// Hash of every document by its path without `/openapi/v3/`; of version 2 by the empty path.
    hashes: BTreeMap<String, String>,
    /// Documents by path and media type, with the hash that they had.
    made: HashMap<(String, bool), (String, Bytes)>,
}

impl OpenApi {
    /// The answer to a path below `/openapi`; `None` for every other path and for documents that do not exist.
    pub fn respond(&self, catalogue: &Arc<Catalogue>, ask: &Ask<'_>) -> Option<Answer<Page>> {
        let path = ask.path.trim_end_matches('/');
        if path == "/openapi/v3" {
            return Some(Ok(self.index(catalogue)));
        }
        let document = match path.strip_prefix("/openapi/v3/") {
            Some(document) => document,
            None if path == "/openapi/v2" => "",
            None => return None,
        };
        let hash = self.refreshed(catalogue).hashes.get(document)?.clone();
        Some(Ok(self.document(catalogue, ask, document, &hash)))
    }

    fn refreshed(&self, catalogue: &Arc<Catalogue>) -> parking_lot::MutexGuard<'_, Cache> {
        let mut cache = self.cache.lock();
        if !cache.of.as_ref().is_some_and(|of| Arc::ptr_eq(of, catalogue)) {
            cache.of = Some(Arc::clone(catalogue));
            cache.hashes = hashes(catalogue);
            let Cache { hashes, made, .. } = &mut *cache;
            made.retain(|(path, _), (hash, _)| hashes.get(path) == Some(hash));
        }
        cache
    }

    fn index(&self, catalogue: &Arc<Catalogue>) -> Page {
        let cache = self.refreshed(catalogue);
        let paths: serde_json::Map<String, Value> = cache
            .hashes
            .iter()
            .filter(|(path, _)| !path.is_empty())
            .map(|(path, hash)| (path.clone(), json!({"serverRelativeURL": address(path, hash)})))
            .collect();
        Page { content_type: "text/plain; charset=utf-8", ..Page::json(&json!({"paths": paths})) }
    }

    fn document(&self, catalogue: &Arc<Catalogue>, ask: &Ask<'_>, path: &str, hash: &str) -> Page {
        let Some(as_protobuf) = wants_protobuf(ask.accept, path.is_empty()) else {
            return Page { code: 406, content_type: "", headers: Vec::new(), body: Bytes::new() };
        };
        let tag = ("etag", format!("\"{hash}\""));
        let vary = ("vary", "Accept".to_owned());
        let mut headers = match asked_hash(ask.query) {
            Some(asked) if asked != hash => {
                let headers = vec![tag, ("location", address(path, hash)), vary];
                return Page { code: 301, content_type: "application/json", headers, body: Bytes::new() };
            }
            Some(_) => vec![("cache-control", "public, immutable".to_owned()), ("expires", in_a_year())],
            None => vec![("cache-control", "no-cache, private".to_owned())],
        };
        headers.extend([tag, vary]);
        let content_type = if as_protobuf { V2_PROTOBUF } else { "application/json" };
        let body = self.body(catalogue, path, hash, as_protobuf);
        Page { code: 200, content_type, headers, body }.unless_known(ask)
    }

    /// Made outside the lock: two clients may make the same document, but none waits for another's.
    fn body(&self, catalogue: &Arc<Catalogue>, path: &str, hash: &str, as_protobuf: bool) -> Bytes {
        let key = (path.to_owned(), as_protobuf);
        if let Some((of, body)) = self.cache.lock().made.get(&key)
            && of == hash
        {
            return body.clone();
        }
        let document =
            if path.is_empty() { documents::v2(catalogue) } else { documents::v3(&members(catalogue, path)) };
        let body: Bytes = if as_protobuf {
            protobuf::document(&document).into()
        } else {
            serde_json::to_vec(&document).unwrap_or_default().into()
        };
        self.cache.lock().made.insert(key, (hash.to_owned(), body.clone()));
        body
    }
}

/// `api/v1`, `apis/apps/v1`.
fn document_path(resource: &Resource) -> String {
    let (group, version) = (&resource.id.group, &resource.id.version);
    if group.is_empty() { format!("api/{version}") } else { format!("apis/{group}/{version}") }
}

fn members<'a>(catalogue: &'a Catalogue, path: &str) -> Vec<&'a Resource> {
    catalogue.values().map(Arc::as_ref).filter(|one| document_path(one) == path).collect()
}

fn address(path: &str, hash: &str) -> String {
    format!("/openapi/v3/{path}?hash={hash}")
}

fn asked_hash(query: &str) -> Option<&str> {
    query.split('&').find_map(|pair| pair.strip_prefix("hash=")).filter(|hash| !hash.is_empty())
}

fn in_a_year() -> String {
    let year = clock::now().checked_add((365 * 24).hours()).unwrap_or_else(|_| clock::now());
    year.to_zoned(TimeZone::UTC).strftime("%a, %d %b %Y %H:%M:%S UTC").to_string()
}

/// Whether protobuf comes before JSON in the `Accept` header; `None` if neither is there.
fn wants_protobuf(accept: &str, is_v2: bool) -> Option<bool> {
    if accept.trim().is_empty() {
        return Some(false);
    }
    accept.split(',').find_map(|clause| {
        let media = clause.split(';').next().unwrap_or_default().trim();
        match media {
            "application/json" | "application/*" | "*/*" => Some(false),
            V2_PROTOBUF | "application/com.github.proto-openapi.spec.v2@v1.0+protobuf" if is_v2 => Some(true),
            _ => None,
        }
    })
}

/// What a document depends on, hashed: the table, and of custom resources all that is shown of them.
fn hashes(catalogue: &Catalogue) -> BTreeMap<String, String> {
    let mut facts: BTreeMap<String, String> = BTreeMap::new();
    for resource in catalogue.values() {
        let text = facts.entry(document_path(resource)).or_default();
        let shown = [&resource.id.plural, &resource.kind, &resource.list_kind].map(String::as_str);
        let has = [resource.namespaced, resource.status, resource.scale.is_some()];
        text.extend(shown.into_iter().chain(has.map(|yes| if yes { " yes " } else { " no " })));
        if let Some(schema) = resource.rules.schema() {
            text.push_str(&schema.to_string());
        }
    }
    let base = env!("CARGO_PKG_VERSION");
    let mut hashes: BTreeMap<String, String> = facts
        .into_iter()
        .map(|(path, text)| {
            let hash = hash(format!("{base} {path} {text}").as_bytes());
            (path, hash)
        })
        .collect();
    let all: String = hashes.values().map(String::as_str).collect();
    hashes.insert(String::new(), hash(all.as_bytes()));
    hashes
}
