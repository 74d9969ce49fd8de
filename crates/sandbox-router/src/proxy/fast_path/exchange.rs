//! One plain request: to a pod and back.

use std::{fmt::Display, future::poll_fn, io, net::SocketAddr, pin::pin, sync::atomic::Ordering, task::Poll};

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _, Interest},
    net::TcpStream,
    time::Instant,
};

use super::{
    Then,
    buffers::{Buffer, SIZE},
    head::{Plan, line},
    reply::{Reply, Seen, Telling, see},
};
use crate::proxy::{
    answer::{Refusal, Visit},
    forward::Caller,
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
    wait(&pod, caller).await.map_err(Trouble::Cut)?;
    let (mut read, mut out) = (buffers.take(), buffers.take());
    let is_last = plan.is_leaving || shared.retired.load(Ordering::Relaxed);
    let route = shared.settings.show_route.then(|| plan.name());
    let telling = Telling { route, is_head: plan.is_head, is_last };
    let limit = shared.settings.limits.head_bytes;
    let reply = reply((&mut pod, caller), telling, &mut read, &mut out, limit).await?;
    let is_kept = reply.is_kept;
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

/// Waits until a pod says something. An error if the caller is not there any more; one that has said all that it will say, or sends
/// its next request already, is.
async fn wait(pod: &TcpStream, caller: &TcpStream) -> io::Result<()> {
    let mut torn = pin!(caller.ready(Interest::ERROR));
    poll_fn(|cx| match pod.poll_read_ready(cx) {
        Poll::Ready(ready) => Poll::Ready(ready),
        Poll::Pending => torn.as_mut().poll(cx).map(|_| Err(io::ErrorKind::ConnectionAborted.into())),
    })
    .await
}

/// Reads the head of an answer, and writes what the caller gets of it.
async fn reply(
    (pod, caller): (&mut TcpStream, &TcpStream),
    telling: Telling<'_>,
    read: &mut Buffer<'_>,
    out: &mut Buffer<'_>,
    limit: usize,
) -> Result<Reply, Trouble> {
    let refused = |why: &dyn Display| Trouble::Refused(broke_off(why));
    loop {
        match see(read, telling, out).map_err(|strange| refused(&strange))? {
            Seen::Head(reply) => return Ok(reply),
            Seen::Interim(length) => {
                read.drain(..length);
                continue;
            }
            Seen::Part if read.len() >= limit.max(SIZE) => {
                return Err(refused(&"the head of its answer is too long"));
            }
            Seen::Part => {}
        }
        wait(pod, caller).await.map_err(Trouble::Cut)?;
        match pod.read_buf(&mut **read).await {
            Ok(1..) => {}
            Ok(_) => return Err(refused(&"it closed the connection")),
            Err(error) => return Err(refused(&error)),
        }
    }
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
    read.drain(..length);
    loop {
        // What came with the head goes with the head.
        let taken = body.take(read).map_err(io::Error::other)?;
        body.write(&read[..taken], out);
        caller.write_all(out).await?;
        out.clear();
        if body.is_over() {
            return Ok(taken == read.len());
        }
        read.clear();
        wait(pod, caller).await?;
        if pod.read_buf(&mut **read).await? == 0 {
            body.end(out).map_err(io::Error::other)?;
            caller.write_all(out).await?;
            return Ok(false);
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
