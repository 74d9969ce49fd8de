//! The way to moto: requests and answers pass through as they are, bodies as streams. What was asked before and has not
//! changed is answered without it.

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
    answers::{Answers, Look, Question},
    wire::{Body, full},
};

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
    answers: Arc<Answers>,
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum AskError {
    #[error(transparent)]
    Send(#[from] Error),
    #[error("moto did not finish its answer")]
    Answer(#[source] hyper::Error),
}

impl Upstream {
    pub(crate) fn new(address: SocketAddr) -> Self {
        // No pooled connections: moto may close an idle one at the moment we use it, and a POST cannot be repeated.
        let client = Client::builder(TokioExecutor::new()).pool_max_idle_per_host(0).build_http();
        Self { client, address, answers: Arc::default() }
    }

    /// The answer to a question.
    pub(crate) async fn ask(
        &self,
        question: &Question<'_>,
        request: Request<Body>,
    ) -> Result<Response<Body>, AskError> {
        let place = match self.answers.look(question) {
            Look::Known(answer) => return Ok(answer),
            Look::Ask(place) => place,
            Look::Pass => return Ok(self.send(request).await?.map(BodyExt::boxed)),
            Look::Change(_changing) => return Ok(self.send(request).await?.map(BodyExt::boxed)),
        };
        let (head, body) = self.send(request).await?.into_parts();
        let body = body.collect().await.map_err(AskError::Answer)?.to_bytes();
        self.answers.keep(place, &head, &body);
        Ok(Response::from_parts(head, full(body)))
    }

    /// Sends a request to moto, whatever authority it was aimed at.
    async fn send(&self, mut request: Request<Body>) -> Result<Response<Incoming>, Error> {
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
