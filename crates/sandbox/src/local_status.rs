//! The status of a local workload. It has two writers: the router that holds the session writes the session conditions, and the
//! controller writes the rest. Neither changes the other's conditions, and both derive the same phase.

use capt_kinds::sandbox::{
    LocalPortStatus, LocalWorkloadStatus, Session,
    conditions::{reasons, types},
};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use crate::{
    condition::{ConditionStatus, ConditionUpdate, merge_conditions},
    phase::derive_local_phase,
};

/// State of the connection of a local workload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ConnectionState {
    /// An agent is connected.
    Connected,
    /// It was lost for this reason; the grace period is running.
    Reconnecting(String),
    /// It was lost for this reason; the grace period is over.
    Disconnected(String),
}

/// The session, while an agent is connected or reconnecting. The phase cannot tell: it is `Failed` for an invalid spec, connected
/// or not.
pub fn active_session(status: &LocalWorkloadStatus) -> Option<&Session> {
    let connected = status.conditions.iter().find(|it| it.type_ == types::CONNECTED)?;
    let is_live =
        connected.status == ConditionStatus::True.as_str() || connected.reason == reasons::RECONNECTING;
    status.session.as_ref().filter(|_| is_live)
}

/// The conditions `Connected` and `LocalReachable`.
pub fn connection_conditions(link: &ConnectionState, ports: &[LocalPortStatus]) -> [ConditionUpdate; 2] {
    let connected = match link {
        ConnectionState::Connected => ConditionUpdate::yes(types::CONNECTED, reasons::CONNECTED, ""),
        ConnectionState::Reconnecting(why) => {
            ConditionUpdate::no(types::CONNECTED, reasons::RECONNECTING, why.clone())
        }
        ConnectionState::Disconnected(why) => {
            ConditionUpdate::no(types::CONNECTED, reasons::NOT_CONNECTED, why.clone())
        }
    };
    if *link != ConnectionState::Connected {
        let message = "no agent is connected";
        return [
            connected,
            ConditionUpdate::unknown(types::LOCAL_REACHABLE, reasons::NOT_CONNECTED, message),
        ];
    }
    let silent: Vec<String> = ports.iter().filter(|it| !it.reachable).map(describe_unreachable).collect();
    let reachable = if ports.is_empty() {
        ConditionUpdate::unknown(
            types::LOCAL_REACHABLE,
            reasons::PENDING,
            "the agent has not checked the port yet",
        )
    } else if silent.is_empty() {
        ConditionUpdate::yes(types::LOCAL_REACHABLE, reasons::REACHABLE, "")
    } else {
        ConditionUpdate::no(types::LOCAL_REACHABLE, reasons::UNREACHABLE, silent.join("; "))
    };
    [connected, reachable]
}

fn describe_unreachable(port: &LocalPortStatus) -> String {
    let why = port.last_error.as_deref().unwrap_or("does not answer");
    format!("{} for port {}: {why}", port.to_local, port.port)
}

/// Merges conditions into a status: other types are kept, `Ready` and the phase are derived.
pub fn merge_status(
    before: &LocalWorkloadStatus,
    findings: &[ConditionUpdate],
    generation: Option<i64>,
    now: Timestamp,
) -> LocalWorkloadStatus {
    let old = &before.conditions;
    let is_given = |type_: &str| findings.iter().any(|it| it.type_ == type_);
    let mut all = merge_conditions(old, findings, &types::OF_LOCAL_WORKLOAD, generation, now);
    for condition in &mut all {
        let kept = old.iter().find(|it| it.type_ == condition.type_ && !is_given(&it.type_));
        if let Some(kept) = kept {
            condition.clone_from(kept);
        }
    }
    let ready = ready_condition(old, &all, generation, now);
    all.retain(|it| it.type_ != types::READY);
    let at = all.partition_point(|it| it.type_.as_str() < types::READY);
    all.insert(at, ready);
    let phase = Some(derive_local_phase(&all));
    LocalWorkloadStatus { phase, conditions: all, ..before.clone() }
}

/// `Ready`: True when all others are, otherwise a copy of the first that is not.
fn ready_condition(
    old: &[Condition],
    all: &[Condition],
    generation: Option<i64>,
    now: Timestamp,
) -> Condition {
    let order = [types::ACCEPTED, types::CONNECTED, types::LOCAL_REACHABLE, types::ROUTES_PROGRAMMED];
    let of = |type_: &&str| all.iter().find(|it| it.type_ == **type_);
    let in_the_way = order.iter().filter_map(of).find(|it| it.status != ConditionStatus::True.as_str());
    let finding = match in_the_way {
        None => ConditionUpdate::yes(types::READY, reasons::READY, ""),
        Some(it) => ConditionUpdate::no(types::READY, reasons::PENDING, it.message.clone()),
    };
    let mut ready = merge_conditions(old, &[finding], &[types::READY], generation, now).remove(0);
    if let Some(it) = in_the_way {
        ready.reason.clone_from(&it.reason);
    }
    ready
}

#[cfg(test)]
mod tests {
    use super::*;
    use capt_kinds::sandbox::LocalPhase;

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
            ConditionUpdate::yes(types::ACCEPTED, reasons::ACCEPTED, ""),
            ConditionUpdate::yes(types::ROUTES_PROGRAMMED, reasons::PROGRAMMED, ""),
        ];
        let first = merge_status(&LocalWorkloadStatus::default(), &accepted, Some(1), now());
        assert_eq!(first.phase, Some(LocalPhase::Pending));
        let second = merge_status(
            &first,
            &connection_conditions(&ConnectionState::Connected, &[port(true)]),
            Some(1),
            now(),
        );
        assert_eq!(second.phase, Some(LocalPhase::Connected));
        assert_eq!(said(&second, types::ACCEPTED).0, "True");
        assert_eq!(said(&second, types::READY).0, "True");
        assert_eq!(merge_status(&second, &accepted, Some(1), now()), second);
        let names: Vec<&str> = second.conditions.iter().map(|it| it.type_.as_str()).collect();
        assert!(names.is_sorted() && names.len() == types::OF_LOCAL_WORKLOAD.len(), "{names:?}");
    }

    #[test]
    fn a_port_that_does_not_answer_is_named_where_people_look() {
        let accepted = [ConditionUpdate::yes(types::ACCEPTED, reasons::ACCEPTED, "")];
        let first = merge_status(&LocalWorkloadStatus::default(), &accepted, None, now());
        let status = merge_status(
            &first,
            &connection_conditions(&ConnectionState::Connected, &[port(false)]),
            None,
            now(),
        );
        let (ready, reason, message) = said(&status, types::READY);
        assert_eq!((ready.as_str(), reason.as_str()), ("False", "Unreachable"));
        assert!(message.contains("localhost:3000 for port 8080: connection refused"), "{message}");
        assert_eq!(status.phase, Some(LocalPhase::Connected));
    }

    #[test]
    fn a_lost_connection_is_first_expected_back_and_then_not() {
        let link = |link: &ConnectionState| {
            merge_status(&LocalWorkloadStatus::default(), &connection_conditions(link, &[]), None, now())
        };
        let lost = link(&ConnectionState::Reconnecting("nothing was heard of it".to_owned()));
        assert_eq!(lost.phase, Some(LocalPhase::Reconnecting));
        assert_eq!(said(&lost, types::LOCAL_REACHABLE).0, "Unknown");
        let gone = link(&ConnectionState::Disconnected(String::new()));
        assert_eq!(gone.phase, Some(LocalPhase::Disconnected));
    }
}
