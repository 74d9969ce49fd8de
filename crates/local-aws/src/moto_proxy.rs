//! Reverse proxy to moto: streams requests and responses, and answers repeated reads from the cache.

use std::{net::SocketAddr, sync::Arc};

use http_body_util::BodyExt;
use hyper::{
    Request, Response, Uri,
    body::Incoming,
    header::{self, HeaderName},
};
use hyper_util::{
    client::legacy::{Client, Error, connect::HttpConnector},
    rt::TokioExecutor,
};

use crate::{
    moto_cache::{CacheLookup, MotoCache, MotoCall},
    protocol::{Body, full_body},
};

/// Hop-by-hop headers.
const HOP_BY_HOP: [HeaderName; 6] = [
    header::CONNECTION,
    header::TE,
    header::TRAILER,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
    header::EXPECT,
];

/// Connection to moto.
#[derive(Debug, Clone)]
pub(crate) struct MotoProxy {
    client: Client<HttpConnector, Body>,
    address: SocketAddr,
    cache: Arc<MotoCache>,
}

/// A request to moto failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum MotoProxyError {
    #[error(transparent)]
    Send(#[from] Error),
    #[error("moto's response ended early")]
    ReadBody(#[source] hyper::Error),
}

impl MotoProxy {
    pub(crate) fn new(address: SocketAddr) -> Self {
        // No connection pooling: moto may close an idle connection while it is being reused, and a POST cannot be
        // retried.
        let client = Client::builder(TokioExecutor::new()).pool_max_idle_per_host(0).build_http();
        Self { client, address, cache: Arc::default() }
    }

    /// Answers from the cache or forwards to moto.
    pub(crate) async fn forward(
        &self,
        question: &MotoCall<'_>,
        request: Request<Body>,
    ) -> Result<Response<Body>, MotoProxyError> {
        let place = match self.cache.lookup(question) {
            CacheLookup::Hit(answer) => return Ok(answer),
            CacheLookup::Miss(place) => place,
            CacheLookup::Uncacheable => return Ok(self.send(request).await?.map(BodyExt::boxed)),
            CacheLookup::Mutation(_changing) => return Ok(self.send(request).await?.map(BodyExt::boxed)),
        };
        let (head, body) = self.send(request).await?.into_parts();
        let body = body.collect().await.map_err(MotoProxyError::ReadBody)?.to_bytes();
        self.cache.store(place, &head, &body);
        Ok(Response::from_parts(head, full_body(body)))
    }

    /// Sends a request to moto, ignoring its original authority.
    async fn send(&self, mut request: Request<Body>) -> Result<Response<Incoming>, Error> {
        let path = request.uri().path_and_query().map_or("/", |path| path.as_str());
        // Cannot fail: authority and path were parsed before.
        if let Ok(uri) = Uri::try_from(format!("http://{}{path}", self.address)) {
            *request.uri_mut() = uri;
        }
        for name in HOP_BY_HOP {
            request.headers_mut().remove(name);
        }
        let mut response = self.client.request(request).await?;
        for name in HOP_BY_HOP {
            response.headers_mut().remove(name);
        }
        Ok(response)
    }
}
