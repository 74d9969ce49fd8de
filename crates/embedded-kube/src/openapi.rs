//! `OpenAPI` schemas for `kubectl explain`, client-side merges and parameter checks.
//!
//! `/openapi/v3` lists one document per group and version, each under a hash, so clients can cache it indefinitely;
//! `/openapi/v2` is a single document. Documents are built on request and cached until their inputs change. Structure
//! comes from the type table, descriptions from `k8s-openapi`; for custom resources both come from their own schema.

mod custom;
mod descriptions;
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
    discovery::{DocumentRequest, DocumentResponse, etag_hash},
    registry::{Catalogue, Resource},
    status_error::ApiResult,
};

const V2_PROTOBUF: &str = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";

/// `OpenAPI` documents and their cache.
#[derive(Default)]
pub struct OpenApi {
    cache: Mutex<Cache>,
}

#[derive(Default)]
struct Cache {
    catalogue: Option<Arc<Catalogue>>,
    /// Hash of every document by its path without `/openapi/v3/`; the empty path is version 2.
    hashes: BTreeMap<String, String>,
    /// Documents by path and media type, with the hash they were built for.
    documents: HashMap<(String, bool), (String, Bytes)>,
}

impl OpenApi {
    /// Responds to a path below `/openapi`; `None` for every other path and for documents that do not exist.
    pub fn respond(
        &self,
        catalogue: &Arc<Catalogue>,
        ask: &DocumentRequest<'_>,
    ) -> Option<ApiResult<DocumentResponse>> {
        let path = ask.path.trim_end_matches('/');
        if path == "/openapi/v3" {
            return Some(Ok(self.index(catalogue)));
        }
        let document = match path.strip_prefix("/openapi/v3/") {
            Some(document) => document,
            None if path == "/openapi/v2" => "",
            None => return None,
        };
        let hash = self.refreshed_cache(catalogue).hashes.get(document)?.clone();
        Some(Ok(self.document(catalogue, ask, document, &hash)))
    }

    fn refreshed_cache(&self, catalogue: &Arc<Catalogue>) -> parking_lot::MutexGuard<'_, Cache> {
        let mut cache = self.cache.lock();
        if !cache.catalogue.as_ref().is_some_and(|of| Arc::ptr_eq(of, catalogue)) {
            cache.catalogue = Some(Arc::clone(catalogue));
            cache.hashes = hashes(catalogue);
            let Cache { hashes, documents: made, .. } = &mut *cache;
            made.retain(|(path, _), (hash, _)| hashes.get(path) == Some(hash));
        }
        cache
    }

    fn index(&self, catalogue: &Arc<Catalogue>) -> DocumentResponse {
        let cache = self.refreshed_cache(catalogue);
        let paths: serde_json::Map<String, Value> = cache
            .hashes
            .iter()
            .filter(|(path, _)| !path.is_empty())
            .map(|(path, hash)| (path.clone(), json!({"serverRelativeURL": hashed_url(path, hash)})))
            .collect();
        DocumentResponse {
            content_type: "text/plain; charset=utf-8",
            ..DocumentResponse::json(&json!({"paths": paths}))
        }
    }

    fn document(
        &self,
        catalogue: &Arc<Catalogue>,
        ask: &DocumentRequest<'_>,
        path: &str,
        hash: &str,
    ) -> DocumentResponse {
        let Some(as_protobuf) = wants_protobuf(ask.accept, path.is_empty()) else {
            return DocumentResponse { code: 406, content_type: "", headers: Vec::new(), body: Bytes::new() };
        };
        let tag = ("etag", format!("\"{hash}\""));
        let vary = ("vary", "Accept".to_owned());
        let mut headers = match requested_hash(ask.query) {
            Some(asked) if asked != hash => {
                let headers = vec![tag, ("location", hashed_url(path, hash)), vary];
                return DocumentResponse {
                    code: 301,
                    content_type: "application/json",
                    headers,
                    body: Bytes::new(),
                };
            }
            Some(_) => {
                vec![("cache-control", "public, immutable".to_owned()), ("expires", expires_in_one_year())]
            }
            None => vec![("cache-control", "no-cache, private".to_owned())],
        };
        headers.extend([tag, vary]);
        let content_type = if as_protobuf { V2_PROTOBUF } else { "application/json" };
        let body = self.body(catalogue, path, hash, as_protobuf);
        DocumentResponse { code: 200, content_type, headers, body }.or_not_modified(ask)
    }

    /// Built outside the lock: two clients may build the same document, but neither blocks the other.
    fn body(&self, catalogue: &Arc<Catalogue>, path: &str, hash: &str, as_protobuf: bool) -> Bytes {
        let key = (path.to_owned(), as_protobuf);
        if let Some((of, body)) = self.cache.lock().documents.get(&key)
            && of == hash
        {
            return body.clone();
        }
        let document = if path.is_empty() {
            documents::v2_document(catalogue)
        } else {
            documents::v3_document(&resources_of_document(catalogue, path))
        };
        let body: Bytes = if as_protobuf {
            protobuf::encode_document(&document).into()
        } else {
            serde_json::to_vec(&document).unwrap_or_default().into()
        };
        self.cache.lock().documents.insert(key, (hash.to_owned(), body.clone()));
        body
    }
}

/// `api/v1`, `apis/apps/v1`.
fn document_path(resource: &Resource) -> String {
    let (group, version) = (&resource.id.group, &resource.id.version);
    if group.is_empty() { format!("api/{version}") } else { format!("apis/{group}/{version}") }
}

fn resources_of_document<'a>(catalogue: &'a Catalogue, path: &str) -> Vec<&'a Resource> {
    catalogue.values().map(Arc::as_ref).filter(|one| document_path(one) == path).collect()
}

fn hashed_url(path: &str, hash: &str) -> String {
    format!("/openapi/v3/{path}?hash={hash}")
}

fn requested_hash(query: &str) -> Option<&str> {
    query.split('&').find_map(|pair| pair.strip_prefix("hash=")).filter(|hash| !hash.is_empty())
}

fn expires_in_one_year() -> String {
    let year = clock::now().checked_add((365 * 24).hours()).unwrap_or_else(|_| clock::now());
    year.to_zoned(TimeZone::UTC).strftime("%a, %d %b %Y %H:%M:%S UTC").to_string()
}

/// Whether protobuf precedes JSON in the `Accept` header; `None` if neither is accepted.
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

/// Hashes the inputs of each document: the type table, and everything published about custom resources.
fn hashes(catalogue: &Catalogue) -> BTreeMap<String, String> {
    let mut facts: BTreeMap<String, String> = BTreeMap::new();
    for resource in catalogue.values() {
        let text = facts.entry(document_path(resource)).or_default();
        let shown = [&resource.id.plural, &resource.kind, &resource.list_kind].map(String::as_str);
        let has = [resource.namespaced, resource.has_status, resource.scale.is_some()];
        text.extend(shown.into_iter().chain(has.map(|yes| if yes { " yes " } else { " no " })));
        if let Some(schema) = resource.strategy.schema() {
            text.push_str(&schema.to_string());
        }
    }
    let base = env!("CARGO_PKG_VERSION");
    let mut hashes: BTreeMap<String, String> = facts
        .into_iter()
        .map(|(path, text)| {
            let hash = etag_hash(format!("{base} {path} {text}").as_bytes());
            (path, hash)
        })
        .collect();
    let all: String = hashes.values().map(String::as_str).collect();
    hashes.insert(String::new(), etag_hash(all.as_bytes()));
    hashes
}
