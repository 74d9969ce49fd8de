//! Requests to a workload.

use std::sync::Arc;

use bytes::Bytes;
use h2::{RecvStream, client::SendRequest};
use http::{
    HeaderValue, Method, Request, Response, StatusCode, Uri, Version, header, uri::Authority as UriAuthority,
};
use http_body_util::{BodyExt as _, Limited};
use hyper::body::Body;
use tokio::{sync::OwnedSemaphorePermit, task::AbortHandle, time::timeout};

use super::{
    super::{
        Stream, Workload,
        body::{self, Held, Incoming},
        wire,
    },
    Failure, Gateway,
    session::Session,
};
use crate::{locals::BoxError, streams::Pump};

/// How much of an agent's explanation is read.
const EXPLANATION: usize = 4096;

impl Gateway {
    /// Sends a request to a port of a workload. An answer is that of the application; anything else is a [`Failure`].
    ///
    /// Dropping the future, or the body of the answer, cancels the request all the way to the application.
    pub async fn request<B>(
        &self,
        workload: &Workload,
        port: u16,
        request: Request<B>,
    ) -> Result<Response<Incoming>, Failure>
    where
        B: Body<Data = Bytes> + Send + 'static,
        B::Error: Into<BoxError> + Send,
    {
        self.open(workload).await?.request(port, request).await
    }

    /// Opens a byte stream to a port of a workload: for `tcp` ports, and for upgrades.
    pub async fn connect(&self, workload: &Workload, port: u16) -> Result<Stream, Failure> {
        self.open(workload).await?.connect(port).await
    }

    /// A session with room for one more stream. One that turns out to be broken before anything was sent is not the last.
    pub(super) async fn open(&self, workload: &Workload) -> Result<Opened, Failure> {
        let slot = self.registry.slot(workload).ok_or(Failure::Disconnected)?;
        let mut spent = None;
        loop {
            let session = slot.ready(self.times.wait, spent.as_ref()).await?;
            let room = Arc::clone(&session.room).acquire_owned();
            let Ok(Ok(place)) = timeout(self.times.wait, room).await else { return Err(Failure::Busy) };
            match session.send.clone().ready().await {
                Ok(send) => return Ok(Opened { session, send, place }),
                Err(_broken) => spent = Some(session),
            }
        }
    }
}

/// A session that has room for one more stream.
pub(super) struct Opened {
    session: Arc<Session>,
    send: SendRequest<Bytes>,
    place: OwnedSemaphorePermit,
}

impl Opened {
    pub(super) async fn request<B>(
        mut self,
        port: u16,
        request: Request<B>,
    ) -> Result<Response<Incoming>, Failure>
    where
        B: Body<Data = Bytes> + Send + 'static,
        B::Error: Into<BoxError> + Send,
    {
        let (parts, content) = request.into_parts();
        let mut head = Request::from_parts(parts, ());
        address(&mut head);
        body::strip(head.headers_mut());
        head.headers_mut().insert(wire::PORT, port.into());
        let is_empty = content.is_end_stream();
        let (answer, to) = self.send.send_request(head, is_empty).map_err(|_| Failure::Lost)?;
        let pump = (!is_empty).then(|| {
            // How it ends shows in the answer.
            let pump = Pump::new(Box::pin(content), to);
            tokio::spawn(async move { drop(pump.await) }).abort_handle()
        });
        let kept = self.held(pump);
        let answer = genuine(port, answer.await.map_err(|_| Failure::Lost)?).await?;
        Ok(answer.map(|recv| Incoming::new(recv, kept)))
    }

    async fn connect(mut self, port: u16) -> Result<Stream, Failure> {
        let mut request = Request::new(());
        *request.method_mut() = Method::CONNECT;
        *request.version_mut() = Version::HTTP_2;
        *request.uri_mut() = Uri::from(UriAuthority::from_static("local"));
        request.headers_mut().insert(wire::PORT, port.into());
        let (answer, to) = self.send.send_request(request, false).map_err(|_| Failure::Lost)?;
        let held = self.held(None);
        let answer = genuine(port, answer.await.map_err(|_| Failure::Lost)?).await?;
        Ok(Stream::new(to, answer.into_body(), held))
    }

    /// For the answer, which is as long under way as the request counts.
    fn held(self, pump: Option<AbortHandle>) -> Held {
        Held { pump, _ticket: Some((Arc::clone(&self.session.ticket), self.place)) }
    }
}

/// HTTP/2 wants to know the scheme and the authority; HTTP/1.1 had the latter in a header.
fn address(head: &mut Request<()>) {
    let from_header = || head.headers().get(header::HOST)?.to_str().ok()?.parse::<UriAuthority>().ok();
    let authority = head.uri().authority().cloned().or_else(from_header);
    let mut parts = head.uri().clone().into_parts();
    parts.scheme = Some(http::uri::Scheme::HTTP);
    parts.authority = Some(authority.unwrap_or_else(|| UriAuthority::from_static("localhost")));
    if parts.path_and_query.is_none() {
        parts.path_and_query = Some(http::uri::PathAndQuery::from_static("/"));
    }
    // With all three it is a URI.
    *head.uri_mut() = Uri::from_parts(parts).unwrap_or_default();
    head.headers_mut().remove(header::HOST);
    *head.version_mut() = Version::HTTP_2;
}

/// The answer, if it is the application's and not the agent's own.
async fn genuine(port: u16, answer: Response<RecvStream>) -> Result<Response<RecvStream>, Failure> {
    let error = answer.headers().get(wire::ERROR).map(HeaderValue::as_bytes);
    match error {
        None if answer.status() != StatusCode::SWITCHING_PROTOCOLS => Ok(answer),
        Some(word) if word == wire::NOT_MAPPED.as_bytes() => Err(Failure::NotMapped(port)),
        _ => {
            let text =
                Limited::new(Incoming::new(answer.into_body(), Held::default()), EXPLANATION).collect().await;
            let text = text.map(|it| String::from_utf8_lossy(&it.to_bytes()).into_owned());
            Err(Failure::Unreachable(text.unwrap_or_else(|_| "it broke off".to_owned())))
        }
    }
}
