//! One fast-path exchange with a pod.

use std::{fmt::Display, future::poll_fn, io, net::SocketAddr, pin::pin, sync::atomic::Ordering, task::Poll};

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _, Interest},
    net::TcpStream,
    time::Instant,
};

use super::{
    NextStep,
    buffers::{BUFFER_SIZE, PooledBuffer},
    request_head::{FastPathPlan, write_header_line},
    response_head::{ParsedHead, ResponseHead, ResponsePolicy, parse_and_rewrite},
};
use crate::proxy::{
    forward::Caller,
    response::{ErrorResponse, RequestGuard},
    upstream::{bad_gateway, no_pod_response},
    write_progress::{self, WriteBudget},
};

/// Sends a request to the next pods in rotation, and the response to the caller.
pub(super) async fn exchange(
    plan: FastPathPlan,
    head: PooledBuffer<'_>,
    caller: &mut TcpStream,
    of: &Caller,
    since: Instant,
) -> NextStep {
    let _counted = RequestGuard::new(plan.route.clone(), plan.kind(), since.into_std(), None);
    let asked = match send_to_backend(&plan, &head, of).await {
        Ok(asked) => asked,
        Err(refusal) => return write_error(&refusal, &plan, caller, of).await,
    };
    drop(head);
    match relay_response(asked, &plan, caller, of).await {
        Ok(then) => then,
        Err(ExchangeError::Respond(refusal)) => write_error(&refusal, &plan, caller, of).await,
        // The caller has a partial response or is gone.
        Err(ExchangeError::Aborted(error)) => {
            tracing::debug!(%error, service = %plan.route.service(), "response aborted");
            NextStep::Close
        }
    }
}

/// There is no complete response.
enum ExchangeError {
    /// Nothing was sent to the caller yet.
    Respond(ErrorResponse),
    Aborted(io::Error),
}

/// A pod that has received the request.
struct PendingResponse {
    pod: TcpStream,
    to: SocketAddr,
}

async fn send_to_backend(
    plan: &FastPathPlan,
    head: &[u8],
    of: &Caller,
) -> Result<PendingResponse, ErrorResponse> {
    let pool = &of.worker.pool;
    let mut last = None;
    for to in plan.backend.rotation() {
        // Every idle connection may be dead; a new one is not.
        while let Some(mut pod) = pool.take_idle_raw(to) {
            match send_head(&mut pod, head).await {
                Ok(()) => return Ok(PendingResponse { pod, to }),
                Err(SendError::NothingSent(_)) => {}
                Err(SendError::PartlySent(error)) => return Err(bad_gateway(&error)),
            }
        }
        // Boxed: rare cases must not enlarge the future of every request.
        let opened = match Box::pin(pool.connect(to)).await {
            Ok(mut pod) => send_head(&mut pod, head).await.map(|()| pod),
            Err(error) => Err(SendError::NothingSent(error)),
        };
        match opened {
            Ok(pod) => return Ok(PendingResponse { pod, to }),
            Err(SendError::PartlySent(error)) => return Err(bad_gateway(&error)),
            Err(SendError::NothingSent(error)) => {
                tracing::debug!(%to, %error, "sending a request to a pod failed");
                last = Some(error);
            }
        }
    }
    Err(no_pod_response(last))
}

/// How much of a head was sent when sending failed.
enum SendError {
    NothingSent(io::Error),
    PartlySent(io::Error),
}

async fn send_head(pod: &mut TcpStream, head: &[u8]) -> Result<(), SendError> {
    let written = match pod.write(head).await {
        Ok(0) => return Err(SendError::NothingSent(io::ErrorKind::WriteZero.into())),
        Ok(written) => written,
        Err(error) => return Err(SendError::NothingSent(error)),
    };
    pod.write_all(&head[written..]).await.map_err(SendError::PartlySent)
}

/// Relays the response of a pod to the caller.
async fn relay_response(
    asked: PendingResponse,
    plan: &FastPathPlan,
    caller: &mut TcpStream,
    of: &Caller,
) -> Result<NextStep, ExchangeError> {
    let PendingResponse { mut pod, to } = asked;
    let (shared, buffers) = (&of.worker.shared, &of.worker.buffers);
    wait_readable(&pod, caller).await.map_err(ExchangeError::Aborted)?;
    let (mut read, mut out) = (buffers.take(), buffers.take());
    let is_last = plan.is_draining || shared.retired.load(Ordering::Relaxed);
    let route = shared.settings.show_route.then(|| plan.name());
    let telling = ResponsePolicy { route, is_head_request: plan.is_head_request, closes_connection: is_last };
    let limit = shared.settings.limits.max_head_bytes;
    let reply = read_response_head((&mut pod, caller), telling, &mut read, &mut out, limit).await?;
    let is_kept = reply.is_reusable;
    let is_clean = relay_body(reply, (&mut pod, caller), &mut read, &mut out, &shared.writes)
        .await
        .map_err(ExchangeError::Aborted)?;
    if is_kept && is_clean {
        of.worker.pool.return_raw(to, pod);
    }
    if !is_last {
        return Ok(NextStep::KeepOpen);
    }
    caller.shutdown().await.map_err(ExchangeError::Aborted)?;
    Ok(NextStep::Close)
}

/// Waits until the pod sends data. Fails if the caller has reset the connection; a half-closed or pipelining caller is
/// still there.
async fn wait_readable(pod: &TcpStream, caller: &TcpStream) -> io::Result<()> {
    let mut torn = pin!(caller.ready(Interest::ERROR));
    poll_fn(|cx| match pod.poll_read_ready(cx) {
        Poll::Ready(ready) => Poll::Ready(ready),
        Poll::Pending => torn.as_mut().poll(cx).map(|_| Err(io::ErrorKind::ConnectionAborted.into())),
    })
    .await
}

/// Reads the response head and writes the head for the caller.
async fn read_response_head(
    (pod, caller): (&mut TcpStream, &TcpStream),
    telling: ResponsePolicy<'_>,
    read: &mut PooledBuffer<'_>,
    out: &mut PooledBuffer<'_>,
    limit: usize,
) -> Result<ResponseHead, ExchangeError> {
    let refused = |why: &dyn Display| ExchangeError::Respond(bad_gateway(why));
    loop {
        match parse_and_rewrite(read, telling, out).map_err(|strange| refused(&strange))? {
            ParsedHead::Final(reply) => return Ok(reply),
            ParsedHead::Interim(length) => {
                read.drain(..length);
                continue;
            }
            ParsedHead::Incomplete if read.len() >= limit.max(BUFFER_SIZE) => {
                return Err(refused(&"the response head is too long"));
            }
            ParsedHead::Incomplete => {}
        }
        wait_readable(pod, caller).await.map_err(ExchangeError::Aborted)?;
        match pod.read_buf(&mut **read).await {
            Ok(1..) => {}
            Ok(_) => return Err(refused(&"it closed the connection without a response")),
            Err(error) => return Err(refused(&error)),
        }
    }
}

/// Sends the written head and the body as it arrives. Returns whether the pod sent nothing after the body.
async fn relay_body(
    reply: ResponseHead,
    (pod, caller): (&mut TcpStream, &mut TcpStream),
    read: &mut PooledBuffer<'_>,
    out: &mut PooledBuffer<'_>,
    budget: &WriteBudget,
) -> io::Result<bool> {
    let ResponseHead { head_len: length, mut body, .. } = reply;
    read.drain(..length);
    loop {
        // Body bytes that arrived with the head are sent with it.
        let taken = body.consume(read).map_err(io::Error::other)?;
        body.encode(&read[..taken], out);
        write_progress::write_all(caller, out, budget).await?;
        out.clear();
        if body.is_complete() {
            return Ok(taken == read.len());
        }
        read.clear();
        wait_readable(pod, caller).await?;
        if pod.read_buf(&mut **read).await? == 0 {
            body.finish(out).map_err(io::Error::other)?;
            write_progress::write_all(caller, out, budget).await?;
            return Ok(false);
        }
    }
}

/// Sends an error response of the router.
async fn write_error(
    refusal: &ErrorResponse,
    plan: &FastPathPlan,
    caller: &mut TcpStream,
    of: &Caller,
) -> NextStep {
    let shared = &of.worker.shared;
    let is_last = plan.is_draining || shared.retired.load(Ordering::Relaxed);
    let mut out = of.worker.buffers.take();
    let body = format!("{}\n", refusal.message);
    let reason = refusal.status.canonical_reason().unwrap_or_default();
    out.extend_from_slice(format!("HTTP/1.1 {} {reason}\r\n", refusal.status.as_str()).as_bytes());
    write_header_line(&mut out, "content-type", b"text/plain; charset=utf-8");
    write_header_line(&mut out, "content-length", body.len().to_string().as_bytes());
    write_header_line(&mut out, "x-sandbox-error", refusal.error.as_bytes());
    if refusal.is_retryable {
        write_header_line(&mut out, "retry-after", b"1");
    }
    if shared.settings.show_route {
        write_header_line(&mut out, "x-sandbox-route", plan.name().as_bytes());
    }
    if is_last {
        write_header_line(&mut out, "connection", b"close");
    }
    out.extend_from_slice(b"\r\n");
    if !plan.is_head_request {
        out.extend_from_slice(body.as_bytes());
    }
    let said = write_progress::write_all(caller, &out, &shared.writes).await;
    if said.is_ok() && !is_last { NextStep::KeepOpen } else { NextStep::Close }
}
