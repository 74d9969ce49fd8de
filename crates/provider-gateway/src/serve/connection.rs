//! One connection from Terraform, which corresponds to one provider instance.
//!
//! The configuration is bound to the connection, not to the run: two aliases of a provider are two connections with two
//! `Configure` calls, and get two processes.

use std::{convert::Infallible, sync::Arc};

use bytes::Bytes;
use futures::StreamExt as _;
use http::{Request, Response};
use http_body_util::{BodyExt, StreamBody};
use hyper::{
    body::{Frame, Incoming},
    server::conn::http2,
    service::service_fn,
};
use hyper_util::rt::{TokioExecutor, TokioIo};
use parking_lot::Mutex;
use tokio::net::UnixStream;
use tokio_util::sync::CancellationToken;

use super::{Run, framed};
use crate::{
    journal::ChangeCall,
    plugin::ProviderProcess,
    pool::ProviderConfiguration,
    wire::{
        grpc::{
            self, GrpcBody, GrpcCode, GrpcResponse, GrpcStatus, collect_body, grpc_response, into_http,
            unframe,
        },
        messages::{type_name, with_warning},
        method::{CallClass, Method},
        protobuf, schema,
    },
};

const STREAM_WINDOW: u32 = 8 << 20;
const CONNECTION_WINDOW: u32 = 64 << 20;
const MAX_HEADER_LIST: u32 = 1 << 20;

/// SERVING in `grpc.health.v1`.
const HEALTH_SERVING: &[u8] = &[0x08, 0x01];

/// Serves a connection until it ends.
pub(super) async fn serve(stream: UnixStream, run: &Arc<Run>) {
    let connection =
        Arc::new(Connection { run: Arc::clone(run), binding: Mutex::default(), stop: Mutex::default() });
    let service = service_fn(|request| {
        let connection = Arc::clone(&connection);
        async move { Ok::<_, Infallible>(connection.handle_call(request).await) }
    });
    let serving = http2::Builder::new(TokioExecutor::new())
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .max_header_list_size(MAX_HEADER_LIST)
        .serve_connection(TokioIo::new(stream), service);
    tokio::select! {
        // Invalid bytes, a port check or a killed Terraform must not affect other connections.
        _ended = serving => {}
        () = run.closed.cancelled() => {}
    }
}

struct Connection {
    run: Arc<Run>,
    binding: Mutex<Option<Binding>>,
    /// Cancelled by `Stop` and then replaced.
    stop: Mutex<CancellationToken>,
}

#[derive(Clone)]
struct Binding {
    configuration: Arc<ProviderConfiguration>,
    process: Arc<ProviderProcess>,
}

type CallResult = Result<Response<GrpcBody>, GrpcStatus>;

impl Connection {
    async fn handle_call(self: Arc<Self>, request: Request<Incoming>) -> Response<GrpcBody> {
        let path = request.uri().path().to_owned();
        self.run.shared.counters.calls.increment();
        let outcome = self.route(&path, request.into_body()).await;
        outcome.unwrap_or_else(|status| {
            if status.code == GrpcCode::Aborted {
                self.run.shared.counters.lost.increment();
            }
            tracing::debug!(run = self.run.id, path, code = ?status.code, "provider call failed");
            into_http(GrpcResponse::from(&status))
        })
    }

    async fn route(&self, path: &str, body: Incoming) -> CallResult {
        let method = Method::parse(path);
        match method.class {
            CallClass::SilentStream => return Ok(silent_stream(body)),
            CallClass::Stream => {
                return match self.run.refusal(method.name) {
                    Some(why) => Err(refused(&why)),
                    None => self.stream(path, body).await,
                };
            }
            CallClass::Unknown => {
                self.run.shared.counters.unknown.increment();
                return self.stream(path, body).await;
            }
            _ => {}
        }
        let (body, _) = collect_body(body)
            .await
            .map_err(|error| GrpcStatus::new(GrpcCode::InvalidArgument, format!("{path}: {error}")))?;
        let message = unframe(&body).ok_or_else(|| {
            GrpcStatus::new(GrpcCode::InvalidArgument, format!("{path}: expected exactly one message"))
        })?;
        self.check_type(&method, message);
        let answer = match method.class {
            CallClass::Stop => self.stop(),
            CallClass::Health => GrpcResponse::ok(HEALTH_SERVING),
            CallClass::Schema | CallClass::Metadata | CallClass::ProviderInfo => {
                self.describe_provider(&method, path, &body).await?
            }
            CallClass::CheckConfig => {
                let (answer, hit) =
                    self.run.shared.cached_call(&self.run.group, path, body.clone(), None).await?;
                self.count_call(hit, |counters| &counters.check_hits);
                answer
            }
            CallClass::Configure => self.configure(path, &body).await?,
            CallClass::Pure => {
                let bound = self.binding.lock().as_ref().map(|it| Arc::clone(&it.process));
                let bound = bound.filter(|process| !process.is_dead());
                let (answer, hit) =
                    self.run.shared.cached_call(&self.run.group, path, body.clone(), bound).await?;
                self.count_call(hit, |counters| &counters.pure_hits);
                answer
            }
            CallClass::Unconfigured => self.forward_unbound(path, body.clone()).await?,
            CallClass::Read => self.read(&method, path, body.clone()).await?,
            CallClass::Apply | CallClass::Import => self.apply(&method, path, body.clone()).await?,
            CallClass::SilentStream | CallClass::Stream | CallClass::Unknown => {
                return Err(GrpcStatus::new(
                    GrpcCode::Internal,
                    format!("{path} has no answer; this is a bug in capt"),
                ));
            }
        };
        Ok(into_http(answer))
    }

    fn count_call(
        &self,
        hit: bool,
        which: impl FnOnce(&crate::counters::Counters) -> &crate::counters::Counter,
    ) {
        let counters = &self.run.shared.counters;
        if hit { which(counters).increment() } else { counters.forwarded.increment() }
    }

    /// Terraform does not use types that its schema lacks; a call for one means that the type filter was wrong.
    fn check_type(&self, method: &Method<'_>, message: &[u8]) {
        let about_a_type =
            matches!(method.class, CallClass::Pure | CallClass::Read | CallClass::Apply | CallClass::Import);
        if let Some(kind) =
            type_name(message).filter(|kind| about_a_type && !self.run.type_filter.includes(kind))
        {
            self.run.shared.counters.unwanted.increment();
            self.run.record_filtered_type(kind);
            tracing::warn!(run = self.run.id, kind, "call for a type that was filtered out of the schema");
        }
    }

    /// Cancels reads of this connection. Changes continue: the ids of created resources would be lost.
    fn stop(&self) -> GrpcResponse {
        self.run.shared.counters.stops.increment();
        std::mem::take(&mut *self.stop.lock()).cancel();
        GrpcResponse::ok(b"")
    }

    async fn describe_provider(
        &self,
        method: &Method<'_>,
        path: &str,
        body: &Bytes,
    ) -> Result<GrpcResponse, GrpcStatus> {
        let (answer, hit) = self.run.shared.provider_info(&self.run.group, path, body.clone()).await?;
        self.count_call(hit, |counters| &counters.schema_hits);
        let Some(message) = answer.message() else { return Ok(answer) };
        let filtered = match method.class {
            CallClass::Schema => schema::filter_schema(message, &self.run.type_filter),
            CallClass::Metadata => schema::filter_metadata(message, &self.run.type_filter),
            _ => return Ok(answer),
        };
        match filtered {
            Ok(filtered) => {
                if let (CallClass::Schema, Ok(versions)) =
                    (method.class, schema::resource_versions(&filtered))
                {
                    self.run.record_schema_versions(versions);
                }
                Ok(GrpcResponse::ok(&filtered))
            }
            Err(error) => {
                Err(GrpcStatus::new(GrpcCode::Internal, format!("the provider's schema is invalid: {error}")))
            }
        }
    }

    async fn configure(&self, path: &str, body: &Bytes) -> Result<GrpcResponse, GrpcStatus> {
        let herd = &self.run.group;
        let seat = herd.configuration(path, body);
        let (process, answer) = herd.configured_process(&seat).await?;
        if let Some(process) = process {
            self.run.record_configuration(&seat.key);
            *self.binding.lock() = Some(Binding { configuration: seat, process });
        }
        Ok(answer)
    }

    /// The process of this connection. One that exited is replaced by another with the same configuration; its calls
    /// are not retried.
    async fn bound_process(&self, path: &str) -> Result<Binding, GrpcStatus> {
        let bound = self.binding.lock().clone();
        let Some(bound) = bound else {
            return Err(GrpcStatus::new(
                GrpcCode::FailedPrecondition,
                format!("{path} was called before the provider was configured"),
            ));
        };
        if !bound.process.is_dead() {
            return Ok(bound);
        }
        let (process, answer) = self.run.group.configured_process(&bound.configuration).await?;
        let Some(process) = process else {
            let why = answer.trailers.get("grpc-message").and_then(|it| it.to_str().ok()).unwrap_or_default();
            return Err(GrpcStatus::provider_unavailable(format!(
                "the restarted provider rejected its configuration: {why}"
            )));
        };
        let again = Binding { configuration: bound.configuration, process };
        *self.binding.lock() = Some(again.clone());
        Ok(again)
    }

    async fn forward_unbound(&self, path: &str, body: Bytes) -> Result<GrpcResponse, GrpcStatus> {
        self.run.shared.counters.forwarded.increment();
        let bound = self.binding.lock().as_ref().map(|it| Arc::clone(&it.process));
        match bound.filter(|process| !process.is_dead()) {
            Some(process) => process.call(path, body).await,
            None => self.run.group.any_process().await?.call(path, body).await,
        }
    }

    async fn read(&self, method: &Method<'_>, path: &str, body: Bytes) -> Result<GrpcResponse, GrpcStatus> {
        let Binding { configuration: seat, process } = self.bound_process(path).await?;
        self.run.shared.counters.forwarded.increment();
        let stopped = self.stop.lock().clone();
        let answer = tokio::select! {
            biased;
            answer = process.call(path, body.clone()) => answer?,
            () = stopped.cancelled() => {
                return Err(GrpcStatus::new(GrpcCode::Cancelled, format!("{} was cancelled by Stop", method.name)));
            }
        };
        let value =
            answer.message().and_then(|it| protobuf::bytes_field(it, 1).ok().flatten()).unwrap_or_default();
        match method.name {
            "ReadResource" => self.run.record_resource(value),
            "ReadDataSource" => {
                self.run.record_data_source(&seat.key, path, unframe(&body).unwrap_or_default(), value);
            }
            _ => {}
        }
        Ok(answer)
    }

    /// Runs in its own task: the change completes and is journaled even if Terraform disconnects.
    async fn apply(&self, method: &Method<'_>, path: &str, body: Bytes) -> Result<GrpcResponse, GrpcStatus> {
        let Binding { process, .. } = self.bound_process(path).await?;
        self.run.shared.counters.forwarded.increment();
        let (run, path, name) = (Arc::clone(&self.run), path.to_owned(), method.name.to_owned());
        let task = tokio::spawn(async move { apply_journaled(&run, &process, &path, &name, body).await });
        task.await
            .map_err(|_| GrpcStatus::new(GrpcCode::Internal, "the gateway panicked; this is a bug in capt"))?
    }

    async fn stream(&self, path: &str, body: Incoming) -> CallResult {
        let process = match self.bound_process(path).await {
            Ok(bound) => bound.process,
            Err(_) => {
                let words = format!("{path} is unknown to the gateway and the provider is not configured");
                return Err(GrpcStatus::new(GrpcCode::Unimplemented, words));
            }
        };
        self.run.shared.counters.forwarded.increment();
        let stopped = self.stop.lock().clone();
        let body = body.map_err(Into::into).boxed_unsync();
        let (parts, body) = process.stream(path, body).await?.into_parts();
        let mut response = grpc_response(relay_stream(body, process, stopped));
        *response.headers_mut() = parts.headers;
        Ok(response)
    }
}

/// Applies a change with its journal entries. Calls for ephemeral resources are not journaled.
async fn apply_journaled(
    run: &Run,
    process: &ProviderProcess,
    path: &str,
    name: &str,
    body: Bytes,
) -> Result<GrpcResponse, GrpcStatus> {
    if !matches!(name, "ApplyResourceChange" | "ImportResourceState") {
        return process.call(path, body).await;
    }
    let request = unframe(&body).unwrap_or_default();
    let schema_version = type_name(request).and_then(|kind| run.schema_version(kind));
    let change =
        ChangeCall { run: &run.id, workspace: &run.workspace, method: name, request, schema_version };
    let journal = &run.shared.journal;
    let call = start_change(run, &change).await?;
    let answer = process.call(path, body.clone()).await;
    let said = answer.as_ref().ok().and_then(GrpcResponse::message);
    let written = journal.record_end(&change, call, said).await;
    run.shared.counters.journalled.increment();
    match (written, said) {
        (Err(error), Some(said)) => {
            // The object exists, so Terraform must get the response; the journal error becomes a warning.
            run.shared.counters.not_journalled.increment();
            tracing::error!(run = run.id, error, "change is missing from the journal");
            let number = if name == "ImportResourceState" { 2 } else { 3 };
            let summary = "This change is missing from the gateway's journal";
            Ok(GrpcResponse { body: framed(&with_warning(said, number, summary, &error)), ..answer? })
        }
        _ => answer,
    }
}

/// A change that is not sent to the provider.
fn refused(why: &str) -> GrpcStatus {
    GrpcStatus::new(GrpcCode::FailedPrecondition, format!("nothing was changed, because {why}"))
}

/// Writes the start of a change into the journal. Fails if the run was closed: its terraform has exited, and the next run
/// may have been told already that nothing is in flight. Fails if its operator may not be the leader any more.
async fn start_change(run: &Run, change: &ChangeCall<'_>) -> Result<u64, GrpcStatus> {
    let journal = &run.shared.journal;
    // Not counted as lost: the change was never sent.
    let call = journal.record_start(change).await.map_err(|error| {
        run.shared.counters.not_journalled.increment();
        refused(&format!("the journal entry could not be written: {error}"))
    })?;
    // Checked after the change is listed as in flight; closing and listing happen in the other order. The Lease may have been
    // lost while the entry was written.
    if let Some(why) = run.refusal(change.method) {
        // An entry that stays behind is looked up by the next run.
        let _looked_up = journal.cancel_start(call).await;
        return Err(refused(&why));
    }
    Ok(call)
}

/// A stream that stays open without messages, like a provider's own.
fn silent_stream(request: Incoming) -> Response<GrpcBody> {
    let silence = futures::stream::pending::<Result<Frame<Bytes>, grpc::BoxError>>();
    // The request body is held unread; dropping it would end the stream.
    let held = silence.map(move |frame| {
        let _held = &request;
        frame
    });
    grpc_response(BodyExt::boxed_unsync(StreamBody::new(held)))
}

/// Relays a body. `Stop` or the exit of the process ends it with a status; the process is held until then.
fn relay_stream(body: Incoming, process: Arc<ProviderProcess>, stopped: CancellationToken) -> GrpcBody {
    let frames = futures::stream::unfold(Some(body), move |body| {
        let (process, stopped) = (Arc::clone(&process), stopped.clone());
        async move {
            let mut body = body?;
            let last = |status: &GrpcStatus| {
                Ok::<_, grpc::BoxError>(Frame::trailers(GrpcResponse::from(status).trailers))
            };
            tokio::select! {
                biased;
                frame = body.frame() => match frame? {
                    Ok(frame) => Some((Ok(frame), Some(body))),
                    Err(_) => {
                        let words = format!("the provider (pid {}) exited during a stream", process.pid);
                        Some((last(&GrpcStatus::provider_unavailable(words)), None))
                    }
                },
                () = stopped.cancelled() => {
                    Some((last(&GrpcStatus::new(GrpcCode::Cancelled, "cancelled by Stop")), None))
                }
            }
        }
    });
    BodyExt::boxed_unsync(StreamBody::new(frames))
}
