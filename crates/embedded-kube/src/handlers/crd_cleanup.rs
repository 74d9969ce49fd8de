//! Deletes custom objects on behalf of a terminating CRD.

use std::sync::Arc;

use futures::future::BoxFuture;

use super::{RequestHandler, delete::DeleteOptions};
use crate::{
    crd::ObjectDeleter,
    registry::Resource,
    request::{Request, RequestOptions, User, Verb},
    status_error::ApiResult,
};

impl ObjectDeleter for RequestHandler {
    fn delete(
        &self,
        resource: Arc<Resource>,
        namespace: String,
        name: String,
    ) -> BoxFuture<'_, ApiResult<()>> {
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
            options: RequestOptions::default(),
            body: bytes::Bytes::new(),
            content_type: String::new(),
            create_denied: None,
        };
        Box::pin(async move { self.delete_with(&request, &DeleteOptions::default()).await.map(drop) })
    }
}
