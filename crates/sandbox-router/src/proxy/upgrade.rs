//! Upgrades (WebSocket and others): two ends agree on something of their own, and the router copies bytes.

use std::sync::Arc;

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::{io::AsyncWriteExt, task::JoinHandle};

use super::{
    answer::{Answer, Refusal},
    dial::Dial,
    forward::{Caller, Trouble},
    headers::strip_hop_by_hop,
    io::Io,
    upstream::broken,
};
use crate::{body::Body, locals::Duplex, table::Backend};

/// The other end, once it has said all that is HTTP.
pub(super) type Joint = JoinHandle<hyper::Result<(Box<dyn Duplex>, Bytes)>>;

/// Asks the pods for an upgrade, on a connection of its own.
pub(super) async fn to_pods(
    caller: &Arc<Caller>,
    backend: &Backend,
    request: Request<Body>,
) -> Result<Response<Answer>, Trouble> {
    let mut last = None;
    for to in backend.turn() {
        match Dial::of(&caller.worker.shared.settings).pod(to).await {
            Ok(stream) => return ask(caller, Box::new(stream), request).await,
            Err(error) => last = Some(error),
        }
    }
    let why = last.map_or_else(|| "there is none".to_owned(), |error| error.to_string());
    Err(Refusal::unavailable("unreachable", format!("no pod takes connections: {why}")).into())
}

/// Asks for an upgrade on a connection that is new.
pub(super) async fn ask(
    caller: &Arc<Caller>,
    stream: Box<dyn Duplex>,
    request: Request<Body>,
) -> Result<Response<Answer>, Trouble> {
    let handshake = http1::handshake::<_, Body>(TokioIo::new(stream)).await;
    let (mut sender, connection) = handshake.map_err(|error| broken(&error))?;
    // Without the shutdown it gives the connection back after a switch.
    let rest = tokio::spawn(async move {
        let parts = connection.without_shutdown().await?;
        Ok((parts.io.into_inner(), parts.read_buf))
    });
    let mut response = sender.send_request(request).await.map_err(|error| broken(&error))?;
    if response.status() == StatusCode::SWITCHING_PROTOCOLS {
        *caller.joint.lock() = Some(rest);
    } else {
        strip_hop_by_hop(response.headers_mut(), false);
    }
    Ok(response.map(|incoming| Answer::pod(incoming, None)))
}

/// Copies until both ends are done. Each one may finish before the other.
pub(super) async fn copy(mut caller: Io, joint: Joint) {
    let (mut other, early) = match joint.await {
        Ok(Ok(other)) => other,
        Ok(Err(error)) => return tracing::debug!(%error, "an upgrade ended at the other end"),
        Err(error) => return tracing::warn!(%error, "an upgrade was lost"),
    };
    // What the other end said right behind its answer.
    if let Err(error) = caller.write_all(&early).await {
        return tracing::debug!(%error, "a caller went away during an upgrade");
    }
    if let Err(error) = tokio::io::copy_bidirectional(&mut caller, &mut other).await {
        tracing::debug!(%error, "an upgraded connection ended");
    }
}
