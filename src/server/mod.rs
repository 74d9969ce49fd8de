//! HTTP endpoints: liveness, readiness, metrics, version, log level; and the admission webhook.
//!
//! | path | response |
//! |---|---|
//! | `GET /livez` | 200 while the runtime makes progress |
//! | `GET /readyz` | 200, or 503 with one line per pending condition |
//! | `GET /metrics` | `OpenMetrics` text |
//! | `GET /version` | the version as JSON |
//! | `PUT /log-level` | sets the log filter, such as `info,capt=debug`; loopback only |
//!
//! Must not depend on the API server, CRDs or controllers; other modules report through [`Health`] and [`Metrics`].

mod health;
mod http_server;
pub mod webhook;

use std::{net::SocketAddr, sync::Arc};

pub use health::{Health, Heartbeat};
use http::{Method, Request, StatusCode, header};
pub use http_server::HttpTimeouts;
use http_server::{Handler, HttpResponse, method_not_allowed, read_body, text_response};
use hyper::body::Incoming;
use serde_json::json;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::telemetry::{LogLevel, Metrics, metrics};

/// Maximum request body: a filter is one line.
const MAX_BODY_BYTES: usize = 4 * 1024;

/// Serves the status endpoints over plain HTTP.
#[derive(Clone, Debug)]
pub struct StatusServer {
    /// Liveness and readiness.
    pub health: Health,
    /// Metrics to expose.
    pub metrics: Metrics,
    /// Handle of the log filter, if it can be changed.
    pub log_level: Option<LogLevel>,
    /// Version of the process.
    pub version: &'static str,
    /// Connection timeouts.
    pub timeouts: HttpTimeouts,
}

impl StatusServer {
    /// A server with default timeouts.
    pub fn new(health: Health, metrics: Metrics, version: &'static str) -> Self {
        Self { health, metrics, log_level: None, version, timeouts: HttpTimeouts::default() }
    }

    /// Enables `PUT /log-level`.
    #[must_use]
    pub fn with_log_level(mut self, level: LogLevel) -> Self {
        self.log_level = Some(level);
        self
    }

    /// Serves until `stop` is cancelled; requests in flight may finish. Runs the heartbeat meanwhile.
    pub async fn serve(self, listener: TcpListener, stop: CancellationToken) {
        let (patience, heart) = (self.timeouts, self.health.clone());
        let answering = http_server::serve(listener, None, Arc::new(self), (patience, stop.clone()));
        tokio::select! {
            () = answering => {}
            () = heart.run_heartbeat() => {}
        }
    }

    async fn route(&self, peer: SocketAddr, request: Request<Incoming>) -> HttpResponse {
        let get = matches!(*request.method(), Method::GET | Method::HEAD);
        match request.uri().path() {
            "/livez" | "/readyz" | "/metrics" | "/version" if !get => method_not_allowed("GET, HEAD"),
            "/livez" => self.livez(),
            "/readyz" => self.readyz(),
            "/metrics" => self.metrics_page(),
            "/version" => {
                let version = json!({ "version": self.version }).to_string();
                http_server::response(StatusCode::OK, "application/json", format!("{version}\n"))
            }
            "/log-level" if request.method() != Method::PUT => method_not_allowed("PUT"),
            "/log-level" => self.set_log_level(peer, request).await,
            _ => text_response(StatusCode::NOT_FOUND, "not found; try /livez, /readyz, /metrics or /version"),
        }
    }

    fn livez(&self) -> HttpResponse {
        match self.health.heartbeat() {
            Heartbeat::Fresh => text_response(StatusCode::OK, "ok"),
            Heartbeat::Stale(age) => {
                let reason = format!("the runtime has made no progress for {} s", age.as_secs());
                text_response(StatusCode::SERVICE_UNAVAILABLE, &reason)
            }
        }
    }

    fn readyz(&self) -> HttpResponse {
        let waiting = self.health.pending();
        if waiting.is_empty() {
            text_response(StatusCode::OK, "ok")
        } else {
            text_response(StatusCode::SERVICE_UNAVAILABLE, &waiting.join("\n"))
        }
    }

    fn metrics_page(&self) -> HttpResponse {
        match self.metrics.encode() {
            Ok(page) => http_server::response(StatusCode::OK, metrics::CONTENT_TYPE, page),
            Err(_) => text_response(StatusCode::INTERNAL_SERVER_ERROR, "cannot encode the metrics"),
        }
    }

    async fn set_log_level(&self, peer: SocketAddr, request: Request<Incoming>) -> HttpResponse {
        if !is_local(peer) {
            return text_response(
                StatusCode::FORBIDDEN,
                "the log level can only be changed from the local machine",
            );
        }
        let Some(level) = &self.log_level else {
            return text_response(
                StatusCode::NOT_IMPLEMENTED,
                "the log level of this process cannot be changed",
            );
        };
        let bytes = match read_body(request, MAX_BODY_BYTES, self.timeouts.body).await {
            Ok(bytes) => bytes,
            Err(refusal) => return refusal,
        };
        match level.set(&String::from_utf8_lossy(&bytes)) {
            Ok(()) => {
                tracing::info!(filter = %String::from_utf8_lossy(&bytes).trim(), "changed the log level");
                text_response(StatusCode::OK, "ok")
            }
            Err(error) => text_response(StatusCode::BAD_REQUEST, &error.to_string()),
        }
    }
}

/// Whether the peer is a loopback address, including IPv4-mapped IPv6.
fn is_local(peer: SocketAddr) -> bool {
    peer.ip().to_canonical().is_loopback()
}

impl Handler for StatusServer {
    async fn handle(&self, peer: SocketAddr, request: Request<Incoming>) -> HttpResponse {
        let mut answer = self.route(peer, request).await;
        // Proxies must not cache health.
        answer.headers_mut().insert(header::CACHE_CONTROL, header::HeaderValue::from_static("no-store"));
        answer
    }
}

#[cfg(test)]
mod tests;
