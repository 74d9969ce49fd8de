//! Events that are older than their time to live go.

use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::{
    api::{Api, object},
    view,
};
use crate::{
    clock,
    object::{Meta, text},
    store::Store,
};

const ROUND: Duration = Duration::from_mins(5);
const TIME_TO_LIVE: i64 = 3600;
const PREFIX: &str = "/events/";

/// Looks every few minutes, until it is cancelled.
pub async fn run(api: Api, store: Store, cancel: CancellationToken) {
    loop {
        tokio::select! {
            () = cancel.cancelled() => return,
            () = tokio::time::sleep(ROUND) => round(&api, &store).await,
        }
    }
}

async fn round(api: &Api, store: &Store) {
    let now = clock::now();
    for event in view::list(store, PREFIX).into_iter().filter(|event| is_over(event, now)) {
        let path = object("v1", event.namespace(), "events", event.name());
        let only_this =
            json!({"preconditions": {"uid": event.uid(), "resourceVersion": event.resource_version()}});
        if let Err(trouble) = api.delete(&path, &only_this).await {
            tracing::debug!(%trouble, event = event.name(), "an old event stays for another round");
        }
    }
}

/// Its time runs from its last sign of life.
fn is_over(event: &Value, now: Timestamp) -> bool {
    let signs: [&[&str]; 4] = [
        &["metadata", "creationTimestamp"],
        &["lastTimestamp"],
        &["eventTime"],
        &["series", "lastObservedTime"],
    ];
    let last = signs.iter().filter_map(|path| text(event, path).parse::<Timestamp>().ok()).max();
    last.is_some_and(|last| now.duration_since(last).as_secs() > TIME_TO_LIVE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_lives_an_hour_from_its_last_sign_of_life() {
        let event = json!({
            "metadata": {"creationTimestamp": "2026-01-01T00:00:00Z"}, "lastTimestamp": "2026-01-01T00:30:00Z",
            "eventTime": null,
        });
        let at = |text: &str| text.parse::<Timestamp>().unwrap();
        assert!(!is_over(&event, at("2026-01-01T01:30:00Z")));
        assert!(is_over(&event, at("2026-01-01T01:30:01Z")));
        assert!(!is_over(&json!({"metadata": {}}), at("2026-01-01T01:30:01Z")));
    }
}
