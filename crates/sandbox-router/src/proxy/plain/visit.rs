//! One plain request: to a pod and back.

use std::{future::poll_fn, io, net::SocketAddr, sync::atomic::Ordering, task::Poll};

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    time::Instant,
};

use super::{
    Then,
    buffers::{Buffer, SIZE},
    framing::Framing,
    head::{Plan, line},
    reply::{Reply, Seen, Telling, see},
};
use crate::proxy::{
    answer::{Refusal, Visit},
    forward::Caller,
    h1::is_torn,
    upstream::{broke_off, nobody},
};

/// Sends a request to the pods whose turn it is, and the answer to the caller.
pub(super) async fn visit(
    plan: Plan,
    head: Buffer<'_>,
    caller: &mut TcpStream,
    of: &Caller,
    since: Instant,
) -> Then {
    let _counted = Visit::new(plan.route.clone(), plan.kind(), since.into_std(), None);
    let asked = match ask(&plan, &head, of).await {
        Ok(asked) => asked,
        Err(refusal) => return refuse(&refusal, &plan, caller, of).await,
    };
    drop(head);
    match answer(asked, &plan, caller, of).await {
        Ok(then) => then,
        Err(Trouble::Refused(refusal)) => refuse(&refusal, &plan, caller, of).await,
        // The caller has a part of an answer, or nobody is there.
        Err(Trouble::Cut(error)) => {
            tracing::debug!(%error, service = %plan.route.service(), "an answer was cut");
            Then::Close
        }
    }
}

/// Why there is no whole answer.
enum Trouble {
    /// Nothing was said to the caller yet.
    Refused(Refusal),
    Cut(io::Error),
}

/// A pod that has a request.
struct Asked {
    pod: TcpStream,
    to: SocketAddr,
}

async fn ask(plan: &Plan, head: &[u8], of: &Caller) -> Result<Asked, Refusal> {
    let pool = &of.worker.pool;
    let mut last = None;
    for to in plan.backend.turn() {
        // Every idle connection may be dead; a new one is not.
        while let Some(mut pod) = pool.idle_plain(to) {
            match send(&mut pod, head).await {
                Ok(()) => return Ok(Asked { pod, to }),
                Err(Unsent::Nothing(_)) => {}
                Err(Unsent::Part(error)) => return Err(broke_off(&error)),
            }
        }
        // In a box: what is rare takes no room in what every request needs.
        let opened = match Box::pin(pool.dial(to)).await {
            Ok(mut pod) => send(&mut pod, head).await.map(|()| pod),
            Err(error) => Err(Unsent::Nothing(error)),
        };
        match opened {
            Ok(pod) => return Ok(Asked { pod, to }),
            Err(Unsent::Part(error)) => return Err(broke_off(&error)),
            Err(Unsent::Nothing(error)) => {
                tracing::debug!(%to, %error, "a pod did not take a request");
                last = Some(error);
            }
        }
    }
    Err(nobody(last))
}

/// How much of a head was sent when it failed.
enum Unsent {
    Nothing(io::Error),
    Part(io::Error),
}

async fn send(pod: &mut TcpStream, head: &[u8]) -> Result<(), Unsent> {
    let written = match pod.write(head).await {
        Ok(0) => return Err(Unsent::Nothing(io::ErrorKind::WriteZero.into())),
        Ok(written) => written,
        Err(error) => return Err(Unsent::Nothing(error)),
    };
    pod.write_all(&head[written..]).await.map_err(Unsent::Part)
}

/// Brings the answer of a pod to the caller.
async fn answer(asked: Asked, plan: &Plan, caller: &mut TcpStream, of: &Caller) -> Result<Then, Trouble> {
    let Asked { mut pod, to } = asked;
    let (shared, buffers) = (&of.worker.shared, &of.worker.buffers);
    if !first_byte(&pod, caller).await {
        return Err(Trouble::Cut(io::ErrorKind::ConnectionAborted.into()));
    }
    let (mut read, mut out) = (buffers.take(), buffers.take());
    let is_last = plan.is_leaving || shared.retired.load(Ordering::Relaxed);
    let route = shared.settings.show_route.then(|| plan.name());
    let telling = Telling { route, is_head: plan.is_head, is_last };
    let limit = shared.settings.limits.head_bytes;
    let reply = reply(&mut pod, telling, &mut read, &mut out, limit).await.map_err(Trouble::Refused)?;
    let is_kept = reply.is_kept;
    let is_last = is_last || reply.body == Framing::Close;
    let is_clean = relay(reply, &mut pod, caller, &mut read, &mut out).await.map_err(Trouble::Cut)?;
    if is_kept && is_clean {
        of.worker.pool.keep_plain(to, pod);
    }
    if !is_last {
        return Ok(Then::Next);
    }
    caller.shutdown().await.map_err(Trouble::Cut)?;
    Ok(Then::Close)
}

/// Sends the head that was written and the body as it comes. True if the pod said nothing behind it.
async fn relay(
    reply: Reply,
    pod: &mut TcpStream,
    caller: &mut TcpStream,
    read: &mut Buffer<'_>,
    out: &mut Buffer<'_>,
) -> io::Result<bool> {
    let Reply { length, mut body, .. } = reply;
    let taken = body.take(&read[length..]).map_err(io::Error::other)?;
    // What came with the head goes with the head.
    out.extend_from_slice(&read[length..length + taken]);
    caller.write_all(out).await?;
    let mut is_clean = length + taken == read.len();
    while !body.is_over() {
        read.clear();
        match (pod.read_buf(&mut **read).await?, &body) {
            (1.., _) => {}
            (_, Framing::Close) => return Ok(false),
            _ => return Err(io::ErrorKind::UnexpectedEof.into()),
        }
        let taken = body.take(read).map_err(io::Error::other)?;
        caller.write_all(&read[..taken]).await?;
        is_clean = taken == read.len();
    }
    Ok(is_clean)
}

/// Waits until a pod says something. False if the caller is not there any more.
async fn first_byte(pod: &TcpStream, caller: &TcpStream) -> bool {
    let mut is_watched = true;
    poll_fn(|cx| {
        if pod.poll_read_ready(cx).is_ready() {
            return Poll::Ready(true);
        }
        if is_watched && caller.poll_read_ready(cx).is_ready() {
            // Its next request, or it has said all that it will say: it may wait for its answer nonetheless.
            is_watched = false;
            if is_torn(caller) {
                return Poll::Ready(false);
            }
        }
        Poll::Pending
    })
    .await
}

/// Reads the head of an answer, and writes what the caller gets of it.
async fn reply(
    pod: &mut TcpStream,
    telling: Telling<'_>,
    read: &mut Buffer<'_>,
    out: &mut Buffer<'_>,
    limit: usize,
) -> Result<Reply, Refusal> {
    loop {
        match see(read, telling, out).map_err(|strange| broke_off(&strange))? {
            Seen::Head(reply) => return Ok(reply),
            Seen::Interim(length) => {
                read.drain(..length);
                continue;
            }
            Seen::Part if read.len() >= limit.max(SIZE) => {
                return Err(broke_off(&"the head of its answer is too long"));
            }
            Seen::Part => {}
        }
        match pod.read_buf(&mut **read).await {
            Ok(1..) => {}
            Ok(_) => return Err(broke_off(&"it closed the connection")),
            Err(error) => return Err(broke_off(&error)),
        }
    }
}

/// The router answers itself.
async fn refuse(refusal: &Refusal, plan: &Plan, caller: &mut TcpStream, of: &Caller) -> Then {
    let shared = &of.worker.shared;
    let is_last = plan.is_leaving || shared.retired.load(Ordering::Relaxed);
    let mut out = of.worker.buffers.take();
    let body = format!("{}\n", refusal.message);
    let reason = refusal.status.canonical_reason().unwrap_or_default();
    out.extend_from_slice(format!("HTTP/1.1 {} {reason}\r\n", refusal.status.as_str()).as_bytes());
    line(&mut out, "content-type", b"text/plain; charset=utf-8");
    line(&mut out, "content-length", body.len().to_string().as_bytes());
    line(&mut out, "x-sandbox-error", refusal.error.as_bytes());
    if refusal.again {
        line(&mut out, "retry-after", b"1");
    }
    if shared.settings.show_route {
        line(&mut out, "x-sandbox-route", plan.name().as_bytes());
    }
    if is_last {
        line(&mut out, "connection", b"close");
    }
    out.extend_from_slice(b"\r\n");
    if !plan.is_head {
        out.extend_from_slice(body.as_bytes());
    }
    let said = caller.write_all(&out).await;
    if said.is_ok() && !is_last { Then::Next } else { Then::Close }
}
