//! HTTP: authentication, routing, content negotiation and encoding. Semantics live in `handlers`.
//!
//! One [`HttpServer`] serves one cluster, in process ([`service`]) and over TLS ([`listen`]). The order is kube-apiserver's:
//! authentication, impersonation, authorization, then routing, so an unauthorized caller cannot probe what exists.

mod encode;
mod in_process;
pub mod listen;
mod negotiation;
mod nonresource;
mod query;
mod request_info;
mod resource;
mod response;
mod response_body;
mod route;
mod table;
pub mod tls;
mod watch_encoder;

use std::{sync::Arc, time::Instant};

use bytes::{Bytes, BytesMut};
use futures::future::BoxFuture;
use http::{HeaderMap, Method, request::Parts};
use http_body_util::BodyExt;
use hyper::body::Body as HttpBody;
use tokio_util::sync::CancellationToken;

pub use self::{
    in_process::InProcessService,
    response_body::{ConnectionAborted, ResponseBody},
};
use self::{query::Query, response::Response};
use crate::{
    auth::{self, Attributes, Auth},
    clock,
    decode::BODY_LIMIT,
    discovery::Discovery,
    fault_injection::{FaultInjector, RequestLog, RequestRecord},
    openapi::OpenApi,
    registry::Registry,
    request::{Reply, Request, User},
    status_error::{ApiResult, StatusDetails, StatusError},
};

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Handles decoded requests.
pub trait Backend: Send + Sync {
    /// Handles one request.
    fn handle(&self, request: Request) -> BoxFuture<'_, ApiResult<Reply>>;
    /// The served resources.
    fn registry(&self) -> &Registry;
}

/// How the caller of a connection is identified.
#[derive(Debug, Clone)]
pub enum CallerIdentity {
    /// Authenticated by the request headers.
    FromHeaders,
    /// Always this user, whatever the headers say.
    Authenticated(User),
}

/// The HTTP server of one cluster. Cheap to clone.
#[derive(Clone)]
pub struct HttpServer(Arc<Inner>);

struct Inner {
    backend: Arc<dyn Backend>,
    auth: Auth,
    faults: FaultInjector,
    request_log: RequestLog,
    stopping: CancellationToken,
    discovery: Discovery,
    openapi: OpenApi,
}

/// A request without its body.
struct RequestHead {
    method: Method,
    path: String,
    query: Query,
    raw_query: String,
    headers: HeaderMap,
    agent: String,
}

impl RequestHead {
    fn from_parts(parts: Parts) -> Self {
        let agent = parts.headers.get(http::header::USER_AGENT);
        let agent =
            agent.map(|agent| String::from_utf8_lossy(agent.as_bytes()).into_owned()).unwrap_or_default();
        Self {
            method: parts.method,
            path: parts.uri.path().to_owned(),
            query: Query::parse(parts.uri.query()),
            raw_query: parts.uri.query().unwrap_or_default().to_owned(),
            headers: parts.headers,
            agent,
        }
    }

    fn header(&self, name: http::HeaderName) -> &str {
        self.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
    }

    /// All `Accept` headers joined.
    fn accept(&self) -> String {
        let values =
            self.headers.get_all(http::header::ACCEPT).iter().filter_map(|value| value.to_str().ok());
        values.collect::<Vec<_>>().join(",")
    }
}

/// Pending entry of the request log; written when dropped, however the request ends.
struct RequestLogGuard {
    request_log: RequestLog,
    started: Instant,
    entry: RequestRecord,
}

impl Drop for RequestLogGuard {
    fn drop(&mut self) {
        self.entry.duration = self.started.elapsed();
        self.request_log.add(std::mem::replace(&mut self.entry, RequestRecord::empty(clock::now())));
    }
}

impl HttpServer {
    pub fn new(
        backend: Arc<dyn Backend>,
        auth: Auth,
        faults: FaultInjector,
        requests: RequestLog,
        stopping: CancellationToken,
    ) -> Self {
        Self(Arc::new(Inner {
            backend,
            auth,
            faults,
            request_log: requests,
            stopping,
            discovery: Discovery::default(),
            openapi: OpenApi::default(),
        }))
    }

    /// Cancelled when the server shuts down.
    pub fn stopping(&self) -> &CancellationToken {
        &self.0.stopping
    }

    /// Handles one request. An error means that the connection must be aborted without a response.
    pub async fn serve<B>(
        &self,
        parts: Parts,
        body: B,
        caller: CallerIdentity,
    ) -> Result<http::Response<ResponseBody>, ConnectionAborted>
    where
        B: HttpBody<Data = Bytes> + Send,
        B::Error: Into<BoxError>,
    {
        let head = RequestHead::from_parts(parts);
        let started = Instant::now();
        let user = match self.resolve_user(&head, caller).await {
            Ok(user) => user,
            Err(failure) => return Ok(finish_response(&head, response::status_error(&head, &failure))),
        };
        let mut record = self.start_record(&head, &user, started);
        let result = match request_info::parse_path(&head.path) {
            Some(address) => self.serve_resource((&head, &user), body, address, &mut record).await?,
            None => self.serve_nonresource(&head, &user),
        };
        let response = result.unwrap_or_else(|failure| response::status_error(&head, &failure));
        record.entry.code = response.status().as_u16();
        Ok(finish_response(&head, response))
    }

    /// Anonymous requests are not logged: the log costs memory and is about authenticated callers.
    fn start_record(&self, head: &RequestHead, user: &User, started: Instant) -> RequestLogGuard {
        let entry = RequestRecord {
            user: user.name.clone(),
            agent: head.agent.clone(),
            resource: head.path.clone(),
            ..RequestRecord::empty(clock::now())
        };
        let requests =
            if auth::is_anonymous(user) { RequestLog::disabled() } else { self.0.request_log.clone() };
        RequestLogGuard { request_log: requests, started, entry }
    }

    async fn resolve_user(&self, head: &RequestHead, caller: CallerIdentity) -> ApiResult<User> {
        let caller = match caller {
            CallerIdentity::FromHeaders => self.0.auth.authenticate(&head.headers).await?,
            CallerIdentity::Authenticated(user) => user,
        };
        self.0.auth.impersonate(caller, &head.headers)
    }

    /// Serves a non-resource path: health, version, discovery, schemas.
    fn serve_nonresource(&self, head: &RequestHead, user: &User) -> ApiResult<Response> {
        self.0.auth.authorize(user, &Attributes::for_path(head.method.as_str(), &head.path))?;
        if let Some(response) = nonresource::respond(head) {
            return Ok(response);
        }
        let catalogue = self.0.backend.registry().catalogue();
        nonresource::respond_document(&self.0, head, &catalogue).unwrap_or_else(|| {
            match request_info::group_of_path(&head.path) {
                // A version that a built-in group does not have.
                Some(group) if catalogue.values().any(|one| !one.is_custom && one.id.group == group) => {
                    Err(StatusError::path_not_found())
                }
                _ => Ok(response::page_not_found()),
            }
        })
    }
}

fn finish_response(head: &RequestHead, response: Response) -> Response {
    if head.method == Method::HEAD { response::without_body(response) } else { response }
}

/// Bytes that are read beyond the body limit and discarded. A client that is still writing when the connection closes
/// may never see the error.
const MAX_DISCARDED_BYTES: usize = 16 << 20;

/// Reads the body up to the limit.
async fn read_body<B>(body: B) -> ApiResult<Bytes>
where
    B: HttpBody<Data = Bytes> + Send,
    B::Error: Into<BoxError>,
{
    const READ_TIMEOUT: std::time::Duration = std::time::Duration::from_mins(1);
    match tokio::time::timeout(READ_TIMEOUT, collect_limited(body)).await {
        Ok(collected) => collected,
        Err(_) => Err(StatusError::new(
            408,
            "Timeout",
            "Timeout: request did not complete within the allotted timeout",
            Some(StatusDetails::default()),
        )),
    }
}

async fn collect_limited<B>(body: B) -> ApiResult<Bytes>
where
    B: HttpBody<Data = Bytes> + Send,
    B::Error: Into<BoxError>,
{
    let mut body = std::pin::pin!(body);
    let (mut kept, mut seen) = (BytesMut::new(), 0_usize);
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|why| StatusError::bad_request(why.into().to_string()))?;
        let Ok(data) = frame.into_data() else { continue };
        seen = seen.saturating_add(data.len());
        if seen <= BODY_LIMIT {
            kept.extend_from_slice(&data);
        } else {
            kept = BytesMut::new();
        }
        if seen > MAX_DISCARDED_BYTES {
            break;
        }
    }
    if seen <= BODY_LIMIT {
        return Ok(kept.freeze());
    }
    let text = format!("Request entity too large: limit is {BODY_LIMIT}");
    Err(StatusError::new(413, "RequestEntityTooLarge", text, None))
}

#[cfg(test)]
mod tests;
