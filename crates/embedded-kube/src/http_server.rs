//! HTTP: who asks, for what, in which form; and the answer's form. Meaning is elsewhere (`verbs`).
//!
//! One [`Front`] serves one cluster, in process ([`service`]) and over TLS ([`listen`]). The order is the real
//! server's: authentication, impersonation, authorization, then routing, so that nobody learns what exists who may not.

mod accept;
mod encode;
mod health;
pub mod listen;
mod path;
mod payload;
mod query;
mod resource;
mod respond;
mod route;
mod service;
mod table;
pub mod tls;
mod watch;

use std::{sync::Arc, time::Instant};

use bytes::{Bytes, BytesMut};
use futures::future::BoxFuture;
use http::{HeaderMap, Method, request::Parts};
use http_body_util::BodyExt;
use hyper::body::Body as HttpBody;
use tokio_util::sync::CancellationToken;

pub use self::{
    payload::{Broken, Payload},
    service::InProcess,
};
use self::{query::Query, respond::Response};
use crate::{
    auth::{self, Attributes, Auth},
    clock,
    decode::BODY_LIMIT,
    discovery::Discovery,
    failure::{Answer, Details, Failure},
    faults::{Faults, Logged, Requests},
    openapi::OpenApi,
    registry::Registry,
    request::{Reply, Request, User},
};

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Where requests are carried out.
pub trait Backend: Send + Sync {
    /// Carries out one request.
    fn handle(&self, request: Request) -> BoxFuture<'_, Answer<Reply>>;
    /// What is served.
    fn registry(&self) -> &Registry;
}

/// Who a connection speaks for.
#[derive(Debug, Clone)]
pub enum Caller {
    /// Whoever the headers say.
    Headers,
    /// This user, whatever the headers say.
    Known(User),
}

/// The HTTP side of one cluster. Cheap to clone.
#[derive(Clone)]
pub struct Front(Arc<Inner>);

struct Inner {
    backend: Arc<dyn Backend>,
    auth: Auth,
    faults: Faults,
    requests: Requests,
    stopping: CancellationToken,
    discovery: Discovery,
    openapi: OpenApi,
}

/// Everything of a request but its body.
struct Head {
    method: Method,
    path: String,
    query: Query,
    raw_query: String,
    headers: HeaderMap,
    agent: String,
}

impl Head {
    fn of(parts: Parts) -> Self {
        let agent = parts.headers.get(http::header::USER_AGENT);
        let agent =
            agent.map(|agent| String::from_utf8_lossy(agent.as_bytes()).into_owned()).unwrap_or_default();
        Self {
            method: parts.method,
            path: parts.uri.path().to_owned(),
            query: Query::of(parts.uri.query()),
            raw_query: parts.uri.query().unwrap_or_default().to_owned(),
            headers: parts.headers,
            agent,
        }
    }

    fn header(&self, name: http::HeaderName) -> &str {
        self.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
    }

    /// All values of `Accept` as one.
    fn accept(&self) -> String {
        let values =
            self.headers.get_all(http::header::ACCEPT).iter().filter_map(|value| value.to_str().ok());
        values.collect::<Vec<_>>().join(",")
    }
}

/// What the log will say; written when the request is over, however it ends.
struct Record {
    requests: Requests,
    started: Instant,
    entry: Logged,
}

impl Drop for Record {
    fn drop(&mut self) {
        self.entry.took = self.started.elapsed();
        self.requests.add(std::mem::replace(&mut self.entry, Logged::empty(clock::now())));
    }
}

impl Front {
    pub fn new(
        backend: Arc<dyn Backend>,
        auth: Auth,
        faults: Faults,
        requests: Requests,
        stopping: CancellationToken,
    ) -> Self {
        Self(Arc::new(Inner {
            backend,
            auth,
            faults,
            requests,
            stopping,
            discovery: Discovery::default(),
            openapi: OpenApi::default(),
        }))
    }

    /// Done when the server goes down.
    pub fn stopping(&self) -> &CancellationToken {
        &self.0.stopping
    }

    /// Answers one request. An error means that the connection is to be broken without an answer.
    pub async fn answer<B>(
        &self,
        parts: Parts,
        body: B,
        caller: Caller,
    ) -> Result<http::Response<Payload>, Broken>
    where
        B: HttpBody<Data = Bytes> + Send,
        B::Error: Into<BoxError>,
    {
        let head = Head::of(parts);
        let started = Instant::now();
        let user = match self.user(&head, caller).await {
            Ok(user) => user,
            Err(failure) => return Ok(finished(&head, respond::failure(&head, &failure))),
        };
        let mut record = self.record(&head, &user, started);
        let result = match path::address(&head.path) {
            Some(address) => self.resource((&head, &user), body, address, &mut record).await?,
            None => self.plain(&head, &user),
        };
        let response = result.unwrap_or_else(|failure| respond::failure(&head, &failure));
        record.entry.code = response.status().as_u16();
        Ok(finished(&head, response))
    }

    /// Nobody in particular is not logged: the log is for those who were let in, and costs memory.
    fn record(&self, head: &Head, user: &User, started: Instant) -> Record {
        let entry = Logged {
            user: user.name.clone(),
            agent: head.agent.clone(),
            resource: head.path.clone(),
            ..Logged::empty(clock::now())
        };
        let requests = if auth::is_anonymous(user) { Requests::off() } else { self.0.requests.clone() };
        Record { requests, started, entry }
    }

    async fn user(&self, head: &Head, caller: Caller) -> Answer<User> {
        let caller = match caller {
            Caller::Headers => self.0.auth.authenticate(&head.headers).await?,
            Caller::Known(user) => user,
        };
        self.0.auth.impersonate(caller, &head.headers)
    }

    /// A path that is no resource: health, version, discovery, schemas.
    fn plain(&self, head: &Head, user: &User) -> Answer<Response> {
        self.0.auth.authorize(user, &Attributes::of_path(head.method.as_str(), &head.path))?;
        if let Some(response) = health::respond(head) {
            return Ok(response);
        }
        let catalogue = self.0.backend.registry().all();
        health::documents(&self.0, head, &catalogue).unwrap_or_else(|| match path::group(&head.path) {
            // A version that a group of ours does not have.
            Some(group) if catalogue.values().any(|one| !one.custom && one.id.group == group) => {
                Err(Failure::no_such_path())
            }
            _ => Ok(respond::page_not_found()),
        })
    }
}

fn finished(head: &Head, response: Response) -> Response {
    if head.method == Method::HEAD { respond::without_body(response) } else { response }
}

/// What is read of a body beyond the limit and thrown away. A client that still writes when the connection is closed
/// may never see the refusal.
const DISCARDED: usize = 16 << 20;

/// The body, up to the limit.
async fn read<B>(body: B) -> Answer<Bytes>
where
    B: HttpBody<Data = Bytes> + Send,
    B::Error: Into<BoxError>,
{
    const SLOWEST: std::time::Duration = std::time::Duration::from_mins(1);
    match tokio::time::timeout(SLOWEST, collect(body)).await {
        Ok(collected) => collected,
        Err(_) => Err(Failure::new(
            408,
            "Timeout",
            "Timeout: request did not complete within the allotted timeout",
            Some(Details::default()),
        )),
    }
}

async fn collect<B>(body: B) -> Answer<Bytes>
where
    B: HttpBody<Data = Bytes> + Send,
    B::Error: Into<BoxError>,
{
    let mut body = std::pin::pin!(body);
    let (mut kept, mut seen) = (BytesMut::new(), 0_usize);
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|why| Failure::bad_request(why.into().to_string()))?;
        let Ok(data) = frame.into_data() else { continue };
        seen = seen.saturating_add(data.len());
        if seen <= BODY_LIMIT {
            kept.extend_from_slice(&data);
        } else {
            kept = BytesMut::new();
        }
        if seen > DISCARDED {
            break;
        }
    }
    if seen <= BODY_LIMIT {
        return Ok(kept.freeze());
    }
    let text = format!("Request entity too large: limit is {BODY_LIMIT}");
    Err(Failure::new(413, "RequestEntityTooLarge", text, None))
}

#[cfg(test)]
mod tests;
