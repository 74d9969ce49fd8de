//! Changes as they happen: from now, from a revision on, or after everything that is there.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use futures::{StreamExt, stream};
use serde_json::json;
use tokio::time::{Instant, sleep_until};

use super::{Server, key, list, list::Filter, options, prefix, view::Viewer, viewer};
use crate::{
    failure::{Answer, Failure, FieldError},
    registry::Registry,
    request::{Body, Change, Options, Reply, Request, WatchEvent},
    store::{StoreEvent, Watch},
};

/// How long a watch lasts if the client does not say; the real server takes 30 to 60 minutes.
const DEFAULT_TIMEOUT: Duration = Duration::from_mins(45);
const LONGEST: Duration = Duration::from_hours(24);
const BOOKMARK_EVERY: Duration = Duration::from_mins(1);

struct State {
    watch: Watch,
    registry: Arc<Registry>,
    filter: Arc<Filter>,
    viewer: Viewer,
    waiting: VecDeque<WatchEvent>,
    bookmarks: bool,
    next_bookmark: Instant,
    deadline: Instant,
    ended: bool,
}

impl Server {
    pub(super) fn watch(&self, request: &Request) -> Answer<Reply> {
        let options = &request.options;
        check(options)?;
        let filter = Filter::read(options, &request.resource)?;
        let revision = list::number(&options.resource_version)?;
        let prefix = watched(request, &filter);
        let viewer = viewer(&request.resource);
        let initial = options.send_initial_events.unwrap_or(revision == 0);
        let mut waiting = VecDeque::new();
        let after = if initial {
            let shot = filter.find(&self.store, &prefix);
            waiting.extend(shot.entries.iter().map(|(_, entry)| event(Change::Added, viewer.show(entry))));
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
            Err(gone) => return Ok(Reply::Watch(too_old(after, gone.oldest))),
        };
        // No time at all means as long as usual, and nobody waits for longer than a day.
        let asked = options.timeout_seconds.filter(|seconds| *seconds > 0);
        let timeout = asked.map_or(DEFAULT_TIMEOUT, |seconds| Duration::from_secs(seconds).min(LONGEST));
        let now = Instant::now();
        let state = State {
            watch,
            registry: Arc::clone(&self.registry),
            filter: Arc::new(filter),
            viewer,
            waiting,
            bookmarks: options.bookmarks,
            next_bookmark: now + BOOKMARK_EVERY,
            deadline: now + timeout,
            ended: false,
        };
        Ok(Reply::Watch(stream::unfold(state, next).boxed()))
    }
}

/// Whoever waits for one object by its name sleeps through the changes of the others.
fn watched(request: &Request, filter: &Filter) -> String {
    let Request { resource, namespace, .. } = request;
    let is_one_place = !resource.namespaced || !namespace.is_empty();
    match filter.name().filter(|_| is_one_place) {
        Some(name) => key(resource, namespace, name),
        None => prefix(resource, namespace),
    }
}

async fn next(mut state: State) -> Option<(WatchEvent, State)> {
    loop {
        if let Some(event) = state.waiting.pop_front() {
            return Some((event, state));
        }
        if state.ended {
            return None;
        }
        tokio::select! {
            biased;
            happened = state.watch.next() => match happened {
                Some(Ok(happened)) => state.waiting.extend(translate(&state.viewer, &state.filter, &happened)),
                Some(Err(_)) => {
                    state.waiting.push_back(Failure::expired("The resourceVersion for the provided watch is too old.").into());
                    state.ended = true;
                }
                None => state.ended = true,
            },
            // What follows is to be seen under another schema: the client begins a new watch, as with the real server.
            () = state.registry.outdated(state.viewer.resource()), if state.viewer.resource().custom => {
                state.ended = true;
            }
            () = sleep_until(state.deadline) => {
                if state.bookmarks {
                    state.waiting.push_back(bookmark(&state.viewer, state.watch.progress(), false));
                }
                state.ended = true;
            }
            () = sleep_until(state.next_bookmark), if state.bookmarks => {
                state.waiting.push_back(bookmark(&state.viewer, state.watch.progress(), false));
                state.next_bookmark = Instant::now() + BOOKMARK_EVERY;
            }
        }
    }
}

/// What a change means to somebody who sees only a selection: objects appear in it and vanish from it.
fn translate(viewer: &Viewer, filter: &Filter, happened: &StoreEvent) -> Option<WatchEvent> {
    let before = happened.before.as_ref().filter(|entry| filter.matches(&entry.document));
    let now = happened.now.as_ref().filter(|entry| filter.matches(&entry.document));
    match (before, now) {
        (None, None) => None,
        (None, Some(now)) => Some(event(Change::Added, viewer.show(now))),
        (Some(_), Some(now)) => Some(event(Change::Modified, viewer.show(now))),
        (Some(before), None) => {
            let last = before.document.restamped(happened.revision);
            Some(event(Change::Deleted, viewer.show_document(&last, before.revision)))
        }
    }
}

fn event(change: Change, object: Body) -> WatchEvent {
    WatchEvent { change, object }
}

fn bookmark(viewer: &Viewer, revision: u64, initial_end: bool) -> WatchEvent {
    let resource = viewer.resource();
    let mut metadata = json!({ "resourceVersion": revision.to_string() });
    if initial_end {
        metadata["annotations"] = json!({ "k8s.io/initial-events-end": "true" });
    }
    let object = json!({ "kind": resource.kind, "apiVersion": resource.api_version(), "metadata": metadata });
    event(Change::Bookmark, Body::Value(object))
}

fn too_old(wanted: u64, oldest: u64) -> crate::request::Events {
    let failure = Failure::expired(format!("too old resource version: {wanted} ({oldest})"));
    stream::iter([failure.into()]).boxed()
}

fn check(given: &Options) -> Answer<()> {
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
    options::refuse("ListOptions", &errors)
}
