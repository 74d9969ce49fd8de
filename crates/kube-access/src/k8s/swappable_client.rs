//! A client whose underlying connection can be replaced: tokens live for minutes, watches for days.

use std::sync::{Arc, PoisonError, RwLock};

use http::Request;
use kube::{Client, client::Body};

/// Shares the current connection between all clients made from it.
#[derive(Clone)]
pub struct SwappableClient(Arc<RwLock<Client>>);

impl std::fmt::Debug for SwappableClient {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("SwappableClient").finish_non_exhaustive()
    }
}

impl SwappableClient {
    /// Starts with this connection.
    pub fn new(first: Client) -> Self {
        Self(Arc::new(RwLock::new(first)))
    }

    /// Replaces the connection for all new requests.
    pub fn replace(&self, next: Client) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = next;
    }

    /// A client that uses the connection that is current when a request starts.
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
        let way = SwappableClient::new(server("old"));
        let namespaces: Api<Namespace> = Api::all(way.client());
        assert_eq!(namespaces.get("shop").await.unwrap().uid().as_deref(), Some("old"));
        way.replace(server("new"));
        assert_eq!(namespaces.get("shop").await.unwrap().uid().as_deref(), Some("new"));
    }
}
