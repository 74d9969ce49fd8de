//! Derives the session part of a `LocalWorkload` status from the state of the gateway. Pure.

use std::time::{Duration, SystemTime};

use capt_kinds::sandbox::{
    LocalPhase, LocalPortStatus, LocalWorkload, LocalWorkloadStatus, Session, conditions::types,
};
use capt_kube::k8s::EventSpec;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::ResourceExt as _;
use sandbox::{
    condition::is_true,
    local_status::{ConnectionState, active_session, connection_conditions, merge_status},
    ttl,
};
use sandbox_router::tunnel::{
    WorkloadName,
    gateway::{ExpectedSession, SessionHolder, SessionPhase, SessionStatus},
};

use super::RouterIdentity;

/// Maximum age of the heartbeat in a status.
pub(super) const HEARTBEAT: Duration = Duration::from_secs(30);

/// The grace period of a spec; zero if it is not valid.
pub(super) fn grace_period(text: &str) -> Duration {
    ttl::parse_grace_period(text).and_then(|it| Duration::try_from(it).ok()).unwrap_or_default()
}

/// The newest epoch in the status, and the holder of its session.
pub(super) fn epoch_and_holder(status: &LocalWorkloadStatus) -> (u64, Option<SessionHolder>) {
    let epoch = status.session.as_ref().and_then(|it| u64::try_from(it.epoch).ok()).unwrap_or_default();
    let holder =
        active_session(status).map(|it| SessionHolder { session: it.id.clone(), user: it.user.clone() });
    (epoch, holder)
}

/// The session that is expected to reconnect to a restarted router, from the status that it wrote before.
pub(crate) fn expected_session(object: &LocalWorkload, router: &str) -> Option<ExpectedSession> {
    let session = active_session(object.status.as_ref()?)?;
    if session.gateway.as_deref() != Some(router) || object.metadata.deletion_timestamp.is_some() {
        return None;
    }
    let since = session.connected_since.as_ref().map_or(SystemTime::UNIX_EPOCH, |it| it.0.into());
    Some(ExpectedSession {
        workload: WorkloadName::new(&object.namespace().unwrap_or_default(), &object.name_any()),
        holder: SessionHolder { session: session.id.clone(), user: session.user.clone() },
        agent_version: session.agent_version.clone().unwrap_or_default(),
        epoch: u64::try_from(session.epoch).unwrap_or_default(),
        since,
        grace: grace_period(&object.spec.disconnect_grace_period),
    })
}

/// What to do about a session of this router.
#[derive(Debug, PartialEq)]
pub(super) enum SessionAction {
    /// The status is up to date.
    Unchanged,
    /// Write this status.
    WriteStatus(Box<LocalWorkloadStatus>),
    /// End the session with this message to its agent: another router holds a newer one.
    Yield(String),
}

/// Compares a session of the gateway with the status.
pub(super) fn decide_action(
    object: &LocalWorkload,
    view: &SessionStatus,
    me: &RouterIdentity,
    now: Timestamp,
) -> SessionAction {
    let before = object.status.clone().unwrap_or_default();
    let said = before.session.clone().unwrap_or_default();
    let is_ours = said.gateway.as_deref() == Some(me.name.as_str());
    let epoch = i64::try_from(view.epoch).unwrap_or(i64::MAX);
    if !is_ours && other_session_wins(&before, epoch, view.phase, me) {
        return match view.phase {
            SessionPhase::Disconnected => SessionAction::Unchanged,
            SessionPhase::Connected | SessionPhase::Reconnecting => {
                SessionAction::Yield(format!("{} took it over with another `capt connect`", said.user))
            }
        };
    }
    // An agent that reconnected here only to disconnect: the router that expects it has to learn that.
    let is_awaited = said.id == view.session && said.epoch < epoch;
    if !is_ours && !is_awaited && view.phase == SessionPhase::Disconnected {
        return SessionAction::Unchanged;
    }
    let ports: Vec<LocalPortStatus> = view.ports.iter().map(port_status).collect();
    let found = connection_conditions(&connection_state(view), &ports);
    let mut new = merge_status(&before, &found, object.metadata.generation, now);
    let session = build_session(view, me, now);
    let is_late = heartbeat_age(&said, now).is_none_or(|age| age >= HEARTBEAT);
    let is_news = !is_same_session(&said, &session) || new != before || ports != before.ports;
    let is_due = is_late && view.phase == SessionPhase::Connected;
    if !is_news && !is_due {
        return SessionAction::Unchanged;
    }
    (new.session, new.ports) = (Some(session), ports);
    SessionAction::WriteStatus(Box::new(new))
}

/// Whether the session of another router wins over ours. Agents that connect to two routers at the same time get the same
/// epoch, and both routers have to decide alike: a connected session wins over an expected one, then the greater router name.
fn other_session_wins(
    said: &LocalWorkloadStatus,
    epoch: i64,
    phase: SessionPhase,
    me: &RouterIdentity,
) -> bool {
    let Some(session) = &said.session else { return false };
    let gateway = session.gateway.as_deref().unwrap_or_default();
    let theirs = (is_true(&said.conditions, types::CONNECTED), gateway);
    let ours = (phase == SessionPhase::Connected, me.name.as_str());
    session.epoch > epoch || session.epoch == epoch && active_session(said).is_some() && theirs > ours
}

/// The event for a status transition.
pub(super) fn session_event(
    before: Option<&LocalWorkloadStatus>,
    now: &LocalWorkloadStatus,
    why: &str,
) -> Option<EventSpec> {
    let was = |it: &LocalWorkloadStatus| it.phase == Some(LocalPhase::Connected);
    let user = |it: &LocalWorkloadStatus| it.session.as_ref().map(|it| it.user.clone()).unwrap_or_default();
    let who = user(now);
    match (before.filter(|it| was(it)), now.phase) {
        (Some(before), Some(LocalPhase::Connected)) if user(before) == who => None,
        (_, Some(LocalPhase::Connected)) => {
            let gateway = now.session.as_ref().and_then(|it| it.gateway.clone()).unwrap_or_default();
            Some(EventSpec::normal("Connect", "TunnelConnected", format!("{who} is connected to {gateway}")))
        }
        (Some(_), Some(LocalPhase::Reconnecting)) => {
            let note = format!("connection of {who} lost, waiting for it to reconnect: {why}");
            Some(EventSpec::warning("Connect", "TunnelLost", note))
        }
        (Some(_), Some(LocalPhase::Disconnected)) => {
            Some(EventSpec::normal("Connect", "TunnelLost", format!("connection of {who} ended: {why}")))
        }
        (None, Some(LocalPhase::Disconnected)) if before.is_some_and(|it| it.phase != now.phase) => {
            let note = format!("{who} did not reconnect within the grace period");
            Some(EventSpec::warning("Connect", "TunnelLost", note))
        }
        _ => None,
    }
}

/// Age of the heartbeat of a session.
fn heartbeat_age(session: &Session, now: Timestamp) -> Option<Duration> {
    let heard = session.last_heartbeat_time.as_ref()?.0;
    Some(Duration::try_from(now.duration_since(heard)).unwrap_or_default())
}

/// Whether two sessions are equal, ignoring heartbeat and RTT.
fn is_same_session(a: &Session, b: &Session) -> bool {
    let still = |it: &Session| Session { last_heartbeat_time: None, rtt_millis: None, ..it.clone() };
    still(a) == still(b)
}

fn connection_state(view: &SessionStatus) -> ConnectionState {
    let why = view.why.clone().unwrap_or_default();
    match view.phase {
        SessionPhase::Connected => ConnectionState::Connected,
        SessionPhase::Reconnecting => ConnectionState::Reconnecting(why),
        SessionPhase::Disconnected => ConnectionState::Disconnected(why),
    }
}

fn build_session(view: &SessionStatus, me: &RouterIdentity, now: Timestamp) -> Session {
    let since = Timestamp::try_from(view.since).unwrap_or(now);
    let heard = jiff::SignedDuration::try_from(view.silent_for).unwrap_or_default();
    Session {
        id: view.session.clone(),
        user: view.user.clone(),
        agent_version: Some(view.agent_version.clone()),
        gateway: Some(me.name.clone()),
        gateway_address: me.address.clone(),
        connected_since: Some(Time(whole_seconds(since))),
        last_heartbeat_time: Some(Time(whole_seconds(now - heard))),
        rtt_millis: view.rtt.map(|it| i64::try_from(it.as_millis()).unwrap_or(i64::MAX)),
        epoch: i64::try_from(view.epoch).unwrap_or(i64::MAX),
    }
}

/// The API server stores whole seconds; a finer value would differ from the one read back.
fn whole_seconds(at: Timestamp) -> Timestamp {
    Timestamp::from_second(at.as_second()).unwrap_or(at)
}

fn port_status(port: &sandbox_router::tunnel::PortReport) -> LocalPortStatus {
    LocalPortStatus {
        port: i32::from(port.port),
        to_local: port.to_local.clone(),
        reachable: port.reachable,
        last_error: port.last_error.clone(),
    }
}

#[cfg(test)]
mod tests {
    use sandbox_router::tunnel::PortReport;

    use super::*;

    fn now() -> Timestamp {
        "2026-11-17T05:00:00Z".parse().unwrap()
    }

    fn me() -> RouterIdentity {
        RouterIdentity { name: "router-0".to_owned(), address: Some("10.0.0.7".to_owned()) }
    }

    fn view(phase: SessionPhase, epoch: u64) -> SessionStatus {
        SessionStatus {
            workload: WorkloadName::new("shop", "cart-local"),
            phase,
            why: (phase != SessionPhase::Connected).then(|| "nothing was heard of it".to_owned()),
            session: "s-1".to_owned(),
            user: "ann".to_owned(),
            agent_version: "0.1.0".to_owned(),
            epoch,
            since: SystemTime::from(now() - jiff::SignedDuration::from_mins(5)),
            silent_for: Duration::from_secs(1),
            rtt: Some(Duration::from_millis(12)),
            bytes: (1, 2),
            ports: vec![PortReport {
                port: 8080,
                to_local: "localhost:3000".to_owned(),
                reachable: true,
                last_error: None,
            }],
        }
    }

    fn object(status: Option<LocalWorkloadStatus>) -> LocalWorkload {
        LocalWorkload {
            status,
            ..LocalWorkload::new("cart-local", capt_kinds::sandbox::LocalWorkloadSpec::default())
        }
    }

    fn written(deed: SessionAction) -> LocalWorkloadStatus {
        match deed {
            SessionAction::WriteStatus(status) => *status,
            other => panic!("nothing is written: {other:?}"),
        }
    }

    #[test]
    fn a_new_session_is_written_once_and_then_every_thirty_seconds() {
        let first = written(decide_action(&object(None), &view(SessionPhase::Connected, 1), &me(), now()));
        assert_eq!(first.phase, Some(LocalPhase::Connected));
        let session = first.session.clone().unwrap();
        assert_eq!((session.gateway.as_deref(), session.rtt_millis), (Some("router-0"), Some(12)));
        let known = object(Some(first));
        let mut slower = view(SessionPhase::Connected, 1);
        slower.rtt = Some(Duration::from_millis(99));
        let soon = now() + jiff::SignedDuration::from_secs(20);
        assert_eq!(decide_action(&known, &slower, &me(), soon), SessionAction::Unchanged);
        let later = now() + jiff::SignedDuration::from_secs(40);
        let again = written(decide_action(&known, &slower, &me(), later));
        assert_eq!(again.session.unwrap().rtt_millis, Some(99));
    }

    #[test]
    fn a_transition_is_written_at_once_and_a_lost_session_not_again() {
        let known = object(Some(written(decide_action(
            &object(None),
            &view(SessionPhase::Connected, 1),
            &me(),
            now(),
        ))));
        let lost = written(decide_action(&known, &view(SessionPhase::Reconnecting, 1), &me(), now()));
        assert_eq!(lost.phase, Some(LocalPhase::Reconnecting));
        let gone =
            written(decide_action(&object(Some(lost)), &view(SessionPhase::Disconnected, 1), &me(), now()));
        assert_eq!(gone.phase, Some(LocalPhase::Disconnected));
        let much_later = now() + jiff::SignedDuration::from_hours(1);
        let mut stale = view(SessionPhase::Disconnected, 1);
        stale.silent_for = Duration::from_hours(1);
        assert_eq!(decide_action(&object(Some(gone)), &stale, &me(), much_later), SessionAction::Unchanged);
    }

    #[test]
    fn people_hear_who_is_connected_and_when_that_is_over() {
        let status = |phase, user: &str| LocalWorkloadStatus {
            phase: Some(phase),
            session: Some(Session {
                user: user.to_owned(),
                gateway: Some("router-0".to_owned()),
                ..Session::default()
            }),
            ..LocalWorkloadStatus::default()
        };
        let told = |before: Option<&LocalWorkloadStatus>, now: &LocalWorkloadStatus| {
            session_event(before, now, "nothing was heard").map(|it| (it.reason, it.note))
        };
        let [connected, coming_back, gone] =
            [LocalPhase::Connected, LocalPhase::Reconnecting, LocalPhase::Disconnected]
                .map(|it| status(it, "ann"));
        assert_eq!(told(None, &connected).unwrap().0, "TunnelConnected");
        assert_eq!(told(Some(&connected), &connected), None, "another figure is no news");
        assert!(told(Some(&connected), &status(LocalPhase::Connected, "bob")).unwrap().1.contains("bob"));
        let (reason, note) = told(Some(&connected), &coming_back).unwrap();
        assert!(
            reason == "TunnelLost" && note.contains("ann") && note.contains("nothing was heard"),
            "{note}"
        );
        assert_eq!(told(Some(&coming_back), &coming_back), None);
        assert_eq!(told(Some(&coming_back), &gone).unwrap().0, "TunnelLost");
        assert_eq!(told(Some(&coming_back), &connected).unwrap().0, "TunnelConnected");
        assert_eq!(told(Some(&gone), &gone), None);
    }

    #[test]
    fn who_is_connected_or_expected_back_is_told_to_every_router() {
        let of =
            |phase| epoch_and_holder(&written(decide_action(&object(None), &view(phase, 5), &me(), now())));
        let ann = Some(SessionHolder { session: "s-1".to_owned(), user: "ann".to_owned() });
        assert_eq!(of(SessionPhase::Connected), (5, ann.clone()));
        assert_eq!(of(SessionPhase::Reconnecting), (5, ann));
        let known = object(Some(written(decide_action(
            &object(None),
            &view(SessionPhase::Connected, 5),
            &me(),
            now(),
        ))));
        let gone = written(decide_action(&known, &view(SessionPhase::Disconnected, 5), &me(), now()));
        assert_eq!(epoch_and_holder(&gone), (5, None));
    }

    #[test]
    fn a_router_that_was_started_anew_expects_whom_it_had() {
        let mut known = object(Some(written(decide_action(
            &object(None),
            &view(SessionPhase::Connected, 5),
            &me(),
            now(),
        ))));
        (known.metadata.namespace, known.spec.disconnect_grace_period) = (Some("shop".into()), "10m".into());
        let found = expected_session(&known, "router-0").unwrap();
        assert_eq!((found.workload.as_str(), found.epoch), ("shop/cart-local", 5));
        assert_eq!((found.holder.user.as_str(), found.grace), ("ann", Duration::from_mins(10)));
        assert_eq!(expected_session(&known, "router-1"), None, "she is another router's");
        known.status =
            Some(written(decide_action(&known, &view(SessionPhase::Disconnected, 5), &me(), now())));
        assert_eq!(expected_session(&known, "router-0"), None, "she has left");
    }

    #[test]
    fn a_newer_session_at_another_router_ends_ours_and_an_older_one_is_overwritten() {
        let other = RouterIdentity { name: "router-1".to_owned(), address: None };
        let known = object(Some(written(decide_action(
            &object(None),
            &view(SessionPhase::Connected, 5),
            &other,
            now(),
        ))));
        assert!(matches!(
            decide_action(&known, &view(SessionPhase::Connected, 4), &me(), now()),
            SessionAction::Yield(_)
        ));
        assert_eq!(
            decide_action(&known, &view(SessionPhase::Disconnected, 4), &me(), now()),
            SessionAction::Unchanged
        );
        let ours = written(decide_action(&known, &view(SessionPhase::Connected, 6), &me(), now()));
        assert_eq!(ours.session.unwrap().gateway.as_deref(), Some("router-0"));
    }

    #[test]
    fn of_two_sessions_with_the_same_epoch_one_yields_and_the_other_stays() {
        let (other, session) =
            (RouterIdentity { name: "router-1".to_owned(), address: None }, "s-2".to_owned());
        let theirs =
            |phase| SessionStatus { session: session.clone(), user: "zoe".to_owned(), ..view(phase, 5) };
        let connected = view(SessionPhase::Connected, 5);
        let said_by = |view: &SessionStatus, who: &RouterIdentity| {
            object(Some(written(decide_action(&object(None), view, who, now()))))
        };
        let by_other = said_by(&theirs(SessionPhase::Connected), &other);
        assert!(matches!(decide_action(&by_other, &connected, &me(), now()), SessionAction::Yield(_)));
        let by_us = said_by(&connected, &me());
        let won = written(decide_action(&by_us, &theirs(SessionPhase::Connected), &other, now()));
        assert_eq!(won.session.unwrap().user, "zoe");
        let awaited = said_by(&theirs(SessionPhase::Reconnecting), &other);
        let won = written(decide_action(&awaited, &connected, &me(), now()));
        assert_eq!(won.session.unwrap().user, "ann", "who is there comes before who is expected");
        let left = decide_action(&by_us, &theirs(SessionPhase::Disconnected), &other, now());
        assert_eq!(left, SessionAction::Unchanged);
    }

    #[test]
    fn an_agent_that_leaves_at_another_router_than_the_one_that_waits_for_it_is_not_waited_for() {
        let other = RouterIdentity { name: "router-1".to_owned(), address: None };
        let waits = object(Some(written(decide_action(
            &object(None),
            &view(SessionPhase::Reconnecting, 5),
            &other,
            now(),
        ))));
        let left = written(decide_action(&waits, &view(SessionPhase::Disconnected, 6), &me(), now()));
        assert_eq!(left.phase, Some(LocalPhase::Disconnected));
        let waited = decide_action(&object(Some(left)), &view(SessionPhase::Reconnecting, 5), &other, now());
        assert!(matches!(waited, SessionAction::Yield(_)));
        let stranger = SessionStatus { session: "s-2".to_owned(), ..view(SessionPhase::Disconnected, 6) };
        assert_eq!(
            decide_action(&waits, &stranger, &me(), now()),
            SessionAction::Unchanged,
            "it disturbs no other run"
        );
    }
}
