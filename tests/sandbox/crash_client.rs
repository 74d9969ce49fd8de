//! A way to the API server on which a process dies at its nth write: before the server hears of it, or after it was done and
//! before the answer comes back.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use http::{Method, Request, Response};
use kube::client::Body;
use tokio_util::sync::CancellationToken;

/// When the process dies.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Death {
    /// At this write, counted from 1.
    pub(crate) at: u64,
    /// After the server did what it was asked for.
    pub(crate) after: bool,
}

/// What is known of the process.
#[derive(Debug, Clone, Default)]
pub(crate) struct Fate {
    writes: Arc<AtomicU64>,
    over: CancellationToken,
}

impl Fate {
    /// Waits until it died.
    pub(crate) async fn died(&self) {
        self.over.cancelled().await;
    }
}

/// The client of a process that dies like this, or never.
pub(crate) fn client(inner: kube::Client, death: Option<Death>) -> (kube::Client, Fate) {
    let fate = Fate::default();
    let seen = fate.clone();
    let service = tower::service_fn(move |request: Request<Body>| {
        let (inner, fate) = (inner.clone(), seen.clone());
        async move { pass(&inner, &fate, death, request).await }
    });
    (kube::Client::new(service, "default"), fate)
}

async fn pass(
    inner: &kube::Client,
    fate: &Fate,
    death: Option<Death>,
    request: Request<Body>,
) -> Result<Response<Body>, kube::Error> {
    if fate.over.is_cancelled() {
        return std::future::pending().await;
    }
    if request.method() != Method::GET {
        let nth = fate.writes.fetch_add(1, Ordering::SeqCst) + 1;
        if let Some(death) = death.filter(|it| it.at == nth) {
            if death.after {
                let _nobody_hears_it = inner.send(request).await;
            }
            fate.over.cancel();
            return std::future::pending().await;
        }
    }
    inner.send(request).await
}
