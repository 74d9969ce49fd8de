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
        TunnelStream, WorkloadName,
        body::{self, StreamGuard, TunnelBody},
        wire,
    },
    Gateway, TunnelError,
    session::Session,
};
use crate::{h2_body::BodySender, local_transport::BoxError};

/// How much of an agent's error message is read.
const MAX_ERROR_BYTES: usize = 4096;

impl Gateway {
    /// Sends a request to a port of a workload. `Ok` is a response of the application; everything else is a
    /// [`TunnelError`].
    ///
    /// Dropping the future or the response body cancels the request, up to the application.
    pub async fn request<B>(
        &self,
        workload: &WorkloadName,
        port: u16,
        request: Request<B>,
    ) -> Result<Response<TunnelBody>, TunnelError>
    where
        B: Body<Data = Bytes> + Send + 'static,
        B::Error: Into<BoxError> + Send,
    {
        self.reserve_stream(workload).await?.request(port, request).await
    }

    /// Opens a byte stream to a port of a workload: for `tcp` ports and upgrades.
    pub async fn connect(&self, workload: &WorkloadName, port: u16) -> Result<TunnelStream, TunnelError> {
        self.reserve_stream(workload).await?.connect(port).await
    }

    /// Reserves a stream on the current session. Retries with the next session if it is broken and nothing was sent.
    pub(super) async fn reserve_stream(
        &self,
        workload: &WorkloadName,
    ) -> Result<ReservedStream, TunnelError> {
        let slot = self.registry.slot(workload).ok_or(TunnelError::Disconnected)?;
        let mut spent = None;
        loop {
            let session = slot.wait_for_session(self.timeouts.session_wait, spent.as_ref()).await?;
            let room = Arc::clone(&session.request_slots).acquire_owned();
            let Ok(Ok(place)) = timeout(self.timeouts.session_wait, room).await else {
                return Err(TunnelError::Busy);
            };
            match session.send.clone().ready().await {
                Ok(send) => return Ok(ReservedStream { session, send, place }),
                Err(_broken) => spent = Some(session),
            }
        }
    }
}

/// A session with a reserved stream.
pub(super) struct ReservedStream {
    session: Arc<Session>,
    send: SendRequest<Bytes>,
    place: OwnedSemaphorePermit,
}

impl ReservedStream {
    pub(super) async fn request<B>(
        mut self,
        port: u16,
        request: Request<B>,
    ) -> Result<Response<TunnelBody>, TunnelError>
    where
        B: Body<Data = Bytes> + Send + 'static,
        B::Error: Into<BoxError> + Send,
    {
        let (parts, content) = request.into_parts();
        let mut head = Request::from_parts(parts, ());
        set_absolute_uri(&mut head);
        body::strip_hop_by_hop(head.headers_mut());
        head.headers_mut().insert(wire::PORT, port.into());
        let is_empty = content.is_end_stream();
        let (answer, to) = self.send.send_request(head, is_empty).map_err(|_| TunnelError::Lost)?;
        let pump = (!is_empty).then(|| {
            // Errors show in the response.
            let pump = BodySender::new(Box::pin(content), to);
            tokio::spawn(async move { drop(pump.await) }).abort_handle()
        });
        let kept = self.into_guard(pump);
        let answer = check_agent_error(port, answer.await.map_err(|_| TunnelError::Lost)?).await?;
        Ok(answer.map(|recv| TunnelBody::new(recv, kept)))
    }

    async fn connect(mut self, port: u16) -> Result<TunnelStream, TunnelError> {
        let mut request = Request::new(());
        *request.method_mut() = Method::CONNECT;
        *request.version_mut() = Version::HTTP_2;
        *request.uri_mut() = Uri::from(UriAuthority::from_static("local"));
        request.headers_mut().insert(wire::PORT, port.into());
        let (answer, to) = self.send.send_request(request, false).map_err(|_| TunnelError::Lost)?;
        let held = self.into_guard(None);
        let answer = check_agent_error(port, answer.await.map_err(|_| TunnelError::Lost)?).await?;
        Ok(TunnelStream::new(to, answer.into_body(), held))
    }

    /// Guard for the response, which holds the slot until it ends.
    fn into_guard(self, pump: Option<AbortHandle>) -> StreamGuard {
        StreamGuard {
            sender_task: pump,
            _request_slot: Some((Arc::clone(&self.session.request_counter), self.place)),
        }
    }
}

/// HTTP/2 needs scheme and authority; HTTP/1.1 has the latter in a header.
fn set_absolute_uri(head: &mut Request<()>) {
    let from_header = || head.headers().get(header::HOST)?.to_str().ok()?.parse::<UriAuthority>().ok();
    let authority = head.uri().authority().cloned().or_else(from_header);
    let mut parts = head.uri().clone().into_parts();
    parts.scheme = Some(http::uri::Scheme::HTTP);
    parts.authority = Some(authority.unwrap_or_else(|| UriAuthority::from_static("localhost")));
    if parts.path_and_query.is_none() {
        parts.path_and_query = Some(http::uri::PathAndQuery::from_static("/"));
    }
    // Cannot fail with all three parts.
    *head.uri_mut() = Uri::from_parts(parts).unwrap_or_default();
    head.headers_mut().remove(header::HOST);
    *head.version_mut() = Version::HTTP_2;
}

/// Returns the response if it comes from the application and not from the agent itself.
async fn check_agent_error(
    port: u16,
    answer: Response<RecvStream>,
) -> Result<Response<RecvStream>, TunnelError> {
    let error = answer.headers().get(wire::ERROR).map(HeaderValue::as_bytes);
    match error {
        None if answer.status() != StatusCode::SWITCHING_PROTOCOLS => Ok(answer),
        Some(word) if word == wire::NOT_MAPPED.as_bytes() => Err(TunnelError::NotMapped(port)),
        _ => {
            let text =
                Limited::new(TunnelBody::new(answer.into_body(), StreamGuard::default()), MAX_ERROR_BYTES)
                    .collect()
                    .await;
            let text = text.map(|it| String::from_utf8_lossy(&it.to_bytes()).into_owned());
            Err(TunnelError::Unreachable(text.unwrap_or_else(|_| "the response ended early".to_owned())))
        }
    }
}
