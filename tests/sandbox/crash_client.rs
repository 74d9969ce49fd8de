//! A Kubernetes client that simulates a crash at the nth write: before the request is sent, or after it was executed and before the
//! response arrives.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use http::{Method, Request, Response};
use kube::client::Body;
use tokio_util::sync::CancellationToken;

/// When the process crashes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CrashPoint {
    /// At this write, counted from 1.
    pub(crate) nth_write: u64,
    /// After the server has executed the request.
    pub(crate) after_write: bool,
}

/// Observes the simulated process.
#[derive(Debug, Clone, Default)]
pub(crate) struct CrashHandle {
    writes: Arc<AtomicU64>,
    crashed: CancellationToken,
}

impl CrashHandle {
    /// Waits for the crash.
    pub(crate) async fn wait_for_crash(&self) {
        self.crashed.cancelled().await;
    }
}

/// Wraps a client so that it crashes at this point, or never.
pub(crate) fn wrap_client(inner: kube::Client, death: Option<CrashPoint>) -> (kube::Client, CrashHandle) {
    let fate = CrashHandle::default();
    let seen = fate.clone();
    let service = tower::service_fn(move |request: Request<Body>| {
        let (inner, fate) = (inner.clone(), seen.clone());
        async move { forward(&inner, &fate, death, request).await }
    });
    (kube::Client::new(service, "default"), fate)
}

async fn forward(
    inner: &kube::Client,
    fate: &CrashHandle,
    death: Option<CrashPoint>,
    request: Request<Body>,
) -> Result<Response<Body>, kube::Error> {
    if fate.crashed.is_cancelled() {
        return std::future::pending().await;
    }
    if request.method() != Method::GET {
        let nth = fate.writes.fetch_add(1, Ordering::SeqCst) + 1;
        if let Some(death) = death.filter(|it| it.nth_write == nth) {
            if death.after_write {
                let _nobody_hears_it = inner.send(request).await;
            }
            fate.crashed.cancel();
            return std::future::pending().await;
        }
    }
    inner.send(request).await
}
