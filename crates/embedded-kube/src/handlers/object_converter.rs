//! A stored object as a request wants to see it: in its version, under the present schema.

use std::sync::Arc;

use serde_json::Value;

use crate::{object::Document, registry::Resource, request::Body, store::Entry, types};

/// Shows objects of one resource at one version.
#[derive(Clone)]
pub struct Viewer {
    resource: Arc<Resource>,
    api_version: String,
    /// How a stored object of exactly this version begins; such a one is copied, never parsed.
    head: Vec<u8>,
}

impl Viewer {
    pub fn new(resource: Arc<Resource>) -> Self {
        let api_version = resource.api_version();
        let head = format!("{{\"apiVersion\":\"{api_version}\",\"kind\":\"{}\",", resource.kind).into_bytes();
        Self { resource, api_version, head }
    }

    pub fn resource(&self) -> &Arc<Resource> {
        &self.resource
    }

    pub fn show(&self, entry: &Entry) -> Body {
        self.show_document(&entry.document, entry.revision)
    }

    /// `revision` is the one the object was written at, which tells under which schema.
    pub fn show_document(&self, document: &Document, revision: u64) -> Body {
        if self.is_current(document, revision) {
            return Body::Stored(document.clone());
        }
        Body::Value(self.convert(document.value()))
    }

    pub fn value(&self, entry: &Entry) -> Value {
        let value = entry.document.value();
        if self.is_current(&entry.document, entry.revision) { value } else { self.convert(value) }
    }

    fn is_current(&self, document: &Document, revision: u64) -> bool {
        revision >= self.resource.schema_since && document.bytes().starts_with(&self.head)
    }

    fn convert(&self, mut value: Value) -> Value {
        self.resource.rules.from_storage(&mut value);
        if let Some(map) = value.as_object_mut() {
            map.insert("apiVersion".into(), self.api_version.clone().into());
            map.insert("kind".into(), self.resource.kind.clone().into());
        }
        if self.resource.custom {
            types::prune(&mut value, &self.resource.shape);
            self.resource.rules.default(&mut value);
        } else {
            types::normalise(&mut value, &self.resource.shape);
        }
        value
    }
}
