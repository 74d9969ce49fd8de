//! Fault injection between a client and any API server: error responses and delayed requests.

use std::sync::{
    Arc, Mutex,
    atomic::{AtomicUsize, Ordering},
};

use http::{Method, Request, Response};
use kube::client::Body;
use serde_json::json;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// What happens to a request.
#[derive(Debug, Clone)]
pub(crate) enum FaultEffect {
    /// It is answered with this code, and the server never hears of it.
    Answer(u16),
    /// It reaches the server once the gate is open.
    Hold(Gate),
}

/// Where requests wait until the test lets them go on.
#[derive(Debug, Clone)]
pub(crate) struct Gate {
    open: CancellationToken,
    arrived: watch::Sender<usize>,
}

impl Gate {
    pub(crate) fn closed() -> Self {
        Self { open: CancellationToken::new(), arrived: watch::Sender::new(0) }
    }

    pub(crate) fn open(&self) {
        self.open.cancel();
    }

    /// Waits until a request waits here.
    pub(crate) async fn wait_for_request(&self) {
        self.arrived.subscribe().wait_for(|it| *it > 0).await.unwrap();
    }

    async fn wait_until_open(&self) {
        self.arrived.send_modify(|it| *it += 1);
        self.open.cancelled().await;
    }
}

type RequestFilter = Box<dyn Fn(&Method, &str) -> bool + Send + Sync>;

struct InjectedFault {
    /// By method and path.
    filter: RequestFilter,
    effect: FaultEffect,
    /// How many more of them.
    remaining: u32,
}

/// Faults injected between the controllers and the API server, and the number of requests in flight.
#[derive(Clone, Default)]
pub(crate) struct InjectedFaults {
    faults: Arc<Mutex<Vec<InjectedFault>>>,
    unanswered: Arc<AtomicUsize>,
}

/// A request in flight; it ends with its response, or when its caller gives up.
struct InFlight(Arc<AtomicUsize>);

impl InFlight {
    fn new(count: &Arc<AtomicUsize>) -> Self {
        count.fetch_add(1, Ordering::SeqCst);
        Self(Arc::clone(count))
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

impl InjectedFaults {
    /// So many of the requests with these methods and paths.
    pub(crate) fn add(
        &self,
        picks: impl Fn(&Method, &str) -> bool + Send + Sync + 'static,
        effect: FaultEffect,
        times: u32,
    ) {
        self.faults.lock().unwrap().push(InjectedFault { filter: Box::new(picks), effect, remaining: times });
    }

    /// Everything is as it should be again.
    pub(crate) fn clear(&self) {
        self.faults.lock().unwrap().clear();
    }

    /// How many requests have no answer yet. A watch has one as soon as it began.
    pub(crate) fn in_flight(&self) -> usize {
        self.unanswered.load(Ordering::SeqCst)
    }

    /// The way.
    pub(crate) fn client(&self, inner: kube::Client) -> kube::Client {
        let trouble = self.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            let (inner, effect) = (inner.clone(), trouble.match_request(&request));
            let on_the_way = InFlight::new(&trouble.unanswered);
            async move {
                let _until_answered = on_the_way;
                match effect {
                    Some(FaultEffect::Answer(code)) => return Ok(error_response(code)),
                    Some(FaultEffect::Hold(gate)) => gate.wait_until_open().await,
                    None => {}
                }
                inner.send(request).await
            }
        });
        kube::Client::new(service, "default")
    }

    fn match_request(&self, request: &Request<Body>) -> Option<FaultEffect> {
        let mut all = self.faults.lock().unwrap();
        let is =
            |it: &&mut InjectedFault| it.remaining > 0 && (it.filter)(request.method(), request.uri().path());
        let fault = all.iter_mut().find(is)?;
        fault.remaining -= 1;
        Some(fault.effect.clone())
    }
}

/// What an API server says when it is in trouble itself.
fn error_response(code: u16) -> Response<Body> {
    let reason = match code {
        403 => "Forbidden",
        409 => "Conflict",
        429 => "TooManyRequests",
        _ => "InternalError",
    };
    let details = if code == 429 { json!({"retryAfterSeconds": 1}) } else { json!({}) };
    let status = json!({
        "apiVersion": "v1", "kind": "Status", "metadata": {}, "status": "Failure", "code": code,
        "reason": reason, "message": "trouble on request", "details": details,
    });
    let answer = Response::builder().status(code).header("content-type", "application/json");
    answer.body(Body::from(status.to_string().into_bytes())).unwrap()
}
