//! An agent knocks: who it is, whether it may, and whether the place is free.

use std::{convert::Infallible, sync::Arc};

use bytes::Bytes;
use http::{HeaderValue, Request, Response, StatusCode, header};
use http_body_util::Full;
use hyper::{body::Incoming, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tracing::info;

use super::{
    super::{Io, hello::Hello, wire},
    Gateway, Grant, Refused,
    session::Visit,
};

type Answer = Response<Full<Bytes>>;

impl Gateway {
    /// Serves one connection of an agent, from its first word to its last.
    pub async fn accept<T: Io>(self: Arc<Self>, io: T, stop: CancellationToken) {
        let patience = self.times.handshake;
        let answer = service_fn(|request| {
            let (gateway, stop) = (Arc::clone(&self), stop.clone());
            async move { Ok::<_, Infallible>(gateway.knock(request, stop).await) }
        });
        let served = hyper::server::conn::http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(patience)
            .keep_alive(false)
            .serve_connection(TokioIo::new(io), answer)
            .with_upgrades();
        if let Err(error) = served.await {
            tracing::debug!(%error, "somebody knocked and was not understood");
        }
    }

    async fn knock(self: Arc<Self>, mut request: Request<Incoming>, stop: CancellationToken) -> Answer {
        if self.retired.is_cancelled() {
            return say(StatusCode::SERVICE_UNAVAILABLE, "this router ends; knock at another one");
        }
        let upgrade = hyper::upgrade::on(&mut request);
        let (parts, _) = request.into_parts();
        let hello = match Hello::read(&parts) {
            Ok(hello) => hello,
            Err(why) => return say(StatusCode::BAD_REQUEST, &why),
        };
        let grant = match self.check(&hello).await {
            Ok(grant) => grant,
            Err(refused) => {
                info!(workload = %hello.workload, %refused, "an agent was refused");
                return say(status(&refused), &refused.to_string());
            }
        };
        let (slot, epoch) = match self.registry.claim(&hello, &grant) {
            Ok(claimed) => claimed,
            Err(why) => return say(StatusCode::CONFLICT, &why),
        };
        info!(workload = %hello.workload, user = %grant.user, epoch, "an agent connects");
        let welcome = welcome(epoch, &grant.user);
        let visit = Visit { gateway: Arc::clone(&self), slot, epoch, user: grant.user, hello, stop };
        self.tasks.spawn(async move {
            match timeout(visit.gateway.times.handshake, upgrade).await {
                Ok(Ok(io)) => Box::pin(visit.run(TokioIo::new(io))).await,
                Ok(Err(_)) | Err(_) => visit.slot.lost(visit.epoch, "it was gone before it was let in"),
            }
        });
        welcome
    }

    async fn check(&self, hello: &Hello) -> Result<Grant, Refused> {
        if hello.token.is_empty() {
            return Err(Refused::Unauthenticated("there is none".to_owned()));
        }
        let asked = self.authority.check(hello.token.clone(), hello.workload.clone());
        timeout(self.times.handshake, asked)
            .await
            .unwrap_or_else(|_| Err(Refused::Unknown("the API server does not answer".to_owned())))
    }
}

fn status(refused: &Refused) -> StatusCode {
    match refused {
        Refused::Unauthenticated(_) => StatusCode::UNAUTHORIZED,
        Refused::Forbidden(_) => StatusCode::FORBIDDEN,
        Refused::Absent => StatusCode::NOT_FOUND,
        Refused::Unknown(_) => StatusCode::SERVICE_UNAVAILABLE,
    }
}

fn say(status: StatusCode, text: &str) -> Answer {
    let mut answer = Response::new(Full::new(Bytes::from(text.to_owned())));
    *answer.status_mut() = status;
    answer
}

fn welcome(epoch: u64, user: &str) -> Answer {
    let mut answer = say(StatusCode::SWITCHING_PROTOCOLS, "");
    let headers = answer.headers_mut();
    headers.insert(header::CONNECTION, HeaderValue::from_static("upgrade"));
    headers.insert(header::UPGRADE, HeaderValue::from_static(wire::UPGRADE));
    headers.insert(wire::EPOCH, epoch.into());
    // A name that cannot be in a header is told by the status of the workload.
    if let Ok(user) = HeaderValue::from_str(user) {
        headers.insert(wire::USER, user);
    }
    answer
}
