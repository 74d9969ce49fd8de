//! P18: a day in the life of the Secret for programs, on a clock of its own. The real decisions are made; what they lead to
//! is played: the API server that takes Secrets, the EKS that answers, and the operator that is started anew every hour.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde_json::json;

use super::when::Life;
use crate::{
    api::names,
    aws::{ClusterView, Token},
    controllers::controlplane::{
        decide::{curiosity, decide, wake},
        dereference::Seen,
        fixtures::{control_plane, done, seen, workspace},
        look::{Answer, Found, Known, Look, Made, When},
        picture::Picture,
    },
    model::Limits,
};

const INTERVAL: Duration = Duration::from_mins(3);

fn answer(now: Timestamp, wants_token: bool, life: SignedDuration, trouble: bool) -> Answer {
    let cluster = ClusterView {
        status: "ACTIVE".to_owned(),
        version: Some("1.33".to_owned()),
        endpoint: Some("https://eks.example".to_owned()),
        certificate_authority: Some("UEVN".to_owned()),
        ..ClusterView::default()
    };
    let expires_at = now.saturating_add(life).unwrap();
    let made = Made { at: now, token: Token { text: format!("t-{now}").into(), expires_at } };
    let token = if trouble { Err("STS did not answer".to_owned()) } else { Ok(made) };
    let known = Known {
        cluster: Some(Found::There(cluster)),
        all_profiles: Some(Vec::new()),
        addons: Some(Vec::new()),
        ..Known::default()
    };
    Answer { known, token: wants_token.then_some(token), api: Some(Ok(())), ..Answer::default() }
}

/// The token that is written down ends in so many seconds.
fn left(seen: &Seen, now: Timestamp) -> Option<i64> {
    let text = seen.secrets.programs.as_ref()?.metadata.annotations.as_ref()?.get(names::TOKEN_ANNOTATION)?;
    Some(Life::parse(text).unwrap().expires.duration_since(now).as_secs())
}

/// What a day was like.
#[derive(Debug, Default)]
struct Day {
    written: usize,
    asked_in_vain: usize,
    least: Option<i64>,
}

/// Lives for 24 hours; every so many answers have no token in them.
fn live(life: SignedDuration, trouble_every: usize) -> Day {
    let (object, mut seen) = (control_plane(&json!({"version": "v1.33.0"})), seen());
    let eks = done(&json!({"cluster_version": "1.33"}));
    seen.eks = Some(workspace("cp-eks-controlplane-apply", &json!({"region": "eu-central-1"}), &eks));
    let begun: Timestamp = "2026-11-01T10:00:00Z".parse().unwrap();
    let (mut now, mut look, mut day) = (begun, Look::default(), Day::default());
    let (mut restarts, mut tokens) = (0, 0);
    while now.duration_since(begun) < SignedDuration::from_hours(24) {
        let hours = now.duration_since(begun).as_hours();
        if hours > restarts {
            (restarts, look) = (hours, Look::default());
        }
        day.least = day.least.into_iter().chain(left(&seen, now)).min();
        let picture = Picture::of(&object, &seen, &look, &Limits::default(), now);
        let question = curiosity(&picture, INTERVAL);
        let written = decide(&picture)
            .secrets
            .into_iter()
            .find(|it| it.metadata.name.as_deref() == Some("demo-kubeconfig"));
        let asks = question.as_ref().filter(|it| it.when == When::Now).map(|it| it.question.clone());
        let next = wake(&picture, question.as_ref(), &[]).unwrap_or(now).max(now);
        if let Some(secret) = written {
            seen.secrets.programs = Some(secret);
            day.written += 1;
        } else if let Some(asked) = asks {
            tokens += usize::from(asked.token);
            let trouble = asked.token && tokens % trouble_every == 0;
            day.asked_in_vain += usize::from(trouble);
            look.take(&asked.stamp, answer(now, asked.token, life, trouble), now);
        } else {
            now = next.max(now.saturating_add(SignedDuration::from_secs(1)).unwrap());
        }
    }
    day
}

#[test]
fn p18_on_a_day_with_restarts_a_token_is_good_for_three_minutes_always_and_not_written_more_than_needed() {
    let day = live(SignedDuration::from_mins(14), usize::MAX);
    assert!(day.least >= Some(180), "{day:?}");
    // Every nine minutes: 160 times. Restarts add none, because the Secret tells how old it is.
    assert!((158..=162).contains(&day.written), "{day:?}");
}

#[test]
fn p18_attempts_that_fail_now_and_then_hurt_nobody() {
    let day = live(SignedDuration::from_mins(14), 3);
    assert!(day.asked_in_vain > 50, "{day:?}");
    assert!(day.least >= Some(180), "{day:?}");
    assert!(day.written <= 165, "{day:?}");
}

#[test]
fn p18_a_token_that_lives_for_seven_minutes_is_replaced_in_time_too() {
    let day = live(SignedDuration::from_mins(7), usize::MAX);
    assert!(day.least >= Some(180), "{day:?}");
    assert!(day.written <= 24 * 60 / 3 + 10, "{day:?}");
}
