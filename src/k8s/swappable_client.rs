//! A client that stays the same while the way to its API server is replaced: tokens live for minutes, watches for days.

use std::sync::{Arc, PoisonError, RwLock};

use http::Request;
use kube::{Client, client::Body};

/// The way that requests take at present.
#[derive(Clone)]
pub struct Way(Arc<RwLock<Client>>);

impl std::fmt::Debug for Way {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Way").finish_non_exhaustive()
    }
}

impl Way {
    /// This one at first.
    pub fn new(first: Client) -> Self {
        Self(Arc::new(RwLock::new(first)))
    }

    /// Requests that begin from now on take this one.
    pub fn replace(&self, next: Client) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = next;
    }

    /// A client whose requests take whatever way there is when they begin.
    pub fn client(&self) -> Client {
        let ways = Arc::clone(&self.0);
        let service = tower::service_fn(move |request: Request<Body>| {
            let now = ways.read().unwrap_or_else(PoisonError::into_inner).clone();
            async move { now.send(request).await }
        });
        Client::new(service, "default")
    }
}

#[cfg(test)]
mod tests {
    use http::Response;
    use k8s_openapi::api::core::v1::Namespace;
    use kube::{Api, ResourceExt as _};

    use super::*;

    /// A server in which every namespace has this uid.
    fn server(uid: &'static str) -> Client {
        let service = tower::service_fn(move |request: Request<Body>| async move {
            let name = request.uri().path().rsplit('/').next().unwrap_or_default().to_owned();
            let text = serde_json::json!({"metadata": {"name": name, "uid": uid}}).to_string();
            Ok::<_, tower::BoxError>(Response::new(Body::from(text.into_bytes())))
        });
        Client::new(service, "default")
    }

    #[tokio::test]
    async fn a_client_takes_the_way_that_there_is() {
        let way = Way::new(server("old"));
        let namespaces: Api<Namespace> = Api::all(way.client());
        assert_eq!(namespaces.get("shop").await.unwrap().uid().as_deref(), Some("old"));
        way.replace(server("new"));
        assert_eq!(namespaces.get("shop").await.unwrap().uid().as_deref(), Some("new"));
    }
}
