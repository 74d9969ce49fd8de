//! Handshake with an agent: authentication, authorization and admission.

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
    super::{TunnelIo, hello::AgentHello, wire},
    AuthorizeError, Gateway, SessionGrant,
    session::SessionTask,
};

type HandshakeResponse = Response<Full<Bytes>>;

impl Gateway {
    /// Serves one connection of an agent from its handshake to its end.
    pub async fn accept<T: TunnelIo>(self: Arc<Self>, io: T, stop: CancellationToken) {
        let patience = self.timeouts.handshake_timeout;
        let answer = service_fn(|request| {
            let (gateway, stop) = (Arc::clone(&self), stop.clone());
            async move { Ok::<_, Infallible>(gateway.handshake(request, stop).await) }
        });
        let served = hyper::server::conn::http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(patience)
            .keep_alive(false)
            .serve_connection(TokioIo::new(io), answer)
            .with_upgrades();
        if let Err(error) = served.await {
            tracing::debug!(%error, "tunnel handshake failed");
        }
    }

    async fn handshake(
        self: Arc<Self>,
        mut request: Request<Incoming>,
        stop: CancellationToken,
    ) -> HandshakeResponse {
        if self.retired.is_cancelled() {
            return text_response(
                StatusCode::SERVICE_UNAVAILABLE,
                "this router is shutting down; connect to another one",
            );
        }
        let upgrade = hyper::upgrade::on(&mut request);
        let (parts, _) = request.into_parts();
        let hello = match AgentHello::parse(&parts) {
            Ok(hello) => hello,
            Err(why) => return text_response(StatusCode::BAD_REQUEST, &why),
        };
        let grant = match self.authorize(&hello).await {
            Ok(grant) => grant,
            Err(refused) => {
                info!(workload = %hello.workload, %refused, "agent refused");
                return text_response(status_code(&refused), &refused.to_string());
            }
        };
        let (slot, epoch) = match self.registry.claim(&hello, &grant) {
            Ok(claimed) => claimed,
            Err(why) => return text_response(StatusCode::CONFLICT, &why),
        };
        info!(workload = %hello.workload, user = %grant.user, epoch, "agent connecting");
        let welcome = upgrade_response(epoch, &grant.user);
        let visit = SessionTask { gateway: Arc::clone(&self), slot, epoch, user: grant.user, hello, stop };
        self.tasks.spawn(async move {
            match timeout(visit.gateway.timeouts.handshake_timeout, upgrade).await {
                Ok(Ok(io)) => Box::pin(visit.run(TokioIo::new(io))).await,
                Ok(Err(_)) | Err(_) => {
                    visit.slot.connection_lost(visit.epoch, "the agent disconnected during the handshake");
                }
            }
        });
        welcome
    }

    async fn authorize(&self, hello: &AgentHello) -> Result<SessionGrant, AuthorizeError> {
        if hello.token.is_empty() {
            return Err(AuthorizeError::Unauthenticated("missing".to_owned()));
        }
        let asked = self.authorizer.authorize(hello.token.clone(), hello.workload.clone());
        timeout(self.timeouts.handshake_timeout, asked).await.unwrap_or_else(|_| {
            Err(AuthorizeError::Unavailable("the API server does not respond".to_owned()))
        })
    }
}

fn status_code(refused: &AuthorizeError) -> StatusCode {
    match refused {
        AuthorizeError::Unauthenticated(_) => StatusCode::UNAUTHORIZED,
        AuthorizeError::Forbidden(_) => StatusCode::FORBIDDEN,
        AuthorizeError::NotFound => StatusCode::NOT_FOUND,
        AuthorizeError::Unavailable(_) => StatusCode::SERVICE_UNAVAILABLE,
    }
}

fn text_response(status: StatusCode, text: &str) -> HandshakeResponse {
    let mut answer = Response::new(Full::new(Bytes::from(text.to_owned())));
    *answer.status_mut() = status;
    answer
}

fn upgrade_response(epoch: u64, user: &str) -> HandshakeResponse {
    let mut answer = text_response(StatusCode::SWITCHING_PROTOCOLS, "");
    let headers = answer.headers_mut();
    headers.insert(header::CONNECTION, HeaderValue::from_static("upgrade"));
    headers.insert(header::UPGRADE, HeaderValue::from_static(wire::UPGRADE));
    headers.insert(wire::EPOCH, epoch.into());
    // A user name that is not a valid header value is only in the status of the workload.
    if let Ok(user) = HeaderValue::from_str(user) {
        headers.insert(wire::USER, user);
    }
    answer
}
