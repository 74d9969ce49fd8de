//! Get.

use super::{RequestHandler, list, object_converter, storage_key};
use crate::{
    request::{Reply, Request},
    status_error::{ApiResult, StatusError},
    store::Entry,
};

impl RequestHandler {
    pub(super) fn get(&self, request: &Request) -> ApiResult<Reply> {
        list::check_revision_reached(
            list::parse_resource_version(&request.options.resource_version)?,
            self.store.revision(),
        )?;
        let entry = self.current_entry(request)?;
        let object = object_converter(&request.resource).convert_entry(&entry);
        Ok(Reply::Object { code: 200, object, warnings: Vec::new() })
    }

    /// The current object of a request.
    pub(super) fn current_entry(&self, request: &Request) -> ApiResult<Entry> {
        let key = storage_key(&request.resource, &request.namespace, &request.name);
        self.store
            .get(&key)
            .ok_or_else(|| StatusError::not_found(&request.resource.group_resource(), &request.name))
    }
}
