//! Health, metrics and explanations, on a port of their own.

use std::{
    convert::Infallible,
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

use super::{explain, metrics, pool::Pool, worker::Shared};

const STARTING: u8 = 0;
const READY: u8 = 1;
const RETIRED: u8 = 2;

/// What is known about the proxy as a whole.
pub(super) struct Health {
    shared: Arc<Shared>,
    pools: Vec<Arc<Pool>>,
    state: AtomicU8,
    stop: CancellationToken,
}

impl Health {
    pub(super) fn new(shared: Arc<Shared>, pools: Vec<Arc<Pool>>) -> Self {
        Self { shared, pools, state: AtomicU8::new(STARTING), stop: CancellationToken::new() }
    }

    /// There is a table.
    pub(super) fn applied(&self) {
        let swapped = self.state.compare_exchange(STARTING, READY, Ordering::SeqCst, Ordering::SeqCst);
        if swapped.is_ok() {
            tracing::info!("the first table is in force");
        }
    }

    pub(super) fn retire(&self) {
        self.state.store(RETIRED, Ordering::SeqCst);
    }

    pub(super) fn stop(&self) {
        self.stop.cancel();
    }

    fn connections(&self) -> usize {
        self.shared.settings.limits.connections.saturating_sub(self.shared.room.available_permits())
    }
}

/// Serves until the proxy stops.
pub(super) async fn serve(listener: TcpListener, health: Arc<Health>) {
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = health.stop.cancelled() => return,
        };
        let Ok((stream, _)) = accepted else {
            tokio::time::sleep(Duration::from_millis(20)).await;
            continue;
        };
        let health = Arc::clone(&health);
        tokio::spawn(async move {
            let answers = service_fn(|request: Request<Incoming>| {
                let response = answer(&health, &request);
                async { Ok::<_, Infallible>(response) }
            });
            let mut builder = http1::Builder::new();
            builder.timer(TokioTimer::new()).header_read_timeout(Duration::from_secs(30));
            tokio::select! {
                served = builder.serve_connection(TokioIo::new(stream), answers) => {
                    if let Err(error) = served {
                        tracing::debug!(%error, "somebody's look at the router ended");
                    }
                }
                () = health.stop.cancelled() => {}
            }
        });
    }
}

fn answer(health: &Health, request: &Request<Incoming>) -> Response<Full<Bytes>> {
    if ![Method::GET, Method::HEAD].contains(request.method()) {
        return text(StatusCode::METHOD_NOT_ALLOWED, "there is nothing here to write\n".to_owned());
    }
    let table = health.shared.table.load();
    let query = request.uri().query().unwrap_or_default();
    match request.uri().path() {
        "/livez" | "/healthz" => text(StatusCode::OK, "ok\n".to_owned()),
        "/readyz" => match health.state.load(Ordering::SeqCst) {
            READY => text(StatusCode::OK, format!("ok\nrevision {}\n", table.revision())),
            RETIRED => text(StatusCode::SERVICE_UNAVAILABLE, "stopping\n".to_owned()),
            _ => text(StatusCode::SERVICE_UNAVAILABLE, "waiting for: the first table\n".to_owned()),
        },
        "/metrics" => {
            let sizes = health.pools.iter().map(|pool| pool.sizes());
            let sizes = sizes.fold((0, 0), |all, one| (all.0 + one.0, all.1 + one.1));
            let mut all = metrics::text(&table, sizes, health.connections());
            all.extend(health.shared.locals.figures().map(|it| metrics::tunnel(&it)));
            text(StatusCode::OK, all)
        }
        "/debug/routes" => json(&explain::routes(&table)),
        "/explain" => match explain::explain(&table, query) {
            Ok(decision) => json(&decision),
            Err(message) => text(StatusCode::BAD_REQUEST, format!("{message}\n")),
        },
        "/api/v1/workloads/routing-rules" => json(&explain::rules(&table, query)),
        _ => {
            let known = "/livez /readyz /metrics /debug/routes /explain /api/v1/workloads/routing-rules";
            text(StatusCode::NOT_FOUND, format!("here is: {known}\n"))
        }
    }
}

fn text(status: StatusCode, text: String) -> Response<Full<Bytes>> {
    with_type(status, text, "text/plain; version=0.0.4; charset=utf-8")
}

fn json(value: &serde_json::Value) -> Response<Full<Bytes>> {
    with_type(StatusCode::OK, format!("{value:#}\n"), "application/json")
}

fn with_type(status: StatusCode, text: String, kind: &'static str) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(text.into()));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    response
}
