//! One connection of terraform: one instance of a provider, as terraform sees it.
//!
//! The binding is here and not with the run: two aliases of one provider are two connections with two `Configure`
//! calls, and get two processes.

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
    journal::Change,
    plugin::Process,
    pool::Seat,
    wire::{
        grpc::{self, Answer, AnswerBody, Code, Status, collect, head, message, response},
        messages::{type_name, with_warning},
        method::{Class, Method},
        proto, schema,
    },
};

const STREAM_WINDOW: u32 = 8 << 20;
const CONNECTION_WINDOW: u32 = 64 << 20;
const HEADERS: u32 = 1 << 20;

/// SERVING, as `grpc.health.v1` has it.
const SERVING: &[u8] = &[0x08, 0x01];

/// Serves a connection to its end.
pub(super) async fn serve(stream: UnixStream, run: &Arc<Run>) {
    let connection =
        Arc::new(Connection { run: Arc::clone(run), bound: Mutex::default(), stop: Mutex::default() });
    let service = service_fn(|request| {
        let connection = Arc::clone(&connection);
        async move { Ok::<_, Infallible>(connection.answer(request).await) }
    });
    let serving = http2::Builder::new(TokioExecutor::new())
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .max_header_list_size(HEADERS)
        .serve_connection(TokioIo::new(stream), service);
    tokio::select! {
        // Garbage, a probe that hangs up at once, a terraform that was killed: all the same to the others.
        _ended = serving => {}
        () = run.over.cancelled() => {}
    }
}

struct Connection {
    run: Arc<Run>,
    bound: Mutex<Option<Bound>>,
    /// Cancelled by `Stop`, and then a new one.
    stop: Mutex<CancellationToken>,
}

#[derive(Clone)]
struct Bound {
    seat: Arc<Seat>,
    process: Arc<Process>,
}

type Outcome = Result<Response<AnswerBody>, Status>;

impl Connection {
    async fn answer(self: Arc<Self>, request: Request<Incoming>) -> Response<AnswerBody> {
        let path = request.uri().path().to_owned();
        self.run.shared.counters.calls.add();
        let outcome = self.route(&path, request.into_body()).await;
        outcome.unwrap_or_else(|status| {
            if status.code == Code::Aborted {
                self.run.shared.counters.lost.add();
            }
            tracing::debug!(run = self.run.id, path, code = ?status.code, "a call failed");
            response(Answer::from(&status))
        })
    }

    async fn route(&self, path: &str, body: Incoming) -> Outcome {
        let method = Method::parse(path);
        match method.class {
            Class::Idle => return Ok(idle(body)),
            Class::Streams => return self.stream(path, body).await,
            Class::Unknown => {
                self.run.shared.counters.unknown.add();
                return self.stream(path, body).await;
            }
            _ => {}
        }
        let (body, _) = collect(body)
            .await
            .map_err(|error| Status::new(Code::InvalidArgument, format!("{path}: {error}")))?;
        let message = message(&body)
            .ok_or_else(|| Status::new(Code::InvalidArgument, format!("{path}: not one whole message")))?;
        self.notice(&method, message);
        let answer = match method.class {
            Class::Stop => self.stop(),
            Class::Health => Answer::of(SERVING),
            Class::Schema | Class::Metadata | Class::AboutItself => self.about(&method, path, &body).await?,
            Class::CheckConfig => {
                let (answer, hit) = self.run.shared.pure(&self.run.herd, path, body.clone(), None).await?;
                self.count(hit, |counters| &counters.check_hits);
                answer
            }
            Class::Configure => self.configure(path, &body).await?,
            Class::Pure => {
                let bound = self.bound.lock().as_ref().map(|it| Arc::clone(&it.process));
                let bound = bound.filter(|process| !process.is_dead());
                let (answer, hit) = self.run.shared.pure(&self.run.herd, path, body.clone(), bound).await?;
                self.count(hit, |counters| &counters.pure_hits);
                answer
            }
            Class::Unconfigured => self.forward_anywhere(path, body.clone()).await?,
            Class::Reads => self.read(&method, path, body.clone()).await?,
            Class::Applies | Class::Imports => self.apply(&method, path, body.clone()).await?,
            Class::Idle | Class::Streams | Class::Unknown => {
                return Err(Status::new(
                    Code::Internal,
                    format!("{path} has no answer; this is a bug in capt"),
                ));
            }
        };
        Ok(response(answer))
    }

    fn count(&self, hit: bool, which: impl FnOnce(&crate::counters::Counters) -> &crate::counters::Counter) {
        let counters = &self.run.shared.counters;
        if hit { which(counters).add() } else { counters.forwarded.add() }
    }

    /// A type that the schema did not have cannot be asked for by a terraform that believed it; if one is, the list
    /// of wanted types was wrong.
    fn notice(&self, method: &Method<'_>, message: &[u8]) {
        let about_a_type =
            matches!(method.class, Class::Pure | Class::Reads | Class::Applies | Class::Imports);
        if let Some(kind) = type_name(message).filter(|kind| about_a_type && !self.run.wanted.has(kind)) {
            self.run.shared.counters.unwanted.add();
            self.run.saw_unwanted(kind);
            tracing::warn!(run = self.run.id, kind, "a type was used that nothing mentioned");
        }
    }

    /// Cancels what this connection only reads. Changes go on: the id of what they make would be lost.
    fn stop(&self) -> Answer {
        self.run.shared.counters.stops.add();
        std::mem::take(&mut *self.stop.lock()).cancel();
        Answer::of(b"")
    }

    async fn about(&self, method: &Method<'_>, path: &str, body: &Bytes) -> Result<Answer, Status> {
        let (answer, hit) = self.run.shared.about(&self.run.herd, path, body.clone()).await?;
        self.count(hit, |counters| &counters.schema_hits);
        let Some(message) = answer.message() else { return Ok(answer) };
        let filtered = match method.class {
            Class::Schema => schema::filter(message, &self.run.wanted),
            Class::Metadata => schema::filter_metadata(message, &self.run.wanted),
            _ => return Ok(answer),
        };
        match filtered {
            Ok(filtered) => Ok(Answer::of(&filtered)),
            Err(error) => Err(Status::new(Code::Internal, format!("the provider's schema is {error}"))),
        }
    }

    async fn configure(&self, path: &str, body: &Bytes) -> Result<Answer, Status> {
        let herd = &self.run.herd;
        let seat = herd.seat(path, body);
        let (process, answer) = herd.sit(&seat).await?;
        if let Some(process) = process {
            self.run.saw_seat(&seat.key);
            *self.bound.lock() = Some(Bound { seat, process });
        }
        Ok(answer)
    }

    /// The process of this connection. One that died is replaced by another with the same configuration; the calls
    /// that it had are not made again.
    async fn process(&self, path: &str) -> Result<Bound, Status> {
        let bound = self.bound.lock().clone();
        let Some(bound) = bound else {
            return Err(Status::new(
                Code::FailedPrecondition,
                format!("{path} was called before the provider was configured"),
            ));
        };
        if !bound.process.is_dead() {
            return Ok(bound);
        }
        let (process, answer) = self.run.herd.sit(&bound.seat).await?;
        let Some(process) = process else {
            let why = answer.trailers.get("grpc-message").and_then(|it| it.to_str().ok()).unwrap_or_default();
            return Err(Status::unavailable(format!("the new provider refused its configuration {why}")));
        };
        let again = Bound { seat: bound.seat, process };
        *self.bound.lock() = Some(again.clone());
        Ok(again)
    }

    async fn forward_anywhere(&self, path: &str, body: Bytes) -> Result<Answer, Status> {
        self.run.shared.counters.forwarded.add();
        let bound = self.bound.lock().as_ref().map(|it| Arc::clone(&it.process));
        match bound.filter(|process| !process.is_dead()) {
            Some(process) => process.call(path, body).await,
            None => self.run.herd.any().await?.call(path, body).await,
        }
    }

    async fn read(&self, method: &Method<'_>, path: &str, body: Bytes) -> Result<Answer, Status> {
        let Bound { seat, process } = self.process(path).await?;
        self.run.shared.counters.forwarded.add();
        let stopped = self.stop.lock().clone();
        let answer = tokio::select! {
            biased;
            answer = process.call(path, body.clone()) => answer?,
            () = stopped.cancelled() => {
                return Err(Status::new(Code::Cancelled, format!("{} was cancelled by a stop", method.name)));
            }
        };
        let value = answer.message().and_then(|it| proto::bytes(it, 1).ok().flatten()).unwrap_or_default();
        match method.name {
            "ReadResource" => self.run.saw_resource(value),
            "ReadDataSource" => {
                self.run.saw_data(&seat.key, path, message(&body).unwrap_or_default(), value);
            }
            _ => {}
        }
        Ok(answer)
    }

    /// A task of its own: it goes on when terraform is gone, and what it says is in the journal.
    async fn apply(&self, method: &Method<'_>, path: &str, body: Bytes) -> Result<Answer, Status> {
        let Bound { process, .. } = self.process(path).await?;
        self.run.shared.counters.forwarded.add();
        let (run, path, name) = (Arc::clone(&self.run), path.to_owned(), method.name.to_owned());
        let task = tokio::spawn(async move { apply(&run, &process, &path, &name, body).await });
        task.await.map_err(|_| Status::new(Code::Internal, "the gateway broke; this is a bug in capt"))?
    }

    async fn stream(&self, path: &str, body: Incoming) -> Outcome {
        let process = match self.process(path).await {
            Ok(bound) => bound.process,
            Err(_) => {
                let words = format!("{path} is unknown to the gateway and the provider is not configured");
                return Err(Status::new(Code::Unimplemented, words));
            }
        };
        self.run.shared.counters.forwarded.add();
        let stopped = self.stop.lock().clone();
        let body = body.map_err(Into::into).boxed_unsync();
        let (parts, body) = process.stream(path, body).await?.into_parts();
        let mut response = head(passed_on(body, process, stopped));
        *response.headers_mut() = parts.headers;
        Ok(response)
    }
}

/// A change, with its lines in the journal. A call that is none (of an ephemeral resource) has none.
async fn apply(run: &Run, process: &Process, path: &str, name: &str, body: Bytes) -> Result<Answer, Status> {
    if !matches!(name, "ApplyResourceChange" | "ImportResourceState") {
        return process.call(path, body).await;
    }
    let request = message(&body).unwrap_or_default();
    let change = Change { run: &run.id, workspace: &run.workspace, method: name, request };
    let journal = &run.shared.journal;
    let call = journal.begun(&change).await.map_err(|error| {
        run.shared.counters.not_journalled.add();
        let words = format!("nothing was changed, because it could not be written down: {error}");
        // Not one that was lost with its provider: it was never made.
        Status::new(Code::FailedPrecondition, words)
    })?;
    let answer = process.call(path, body.clone()).await;
    let said = answer.as_ref().ok().and_then(Answer::message);
    let written = journal.ended(&change, call, said).await;
    run.shared.counters.journalled.add();
    match (written, said) {
        (Err(error), Some(said)) => {
            // The object is there, so terraform must hear of it; the rest is a warning.
            run.shared.counters.not_journalled.add();
            tracing::error!(run = run.id, error, "a change is not in the journal");
            let number = if name == "ImportResourceState" { 2 } else { 3 };
            let summary = "This change is not in the gateway's journal";
            Ok(Answer { body: framed(&with_warning(said, number, summary, &error)), ..answer? })
        }
        _ => answer,
    }
}

/// A stream that stays open and says nothing, as a provider's own does.
fn idle(request: Incoming) -> Response<AnswerBody> {
    let silence = futures::stream::pending::<Result<Frame<Bytes>, grpc::BoxError>>();
    // What the caller sends is held and not read; letting go of it would end the stream.
    let held = silence.map(move |frame| {
        let _held = &request;
        frame
    });
    head(BodyExt::boxed_unsync(StreamBody::new(held)))
}

/// A body as it comes. A stop ends it, and so does the end of its process, with words; the process lives as long.
fn passed_on(body: Incoming, process: Arc<Process>, stopped: CancellationToken) -> AnswerBody {
    let frames = futures::stream::unfold(Some(body), move |body| {
        let (process, stopped) = (Arc::clone(&process), stopped.clone());
        async move {
            let mut body = body?;
            let last =
                |status: &Status| Ok::<_, grpc::BoxError>(Frame::trailers(Answer::from(status).trailers));
            tokio::select! {
                biased;
                frame = body.frame() => match frame? {
                    Ok(frame) => Some((Ok(frame), Some(body))),
                    Err(_) => {
                        let words = format!("the provider (process {}) ended in a stream", process.pid);
                        Some((last(&Status::unavailable(words)), None))
                    }
                },
                () = stopped.cancelled() => {
                    Some((last(&Status::new(Code::Cancelled, "cancelled by a stop")), None))
                }
            }
        }
    });
    BodyExt::boxed_unsync(StreamBody::new(frames))
}
