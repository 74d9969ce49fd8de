//! The way to moto: requests and answers pass through as they are, bodies as streams.

use std::net::SocketAddr;

use hyper::{
    Request, Response, Uri,
    body::Incoming,
    header::{self, HeaderName},
};
use hyper_util::{
    client::legacy::{Client, Error, connect::HttpConnector},
    rt::TokioExecutor,
};

use crate::wire::Body;

/// Headers that belong to one connection and not to the message.
const HOP_BY_HOP: [HeaderName; 6] = [
    header::CONNECTION,
    header::TE,
    header::TRAILER,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
    header::EXPECT,
];

/// Where moto listens.
#[derive(Debug, Clone)]
pub(crate) struct Upstream {
    client: Client<HttpConnector, Body>,
    address: SocketAddr,
}

impl Upstream {
    pub(crate) fn new(address: SocketAddr) -> Self {
        // No pooled connections: moto may close an idle one at the moment we use it, and a POST cannot be repeated.
        let client = Client::builder(TokioExecutor::new()).pool_max_idle_per_host(0).build_http();
        Self { client, address }
    }

    /// Sends a request to moto, whatever authority it was aimed at.
    pub(crate) async fn send(&self, mut request: Request<Body>) -> Result<Response<Incoming>, Error> {
        let path = request.uri().path_and_query().map_or("/", |path| path.as_str());
        // An authority and a path that were parsed already always make a URI.
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
