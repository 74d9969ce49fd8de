//! The pure parts of a Sandbox's reconcile: validation, expiry and the time of the next reconcile.

use std::time::Duration;

use capt_kinds::sandbox::{Sandbox, conditions::reasons};
use jiff::Timestamp;
use sandbox::{rejection::Rejection, routes::OwnerKind, ttl::ExpiryStatus};
use serde_json::{Value, json};

use super::{
    FORBIDDEN_RETRY, RESYNC, expiry, rejection_retry_at, requeue_after,
    status::StatusContext,
    validate::{routing_key, validate},
};

fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

fn now() -> Timestamp {
    at("2026-11-17T06:00:00Z")
}

fn sandbox(name: &str, created: &str, spec: &Value) -> Sandbox {
    serde_json::from_value(json!({
        "apiVersion": "sandbox.capt.x-k8s.io/v1alpha1", "kind": "Sandbox",
        "metadata": {"name": name, "namespace": "shop", "uid": name, "generation": 1, "creationTimestamp": created},
        "spec": spec,
    }))
    .unwrap()
}

fn forked() -> Value {
    json!({"forks": [{"forkOf": {"name": "cart"}}]})
}

#[test]
fn a_key_is_that_of_the_spec_or_a_digest_of_the_uid() {
    let own = sandbox("a", "2026-11-17T05:00:00Z", &json!({"routingKey": "mine"}));
    assert_eq!(routing_key(&own), "mine");
    let (one, two) =
        (sandbox("a", "2026-11-17T05:00:00Z", &forked()), sandbox("b", "2026-11-17T05:00:00Z", &forked()));
    assert_eq!(routing_key(&one), routing_key(&one));
    assert_ne!(routing_key(&one), routing_key(&two));
    let empty = sandbox("a", "2026-11-17T05:00:00Z", &json!({"routingKey": ""}));
    assert_eq!(routing_key(&empty), routing_key(&one));
}

#[test]
fn the_spec_is_validated_before_the_key_is_contested() {
    let older = sandbox("older", "2026-11-17T04:00:00Z", &forked());
    let claims = [(OwnerKind::Sandbox, older.metadata)];
    let valid = sandbox("a", "2026-11-17T05:00:00Z", &forked());
    assert_eq!(validate(&valid, "abc", &[]), Ok(()));
    assert_eq!(validate(&valid, "abc", &claims).unwrap_err().reason, reasons::ROUTING_KEY_CONFLICT);
    let twice = json!({"forks": [{"forkOf": {"name": "cart"}}, {"forkOf": {"name": "cart"}}]});
    let invalid = sandbox("a", "2026-11-17T05:00:00Z", &twice);
    assert_ne!(validate(&invalid, "abc", &claims).unwrap_err().reason, reasons::ROUTING_KEY_CONFLICT);
}

#[test]
fn a_ttl_expires_and_warns_when_a_tenth_is_left() {
    let spec = |ttl: Value| {
        let mut spec = forked();
        spec["ttl"] = ttl;
        sandbox("a", "2026-11-17T05:00:00Z", &spec)
    };
    assert_eq!(expiry(&sandbox("a", "2026-11-17T05:00:00Z", &forked()), now()), (None, None));
    let table = [
        ("2h", Some(ExpiryStatus::Pending { recheck_after: Duration::from_mins(48), is_expiring: false })),
        ("61m", Some(ExpiryStatus::Pending { recheck_after: Duration::from_mins(1), is_expiring: true })),
        ("1h", Some(ExpiryStatus::Expired)),
    ];
    for (duration, expected) in table {
        let object = spec(json!({"duration": duration, "offsetFrom": "createdAt"}));
        let (end, status) = expiry(&object, now());
        assert!(end.is_some(), "{duration}");
        assert_eq!(status, expected, "{duration}");
    }
}

#[test]
fn the_next_reconcile_is_the_earliest_of_wake_expiry_and_resync() {
    let pending =
        |seconds| ExpiryStatus::Pending { recheck_after: Duration::from_secs(seconds), is_expiring: false };
    let table = [
        (None, None, RESYNC),
        (Some(pending(30)), None, Duration::from_secs(30)),
        (Some(pending(36_000)), None, RESYNC),
        (None, Some(at("2026-11-17T06:00:15Z")), Duration::from_secs(15)),
        (Some(pending(5)), Some(at("2026-11-17T06:00:15Z")), Duration::from_secs(5)),
        (None, Some(at("2026-11-17T05:59:00Z")), Duration::ZERO),
        (Some(ExpiryStatus::Expired), None, Duration::ZERO),
    ];
    for (due, wake, expected) in table {
        assert_eq!(requeue_after(now(), due, wake), expected, "{due:?} {wake:?}");
    }
}

#[test]
fn only_what_a_third_party_can_lift_is_tried_again_by_time() {
    let context = StatusContext { generation: Some(1), now: now(), expires_at: None };
    let forbidden = Rejection::new(reasons::FORBIDDEN, "quota exceeded");
    assert_eq!(rejection_retry_at(&forbidden, context), Some(now() + FORBIDDEN_RETRY));
    let invalid = Rejection::new(reasons::INVALID_SPEC, "no forks");
    assert_eq!(rejection_retry_at(&invalid, context), None);
}
