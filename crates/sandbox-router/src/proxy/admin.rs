//! Health, metrics and explain endpoints on the admin port.

use std::{
    convert::Infallible,
    net::IpAddr,
    sync::{
        Arc,
        atomic::{AtomicU8, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use http::{HeaderValue, Method, Request, Response, StatusCode, header::CONTENT_TYPE};
use http_body_util::Full;
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use super::{admin_access, explain, metrics, pod_pool::PodPool, worker::ProxyShared};

const STARTING: u8 = 0;
const READY: u8 = 1;
const RETIRED: u8 = 2;

/// State behind the admin endpoints.
pub(super) struct AdminState {
    shared: Arc<ProxyShared>,
    pools: Vec<Arc<PodPool>>,
    state: AtomicU8,
    stop: CancellationToken,
}

impl AdminState {
    pub(super) fn new(shared: Arc<ProxyShared>, pools: Vec<Arc<PodPool>>) -> Self {
        Self { shared, pools, state: AtomicU8::new(STARTING), stop: CancellationToken::new() }
    }

    /// Marks the proxy as ready after the first table.
    pub(super) fn mark_ready(&self) {
        let swapped = self.state.compare_exchange(STARTING, READY, Ordering::SeqCst, Ordering::SeqCst);
        if swapped.is_ok() {
            tracing::info!("first route table applied");
        }
    }

    pub(super) fn mark_retired(&self) {
        self.state.store(RETIRED, Ordering::SeqCst);
    }

    pub(super) fn stop(&self) {
        self.stop.cancel();
    }

    fn connection_count(&self) -> usize {
        self.shared
            .settings
            .limits
            .max_connections
            .saturating_sub(self.shared.connection_slots.available_permits())
    }
}

/// Serves until the proxy stops.
pub(super) async fn serve(listener: TcpListener, health: Arc<AdminState>) {
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = health.stop.cancelled() => return,
        };
        let Ok((stream, peer)) = accepted else {
            tokio::time::sleep(Duration::from_millis(20)).await;
            continue;
        };
        let health = Arc::clone(&health);
        tokio::spawn(async move {
            let answers = service_fn(|request: Request<Incoming>| {
                let health = Arc::clone(&health);
                async move { Ok::<_, Infallible>(authorize_and_handle(&health, peer.ip(), &request).await) }
            });
            let mut builder = http1::Builder::new();
            builder.timer(TokioTimer::new()).header_read_timeout(Duration::from_secs(30));
            tokio::select! {
                served = builder.serve_connection(TokioIo::new(stream), answers) => {
                    if let Err(error) = served {
                        tracing::debug!(%error, "admin connection ended");
                    }
                }
                () = health.stop.cancelled() => {}
            }
        });
    }
}

async fn authorize_and_handle(
    health: &AdminState,
    peer: IpAddr,
    request: &Request<Incoming>,
) -> Response<Full<Bytes>> {
    let authorizer = health.shared.settings.admin_authorizer.as_deref();
    let asked = (request.uri().path(), request.headers());
    match admin_access::check(authorizer, peer, asked).await {
        Ok(()) => handle_request(health, request),
        Err(error) => text_response(error.status(), format!("{error}\n")),
    }
}

fn handle_request(health: &AdminState, request: &Request<Incoming>) -> Response<Full<Bytes>> {
    if ![Method::GET, Method::HEAD].contains(request.method()) {
        return text_response(
            StatusCode::METHOD_NOT_ALLOWED,
            "method not allowed; use GET or HEAD\n".to_owned(),
        );
    }
    let table = health.shared.table.load();
    let query = request.uri().query().unwrap_or_default();
    match request.uri().path() {
        "/livez" | "/healthz" => text_response(StatusCode::OK, "ok\n".to_owned()),
        "/readyz" => match health.state.load(Ordering::SeqCst) {
            READY => text_response(StatusCode::OK, format!("ok\nrevision {}\n", table.revision())),
            RETIRED => text_response(StatusCode::SERVICE_UNAVAILABLE, "stopping\n".to_owned()),
            _ => text_response(StatusCode::SERVICE_UNAVAILABLE, "waiting for: the first table\n".to_owned()),
        },
        "/metrics" => {
            let sizes = health.pools.iter().map(|pool| pool.sizes());
            let sizes = sizes.fold((0, 0), |all, one| (all.0 + one.0, all.1 + one.1));
            let mut all = metrics::render_routes(&table, sizes, health.connection_count());
            all.push_str(&metrics::render_limits(&health.shared));
            all.extend(health.shared.locals.stats().map(|it| metrics::render_tunnel(&it)));
            text_response(StatusCode::OK, all)
        }
        "/debug/routes" => json_response(&explain::routes_json(&table)),
        "/explain" => match explain::explain(&table, query) {
            Ok(decision) => json_response(&decision),
            Err(message) => text_response(StatusCode::BAD_REQUEST, format!("{message}\n")),
        },
        "/api/v1/workloads/routing-rules" => json_response(&explain::rules_json(&table, query)),
        _ => {
            let known = "/livez /readyz /metrics /debug/routes /explain /api/v1/workloads/routing-rules";
            text_response(StatusCode::NOT_FOUND, format!("available endpoints: {known}\n"))
        }
    }
}

fn text_response(status: StatusCode, text: String) -> Response<Full<Bytes>> {
    response_with_type(status, text, "text/plain; version=0.0.4; charset=utf-8")
}

fn json_response(value: &serde_json::Value) -> Response<Full<Bytes>> {
    response_with_type(StatusCode::OK, format!("{value:#}\n"), "application/json")
}

fn response_with_type(status: StatusCode, text: String, kind: &'static str) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(text.into()));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    response
}
