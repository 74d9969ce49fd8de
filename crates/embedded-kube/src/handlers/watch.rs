//! Watch: from now, from a revision, or after initial events.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use futures::{StreamExt, stream};
use serde_json::json;
use tokio::time::{Instant, sleep_until};

use super::{
    RequestHandler, list, list::SelectorFilter, object_converter, object_converter::ObjectConverter,
    storage_key, storage_key_prefix, write_options,
};
use crate::{
    registry::Registry,
    request::{ObjectBody, Reply, Request, RequestOptions, WatchEvent, WatchEventType},
    status_error::{ApiResult, FieldError, StatusError},
    store::{StoreEvent, Watch},
};

/// Default duration of a watch; kube-apiserver uses 30 to 60 minutes.
const DEFAULT_TIMEOUT: Duration = Duration::from_mins(45);
const MAX_TIMEOUT: Duration = Duration::from_hours(24);
const BOOKMARK_INTERVAL: Duration = Duration::from_mins(1);

struct WatchState {
    watch: Watch,
    registry: Arc<Registry>,
    filter: Arc<SelectorFilter>,
    viewer: ObjectConverter,
    pending: VecDeque<WatchEvent>,
    bookmarks: bool,
    next_bookmark: Instant,
    deadline: Instant,
    ended: bool,
}

impl RequestHandler {
    pub(super) fn watch(&self, request: &Request) -> ApiResult<Reply> {
        let options = &request.options;
        check_watch_options(options)?;
        let filter = SelectorFilter::read(options, &request.resource)?;
        let revision = list::parse_resource_version(&options.resource_version)?;
        let prefix = watched_prefix(request, &filter);
        let viewer = object_converter(&request.resource);
        let initial = options.send_initial_events.unwrap_or(revision == 0);
        let mut waiting = VecDeque::new();
        let after = if initial {
            let shot = filter.find(&self.store, &prefix);
            waiting.extend(
                shot.entries
                    .iter()
                    .map(|(_, entry)| event(WatchEventType::Added, viewer.convert_entry(entry))),
            );
            if options.send_initial_events == Some(true) && options.bookmarks {
                waiting.push_back(bookmark(&viewer, shot.revision, true));
            }
            shot.revision
        } else if revision == 0 {
            self.store.revision()
        } else {
            revision
        };
        let watch = match self.store.watch(&prefix, after) {
            Ok(watch) => watch,
            Err(gone) => return Ok(Reply::Watch(expired_stream(after, gone.oldest))),
        };
        // Zero means the default; the maximum is a day.
        let asked = options.timeout_seconds.filter(|seconds| *seconds > 0);
        let timeout = asked.map_or(DEFAULT_TIMEOUT, |seconds| Duration::from_secs(seconds).min(MAX_TIMEOUT));
        let now = Instant::now();
        let state = WatchState {
            watch,
            registry: Arc::clone(&self.registry),
            filter: Arc::new(filter),
            viewer,
            pending: waiting,
            bookmarks: options.bookmarks,
            next_bookmark: now + BOOKMARK_INTERVAL,
            deadline: now + timeout,
            ended: false,
        };
        Ok(Reply::Watch(stream::unfold(state, next_event).boxed()))
    }
}

/// A watch restricted to one name is not woken by other objects.
fn watched_prefix(request: &Request, filter: &SelectorFilter) -> String {
    let Request { resource, namespace, .. } = request;
    let is_one_place = !resource.namespaced || !namespace.is_empty();
    match filter.name().filter(|_| is_one_place) {
        Some(name) => storage_key(resource, namespace, name),
        None => storage_key_prefix(resource, namespace),
    }
}

async fn next_event(mut state: WatchState) -> Option<(WatchEvent, WatchState)> {
    loop {
        if let Some(event) = state.pending.pop_front() {
            return Some((event, state));
        }
        if state.ended {
            return None;
        }
        tokio::select! {
            biased;
            happened = state.watch.next() => match happened {
                Some(Ok(happened)) => state.pending.extend(selection_event(&state.viewer, &state.filter, &happened)),
                Some(Err(_)) => {
                    state.pending.push_back(StatusError::expired("The resourceVersion for the provided watch is too old.").into());
                    state.ended = true;
                }
                None => state.ended = true,
            },
            // Later events need another schema: the client must start a new watch, as with kube-apiserver.
            () = state.registry.wait_until_outdated(state.viewer.resource()), if state.viewer.resource().is_custom => {
                state.ended = true;
            }
            () = sleep_until(state.deadline) => {
                if state.bookmarks {
                    state.pending.push_back(bookmark(&state.viewer, state.watch.progress(), false));
                }
                state.ended = true;
            }
            () = sleep_until(state.next_bookmark), if state.bookmarks => {
                state.pending.push_back(bookmark(&state.viewer, state.watch.progress(), false));
                state.next_bookmark = Instant::now() + BOOKMARK_INTERVAL;
            }
        }
    }
}

/// Translates a change for a selector: objects enter and leave the selection.
fn selection_event(
    viewer: &ObjectConverter,
    filter: &SelectorFilter,
    happened: &StoreEvent,
) -> Option<WatchEvent> {
    let before = happened.previous.as_ref().filter(|entry| filter.matches(&entry.document));
    let now = happened.current.as_ref().filter(|entry| filter.matches(&entry.document));
    match (before, now) {
        (None, None) => None,
        (None, Some(now)) => Some(event(WatchEventType::Added, viewer.convert_entry(now))),
        (Some(_), Some(now)) => Some(event(WatchEventType::Modified, viewer.convert_entry(now))),
        (Some(before), None) => {
            let last = before.document.with_revision(happened.revision);
            Some(event(WatchEventType::Deleted, viewer.convert_document(&last, before.revision)))
        }
    }
}

fn event(change: WatchEventType, object: ObjectBody) -> WatchEvent {
    WatchEvent { event_type: change, object }
}

fn bookmark(viewer: &ObjectConverter, revision: u64, initial_end: bool) -> WatchEvent {
    let resource = viewer.resource();
    let mut metadata = json!({ "resourceVersion": revision.to_string() });
    if initial_end {
        metadata["annotations"] = json!({ "k8s.io/initial-events-end": "true" });
    }
    let object = json!({ "kind": resource.kind, "apiVersion": resource.api_version(), "metadata": metadata });
    event(WatchEventType::Bookmark, ObjectBody::Value(object))
}

fn expired_stream(wanted: u64, oldest: u64) -> crate::request::WatchEventStream {
    let failure = StatusError::expired(format!("too old resource version: {wanted} ({oldest})"));
    stream::iter([failure.into()]).boxed()
}

fn check_watch_options(given: &RequestOptions) -> ApiResult<()> {
    let field = "resourceVersionMatch";
    let mut errors = Vec::new();
    let wanted = given.resource_version_match.as_str();
    if given.send_initial_events.is_some() && wanted != "NotOlderThan" {
        let why = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan";
        errors.push(FieldError::forbidden(field, why));
    }
    if !wanted.is_empty() {
        if given.send_initial_events.is_none() {
            let why = "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided";
            errors.push(FieldError::forbidden(field, why));
        }
        if wanted != "NotOlderThan" {
            errors.push(FieldError::not_supported(field, wanted, &["NotOlderThan"]));
        }
        if !given.continue_token.is_empty() {
            errors.push(FieldError::forbidden(
                field,
                "resourceVersionMatch is forbidden when continue is provided",
            ));
        }
    }
    write_options::reject_invalid("ListOptions", &errors)
}
