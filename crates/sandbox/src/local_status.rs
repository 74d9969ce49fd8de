//! What the status of a local workload says. Two write it: the router that holds its session writes what it sees of the
//! session, and the controller writes the rest. Each leaves alone what is the other's, and both derive the same phase.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use crate::{
    api::{
        LocalPortStatus, LocalWorkloadStatus, Session,
        conditions::{reasons, types},
    },
    condition::{Finding, Status, written},
    phase::local_phase,
};

/// How it is with the connection of a local workload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Link {
    /// It stands.
    Connected,
    /// It was lost a moment ago, for this reason.
    Reconnecting(String),
    /// It was lost for longer than that.
    Disconnected(String),
}

/// The session, while somebody is connected or expected back. The phase would not tell: it has another word for one whose
/// spec cannot be followed, connected or not.
pub fn live(status: &LocalWorkloadStatus) -> Option<&Session> {
    let connected = status.conditions.iter().find(|it| it.type_ == types::CONNECTED)?;
    let is_live = connected.status == Status::True.word() || connected.reason == reasons::RECONNECTING;
    status.session.as_ref().filter(|_| is_live)
}

/// What a connection and its ports mean.
pub fn findings(link: &Link, ports: &[LocalPortStatus]) -> [Finding; 2] {
    let connected = match link {
        Link::Connected => Finding::yes(types::CONNECTED, reasons::CONNECTED, ""),
        Link::Reconnecting(why) => Finding::no(types::CONNECTED, reasons::RECONNECTING, why.clone()),
        Link::Disconnected(why) => Finding::no(types::CONNECTED, reasons::NOT_CONNECTED, why.clone()),
    };
    if *link != Link::Connected {
        let message = "nobody is connected who could tell";
        return [connected, Finding::unknown(types::LOCAL_REACHABLE, reasons::NOT_CONNECTED, message)];
    }
    let silent: Vec<String> = ports.iter().filter(|it| !it.reachable).map(unreachable).collect();
    let reachable = if ports.is_empty() {
        Finding::unknown(types::LOCAL_REACHABLE, reasons::PENDING, "the agent has not looked yet")
    } else if silent.is_empty() {
        Finding::yes(types::LOCAL_REACHABLE, reasons::REACHABLE, "")
    } else {
        Finding::no(types::LOCAL_REACHABLE, reasons::UNREACHABLE, silent.join("; "))
    };
    [connected, reachable]
}

fn unreachable(port: &LocalPortStatus) -> String {
    let why = port.last_error.as_deref().unwrap_or("does not answer");
    format!("{} for port {}: {why}", port.to_local, port.port)
}

/// The status after some findings: what they do not mention stays, `Ready` and the phase follow.
pub fn after(
    before: &LocalWorkloadStatus,
    findings: &[Finding],
    generation: Option<i64>,
    now: Timestamp,
) -> LocalWorkloadStatus {
    let old = &before.conditions;
    let is_given = |type_: &str| findings.iter().any(|it| it.type_ == type_);
    let mut all = written(old, findings, &types::OF_LOCAL_WORKLOAD, generation, now);
    for condition in &mut all {
        let kept = old.iter().find(|it| it.type_ == condition.type_ && !is_given(&it.type_));
        if let Some(kept) = kept {
            condition.clone_from(kept);
        }
    }
    let ready = ready(old, &all, generation, now);
    all.retain(|it| it.type_ != types::READY);
    let at = all.partition_point(|it| it.type_.as_str() < types::READY);
    all.insert(at, ready);
    let phase = Some(local_phase(&all));
    LocalWorkloadStatus { phase, conditions: all, ..before.clone() }
}

/// `Ready`, which holds when all others do; otherwise it repeats the first that does not.
fn ready(old: &[Condition], all: &[Condition], generation: Option<i64>, now: Timestamp) -> Condition {
    let order = [types::ACCEPTED, types::CONNECTED, types::LOCAL_REACHABLE, types::ROUTES_PROGRAMMED];
    let of = |type_: &&str| all.iter().find(|it| it.type_ == **type_);
    let in_the_way = order.iter().filter_map(of).find(|it| it.status != Status::True.word());
    let finding = match in_the_way {
        None => Finding::yes(types::READY, reasons::READY, ""),
        Some(it) => Finding::no(types::READY, reasons::PENDING, it.message.clone()),
    };
    let mut ready = written(old, &[finding], &[types::READY], generation, now).remove(0);
    if let Some(it) = in_the_way {
        ready.reason.clone_from(&it.reason);
    }
    ready
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::LocalPhase;

    fn now() -> Timestamp {
        "2026-11-17T05:00:00Z".parse().unwrap()
    }

    fn port(reachable: bool) -> LocalPortStatus {
        let last_error = (!reachable).then(|| "connection refused".to_owned());
        LocalPortStatus { port: 8080, to_local: "localhost:3000".to_owned(), reachable, last_error }
    }

    fn said(status: &LocalWorkloadStatus, type_: &str) -> (String, String, String) {
        let it = status.conditions.iter().find(|it| it.type_ == type_).unwrap();
        (it.status.clone(), it.reason.clone(), it.message.clone())
    }

    #[test]
    fn two_writers_leave_each_others_words_alone() {
        let accepted = [
            Finding::yes(types::ACCEPTED, reasons::ACCEPTED, ""),
            Finding::yes(types::ROUTES_PROGRAMMED, reasons::PROGRAMMED, ""),
        ];
        let first = after(&LocalWorkloadStatus::default(), &accepted, Some(1), now());
        assert_eq!(first.phase, Some(LocalPhase::Pending));
        let second = after(&first, &findings(&Link::Connected, &[port(true)]), Some(1), now());
        assert_eq!(second.phase, Some(LocalPhase::Connected));
        assert_eq!(said(&second, types::ACCEPTED).0, "True");
        assert_eq!(said(&second, types::READY).0, "True");
        assert_eq!(after(&second, &accepted, Some(1), now()), second);
        let names: Vec<&str> = second.conditions.iter().map(|it| it.type_.as_str()).collect();
        assert!(names.is_sorted() && names.len() == types::OF_LOCAL_WORKLOAD.len(), "{names:?}");
    }

    #[test]
    fn a_port_that_does_not_answer_is_named_where_people_look() {
        let accepted = [Finding::yes(types::ACCEPTED, reasons::ACCEPTED, "")];
        let first = after(&LocalWorkloadStatus::default(), &accepted, None, now());
        let status = after(&first, &findings(&Link::Connected, &[port(false)]), None, now());
        let (ready, reason, message) = said(&status, types::READY);
        assert_eq!((ready.as_str(), reason.as_str()), ("False", "Unreachable"));
        assert!(message.contains("localhost:3000 for port 8080: connection refused"), "{message}");
        assert_eq!(status.phase, Some(LocalPhase::Connected));
    }

    #[test]
    fn a_lost_connection_is_first_expected_back_and_then_not() {
        let link = |link: &Link| after(&LocalWorkloadStatus::default(), &findings(link, &[]), None, now());
        let lost = link(&Link::Reconnecting("nothing was heard of it".to_owned()));
        assert_eq!(lost.phase, Some(LocalPhase::Reconnecting));
        assert_eq!(said(&lost, types::LOCAL_REACHABLE).0, "Unknown");
        let gone = link(&Link::Disconnected(String::new()));
        assert_eq!(gone.phase, Some(LocalPhase::Disconnected));
    }
}
