//! One object.

use super::{Server, key, list, viewer};
use crate::{
    failure::{Answer, Failure},
    request::{Reply, Request},
    store::Entry,
};

impl Server {
    pub(super) fn get(&self, request: &Request) -> Answer<Reply> {
        list::not_before(list::number(&request.options.resource_version)?, self.store.revision())?;
        let entry = self.live(request)?;
        let object = viewer(&request.resource).show(&entry);
        Ok(Reply::Object { code: 200, object, warnings: Vec::new() })
    }

    /// The object a request names.
    pub(super) fn live(&self, request: &Request) -> Answer<Entry> {
        let key = key(&request.resource, &request.namespace, &request.name);
        self.store
            .get(&key)
            .ok_or_else(|| Failure::not_found(&request.resource.group_resource(), &request.name))
    }
}
