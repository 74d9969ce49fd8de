//! Deletes on behalf of a definition that goes.

use std::sync::Arc;

use futures::future::BoxFuture;

use super::{Server, delete::DeleteOptions};
use crate::{
    crd::Cleaner,
    failure::Answer,
    registry::Resource,
    request::{Options, Request, User, Verb},
};

impl Cleaner for Server {
    fn delete(&self, resource: Arc<Resource>, namespace: String, name: String) -> BoxFuture<'_, Answer<()>> {
        let request = Request {
            user: User {
                name: "system:apiserver".to_owned(),
                groups: vec!["system:masters".to_owned()],
                ..User::default()
            },
            agent: "kube-apiserver".to_owned(),
            verb: Verb::Delete,
            resource,
            namespace,
            name,
            subresource: String::new(),
            options: Options::default(),
            body: bytes::Bytes::new(),
            content_type: String::new(),
            create_refused: None,
        };
        Box::pin(async move { self.delete_with(&request, &DeleteOptions::default()).await.map(drop) })
    }
}
