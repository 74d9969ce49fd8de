//! The validating admission webhook: what CEL cannot see, said before an object is stored.
//!
//! `POST /validate` takes an `AdmissionReview` of `admission.k8s.io/v1` over HTTPS. Refused is what can never work: a field
//! that the validators of the command line refuse, a template that does not parse, a placeholder that no variable fills, a
//! reference into another namespace that is not granted. Profiles that want the same pods, and more of them than the quotas
//! allow, are warnings, which kubectl prints.
//!
//! It is a convenience and not a guard: the controllers look again. So it fails open, in here and in what the API server is
//! told ([`configuration`]), and it never stands in the way of a deletion, a status, a finalizer, or an object that is no
//! worse than it was.

mod check;
mod configuration;
mod lookup;
mod references;
mod review;
mod subject;
mod template;

use std::{fmt, net::SocketAddr, sync::Arc, time::Duration};

pub use configuration::{NAME, Target, configuration};
use http::{Method, Request, StatusCode};
use hyper::body::Incoming;
pub use lookup::{Annotations, Blind, Found, Lookup, LookupError};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;

use super::listen::{self, Answer, Handler, Patience, allow, body, text};
use crate::{
    certificate::{CertificateError, Certificates},
    model::Limits,
};

/// The path of reviews.
const PATH: &str = "/validate";
/// Longest body: two objects as large as the API server takes them, and room for quotes.
const LONGEST_BODY: usize = 8 * 1024 * 1024;

/// What a review goes by.
struct Settings {
    lookup: Arc<dyn Lookup>,
    limits: Limits,
    /// Less than what the API server waits: an answer that comes too late warns nobody.
    deadline: Duration,
}

/// The webhook. Cheap to clone.
#[derive(Clone)]
pub struct Webhook {
    settings: Arc<Settings>,
    patience: Patience,
}

impl fmt::Debug for Webhook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Webhook")
    }
}

impl Webhook {
    /// A webhook that asks this one about other objects, and warns beyond these quotas.
    pub fn new(lookup: Arc<dyn Lookup>, limits: Limits) -> Self {
        let settings = Settings { lookup, limits, deadline: Duration::from_secs(4) };
        Self { settings: Arc::new(settings), patience: Patience::default() }
    }

    /// Answers over HTTPS until it is told to stop. Its certificate is the one that is current when a caller connects.
    pub async fn serve(
        self,
        listener: TcpListener,
        certificates: &Certificates,
        stop: CancellationToken,
    ) -> Result<(), CertificateError> {
        let tls = TlsAcceptor::from(Arc::new(certificates.server_config()?));
        let patience = self.patience;
        listen::serve(listener, Some(tls), Arc::new(self), (patience, stop)).await;
        Ok(())
    }

    /// The answer to the body of a review: a status and JSON, or a status and a sentence for a body that is no review.
    pub async fn review(&self, body: &[u8]) -> (StatusCode, Vec<u8>) {
        let answer = match review::review(&self.settings, body).await {
            Ok(answer) => serde_json::to_vec(&answer),
            Err(error) => {
                let source = std::error::Error::source(&error).map(|it| format!(": {it}"));
                let reason = format!("{error}{}\n", source.unwrap_or_default());
                return (StatusCode::BAD_REQUEST, reason.into_bytes());
            }
        };
        // An answer that the API server cannot read is one that it ignores.
        answer.map_or_else(
            |_| (StatusCode::INTERNAL_SERVER_ERROR, b"the answer cannot be written\n".to_vec()),
            |bytes| (StatusCode::OK, bytes),
        )
    }
}

impl Handler for Webhook {
    async fn handle(&self, _peer: SocketAddr, request: Request<Incoming>) -> Answer {
        if request.uri().path() != PATH {
            return text(StatusCode::NOT_FOUND, "there is nothing here; reviews go to /validate");
        }
        if request.method() != Method::POST {
            return allow("POST");
        }
        let bytes = match body(request, LONGEST_BODY, self.patience.body).await {
            Ok(bytes) => bytes,
            Err(refusal) => return refusal,
        };
        let (status, bytes) = self.review(&bytes).await;
        let kind = if status == StatusCode::OK { "application/json" } else { "text/plain; charset=utf-8" };
        listen::answer(status, kind, bytes)
    }
}

#[cfg(test)]
mod tests;
