//! P18: simulates 24 hours of token rotation on a simulated clock. The decisions are the real ones; the API server, EKS and an
//! hourly restart of the operator are simulated.

use std::time::Duration;

use capt_engine::aws::{EksCluster, EksToken, OWNER_TAG};
use capt_kinds::api::names;
use capt_model::model::Limits;
use jiff::{SignedDuration, Timestamp};
use serde_json::json;

use super::token_lifetime::TokenLifetime;
use crate::controlplane::{
    decide::{decide, next_requeue, plan_poll},
    dereference::ControlPlaneReferences,
    eks_poll::{EksFacts, EksLookup, EksObservation, EksResponse, IssuedToken, NextPoll},
    fixtures::{completed_status, control_plane, references, workspace},
    snapshot::ControlPlaneSnapshot,
    validate::validate,
};

const ARN: &str = "arn:aws:eks:eu-central-1:123456789012:cluster/demo";
const INTERVAL: Duration = Duration::from_mins(3);

fn response(now: Timestamp, wants_token: bool, life: SignedDuration, trouble: bool) -> EksResponse {
    let cluster = EksCluster {
        arn: ARN.to_owned(),
        tags: [(OWNER_TAG.to_owned(), "c1".to_owned())].into(),
        status: "ACTIVE".to_owned(),
        version: Some("1.33".to_owned()),
        endpoint: Some("https://eks.example".to_owned()),
        certificate_authority: Some("UEVN".to_owned()),
        ..EksCluster::default()
    };
    let expires_at = now.saturating_add(life).unwrap();
    let made =
        IssuedToken { issued_at: now, token: EksToken { bearer: format!("t-{now}").into(), expires_at } };
    let token = if trouble { Err("STS did not answer".to_owned()) } else { Ok(made) };
    let known = EksFacts {
        cluster: Some(EksLookup::Present(cluster)),
        profile_names: Some(Vec::new()),
        addons: Some(Vec::new()),
        ..EksFacts::default()
    };
    EksResponse {
        facts: known,
        token: wants_token.then_some(token),
        api_probe: Some(Ok(())),
        ..EksResponse::default()
    }
}

/// Remaining validity of the token in the Secret, in seconds.
fn remaining_seconds(seen: &ControlPlaneReferences, now: Timestamp) -> Option<i64> {
    let text =
        seen.secrets.kubeconfig.as_ref()?.metadata.annotations.as_ref()?.get(names::TOKEN_ANNOTATION)?;
    Some(TokenLifetime::parse(text).unwrap().expires_at.duration_since(now).as_secs())
}

/// Result of a simulated day.
#[derive(Debug, Default)]
struct RotationStats {
    written: usize,
    failed_requests: usize,
    min_remaining: Option<i64>,
}

/// Simulates 24 hours; one of `trouble_every` token requests fails.
fn simulate_day(life: SignedDuration, trouble_every: usize) -> RotationStats {
    let (object, mut seen) = (control_plane(&json!({"version": "v1.33.0"})), references());
    let mut eks = completed_status(&json!({"cluster_version": "1.33"}));
    eks["eksClusterArns"] = json!([ARN]);
    seen.eks_workspace =
        Some(workspace("cp-eks-controlplane-apply", &json!({"region": "eu-central-1"}), &eks));
    let begun: Timestamp = "2026-11-01T10:00:00Z".parse().unwrap();
    let (mut now, mut look, mut day) = (begun, EksObservation::default(), RotationStats::default());
    let (mut restarts, mut tokens) = (0, 0);
    while now.duration_since(begun) < SignedDuration::from_hours(24) {
        let hours = now.duration_since(begun).as_hours();
        if hours > restarts {
            (restarts, look) = (hours, EksObservation::default());
        }
        day.min_remaining = day.min_remaining.into_iter().chain(remaining_seconds(&seen, now)).min();
        let snapshot = ControlPlaneSnapshot::new(
            &object,
            &seen,
            &look,
            validate(&object, &seen, &Limits::default()),
            now,
        );
        let question = plan_poll(&snapshot, INTERVAL);
        let written = decide(&snapshot)
            .secrets
            .into_iter()
            .find(|it| it.metadata.name.as_deref() == Some("demo-kubeconfig"));
        let asks = question.as_ref().filter(|it| it.next == NextPoll::Now).map(|it| it.query.clone());
        let next = next_requeue(&snapshot, question.as_ref(), &[]).unwrap_or(now).max(now);
        if let Some(secret) = written {
            seen.secrets.kubeconfig = Some(secret);
            day.written += 1;
        } else if let Some(asked) = asks {
            tokens += usize::from(asked.needs_token);
            let trouble = asked.needs_token && tokens % trouble_every == 0;
            day.failed_requests += usize::from(trouble);
            look.merge_response(&asked.run_fingerprint, response(now, asked.needs_token, life, trouble), now);
        } else {
            now = next.max(now.saturating_add(SignedDuration::from_secs(1)).unwrap());
        }
    }
    day
}

#[test]
fn p18_on_a_day_with_restarts_a_token_is_good_for_three_minutes_always_and_not_written_more_than_needed() {
    let day = simulate_day(SignedDuration::from_mins(14), usize::MAX);
    assert!(day.min_remaining >= Some(180), "{day:?}");
    // Every nine minutes: 160 times. Restarts add none, because the Secret tells how old it is.
    assert!((158..=162).contains(&day.written), "{day:?}");
}

#[test]
fn p18_attempts_that_fail_now_and_then_hurt_nobody() {
    let day = simulate_day(SignedDuration::from_mins(14), 3);
    assert!(day.failed_requests > 50, "{day:?}");
    assert!(day.min_remaining >= Some(180), "{day:?}");
    assert!(day.written <= 165, "{day:?}");
}

#[test]
fn p18_a_token_that_lives_for_seven_minutes_is_replaced_in_time_too() {
    let day = simulate_day(SignedDuration::from_mins(7), usize::MAX);
    assert!(day.min_remaining >= Some(180), "{day:?}");
    assert!(day.written <= 24 * 60 / 3 + 10, "{day:?}");
}
