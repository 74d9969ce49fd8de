//! The validating admission webhook: checks that CEL cannot express.
//!
//! `POST /validate` takes an `AdmissionReview` of `admission.k8s.io/v1` over HTTPS. It rejects invalid fields, templates that
//! do not parse, placeholders without a variable, and cross-namespace references without a grant. Overlapping Fargate profiles
//! and exceeded quotas are warnings, which kubectl prints.
//!
//! It is a convenience, not a security boundary: the controllers validate again. So it fails open, here and in its
//! registration ([`configuration`]), and never blocks a deletion, a status or finalizer update, or an update that introduces
//! no new problem.

mod configuration;
mod lookup;
mod references;
mod review;
mod reviewed_object;
mod template;
mod validate;

use std::{fmt, net::SocketAddr, sync::Arc, time::Duration};

use capt_kube::certificate::{CertificateError, Certificates};
use capt_model::model::Limits;
pub use configuration::{WEBHOOK_NAME, WebhookTarget, webhook_configuration};
use http::{Method, Request, StatusCode};
use hyper::body::Incoming;
pub use lookup::{Annotations, Lookup, LookupError, LookupFuture, NoLookup};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;

use super::http_server::{
    self, Handler, HttpResponse, HttpTimeouts, method_not_allowed, read_body, text_response,
};

/// Path of the review endpoint.
const REVIEW_PATH: &str = "/validate";
/// Maximum body: two objects of the API server's maximum size, with escaping.
const MAX_BODY_BYTES: usize = 8 * 1024 * 1024;

/// Settings of reviews.
struct ReviewSettings {
    lookup: Arc<dyn Lookup>,
    limits: Limits,
    /// Below the API server's timeout, so that the warning still reaches the user.
    deadline: Duration,
}

/// The webhook. Cheap to clone.
#[derive(Clone)]
pub struct Webhook {
    settings: Arc<ReviewSettings>,
    timeouts: HttpTimeouts,
}

impl fmt::Debug for Webhook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Webhook")
    }
}

impl Webhook {
    /// A webhook with this lookup and these quotas.
    pub fn new(lookup: Arc<dyn Lookup>, limits: Limits) -> Self {
        let settings = ReviewSettings { lookup, limits, deadline: Duration::from_secs(4) };
        Self { settings: Arc::new(settings), timeouts: HttpTimeouts::default() }
    }

    /// Serves HTTPS until `stop` is cancelled. New connections use the current certificate.
    pub async fn serve(
        self,
        listener: TcpListener,
        certificates: &Certificates,
        stop: CancellationToken,
    ) -> Result<(), CertificateError> {
        let tls = TlsAcceptor::from(Arc::new(certificates.server_config()?));
        let patience = self.timeouts;
        http_server::serve(listener, Some(tls), Arc::new(self), (patience, stop)).await;
        Ok(())
    }

    /// Reviews a request body; returns an HTTP status and a JSON review, or an error text.
    pub async fn review(&self, body: &[u8]) -> (StatusCode, Vec<u8>) {
        let answer = match review::review(&self.settings, body).await {
            Ok(answer) => serde_json::to_vec(&answer),
            Err(error) => {
                let source = std::error::Error::source(&error).map(|it| format!(": {it}"));
                let reason = format!("{error}{}\n", source.unwrap_or_default());
                return (StatusCode::BAD_REQUEST, reason.into_bytes());
            }
        };
        // The API server ignores an unreadable response (failurePolicy Ignore).
        answer.map_or_else(
            |_| (StatusCode::INTERNAL_SERVER_ERROR, b"cannot encode the response\n".to_vec()),
            |bytes| (StatusCode::OK, bytes),
        )
    }
}

impl Handler for Webhook {
    async fn handle(&self, _peer: SocketAddr, request: Request<Incoming>) -> HttpResponse {
        if request.uri().path() != REVIEW_PATH {
            return text_response(StatusCode::NOT_FOUND, "not found; reviews go to /validate");
        }
        if request.method() != Method::POST {
            return method_not_allowed("POST");
        }
        let bytes = match read_body(request, MAX_BODY_BYTES, self.timeouts.body).await {
            Ok(bytes) => bytes,
            Err(refusal) => return refusal,
        };
        let (status, bytes) = self.review(&bytes).await;
        let kind = if status == StatusCode::OK { "application/json" } else { "text/plain; charset=utf-8" };
        http_server::response(status, kind, bytes)
    }
}

#[cfg(test)]
mod tests;
