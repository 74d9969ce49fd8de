//! The front door: looks at the scope of a request and sends it to the model or to moto, through the faults and past
//! the log.

use std::{
    collections::BTreeSet,
    fmt,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use http_body_util::{BodyExt, Limited};
use hyper::{
    HeaderMap, Request, Response,
    body::{Bytes, Incoming},
    header,
};
use tokio::sync::watch;

use crate::{
    admin,
    answers::Question,
    calls::{Call, Calls},
    clock,
    cloud::{Caller, Cloud},
    config::MAX_BODY,
    eks::{error::ApiError, router},
    eks_token,
    faults::{Faults, Verdict},
    keys::{self, Keys},
    place::Place,
    proxy::Upstream,
    service::{self, Eks},
    sigv4::{self, Scope},
    text::query_value,
    wire::{Body, Failure, Protocol, eks_response, full},
};

/// Everything a request may touch.
#[derive(Debug)]
pub(crate) struct Front {
    pub(crate) instance: String,
    /// The instance that wrote the persisted model we started from.
    pub(crate) restored_from: Option<String>,
    pub(crate) eks: Arc<Eks>,
    pub(crate) cloud: Cloud,
    pub(crate) upstream: Upstream,
    pub(crate) moto: (u32, u16),
    pub(crate) lost: watch::Receiver<Option<String>>,
    pub(crate) faults: Faults,
    pub(crate) keys: Keys,
    pub(crate) calls: Calls,
    pub(crate) regions: Mutex<BTreeSet<String>>,
    pub(crate) started: Instant,
    pub(crate) activity: Activity,
    pub(crate) stop: watch::Sender<bool>,
}

/// The connection is to be closed without an answer.
#[derive(Debug)]
pub(crate) struct Dropped;

impl fmt::Display for Dropped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the connection is dropped on purpose")
    }
}

impl std::error::Error for Dropped {}

/// When the last AWS call was, for whoever ends an idle local AWS.
#[derive(Debug)]
pub(crate) struct Activity {
    running: AtomicUsize,
    last: Mutex<Instant>,
}

impl Activity {
    pub(crate) fn new() -> Self {
        Self { running: AtomicUsize::new(0), last: Mutex::new(Instant::now()) }
    }

    pub(crate) fn idle(&self) -> Duration {
        if self.running.load(Ordering::Acquire) > 0 {
            return Duration::ZERO;
        }
        self.last.lock().unwrap_or_else(PoisonError::into_inner).elapsed()
    }

    fn begin(&self) -> Busy<'_> {
        self.running.fetch_add(1, Ordering::AcqRel);
        Busy(self)
    }
}

struct Busy<'a>(&'a Activity);

impl Drop for Busy<'_> {
    fn drop(&mut self) {
        *self.0.last.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
        self.0.running.fetch_sub(1, Ordering::AcqRel);
    }
}

/// One call, as far as its headers tell.
struct Incident {
    scope: Scope,
    protocol: Protocol,
    operation: String,
    began: Instant,
}

type Answer = Result<Response<Body>, Dropped>;

pub(crate) async fn serve(front: Arc<Front>, request: Request<Incoming>) -> Answer {
    if request.uri().path().starts_with("/_capt/") {
        return Ok(admin::serve(&front, request).await);
    }
    let _busy = front.activity.begin();
    let query = request.uri().query().unwrap_or_default();
    // A request that nobody signed is still moto's: it guesses the service from other signs.
    let scope = sigv4::scope(request.headers(), query).unwrap_or_else(|| Scope {
        access_key: String::new(),
        region: "us-east-1".to_owned(),
        service: "unknown".to_owned(),
    });
    front.regions.lock().unwrap_or_else(PoisonError::into_inner).insert(scope.region.clone());
    let protocol = Protocol::of(&scope.service, request.headers());
    let incident = Incident { scope, protocol, operation: "Unknown".to_owned(), began: Instant::now() };
    if let Some(how) = front.lost.borrow().clone() {
        return Ok(front.refuse(&incident, &lost_memory(&how)));
    }
    if incident.scope.service == "eks" {
        front.serve_eks(incident, request).await
    } else {
        front.serve_moto(incident, request).await
    }
}

/// Not retryable for any SDK: waiting does not bring it back.
fn lost_memory(how: &str) -> Failure {
    Failure {
        code: "LocalAwsLostMemory".to_owned(),
        message: format!(
            "the local AWS has lost its memory, because moto ended by itself ({how}); what was in it does not exist \
             any more. Stop this local AWS and start a new one"
        ),
        status: 400,
        retry_after: None,
    }
}

impl Front {
    async fn serve_eks(&self, mut incident: Incident, request: Request<Incoming>) -> Answer {
        let (parts, body) = request.into_parts();
        let route = router::route(parts.method.as_str(), parts.uri.path());
        incident.operation = route.as_ref().map_or("Unknown", |route| route.op.name()).to_owned();
        let verdict = self.faults.strike("eks", &incident.operation);
        if let Some(failure) = suffer(&verdict, incident.protocol).await {
            return Ok(self.refuse(&incident, &failure));
        }
        let result = match (route, Limited::new(body, MAX_BODY).collect().await) {
            (_, Err(_)) => Err(ApiError::too_large(MAX_BODY)),
            (None, _) => {
                let message = format!("no operation of EKS is {} {}", parts.method, parts.uri.path());
                Err(ApiError::unknown_operation(message))
            }
            (Some(route), Ok(body)) => {
                let place = Place::new(incident.scope.region.as_str());
                let caller = caller(&incident.scope, &parts.headers);
                let request = service::Request {
                    route: &route,
                    place: &place,
                    query: parts.uri.query().unwrap_or_default(),
                    body: &body.to_bytes(),
                    caller: &caller,
                };
                self.eks.call(request).await
            }
        };
        let (status, error) = match &result {
            Ok(_) => (200, None),
            Err(error) => (error.status, Some(error.code.to_owned())),
        };
        self.finish(&incident, verdict.drop_after_work, (status, error))?;
        Ok(eks_response(&result))
    }

    async fn serve_moto(&self, mut incident: Incident, request: Request<Incoming>) -> Answer {
        let (mut parts, body) = request.into_parts();
        let Named { operation, form, body } = match name_operation(&parts, body).await {
            Ok(named) => named,
            Err(failure) => return Ok(self.refuse(&incident, &failure)),
        };
        incident.operation = operation;
        if let Err(failure) = self.check_eks_token(&incident.scope, &parts) {
            incident.protocol = Protocol::Query;
            return Ok(self.refuse(&incident, &failure));
        }
        name_service(&mut parts, &incident.scope);
        let verdict = self.faults.strike(&incident.scope.service, &incident.operation);
        if let Some(failure) = suffer(&verdict, incident.protocol).await {
            return Ok(self.refuse(&incident, &failure));
        }
        let Scope { access_key, region, service } = &incident.scope;
        let operation = &incident.operation;
        let question = Question { service, region, access_key, operation, form: form.as_ref() };
        match self.upstream.ask(&question, Request::from_parts(parts, body)).await {
            Ok(response) => {
                self.finish(&incident, verdict.drop_after_work, (response.status().as_u16(), None))?;
                Ok(self.learn(&incident.operation, response).await)
            }
            Err(error) => {
                tracing::error!(error = &error as &dyn std::error::Error, "handing a request to moto");
                Ok(self.refuse(&incident, &self.explain(&error.to_string()).await))
            }
        }
    }

    fn check_eks_token(&self, scope: &Scope, parts: &hyper::http::request::Parts) -> Result<(), Failure> {
        let query = parts.uri.query().unwrap_or_default();
        if !eks_token::is_one(scope, query) {
            return Ok(());
        }
        let request = (parts.method.as_str(), parts.uri.path(), query);
        eks_token::check(request, &parts.headers, &self.keys, clock::now())
    }

    /// Answers pass as streams, except for those that give out keys.
    async fn learn(&self, operation: &str, response: Response<Body>) -> Response<Body> {
        if !response.status().is_success() || !keys::gives_keys(operation) {
            return response;
        }
        let (parts, body) = response.into_parts();
        match body.collect().await {
            Ok(body) => {
                let bytes = body.to_bytes();
                self.keys.learn(&bytes);
                Response::from_parts(parts, full(bytes))
            }
            Err(error) => {
                tracing::error!(error = &error as &dyn std::error::Error, "reading moto's answer");
                Protocol::Query.render(&Failure {
                    code: "InternalFailure".to_owned(),
                    message: format!("moto did not finish its answer: {error}"),
                    status: 500,
                    retry_after: None,
                })
            }
        }
    }

    /// Moto did not answer: it may have died this instant, and then its owner is about to say so.
    async fn explain(&self, error: &str) -> Failure {
        let mut lost = self.lost.clone();
        let died = tokio::time::timeout(Duration::from_millis(500), lost.wait_for(Option::is_some)).await;
        match died {
            Ok(Ok(how)) => lost_memory(how.as_deref().unwrap_or_default()),
            _ => Failure {
                code: "InternalFailure".to_owned(),
                message: format!("moto did not answer: {error}"),
                status: 500,
                retry_after: None,
            },
        }
    }

    fn refuse(&self, incident: &Incident, failure: &Failure) -> Response<Body> {
        self.note(incident, failure.status, Some(failure.code.clone()));
        incident.protocol.render(failure)
    }

    /// The work is done; the last thing that can go wrong is the answer.
    fn finish(&self, incident: &Incident, drop: bool, outcome: (u16, Option<String>)) -> Result<(), Dropped> {
        let (status, error) = outcome;
        if drop {
            self.note(incident, 0, Some("ConnectionDropped".to_owned()));
            return Err(Dropped);
        }
        self.note(incident, status, error);
        Ok(())
    }

    fn note(&self, incident: &Incident, status: u16, error: Option<String>) {
        self.calls.push(Call {
            seq: 0,
            at: clock::now(),
            service: incident.scope.service.clone(),
            operation: incident.operation.clone(),
            region: incident.scope.region.clone(),
            access_key: incident.scope.access_key.clone(),
            status,
            error,
            millis: u64::try_from(incident.began.elapsed().as_millis()).unwrap_or(u64::MAX),
        });
    }
}

/// Lets the ordered faults happen that come before the work.
async fn suffer(verdict: &Verdict, protocol: Protocol) -> Option<Failure> {
    if !verdict.delay.is_zero() {
        tokio::time::sleep(verdict.delay).await;
    }
    match &verdict.error {
        Some(failure) => Some(failure.clone()),
        None => verdict.throttle.then(|| protocol.throttle()),
    }
}

fn caller(scope: &Scope, headers: &HeaderMap) -> Caller {
    let token = headers.get("x-amz-security-token").and_then(|value| value.to_str().ok());
    Caller { access_key: scope.access_key.clone(), token: token.map(str::to_owned) }
}

/// Moto reads the service of a request from its header alone, and takes any presigned one for S3.
fn name_service(parts: &mut hyper::http::request::Parts, scope: &Scope) {
    let Scope { access_key, region, service } = scope;
    if parts.headers.contains_key(header::AUTHORIZATION) || ["unknown", "s3"].contains(&service.as_str()) {
        return;
    }
    let scope = format!("{access_key}/20260101/{region}/{service}/aws4_request");
    let value = format!("AWS4-HMAC-SHA256 Credential={scope}, SignedHeaders=host, Signature=0");
    if let Ok(value) = header::HeaderValue::try_from(value) {
        parts.headers.insert(header::AUTHORIZATION, value);
    }
}

/// A request for moto with the name of its operation.
struct Named {
    operation: String,
    /// The body, if it is a form.
    form: Option<Bytes>,
    body: Body,
}

/// The operation of a request for moto. Only a form has to be read for it; other bodies stay streams.
async fn name_operation(parts: &hyper::http::request::Parts, body: Incoming) -> Result<Named, Failure> {
    let text = |name: &str| parts.headers.get(name).and_then(|value| value.to_str().ok());
    if let Some(target) = text("x-amz-target") {
        let name = target.rsplit('.').next().unwrap_or(target);
        return Ok(Named { operation: name.to_owned(), form: None, body: body.boxed() });
    }
    let is_form = text(header::CONTENT_TYPE.as_str())
        .is_some_and(|value| value.starts_with("application/x-www-form-urlencoded"));
    if is_form {
        let bytes = read_form(body).await?;
        let form = String::from_utf8_lossy(&bytes);
        let name = query_value(&form, "Action");
        let operation = name.unwrap_or_else(|| "Unknown".to_owned());
        return Ok(Named { operation, form: Some(bytes.clone()), body: full(bytes) });
    }
    let action = parts.uri.query().and_then(|query| query_value(query, "Action"));
    let operation = action.unwrap_or_else(|| format!("{} {}", parts.method, parts.uri.path()));
    Ok(Named { operation, form: None, body: body.boxed() })
}

async fn read_form(body: Incoming) -> Result<Bytes, Failure> {
    let read = Limited::new(body, MAX_BODY).collect().await;
    read.map(http_body_util::Collected::to_bytes).map_err(|_| Failure {
        code: "RequestEntityTooLarge".to_owned(),
        message: format!("the request body is larger than {MAX_BODY} bytes, or ended early"),
        status: 413,
        retry_after: None,
    })
}
