//! Protocol upgrades (WebSocket and others): after the handshake the router copies bytes.

use std::sync::Arc;

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::{io::AsyncWriteExt, task::JoinHandle};

use super::{
    caller_io::CallerIo,
    forward::{Caller, ForwardError},
    headers::strip_hop_by_hop,
    pod_dialer::PodDialer,
    response::{ErrorResponse, ResponseBody},
    upstream::bad_gateway_from,
};
use crate::{local_transport::Duplex, request_body::RequestBody, table::Backend};

/// The upstream side of an upgrade, available after its HTTP part.
pub(super) type UpgradedUpstream = JoinHandle<hyper::Result<(Box<dyn Duplex>, Bytes)>>;

/// Requests an upgrade from a pod, on a dedicated connection.
pub(super) async fn upgrade_to_pods(
    caller: &Arc<Caller>,
    backend: &Backend,
    request: Request<RequestBody>,
) -> Result<Response<ResponseBody>, ForwardError> {
    let mut last = None;
    for to in backend.rotation() {
        match PodDialer::from_settings(&caller.worker.shared.settings).connect(to).await {
            Ok(stream) => return request_upgrade(caller, Box::new(stream), request).await,
            Err(error) => last = Some(error),
        }
    }
    let why = last.map_or_else(|| "it has no endpoints".to_owned(), |error| error.to_string());
    Err(ErrorResponse::unavailable("unreachable", format!("no pod accepts connections: {why}")).into())
}

/// Requests an upgrade on a new connection.
pub(super) async fn request_upgrade(
    caller: &Arc<Caller>,
    stream: Box<dyn Duplex>,
    request: Request<RequestBody>,
) -> Result<Response<ResponseBody>, ForwardError> {
    let handshake = http1::handshake::<_, RequestBody>(TokioIo::new(stream)).await;
    let (mut sender, connection) = handshake.map_err(|error| bad_gateway_from(&error))?;
    // `without_shutdown` returns the stream after the switch.
    let rest = tokio::spawn(async move {
        let parts = connection.without_shutdown().await?;
        Ok((parts.io.into_inner(), parts.read_buf))
    });
    let mut response = sender.send_request(request).await.map_err(|error| bad_gateway_from(&error))?;
    if response.status() == StatusCode::SWITCHING_PROTOCOLS {
        *caller.upgraded.lock() = Some(rest);
    } else {
        strip_hop_by_hop(response.headers_mut(), false);
    }
    Ok(response.map(|incoming| ResponseBody::from_pod(incoming, None)))
}

/// Copies until both sides are done. Each may finish before the other.
pub(super) async fn copy_upgraded(mut caller: CallerIo, joint: UpgradedUpstream) {
    let (mut other, early) = match joint.await {
        Ok(Ok(other)) => other,
        Ok(Err(error)) => return tracing::debug!(%error, "upstream side of an upgrade failed"),
        Err(error) => return tracing::warn!(%error, "upgrade task failed"),
    };
    // Bytes that the upstream sent right after its response.
    if let Err(error) = caller.write_all(&early).await {
        return tracing::debug!(%error, "caller disconnected during an upgrade");
    }
    if let Err(error) = tokio::io::copy_bidirectional(&mut caller, &mut other).await {
        tracing::debug!(%error, "upgraded connection ended");
    }
}
