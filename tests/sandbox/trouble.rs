//! A way to an API server, whichever it is, on which some requests are refused and some take long.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use http::{Method, Request, Response};
use kube::client::Body;
use serde_json::json;

/// What happens to a request.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Effect {
    /// It is answered with this code, and the server never hears of it.
    Answer(u16),
    /// It reaches the server later.
    Delay(Duration),
}

type Picks = Box<dyn Fn(&Method, &str) -> bool + Send + Sync>;

struct Fault {
    /// By method and path.
    picks: Picks,
    effect: Effect,
    /// How many more of them.
    left: u32,
}

/// What is wrong with the way now.
#[derive(Clone, Default)]
pub(crate) struct Trouble(Arc<Mutex<Vec<Fault>>>);

impl Trouble {
    /// So many of the requests with these methods and paths.
    pub(crate) fn add(
        &self,
        picks: impl Fn(&Method, &str) -> bool + Send + Sync + 'static,
        effect: Effect,
        times: u32,
    ) {
        self.0.lock().unwrap().push(Fault { picks: Box::new(picks), effect, left: times });
    }

    /// Everything is as it should be again.
    pub(crate) fn end(&self) {
        self.0.lock().unwrap().clear();
    }

    /// The way.
    pub(crate) fn client(&self, inner: kube::Client) -> kube::Client {
        let trouble = self.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            let (inner, effect) = (inner.clone(), trouble.meet(&request));
            async move {
                match effect {
                    Some(Effect::Answer(code)) => return Ok(answer(code)),
                    Some(Effect::Delay(time)) => tokio::time::sleep(time).await,
                    None => {}
                }
                inner.send(request).await
            }
        });
        kube::Client::new(service, "default")
    }

    fn meet(&self, request: &Request<Body>) -> Option<Effect> {
        let mut all = self.0.lock().unwrap();
        let is = |it: &&mut Fault| it.left > 0 && (it.picks)(request.method(), request.uri().path());
        let fault = all.iter_mut().find(is)?;
        fault.left -= 1;
        Some(fault.effect)
    }
}

/// What an API server says when it is in trouble itself.
fn answer(code: u16) -> Response<Body> {
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
