//! A request for a resource, from its head to its response.

use std::sync::Arc;

use bytes::Bytes;
use futures::StreamExt;
use http::{Method, header};
use hyper::body::Body as HttpBody;
use serde_json::{Value, json};

use super::{
    Backend, BoxError, Front, Head, Record,
    accept::{self, Format},
    encode::Encoder,
    path::Address,
    payload::{Broken, Payload},
    read, respond,
    respond::Response,
    route::{self, Route},
    table::Include,
    watch::{self, Framing},
};
use crate::{
    auth::Attributes,
    clock, decode,
    failure::{Answer, Failure},
    faults::{Call, Effect},
    object::{self, Meta, MetaMut},
    patch::{self, Writer},
    registry::{Resource, api_version},
    request::{Body, Events, Reply, Request, User, Verb},
    types,
};

impl Front {
    pub(super) async fn resource<B>(
        &self,
        (head, user): (&Head, &User),
        body: B,
        address: Address,
        record: &mut Record,
    ) -> Result<Answer<Response>, Broken>
    where
        B: HttpBody<Data = Bytes> + Send,
        B::Error: Into<BoxError>,
    {
        let verb = route::verb(&head.method, &address, &head.query);
        note(record, head, &address, verb);
        let attributes = route::attributes(verb, &address, &head.query);
        if let Err(failure) = self.0.auth.authorize(user, &attributes) {
            return Ok(Err(failure));
        }
        let resource = match route::route(self.0.backend.registry(), &head.method, &address, verb) {
            Route::To(resource) => resource,
            Route::Nowhere => return Ok(Ok(respond::page_not_found())),
            Route::Refused(failure) => return Ok(Err(failure)),
        };
        let Some(verb) = verb else { return Ok(Err(Failure::no_such_path())) };
        let deprecation: Vec<String> = resource.rules.deprecation().map(str::to_owned).into_iter().collect();
        let create_refused = self.create_refused(head, user, verb, attributes);
        let answer = match prepare((head, user), resource, verb, address) {
            Ok((request, encoder)) => {
                self.with_body(Request { create_refused, ..request }, encoder, body).await?
            }
            Err(failure) => Err(failure),
        };
        // Refusals say it too.
        let mut response = answer.unwrap_or_else(|failure| respond::failure(head, &failure));
        respond::warn(&mut response, &deprecation);
        Ok(Ok(response))
    }

    /// Why an update or an apply of something that is not there is refused: it needs leave to create, too.
    fn create_refused(
        &self,
        head: &Head,
        user: &User,
        verb: Verb,
        attributes: Attributes,
    ) -> Option<Failure> {
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

    async fn with_body<B>(
        &self,
        mut request: Request,
        encoder: Encoder,
        body: B,
    ) -> Result<Answer<Response>, Broken>
    where
        B: HttpBody<Data = Bytes> + Send,
        B::Error: Into<BoxError>,
    {
        match read(body).await {
            Ok(body) => request.body = body,
            Err(failure) => return Ok(Err(failure)),
        }
        self.with_faults(request, encoder).await
    }

    async fn with_faults(&self, request: Request, encoder: Encoder) -> Result<Answer<Response>, Broken> {
        let effect = self.0.faults.meet(&call(&request));
        match effect {
            Some(Effect::Fail(failure)) => return Ok(Err(failure)),
            Some(Effect::DropBefore) => return Err(Broken),
            Some(Effect::Delay(time)) => tokio::time::sleep(time).await,
            _ => {}
        }
        let resource = Arc::clone(&request.resource);
        let reply = self.reply(request).await;
        match (effect, reply) {
            (Some(Effect::DropAfter), _) => Err(Broken),
            (_, Err(failure)) => Ok(Err(failure)),
            (effect, Ok(Reply::Watch(events))) => {
                let cut = match effect {
                    Some(Effect::BreakWatchAfter(events)) => Some(events),
                    _ => None,
                };
                Ok(self.stream(resource, encoder, events, cut))
            }
            (_, Ok(reply)) => Ok(encoded(&resource, &encoder, &reply)),
        }
    }

    async fn reply(&self, request: Request) -> Answer<Reply> {
        let is_token = request.subresource == "token" && request.resource.id.plural == "serviceaccounts";
        if request.resource.storage.is_empty() || is_token {
            return self.virtual_reply(request, is_token).await;
        }
        match (self.0.faults.stale(), request.verb) {
            (Some(revision), Verb::Get | Verb::List) if request.subresource.is_empty() => {
                stale(&*self.0.backend, request, revision).await
            }
            _ => self.0.backend.handle(request).await,
        }
    }

    /// Reviews and token requests: objects that are answered, not stored.
    async fn virtual_reply(&self, request: Request, is_token: bool) -> Answer<Reply> {
        let kind = if is_token { "TokenRequest" } else { request.resource.kind.as_str() };
        let (mut asked, _) = decode::decode(&request.content_type, &request.body, kind)?;
        let owned = own(&request, &mut asked, kind);
        let mut object = if is_token {
            self.0.auth.token_request(&request.namespace, &request.name, &asked)?
        } else {
            self.0.auth.review(&request.resource, &request.namespace, &request.user, asked).await?
        };
        if let Some(owned) = owned {
            object.set_meta("managedFields", owned);
        }
        Ok(Reply::Object { code: 201, object: Body::Value(object), warnings: Vec::new() })
    }

    fn stream(
        &self,
        resource: Arc<Resource>,
        encoder: Encoder,
        events: Events,
        cut: Option<usize>,
    ) -> Answer<Response> {
        if encoder.wanted.format != Format::Json {
            let text = "only the following media types are accepted: application/json;stream=watch, application/vnd.kubernetes.protobuf;stream=watch";
            return Err(Failure::new(406, "NotAcceptable", text, None));
        }
        let lines = Framing::new(encoder, resource).lines(events);
        let lines = match cut {
            Some(events) => watch::breaking_after(lines, events),
            None => lines,
        };
        let lines = watch::breaking_on(lines, self.0.faults.watches());
        let stopping = self.0.stopping.clone();
        let lines = lines.take_until(async move { stopping.cancelled().await });
        Ok(respond::streaming(200, "application/json", Payload::Stream(Box::pin(lines))))
    }
}

/// Who asked what in a review, in the form in which stored objects have it. It goes back with the answer.
fn own(request: &Request, asked: &mut Value, kind: &str) -> Option<Value> {
    if matches!(kind, "SelfSubjectReview" | "SelfSubjectRulesReview") {
        return None;
    }
    if kind == "TokenRequest"
        && let Some(seconds) = object::at_mut(asked, &["spec", "expirationSeconds"])
        && seconds.is_null()
    {
        *seconds = 3600.into();
    }
    let group = if kind == "TokenRequest" { "authentication.k8s.io" } else { &request.resource.id.group };
    let shape = types::shape_of(group, "v1", kind)?;
    let agent = request.agent.split('/').next().filter(|agent| !agent.is_empty()).unwrap_or("unknown");
    let named = request.options.field_manager.as_str();
    let writer = Writer {
        manager: if named.is_empty() { agent } else { named },
        api_version: &api_version(group, "v1"),
        kind,
        subresource: &request.subresource,
        reset: &[],
        replicas: "",
        now: clock::now(),
    };
    let mut owned =
        json!({ "apiVersion": writer.api_version, "kind": kind, "metadata": {}, "spec": asked.get("spec") });
    // What does not fit its shape has no owners; whether it is refused is decided elsewhere.
    patch::track(None, &mut owned, &shape, &writer).ok()?;
    owned.drop_meta("managedFields")
}

fn note(record: &mut Record, head: &Head, address: &Address, verb: Option<Verb>) {
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
    entry.field_manager = head.query.text("fieldManager");
    entry.dry_run = head.query.get("dryRun").is_some();
}

/// Media type of the body without parameters.
fn content_type(head: &Head) -> String {
    let header = head.header(header::CONTENT_TYPE);
    header.split(';').next().unwrap_or_default().trim().to_ascii_lowercase()
}

fn prepare(
    (head, user): (&Head, &User),
    resource: Arc<Resource>,
    verb: Verb,
    address: Address,
) -> Answer<(Request, Encoder)> {
    // An escaped slash is no letter of a name.
    if [&address.name, &address.namespace, &address.subresource].iter().any(|step| step.contains('/')) {
        return Err(Failure::no_such_path());
    }
    let accept = head.accept();
    let content_type = content_type(head);
    if verb == Verb::Patch {
        route::check_patch(&resource, &content_type)?;
    }
    route::check_accept(&resource, &accept, verb)?;
    let wanted = accept::negotiate(&accept, &head.query, &head.agent)?;
    let include = match wanted.view {
        accept::View::Table(_) => Include::of(&head.query)?,
        _ => Include::Metadata,
    };
    let mut options = head.query.options()?;
    if address.watch && !address.name.is_empty() {
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
        create_refused: None,
    };
    Ok((request, Encoder { wanted, include }))
}

fn call(request: &Request) -> Call {
    Call {
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

/// A read as of an older revision: a list at exactly that one; a get is a list of one name.
async fn stale(backend: &dyn Backend, mut request: Request, revision: u64) -> Answer<Reply> {
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
            let object = found.ok_or_else(|| Failure::not_found(&resource, &name))?;
            Ok(Reply::Object { code: 200, object, warnings: Vec::new() })
        }
        other => Ok(other),
    }
}

fn encoded(resource: &Resource, encoder: &Encoder, reply: &Reply) -> Answer<Response> {
    match reply {
        Reply::Object { code, object, warnings } => {
            let body = encoder.object(resource, object)?;
            let mut response = respond::with(*code, encoder.content_type(), body);
            respond::warn(&mut response, warnings);
            Ok(response)
        }
        Reply::List(list) => Ok(respond::with(200, encoder.content_type(), encoder.list(resource, list)?)),
        Reply::Watch(_) => Err(Failure::internal("a watch cannot be encoded at once")),
    }
}
