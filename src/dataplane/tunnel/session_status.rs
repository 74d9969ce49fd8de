//! From what a gateway sees to what a status says. Pure.

use std::time::{Duration, SystemTime};

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::ResourceExt as _;
use sandbox::{
    api::{LocalPhase, LocalPortStatus, LocalWorkload, LocalWorkloadStatus, Session, conditions::types},
    condition::is_true,
    local_status::{Link, after, findings, live},
    ttl,
};
use sandbox_router::tunnel::{
    Workload,
    gateway::{Expected, Holder, Phase, View},
};

use super::Router;
use crate::k8s::News;

/// How old a heartbeat in a status may be.
pub(super) const HEARTBEAT: Duration = Duration::from_secs(30);

/// The grace period of a spec; one that its schema would not let through is none.
pub(super) fn grace(text: &str) -> Duration {
    ttl::grace(text).and_then(|it| Duration::try_from(it).ok()).unwrap_or_default()
}

/// The newest epoch by what routers said, and who has it.
pub(super) fn told(status: &LocalWorkloadStatus) -> (u64, Option<Holder>) {
    let epoch = status.session.as_ref().and_then(|it| u64::try_from(it.epoch).ok()).unwrap_or_default();
    let holder = live(status).map(|it| Holder { session: it.id.clone(), user: it.user.clone() });
    (epoch, holder)
}

/// Who is expected back at a router that was started anew, by what it wrote before.
pub(in crate::sandbox) fn expected(object: &LocalWorkload, router: &str) -> Option<Expected> {
    let session = live(object.status.as_ref()?)?;
    if session.gateway.as_deref() != Some(router) || object.metadata.deletion_timestamp.is_some() {
        return None;
    }
    let since = session.connected_since.as_ref().map_or(SystemTime::UNIX_EPOCH, |it| it.0.into());
    Some(Expected {
        workload: Workload::new(&object.namespace().unwrap_or_default(), &object.name_any()),
        holder: Holder { session: session.id.clone(), user: session.user.clone() },
        agent_version: session.agent_version.clone().unwrap_or_default(),
        epoch: u64::try_from(session.epoch).unwrap_or_default(),
        since,
        grace: grace(&object.spec.disconnect_grace_period),
    })
}

/// What is to be done about a session of ours.
#[derive(Debug, PartialEq)]
pub(super) enum Deed {
    /// It is said already.
    Nothing,
    /// The status is to be this.
    Write(Box<LocalWorkloadStatus>),
    /// Another router holds a newer session: ours is to end, with these words to its agent.
    Yield(String),
}

/// Compares what we see with what is said.
pub(super) fn compare(object: &LocalWorkload, view: &View, me: &Router, now: Timestamp) -> Deed {
    let before = object.status.clone().unwrap_or_default();
    let said = before.session.clone().unwrap_or_default();
    let is_ours = said.gateway.as_deref() == Some(me.name.as_str());
    let epoch = i64::try_from(view.epoch).unwrap_or(i64::MAX);
    if !is_ours && is_newer(&before, epoch, view.phase, me) {
        return match view.phase {
            Phase::Disconnected => Deed::Nothing,
            Phase::Connected | Phase::Reconnecting => {
                Deed::Yield(format!("{} took it over with another `capt connect`", said.user))
            }
        };
    }
    // An agent that came to us only to leave: the router that waits for it has to hear that.
    let is_awaited = said.id == view.session && said.epoch < epoch;
    if !is_ours && !is_awaited && view.phase == Phase::Disconnected {
        return Deed::Nothing;
    }
    let ports: Vec<LocalPortStatus> = view.ports.iter().map(port).collect();
    let found = findings(&link(view), &ports);
    let mut new = after(&before, &found, object.metadata.generation, now);
    let session = session(view, me, now);
    let is_late = age(&said, now).is_none_or(|age| age >= HEARTBEAT);
    let is_news = !same(&said, &session) || new != before || ports != before.ports;
    let is_due = is_late && view.phase == Phase::Connected;
    if !is_news && !is_due {
        return Deed::Nothing;
    }
    (new.session, new.ports) = (Some(session), ports);
    Deed::Write(Box::new(new))
}

/// Whether the session of another router has to be preferred to ours. Two who knock at two routers in the same moment get
/// the same epoch, and each router has to come to the same verdict: who is connected comes before who is only expected,
/// and then the greater name has it.
fn is_newer(said: &LocalWorkloadStatus, epoch: i64, phase: Phase, me: &Router) -> bool {
    let Some(session) = &said.session else { return false };
    let gateway = session.gateway.as_deref().unwrap_or_default();
    let theirs = (is_true(&said.conditions, types::CONNECTED), gateway);
    let ours = (phase == Phase::Connected, me.name.as_str());
    session.epoch > epoch || session.epoch == epoch && live(said).is_some() && theirs > ours
}

/// What people hear of, when the status that was said becomes another.
pub(super) fn news(
    before: Option<&LocalWorkloadStatus>,
    now: &LocalWorkloadStatus,
    why: &str,
) -> Option<News> {
    let was = |it: &LocalWorkloadStatus| it.phase == Some(LocalPhase::Connected);
    let user = |it: &LocalWorkloadStatus| it.session.as_ref().map(|it| it.user.clone()).unwrap_or_default();
    let who = user(now);
    match (before.filter(|it| was(it)), now.phase) {
        (Some(before), Some(LocalPhase::Connected)) if user(before) == who => None,
        (_, Some(LocalPhase::Connected)) => {
            let gateway = now.session.as_ref().and_then(|it| it.gateway.clone()).unwrap_or_default();
            Some(News::normal("Connect", "TunnelConnected", format!("{who} is connected to {gateway}")))
        }
        (Some(_), Some(LocalPhase::Reconnecting)) => {
            let note = format!("the connection of {who} is lost and expected back: {why}");
            Some(News::warning("Connect", "TunnelLost", note))
        }
        (Some(_), Some(LocalPhase::Disconnected)) => {
            Some(News::normal("Connect", "TunnelLost", format!("the connection of {who} has ended: {why}")))
        }
        (None, Some(LocalPhase::Disconnected)) if before.is_some_and(|it| it.phase != now.phase) => {
            let note = format!("{who} did not come back, and is no longer waited for");
            Some(News::warning("Connect", "TunnelLost", note))
        }
        _ => None,
    }
}

/// How old the heartbeat of a session is.
fn age(session: &Session, now: Timestamp) -> Option<Duration> {
    let heard = session.last_heartbeat_time.as_ref()?.0;
    Some(Duration::try_from(now.duration_since(heard)).unwrap_or_default())
}

/// Whether two sessions are the same but for figures that move all the time.
fn same(a: &Session, b: &Session) -> bool {
    let still = |it: &Session| Session { last_heartbeat_time: None, rtt_millis: None, ..it.clone() };
    still(a) == still(b)
}

fn link(view: &View) -> Link {
    let why = view.why.clone().unwrap_or_default();
    match view.phase {
        Phase::Connected => Link::Connected,
        Phase::Reconnecting => Link::Reconnecting(why),
        Phase::Disconnected => Link::Disconnected(why),
    }
}

fn session(view: &View, me: &Router, now: Timestamp) -> Session {
    let since = Timestamp::try_from(view.since).unwrap_or(now);
    let heard = jiff::SignedDuration::try_from(view.silent_for).unwrap_or_default();
    Session {
        id: view.session.clone(),
        user: view.user.clone(),
        agent_version: Some(view.agent_version.clone()),
        gateway: Some(me.name.clone()),
        gateway_address: me.address.clone(),
        connected_since: Some(Time(seconds(since))),
        last_heartbeat_time: Some(Time(seconds(now - heard))),
        rtt_millis: view.rtt.map(|it| i64::try_from(it.as_millis()).unwrap_or(i64::MAX)),
        epoch: i64::try_from(view.epoch).unwrap_or(i64::MAX),
    }
}

/// The API server keeps seconds: anything finer would differ from what is read back.
fn seconds(at: Timestamp) -> Timestamp {
    Timestamp::from_second(at.as_second()).unwrap_or(at)
}

fn port(port: &sandbox_router::tunnel::PortReport) -> LocalPortStatus {
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

    fn me() -> Router {
        Router { name: "router-0".to_owned(), address: Some("10.0.0.7".to_owned()) }
    }

    fn view(phase: Phase, epoch: u64) -> View {
        View {
            workload: Workload::new("shop", "cart-local"),
            phase,
            why: (phase != Phase::Connected).then(|| "nothing was heard of it".to_owned()),
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
            ..LocalWorkload::new("cart-local", sandbox::api::LocalWorkloadSpec::default())
        }
    }

    fn written(deed: Deed) -> LocalWorkloadStatus {
        match deed {
            Deed::Write(status) => *status,
            other => panic!("nothing is written: {other:?}"),
        }
    }

    #[test]
    fn a_new_session_is_written_once_and_then_every_thirty_seconds() {
        let first = written(compare(&object(None), &view(Phase::Connected, 1), &me(), now()));
        assert_eq!(first.phase, Some(LocalPhase::Connected));
        let session = first.session.clone().unwrap();
        assert_eq!((session.gateway.as_deref(), session.rtt_millis), (Some("router-0"), Some(12)));
        let known = object(Some(first));
        let mut slower = view(Phase::Connected, 1);
        slower.rtt = Some(Duration::from_millis(99));
        let soon = now() + jiff::SignedDuration::from_secs(20);
        assert_eq!(compare(&known, &slower, &me(), soon), Deed::Nothing);
        let later = now() + jiff::SignedDuration::from_secs(40);
        let again = written(compare(&known, &slower, &me(), later));
        assert_eq!(again.session.unwrap().rtt_millis, Some(99));
    }

    #[test]
    fn a_transition_is_written_at_once_and_a_lost_session_not_again() {
        let known = object(Some(written(compare(&object(None), &view(Phase::Connected, 1), &me(), now()))));
        let lost = written(compare(&known, &view(Phase::Reconnecting, 1), &me(), now()));
        assert_eq!(lost.phase, Some(LocalPhase::Reconnecting));
        let gone = written(compare(&object(Some(lost)), &view(Phase::Disconnected, 1), &me(), now()));
        assert_eq!(gone.phase, Some(LocalPhase::Disconnected));
        let much_later = now() + jiff::SignedDuration::from_hours(1);
        let mut stale = view(Phase::Disconnected, 1);
        stale.silent_for = Duration::from_hours(1);
        assert_eq!(compare(&object(Some(gone)), &stale, &me(), much_later), Deed::Nothing);
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
            news(before, now, "nothing was heard").map(|it| (it.reason, it.note))
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
        let of = |phase| told(&written(compare(&object(None), &view(phase, 5), &me(), now())));
        let ann = Some(Holder { session: "s-1".to_owned(), user: "ann".to_owned() });
        assert_eq!(of(Phase::Connected), (5, ann.clone()));
        assert_eq!(of(Phase::Reconnecting), (5, ann));
        let known = object(Some(written(compare(&object(None), &view(Phase::Connected, 5), &me(), now()))));
        let gone = written(compare(&known, &view(Phase::Disconnected, 5), &me(), now()));
        assert_eq!(told(&gone), (5, None));
    }

    #[test]
    fn a_router_that_was_started_anew_expects_whom_it_had() {
        let mut known =
            object(Some(written(compare(&object(None), &view(Phase::Connected, 5), &me(), now()))));
        (known.metadata.namespace, known.spec.disconnect_grace_period) = (Some("shop".into()), "10m".into());
        let found = expected(&known, "router-0").unwrap();
        assert_eq!((found.workload.as_str(), found.epoch), ("shop/cart-local", 5));
        assert_eq!((found.holder.user.as_str(), found.grace), ("ann", Duration::from_mins(10)));
        assert_eq!(expected(&known, "router-1"), None, "she is another router's");
        known.status = Some(written(compare(&known, &view(Phase::Disconnected, 5), &me(), now())));
        assert_eq!(expected(&known, "router-0"), None, "she has left");
    }

    #[test]
    fn a_newer_session_at_another_router_ends_ours_and_an_older_one_is_overwritten() {
        let other = Router { name: "router-1".to_owned(), address: None };
        let known = object(Some(written(compare(&object(None), &view(Phase::Connected, 5), &other, now()))));
        assert!(matches!(compare(&known, &view(Phase::Connected, 4), &me(), now()), Deed::Yield(_)));
        assert_eq!(compare(&known, &view(Phase::Disconnected, 4), &me(), now()), Deed::Nothing);
        let ours = written(compare(&known, &view(Phase::Connected, 6), &me(), now()));
        assert_eq!(ours.session.unwrap().gateway.as_deref(), Some("router-0"));
    }

    #[test]
    fn of_two_sessions_with_the_same_epoch_one_yields_and_the_other_stays() {
        let (other, session) = (Router { name: "router-1".to_owned(), address: None }, "s-2".to_owned());
        let theirs = |phase| View { session: session.clone(), user: "zoe".to_owned(), ..view(phase, 5) };
        let connected = view(Phase::Connected, 5);
        let said_by =
            |view: &View, who: &Router| object(Some(written(compare(&object(None), view, who, now()))));
        let by_other = said_by(&theirs(Phase::Connected), &other);
        assert!(matches!(compare(&by_other, &connected, &me(), now()), Deed::Yield(_)));
        let by_us = said_by(&connected, &me());
        let won = written(compare(&by_us, &theirs(Phase::Connected), &other, now()));
        assert_eq!(won.session.unwrap().user, "zoe");
        let awaited = said_by(&theirs(Phase::Reconnecting), &other);
        let won = written(compare(&awaited, &connected, &me(), now()));
        assert_eq!(won.session.unwrap().user, "ann", "who is there comes before who is expected");
        let left = compare(&by_us, &theirs(Phase::Disconnected), &other, now());
        assert_eq!(left, Deed::Nothing);
    }

    #[test]
    fn an_agent_that_leaves_at_another_router_than_the_one_that_waits_for_it_is_not_waited_for() {
        let other = Router { name: "router-1".to_owned(), address: None };
        let waits =
            object(Some(written(compare(&object(None), &view(Phase::Reconnecting, 5), &other, now()))));
        let left = written(compare(&waits, &view(Phase::Disconnected, 6), &me(), now()));
        assert_eq!(left.phase, Some(LocalPhase::Disconnected));
        let waited = compare(&object(Some(left)), &view(Phase::Reconnecting, 5), &other, now());
        assert!(matches!(waited, Deed::Yield(_)));
        let stranger = View { session: "s-2".to_owned(), ..view(Phase::Disconnected, 6) };
        assert_eq!(compare(&waits, &stranger, &me(), now()), Deed::Nothing, "it disturbs nobody");
    }
}
