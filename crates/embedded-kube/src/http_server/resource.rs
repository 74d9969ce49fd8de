//! Serves resource requests.

use std::sync::Arc;

use bytes::Bytes;
use futures::StreamExt;
use http::{Method, header};
use hyper::body::Body as HttpBody;
use serde_json::{Value, json};

use super::{
    Backend, BoxError, HttpServer, RequestHead, RequestLogGuard,
    encode::Encoder,
    negotiation::{self, Format},
    read_body,
    request_info::RequestInfo,
    response,
    response::Response,
    response_body::{ConnectionAborted, ResponseBody},
    route::{self, Route},
    table::IncludeObject,
    watch_encoder::{self, WatchEncoder},
};
use crate::{
    auth::Attributes,
    clock, decode,
    fault_injection::{ApiCall, Effect},
    object::{self, MetaAccessor, MetaAccessorMut},
    patch::{self, WriteContext},
    registry::{Resource, api_version},
    request::{ObjectBody, Reply, Request, User, Verb, WatchEventStream},
    status_error::{ApiResult, StatusError},
    types,
};

impl HttpServer {
    pub(super) async fn serve_resource<B>(
        &self,
        (head, user): (&RequestHead, &User),
        body: B,
        address: RequestInfo,
        record: &mut RequestLogGuard,
    ) -> Result<ApiResult<Response>, ConnectionAborted>
    where
        B: HttpBody<Data = Bytes> + Send,
        B::Error: Into<BoxError>,
    {
        let verb = route::request_verb(&head.method, &address, &head.query);
        fill_record(record, head, &address, verb);
        let attributes = route::authorization_attributes(verb, &address, &head.query);
        if let Err(failure) = self.0.auth.authorize(user, &attributes) {
            return Ok(Err(failure));
        }
        let resource = match route::route(self.0.backend.registry(), &head.method, &address, verb) {
            Route::Resource(resource) => resource,
            Route::NotFound => return Ok(Ok(response::page_not_found())),
            Route::Rejected(failure) => return Ok(Err(failure)),
        };
        let Some(verb) = verb else { return Ok(Err(StatusError::path_not_found())) };
        let deprecation: Vec<String> =
            resource.strategy.deprecation_warning().map(str::to_owned).into_iter().collect();
        let create_refused = self.create_denied(head, user, verb, attributes);
        let answer = match build_request((head, user), resource, verb, address) {
            Ok((request, encoder)) => {
                self.read_and_handle(Request { create_denied: create_refused, ..request }, encoder, body)
                    .await?
            }
            Err(failure) => Err(failure),
        };
        // Errors carry the warning too.
        let mut response = answer.unwrap_or_else(|failure| response::status_error(head, &failure));
        response::add_warnings(&mut response, &deprecation);
        Ok(Ok(response))
    }

    /// The error of an update or apply to a missing object if the caller lacks the permission to create.
    fn create_denied(
        &self,
        head: &RequestHead,
        user: &User,
        verb: Verb,
        attributes: Attributes,
    ) -> Option<StatusError> {
        let may_create = match verb {
            Verb::Update => true,
            Verb::Patch => content_type(head) == "application/apply-patch+yaml",
            _ => false,
        };
        if !may_create || !attributes.subresource.is_empty() {
            return None;
        }
        let attributes = Attributes { verb: Verb::Create.name().to_owned(), ..attributes };
        self.0.auth.authorize(user, &attributes).err()
    }

    async fn read_and_handle<B>(
        &self,
        mut request: Request,
        encoder: Encoder,
        body: B,
    ) -> Result<ApiResult<Response>, ConnectionAborted>
    where
        B: HttpBody<Data = Bytes> + Send,
        B::Error: Into<BoxError>,
    {
        match read_body(body).await {
            Ok(body) => request.body = body,
            Err(failure) => return Ok(Err(failure)),
        }
        self.handle_with_faults(request, encoder).await
    }

    async fn handle_with_faults(
        &self,
        request: Request,
        encoder: Encoder,
    ) -> Result<ApiResult<Response>, ConnectionAborted> {
        let effect = self.0.faults.effect_for(&api_call(&request));
        match effect {
            Some(Effect::Fail(failure)) => return Ok(Err(failure)),
            Some(Effect::DropBefore) => return Err(ConnectionAborted),
            Some(Effect::Delay(time)) => tokio::time::sleep(time).await,
            _ => {}
        }
        let resource = Arc::clone(&request.resource);
        let reply = self.dispatch(request).await;
        match (effect, reply) {
            (Some(Effect::DropAfter), _) => Err(ConnectionAborted),
            (_, Err(failure)) => Ok(Err(failure)),
            (effect, Ok(Reply::Watch(events))) => {
                let cut = match effect {
                    Some(Effect::BreakWatchAfter(events)) => Some(events),
                    _ => None,
                };
                Ok(self.watch_response(resource, encoder, events, cut))
            }
            (_, Ok(reply)) => Ok(encode_reply(&resource, &encoder, &reply)),
        }
    }

    async fn dispatch(&self, request: Request) -> ApiResult<Reply> {
        let is_token = request.subresource == "token" && request.resource.id.plural == "serviceaccounts";
        if request.resource.storage_prefix.is_empty() || is_token {
            return self.handle_virtual(request, is_token).await;
        }
        match (self.0.faults.frozen_revision(), request.verb) {
            (Some(revision), Verb::Get | Verb::List) if request.subresource.is_empty() => {
                handle_at_revision(&*self.0.backend, request, revision).await
            }
            _ => self.0.backend.handle(request).await,
        }
    }

    /// Reviews and token requests: answered without being stored.
    async fn handle_virtual(&self, request: Request, is_token: bool) -> ApiResult<Reply> {
        let kind = if is_token { "TokenRequest" } else { request.resource.kind.as_str() };
        let (mut asked, _) = decode::decode(&request.content_type, &request.body, kind)?;
        let owned = review_with_managed_fields(&request, &mut asked, kind);
        let mut object = if is_token {
            self.0.auth.token_request(&request.namespace, &request.name, &asked)?
        } else {
            self.0.auth.review(&request.resource, &request.namespace, &request.user, asked).await?
        };
        if let Some(owned) = owned {
            object.set_meta("managedFields", owned);
        }
        Ok(Reply::Object { code: 201, object: ObjectBody::Value(object), warnings: Vec::new() })
    }

    fn watch_response(
        &self,
        resource: Arc<Resource>,
        encoder: Encoder,
        events: WatchEventStream,
        cut: Option<usize>,
    ) -> ApiResult<Response> {
        if encoder.representation.format != Format::Json {
            let text = "only the following media types are accepted: application/json;stream=watch, application/vnd.kubernetes.protobuf;stream=watch";
            return Err(StatusError::new(406, "NotAcceptable", text, None));
        }
        let lines = WatchEncoder::new(encoder, resource).encode_stream(events);
        let lines = match cut {
            Some(events) => watch_encoder::abort_after_events(lines, events),
            None => lines,
        };
        let lines = watch_encoder::abort_on_cancel(lines, self.0.faults.watch_token());
        let stopping = self.0.stopping.clone();
        let lines = lines.take_until(async move { stopping.cancelled().await });
        Ok(response::streaming(200, "application/json", ResponseBody::Stream(Box::pin(lines))))
    }
}

/// The submitted review with managed fields, in the form of stored objects. It is part of the response.
fn review_with_managed_fields(request: &Request, asked: &mut Value, kind: &str) -> Option<Value> {
    if matches!(kind, "SelfSubjectReview" | "SelfSubjectRulesReview") {
        return None;
    }
    if kind == "TokenRequest"
        && let Some(seconds) = object::get_path_mut(asked, &["spec", "expirationSeconds"])
        && seconds.is_null()
    {
        *seconds = 3600.into();
    }
    let group = if kind == "TokenRequest" { "authentication.k8s.io" } else { &request.resource.id.group };
    let shape = types::shape_of(group, "v1", kind)?;
    let agent = request.agent.split('/').next().filter(|agent| !agent.is_empty()).unwrap_or("unknown");
    let named = request.options.field_manager.as_str();
    let writer = WriteContext {
        manager: if named.is_empty() { agent } else { named },
        api_version: &api_version(group, "v1"),
        kind,
        subresource: &request.subresource,
        reset_fields: &[],
        replicas_path: "",
        now: clock::now(),
    };
    let mut owned =
        json!({ "apiVersion": writer.api_version, "kind": kind, "metadata": {}, "spec": asked.get("spec") });
    // An object that does not match its shape gets no managed fields; validation happens elsewhere.
    patch::update_managed_fields(None, &mut owned, &shape, &writer).ok()?;
    owned.drop_meta("managedFields")
}

fn fill_record(record: &mut RequestLogGuard, head: &RequestHead, address: &RequestInfo, verb: Option<Verb>) {
    let entry = &mut record.entry;
    entry.verb = verb;
    address.group.clone_into(&mut entry.group);
    address.resource.clone_into(&mut entry.resource);
    address.subresource.clone_into(&mut entry.subresource);
    if address.in_namespace {
        address.namespace.clone_into(&mut entry.namespace);
    }
    address.name.clone_into(&mut entry.name);
    if head.method == Method::PATCH {
        entry.patch_type = content_type(head);
    }
    entry.field_manager = head.query.get_or_empty("fieldManager");
    entry.dry_run = head.query.get("dryRun").is_some();
}

/// Media type of the body without parameters.
fn content_type(head: &RequestHead) -> String {
    let header = head.header(header::CONTENT_TYPE);
    header.split(';').next().unwrap_or_default().trim().to_ascii_lowercase()
}

fn build_request(
    (head, user): (&RequestHead, &User),
    resource: Arc<Resource>,
    verb: Verb,
    address: RequestInfo,
) -> ApiResult<(Request, Encoder)> {
    // Names cannot contain an escaped slash.
    if [&address.name, &address.namespace, &address.subresource].iter().any(|step| step.contains('/')) {
        return Err(StatusError::path_not_found());
    }
    let accept = head.accept();
    let content_type = content_type(head);
    if verb == Verb::Patch {
        route::check_patch(&resource, &content_type)?;
    }
    route::check_accept(&resource, &accept, verb)?;
    let wanted = negotiation::negotiate(&accept, &head.query, &head.agent)?;
    let include = match wanted.projection {
        negotiation::Projection::Table(_) => IncludeObject::from_query(&head.query)?,
        _ => IncludeObject::Metadata,
    };
    let mut options = head.query.request_options()?;
    if address.watch_prefix && !address.name.is_empty() {
        options.field_selector = format!("metadata.name={}", address.name);
    }
    let namespace = if resource.namespaced { address.namespace } else { String::new() };
    let name = if verb == Verb::Watch { String::new() } else { address.name };
    let request = Request {
        user: user.clone(),
        agent: head.agent.clone(),
        verb,
        resource,
        namespace,
        name,
        subresource: address.subresource,
        options,
        body: Bytes::new(),
        content_type,
        create_denied: None,
    };
    Ok((request, Encoder { representation: wanted, include }))
}

fn api_call(request: &Request) -> ApiCall {
    ApiCall {
        verb: request.verb,
        group: request.resource.id.group.clone(),
        resource: request.resource.id.plural.clone(),
        subresource: request.subresource.clone(),
        namespace: request.namespace.clone(),
        name: request.name.clone(),
        user: request.user.name.clone(),
        agent: request.agent.clone(),
    }
}

/// Reads at an older revision: a list at exactly that revision; a get is a list with one name.
async fn handle_at_revision(backend: &dyn Backend, mut request: Request, revision: u64) -> ApiResult<Reply> {
    if !request.options.continue_token.is_empty() {
        return backend.handle(request).await;
    }
    request.options.resource_version = revision.to_string();
    "Exact".clone_into(&mut request.options.resource_version_match);
    if request.verb == Verb::List {
        return backend.handle(request).await;
    }
    let (resource, name) = (request.resource.group_resource(), std::mem::take(&mut request.name));
    request.verb = Verb::List;
    request.options.field_selector = format!("metadata.name={name}");
    match backend.handle(request).await? {
        Reply::List(list) => {
            let found = list.items.into_iter().find(|item| item.value().name() == name);
            let object = found.ok_or_else(|| StatusError::not_found(&resource, &name))?;
            Ok(Reply::Object { code: 200, object, warnings: Vec::new() })
        }
        other => Ok(other),
    }
}

fn encode_reply(resource: &Resource, encoder: &Encoder, reply: &Reply) -> ApiResult<Response> {
    match reply {
        Reply::Object { code, object, warnings } => {
            let body = encoder.encode_object(resource, object)?;
            let mut response = response::full(*code, encoder.content_type(), body);
            response::add_warnings(&mut response, warnings);
            Ok(response)
        }
        Reply::List(list) => {
            Ok(response::full(200, encoder.content_type(), encoder.encode_list(resource, list)?))
        }
        Reply::Watch(_) => Err(StatusError::internal("a watch cannot be encoded at once")),
    }
}
