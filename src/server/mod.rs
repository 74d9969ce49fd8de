//! What the process answers over HTTP: whether it lives, whether it is ready, what it measures; and the admission webhook.
//!
//! | path | answers |
//! |---|---|
//! | `GET /livez` | 200 while the runtime turns |
//! | `GET /readyz` | 200, or 503 with a line for everything that is still waited for |
//! | `GET /metrics` | `OpenMetrics` text |
//! | `GET /version` | the version, as JSON |
//! | `PUT /log-level` | takes a filter such as `info,capt=debug`; from this machine only |
//!
//! None of it depends on an object, a CRD or the API server. Nothing here knows what a controller does; those who work hold
//! a [`Health`] and [`Metrics`] and tell.

mod health;
mod listen;
pub mod webhook;

use std::{net::SocketAddr, sync::Arc};

pub use health::{Beat, Health};
use http::{Method, Request, StatusCode, header};
use hyper::body::Incoming;
pub use listen::Patience;
use listen::{Answer, Handler, allow, body, text};
use serde_json::json;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::telemetry::{LogLevel, Metrics, metrics};

/// Longest body of a request: a filter is a line.
const LONGEST_BODY: usize = 4 * 1024;

/// The answers about the process itself, on plain HTTP.
#[derive(Clone, Debug)]
pub struct Server {
    /// What it lives by and waits for.
    pub health: Health,
    /// What it measures.
    pub metrics: Metrics,
    /// What it logs, if that can be changed.
    pub log_level: Option<LogLevel>,
    /// Its version.
    pub version: &'static str,
    /// How long it waits for slow callers.
    pub patience: Patience,
}

impl Server {
    /// A server with the usual patience.
    pub fn new(health: Health, metrics: Metrics, version: &'static str) -> Self {
        Self { health, metrics, log_level: None, version, patience: Patience::default() }
    }

    /// Also takes orders about the log.
    #[must_use]
    pub fn with_log_level(mut self, level: LogLevel) -> Self {
        self.log_level = Some(level);
        self
    }

    /// Answers until it is told to stop; running requests may end. Keeps the heart beating meanwhile.
    pub async fn serve(self, listener: TcpListener, stop: CancellationToken) {
        let (patience, heart) = (self.patience, self.health.clone());
        let answering = listen::serve(listener, None, Arc::new(self), (patience, stop.clone()));
        tokio::select! {
            () = answering => {}
            () = heart.keep_beating() => {}
        }
    }

    async fn route(&self, peer: SocketAddr, request: Request<Incoming>) -> Answer {
        let get = matches!(*request.method(), Method::GET | Method::HEAD);
        match request.uri().path() {
            "/livez" | "/readyz" | "/metrics" | "/version" if !get => allow("GET, HEAD"),
            "/livez" => self.live(),
            "/readyz" => self.ready(),
            "/metrics" => self.measured(),
            "/version" => {
                let version = json!({ "version": self.version }).to_string();
                listen::answer(StatusCode::OK, "application/json", format!("{version}\n"))
            }
            "/log-level" if request.method() != Method::PUT => allow("PUT"),
            "/log-level" => self.set_log_level(peer, request).await,
            _ => text(
                StatusCode::NOT_FOUND,
                "there is nothing here; try /livez, /readyz, /metrics or /version",
            ),
        }
    }

    fn live(&self) -> Answer {
        match self.health.pulse() {
            Beat::Fresh => text(StatusCode::OK, "ok"),
            Beat::Stale(age) => {
                let reason = format!("the runtime has not turned for {} s", age.as_secs());
                text(StatusCode::SERVICE_UNAVAILABLE, &reason)
            }
        }
    }

    fn ready(&self) -> Answer {
        let waiting = self.health.waiting();
        if waiting.is_empty() {
            text(StatusCode::OK, "ok")
        } else {
            text(StatusCode::SERVICE_UNAVAILABLE, &waiting.join("\n"))
        }
    }

    fn measured(&self) -> Answer {
        match self.metrics.encode() {
            Ok(page) => listen::answer(StatusCode::OK, metrics::CONTENT_TYPE, page),
            Err(_) => text(StatusCode::INTERNAL_SERVER_ERROR, "the metrics cannot be written"),
        }
    }

    async fn set_log_level(&self, peer: SocketAddr, request: Request<Incoming>) -> Answer {
        if !is_local(peer) {
            return text(StatusCode::FORBIDDEN, "the log level can be changed from this machine only");
        }
        let Some(level) = &self.log_level else {
            return text(StatusCode::NOT_IMPLEMENTED, "the log of this process cannot be changed");
        };
        let bytes = match body(request, LONGEST_BODY, self.patience.body).await {
            Ok(bytes) => bytes,
            Err(refusal) => return refusal,
        };
        match level.set(&String::from_utf8_lossy(&bytes)) {
            Ok(()) => {
                tracing::info!(filter = %String::from_utf8_lossy(&bytes).trim(), "the log level was changed");
                text(StatusCode::OK, "ok")
            }
            Err(error) => text(StatusCode::BAD_REQUEST, &error.to_string()),
        }
    }
}

/// Whether the caller is on this machine, also where an IPv6 socket takes IPv4.
fn is_local(peer: SocketAddr) -> bool {
    peer.ip().to_canonical().is_loopback()
}

impl Handler for Server {
    async fn handle(&self, peer: SocketAddr, request: Request<Incoming>) -> Answer {
        let mut answer = self.route(peer, request).await;
        // Proxies must not remember yesterday's health.
        answer.headers_mut().insert(header::CACHE_CONTROL, header::HeaderValue::from_static("no-store"));
        answer
    }
}

#[cfg(test)]
mod tests;
