//! Connections that speak HTTP/2: gRPC, and everything else that knows in advance.

use std::{pin::pin, sync::Arc};

use bytes::Bytes;
use http::Request;
use hyper::{body::Incoming, server::conn::http2, service::service_fn};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::TcpStream;

use super::{
    forward::{Caller, forward},
    io::Io,
};

/// Serves a connection until it ends.
pub(super) async fn serve(first: Bytes, stream: TcpStream, caller: Caller) {
    let caller = Arc::new(caller);
    let limits = &caller.worker.shared.settings.limits;
    let mut builder = http2::Builder::new(TokioExecutor::new());
    builder
        .auto_date_header(false)
        .max_concurrent_streams(1000)
        .max_header_list_size(u32::try_from(limits.head_bytes).unwrap_or(u32::MAX))
        .initial_stream_window_size(256 * 1024)
        .initial_connection_window_size(1024 * 1024);
    let answer = {
        let caller = Arc::clone(&caller);
        service_fn(move |request: Request<Incoming>| forward(Arc::clone(&caller), request))
    };
    let mut connection = pin!(builder.serve_connection(TokioIo::new(Io::new(first, stream)), answer));
    let mut leave = pin!(caller.worker.shared.leave.cancelled());
    let mut is_leaving = false;
    loop {
        tokio::select! {
            biased;
            done = connection.as_mut() => {
                if let Err(error) = done {
                    tracing::debug!(%error, "a caller's connection ended");
                }
                return;
            }
            () = leave.as_mut(), if !is_leaving => {
                is_leaving = true;
                connection.as_mut().graceful_shutdown();
            }
        }
    }
}
