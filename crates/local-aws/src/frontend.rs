//! The HTTP front end: dispatches each request by its credential scope to the EKS model or to moto, applies injected
//! faults and logs the call.

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
    access_keys::{self, AccessKeys},
    admin,
    call_log::{CallLog, CallRecord},
    clock,
    config::MAX_BODY,
    eks::{error::ApiError, router},
    eks_service::{self, EksService},
    eks_token,
    fault_injection::{FaultEffect, FaultInjector},
    moto_cache::MotoCall,
    moto_client::{Caller, MotoClient},
    moto_proxy::MotoProxy,
    protocol::{AwsError, Body, Protocol, eks_response, full_body},
    query_string::query_value,
    region::Region,
    sigv4::{self, CredentialScope},
};

/// Shared state of all requests.
#[derive(Debug)]
pub(crate) struct Frontend {
    pub(crate) instance: String,
    /// The instance that wrote the persisted model.
    pub(crate) restored_from: Option<String>,
    pub(crate) eks: Arc<EksService>,
    pub(crate) moto_client: MotoClient,
    pub(crate) proxy: MotoProxy,
    pub(crate) moto: (u32, u16),
    pub(crate) moto_exit: watch::Receiver<Option<String>>,
    pub(crate) faults: FaultInjector,
    pub(crate) access_keys: AccessKeys,
    pub(crate) call_log: CallLog,
    pub(crate) seen_regions: Mutex<BTreeSet<String>>,
    pub(crate) started: Instant,
    pub(crate) activity: Activity,
    pub(crate) stop: watch::Sender<bool>,
}

/// The connection is closed without a response.
#[derive(Debug)]
pub(crate) struct ConnectionDropped;

impl fmt::Display for ConnectionDropped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("connection dropped by an injected fault")
    }
}

impl std::error::Error for ConnectionDropped {}

/// Time of the last AWS call, for shutting down an idle local AWS.
#[derive(Debug)]
pub(crate) struct Activity {
    in_flight: AtomicUsize,
    last: Mutex<Instant>,
}

impl Activity {
    pub(crate) fn new() -> Self {
        Self { in_flight: AtomicUsize::new(0), last: Mutex::new(Instant::now()) }
    }

    pub(crate) fn idle(&self) -> Duration {
        if self.in_flight.load(Ordering::Acquire) > 0 {
            return Duration::ZERO;
        }
        self.last.lock().unwrap_or_else(PoisonError::into_inner).elapsed()
    }

    fn start_call(&self) -> ActivityGuard<'_> {
        self.in_flight.fetch_add(1, Ordering::AcqRel);
        ActivityGuard(self)
    }
}

struct ActivityGuard<'a>(&'a Activity);

impl Drop for ActivityGuard<'_> {
    fn drop(&mut self) {
        *self.0.last.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
        self.0.in_flight.fetch_sub(1, Ordering::AcqRel);
    }
}

/// A call, as far as its headers describe it.
struct CallContext {
    scope: CredentialScope,
    protocol: Protocol,
    operation: String,
    started_at: Instant,
}

type ServeResult = Result<Response<Body>, ConnectionDropped>;

pub(crate) async fn serve(front: Arc<Frontend>, request: Request<Incoming>) -> ServeResult {
    if request.uri().path().starts_with("/_capt/") {
        return Ok(admin::serve(&front, request).await);
    }
    let _busy = front.activity.start_call();
    let query = request.uri().query().unwrap_or_default();
    // Unsigned requests go to moto, which guesses the service from other parts of the request.
    let scope = sigv4::credential_scope(request.headers(), query).unwrap_or_else(|| CredentialScope {
        access_key: String::new(),
        region: "us-east-1".to_owned(),
        service: "unknown".to_owned(),
    });
    front.seen_regions.lock().unwrap_or_else(PoisonError::into_inner).insert(scope.region.clone());
    let protocol = Protocol::detect(&scope.service, request.headers());
    let incident =
        CallContext { scope, protocol, operation: "Unknown".to_owned(), started_at: Instant::now() };
    if let Some(how) = front.moto_exit.borrow().clone() {
        return Ok(front.reject(&incident, &lost_memory_error(&how)));
    }
    if incident.scope.service == "eks" {
        front.serve_eks(incident, request).await
    } else {
        front.serve_moto(incident, request).await
    }
}

/// Status 400, which no SDK retries: waiting does not bring the state back.
fn lost_memory_error(how: &str) -> AwsError {
    AwsError {
        code: "LocalAwsLostMemory".to_owned(),
        message: format!(
            "the local AWS lost its state because moto exited ({how}); its resources no longer \
             exist. Stop this local AWS and start a new one"
        ),
        status: 400,
        retry_after: None,
    }
}

impl Frontend {
    async fn serve_eks(&self, mut incident: CallContext, request: Request<Incoming>) -> ServeResult {
        let (parts, body) = request.into_parts();
        let route = router::route(parts.method.as_str(), parts.uri.path());
        incident.operation = route.as_ref().map_or("Unknown", |route| route.op.name()).to_owned();
        let verdict = self.faults.evaluate("eks", &incident.operation);
        if let Some(failure) = inject_faults(&verdict, incident.protocol).await {
            return Ok(self.reject(&incident, &failure));
        }
        let result = match (route, Limited::new(body, MAX_BODY).collect().await) {
            (_, Err(_)) => Err(ApiError::too_large(MAX_BODY)),
            (None, _) => {
                let message = format!("no EKS operation for {} {}", parts.method, parts.uri.path());
                Err(ApiError::unknown_operation(message))
            }
            (Some(route), Ok(body)) => {
                let place = Region::new(incident.scope.region.as_str());
                let caller = caller(&incident.scope, &parts.headers);
                let request = eks_service::EksRequest {
                    route: &route,
                    region: &place,
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

    async fn serve_moto(&self, mut incident: CallContext, request: Request<Incoming>) -> ServeResult {
        let (mut parts, body) = request.into_parts();
        let IdentifiedRequest { operation, form, body } = match identify_operation(&parts, body).await {
            Ok(named) => named,
            Err(failure) => return Ok(self.reject(&incident, &failure)),
        };
        incident.operation = operation;
        if let Err(failure) = self.check_eks_token(&incident.scope, &parts) {
            incident.protocol = Protocol::Query;
            return Ok(self.reject(&incident, &failure));
        }
        add_service_scope(&mut parts, &incident.scope);
        let verdict = self.faults.evaluate(&incident.scope.service, &incident.operation);
        if let Some(failure) = inject_faults(&verdict, incident.protocol).await {
            return Ok(self.reject(&incident, &failure));
        }
        let CredentialScope { access_key, region, service } = &incident.scope;
        let operation = &incident.operation;
        let question = MotoCall { service, region, access_key, operation, form: form.as_ref() };
        match self.proxy.forward(&question, Request::from_parts(parts, body)).await {
            Ok(response) => {
                self.finish(&incident, verdict.drop_after_work, (response.status().as_u16(), None))?;
                Ok(self.record_issued_keys(&incident.operation, response).await)
            }
            Err(error) => {
                tracing::error!(
                    error = &error as &dyn std::error::Error,
                    "forwarding a request to moto failed"
                );
                Ok(self.reject(&incident, &self.explain_moto_failure(&error.to_string()).await))
            }
        }
    }

    fn check_eks_token(
        &self,
        scope: &CredentialScope,
        parts: &hyper::http::request::Parts,
    ) -> Result<(), AwsError> {
        let query = parts.uri.query().unwrap_or_default();
        if !eks_token::is_eks_token(scope, query) {
            return Ok(());
        }
        let request = (parts.method.as_str(), parts.uri.path(), query);
        eks_token::verify(request, &parts.headers, &self.access_keys, clock::now())
    }

    /// Responses stream through, except those that issue access keys.
    async fn record_issued_keys(&self, operation: &str, response: Response<Body>) -> Response<Body> {
        if !response.status().is_success() || !access_keys::issues_keys(operation) {
            return response;
        }
        let (parts, body) = response.into_parts();
        match body.collect().await {
            Ok(body) => {
                let bytes = body.to_bytes();
                self.access_keys.record_from_response(&bytes);
                Response::from_parts(parts, full_body(bytes))
            }
            Err(error) => {
                tracing::error!(error = &error as &dyn std::error::Error, "reading moto's response failed");
                Protocol::Query.render(&AwsError {
                    code: "InternalFailure".to_owned(),
                    message: format!("moto's response ended early: {error}"),
                    status: 500,
                    retry_after: None,
                })
            }
        }
    }

    /// Moto may have just exited; waits briefly for its supervisor to report that.
    async fn explain_moto_failure(&self, error: &str) -> AwsError {
        let mut lost = self.moto_exit.clone();
        let died = tokio::time::timeout(Duration::from_millis(500), lost.wait_for(Option::is_some)).await;
        match died {
            Ok(Ok(how)) => lost_memory_error(how.as_deref().unwrap_or_default()),
            _ => AwsError {
                code: "InternalFailure".to_owned(),
                message: format!("moto did not respond: {error}"),
                status: 500,
                retry_after: None,
            },
        }
    }

    fn reject(&self, incident: &CallContext, failure: &AwsError) -> Response<Body> {
        self.log_call(incident, failure.status, Some(failure.code.clone()));
        incident.protocol.render(failure)
    }

    /// Logs the completed call; a fault may still drop the connection here.
    fn finish(
        &self,
        incident: &CallContext,
        drop: bool,
        outcome: (u16, Option<String>),
    ) -> Result<(), ConnectionDropped> {
        let (status, error) = outcome;
        if drop {
            self.log_call(incident, 0, Some("ConnectionDropped".to_owned()));
            return Err(ConnectionDropped);
        }
        self.log_call(incident, status, error);
        Ok(())
    }

    fn log_call(&self, incident: &CallContext, status: u16, error: Option<String>) {
        self.call_log.push(CallRecord {
            seq: 0,
            at: clock::now(),
            service: incident.scope.service.clone(),
            operation: incident.operation.clone(),
            region: incident.scope.region.clone(),
            access_key: incident.scope.access_key.clone(),
            status,
            error,
            millis: u64::try_from(incident.started_at.elapsed().as_millis()).unwrap_or(u64::MAX),
        });
    }
}

/// Applies the faults that take effect before the call is handled.
async fn inject_faults(verdict: &FaultEffect, protocol: Protocol) -> Option<AwsError> {
    if !verdict.delay.is_zero() {
        tokio::time::sleep(verdict.delay).await;
    }
    match &verdict.error {
        Some(failure) => Some(failure.clone()),
        None => verdict.throttle.then(|| protocol.throttling_error()),
    }
}

fn caller(scope: &CredentialScope, headers: &HeaderMap) -> Caller {
    let token = headers.get("x-amz-security-token").and_then(|value| value.to_str().ok());
    Caller { access_key: scope.access_key.clone(), token: token.map(str::to_owned) }
}

/// Moto takes the service only from the Authorization header, and treats any presigned request as S3.
fn add_service_scope(parts: &mut hyper::http::request::Parts, scope: &CredentialScope) {
    let CredentialScope { access_key, region, service } = scope;
    if parts.headers.contains_key(header::AUTHORIZATION) || ["unknown", "s3"].contains(&service.as_str()) {
        return;
    }
    let scope = format!("{access_key}/20260101/{region}/{service}/aws4_request");
    let value = format!("AWS4-HMAC-SHA256 Credential={scope}, SignedHeaders=host, Signature=0");
    if let Ok(value) = header::HeaderValue::try_from(value) {
        parts.headers.insert(header::AUTHORIZATION, value);
    }
}

/// A request for moto with its operation name.
struct IdentifiedRequest {
    operation: String,
    /// The body, if it is a form.
    form: Option<Bytes>,
    body: Body,
}

/// Identifies the operation. Only forms are buffered for that; other bodies stay streams.
async fn identify_operation(
    parts: &hyper::http::request::Parts,
    body: Incoming,
) -> Result<IdentifiedRequest, AwsError> {
    let text = |name: &str| parts.headers.get(name).and_then(|value| value.to_str().ok());
    if let Some(target) = text("x-amz-target") {
        let name = target.rsplit('.').next().unwrap_or(target);
        return Ok(IdentifiedRequest { operation: name.to_owned(), form: None, body: body.boxed() });
    }
    let is_form = text(header::CONTENT_TYPE.as_str())
        .is_some_and(|value| value.starts_with("application/x-www-form-urlencoded"));
    if is_form {
        let bytes = read_form(body).await?;
        let form = String::from_utf8_lossy(&bytes);
        let name = query_value(&form, "Action");
        let operation = name.unwrap_or_else(|| "Unknown".to_owned());
        return Ok(IdentifiedRequest { operation, form: Some(bytes.clone()), body: full_body(bytes) });
    }
    let action = parts.uri.query().and_then(|query| query_value(query, "Action"));
    let operation = action.unwrap_or_else(|| format!("{} {}", parts.method, parts.uri.path()));
    Ok(IdentifiedRequest { operation, form: None, body: body.boxed() })
}

async fn read_form(body: Incoming) -> Result<Bytes, AwsError> {
    let read = Limited::new(body, MAX_BODY).collect().await;
    read.map(http_body_util::Collected::to_bytes).map_err(|_| AwsError {
        code: "RequestEntityTooLarge".to_owned(),
        message: format!("the request body is larger than {MAX_BODY} bytes or was truncated"),
        status: 413,
        retry_after: None,
    })
}
