//! Many objects gone.

use futures::{StreamExt, TryStreamExt, stream};

use super::{Server, delete, list::Filter};
use crate::{
    failure::Answer,
    object::Meta,
    request::{Body, List, Reply, Request, Verb},
};

/// How many deletes are under way at a time; they share commits.
const AT_ONCE: usize = 32;

impl Server {
    pub(super) async fn delete_collection(&self, request: &Request) -> Answer<Reply> {
        let options = delete::read(request)?;
        Filter::read(&request.options, &request.resource)?;
        let mut listing = request.clone();
        listing.verb = Verb::List;
        listing.body = bytes::Bytes::new();
        let Reply::List(found) = self.list(&listing)? else {
            return Ok(Reply::List(List {
                resource_version: self.store.revision().to_string(),
                continue_token: String::new(),
                remaining: None,
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
        let gone: Vec<_> = stream::iter(deletes).buffered(AT_ONCE).try_collect().await?;
        Ok(Reply::List(List {
            resource_version: found.resource_version,
            continue_token: found.continue_token,
            remaining: found.remaining,
            items: gone.into_iter().map(Body::Value).collect(),
        }))
    }
}
