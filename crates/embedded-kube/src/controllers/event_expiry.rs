//! Deletes Events after their time to live.

use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::{
    api_client::{ApiClient, object_path},
    store_query,
};
use crate::{
    clock,
    object::{MetaAccessor, str_at},
    store::Store,
};

const INTERVAL: Duration = Duration::from_mins(5);
const TIME_TO_LIVE: i64 = 3600;
const PREFIX: &str = "/events/";

/// Deletes expired Events every few minutes until cancelled.
pub async fn run_event_expiry(api: ApiClient, store: Store, cancel: CancellationToken) {
    loop {
        tokio::select! {
            () = cancel.cancelled() => return,
            () = tokio::time::sleep(INTERVAL) => delete_expired(&api, &store).await,
        }
    }
}

async fn delete_expired(api: &ApiClient, store: &Store) {
    let now = clock::now();
    for event in store_query::list_objects(store, PREFIX).into_iter().filter(|event| is_expired(event, now)) {
        let path = object_path("v1", event.namespace(), "events", event.name());
        let only_this =
            json!({"preconditions": {"uid": event.uid(), "resourceVersion": event.resource_version()}});
        if let Err(trouble) = api.delete(&path, &only_this).await {
            tracing::debug!(%trouble, event = event.name(), "failed to delete expired event, retrying in the next pass");
        }
    }
}

/// The time to live starts with the last occurrence.
fn is_expired(event: &Value, now: Timestamp) -> bool {
    let signs: [&[&str]; 4] = [
        &["metadata", "creationTimestamp"],
        &["lastTimestamp"],
        &["eventTime"],
        &["series", "lastObservedTime"],
    ];
    let last = signs.iter().filter_map(|path| str_at(event, path).parse::<Timestamp>().ok()).max();
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
        assert!(!is_expired(&event, at("2026-01-01T01:30:00Z")));
        assert!(is_expired(&event, at("2026-01-01T01:30:01Z")));
        assert!(!is_expired(&json!({"metadata": {}}), at("2026-01-01T01:30:01Z")));
    }
}
