//! Converts stored objects to the version and schema of a request.

use std::sync::Arc;

use serde_json::Value;

use crate::{object::Document, registry::Resource, request::ObjectBody, store::Entry, types};

/// Converts objects of one resource to one version.
#[derive(Clone)]
pub struct ObjectConverter {
    resource: Arc<Resource>,
    api_version: String,
    /// Prefix of a stored object in exactly this version; such an object is copied without parsing.
    type_prefix: Vec<u8>,
}

impl ObjectConverter {
    pub fn new(resource: Arc<Resource>) -> Self {
        let api_version = resource.api_version();
        let type_prefix =
            format!("{{\"apiVersion\":\"{api_version}\",\"kind\":\"{}\",", resource.kind).into_bytes();
        Self { resource, api_version, type_prefix }
    }

    pub fn resource(&self) -> &Arc<Resource> {
        &self.resource
    }

    pub fn convert_entry(&self, entry: &Entry) -> ObjectBody {
        self.convert_document(&entry.document, entry.revision)
    }

    /// `revision` is the revision of the write, which determines the schema it was written under.
    pub fn convert_document(&self, document: &Document, revision: u64) -> ObjectBody {
        if self.is_current(document, revision) {
            return ObjectBody::Stored(document.clone());
        }
        ObjectBody::Value(self.convert(document.value()))
    }

    pub fn value(&self, entry: &Entry) -> Value {
        let value = entry.document.value();
        if self.is_current(&entry.document, entry.revision) { value } else { self.convert(value) }
    }

    fn is_current(&self, document: &Document, revision: u64) -> bool {
        revision >= self.resource.schema_revision && document.bytes().starts_with(&self.type_prefix)
    }

    fn convert(&self, mut value: Value) -> Value {
        self.resource.strategy.from_storage(&mut value);
        if let Some(map) = value.as_object_mut() {
            map.insert("apiVersion".into(), self.api_version.clone().into());
            map.insert("kind".into(), self.resource.kind.clone().into());
        }
        if self.resource.is_custom {
            types::prune(&mut value, &self.resource.shape);
            self.resource.strategy.set_defaults(&mut value);
        } else {
            types::normalise(&mut value, &self.resource.shape);
        }
        value
    }
}
