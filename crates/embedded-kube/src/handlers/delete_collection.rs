//! Delete collection.

use futures::{StreamExt, TryStreamExt, stream};

use super::{RequestHandler, delete, list::SelectorFilter};
use crate::{
    object::MetaAccessor,
    request::{ObjectBody, ObjectList, Reply, Request, Verb},
    status_error::ApiResult,
};

/// Maximum number of concurrent deletes; they share commits.
const MAX_CONCURRENT_DELETES: usize = 32;

impl RequestHandler {
    pub(super) async fn delete_collection(&self, request: &Request) -> ApiResult<Reply> {
        let options = delete::read_options(request)?;
        SelectorFilter::read(&request.options, &request.resource)?;
        let mut listing = request.clone();
        listing.verb = Verb::List;
        listing.body = bytes::Bytes::new();
        let Reply::List(found) = self.list(&listing)? else {
            return Ok(Reply::List(ObjectList {
                resource_version: self.store.revision().to_string(),
                continue_token: String::new(),
                remaining_items: None,
                items: Vec::new(),
            }));
        };
        let deletes = found.items.iter().map(|item| {
            let object = item.value();
            let mut one = request.clone();
            one.verb = Verb::Delete;
            object.namespace().clone_into(&mut one.namespace);
            object.name().clone_into(&mut one.name);
            let options = &options;
            async move {
                match self.delete_with(&one, options).await {
                    Err(failure) if failure.reason() != "NotFound" => Err(failure),
                    _ => Ok(object),
                }
            }
        });
        let deletes: Vec<_> = deletes.collect();
        let gone: Vec<_> = stream::iter(deletes).buffered(MAX_CONCURRENT_DELETES).try_collect().await?;
        Ok(Reply::List(ObjectList {
            resource_version: found.resource_version,
            continue_token: found.continue_token,
            remaining_items: found.remaining_items,
            items: gone.into_iter().map(ObjectBody::Value).collect(),
        }))
    }
}
