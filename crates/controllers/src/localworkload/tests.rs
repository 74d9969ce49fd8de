use std::time::Duration;

use capt_kinds::sandbox::{
    BaselineService, LocalPhase, LocalWorkload, LocalWorkloadStatus, Sandbox, SandboxStatus, Session,
    conditions::{reasons, types},
};
use capt_kube::k8s::EventSpec;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use sandbox::{
    condition::{ConditionUpdate, merge_conditions},
    local_status::{ConnectionState, connection_conditions, merge_status},
};
use serde_json::json;

use super::{
    decide::{self, HEARTBEAT_TIMEOUT},
    dereference::{BaselineLookup, LocalWorkloadInputs},
    events::phase_event,
    status::observed,
    validate::accepted_condition,
};

/// What a reconcile does with its inputs.
struct Reconciled {
    status: LocalWorkloadStatus,
    event: Option<EventSpec>,
    requeue_after: Option<Duration>,
}

/// The pure steps, in the order of `reconcile`.
fn decide(object: &LocalWorkload, around: &LocalWorkloadInputs, now: Timestamp) -> Reconciled {
    let accepted = accepted_condition(object, around);
    let decision = decide::decide(object, now);
    let status = observed(object, (around, accepted), decision, now);
    let event = phase_event(object.status.as_ref().and_then(|it| it.phase), &status);
    Reconciled { status, event, requeue_after: decision.requeue_after() }
}

fn now() -> Timestamp {
    "2026-11-17T05:00:00Z".parse().unwrap()
}

fn object(spec: &serde_json::Value, status: Option<LocalWorkloadStatus>) -> LocalWorkload {
    let mut object: LocalWorkload = serde_json::from_value(json!({
        "apiVersion": "sandbox.capt.x-k8s.io/v1alpha1", "kind": "LocalWorkload",
        "metadata": {"name": "cart-local", "namespace": "shop", "generation": 3},
        "spec": {"sandboxRef": {"name": "pr-1"}, "from": {"kind": "Deployment", "name": "cart"},
                 "mappings": [{"port": 8080, "toLocal": "localhost:3000"}]},
    }))
    .unwrap();
    if let Some(mappings) = spec.get("mappings") {
        object.spec.mappings = serde_json::from_value(mappings.clone()).unwrap();
    }
    object.status = status;
    object
}

fn sandbox() -> Sandbox {
    let programmed = [ConditionUpdate::yes(types::ROUTES_PROGRAMMED, reasons::PROGRAMMED, "")];
    let conditions = merge_conditions(&[], &programmed, &types::OF_SANDBOX, Some(1), now());
    let mut sandbox = Sandbox::new("pr-1", capt_kinds::sandbox::SandboxSpec::default());
    sandbox.status = Some(SandboxStatus { conditions, ..SandboxStatus::default() });
    sandbox
}

fn leading() -> Vec<BaselineService> {
    serde_json::from_value(json!([{"service": "cart", "ports": [{"port": 80, "targetPort": 8080}]}])).unwrap()
}

fn around() -> LocalWorkloadInputs {
    LocalWorkloadInputs {
        sandbox: Some(sandbox()),
        baseline: BaselineLookup::Found(leading()),
        locals: Vec::new(),
    }
}

fn said(decided: &Reconciled, type_: &str) -> (String, String) {
    let it = decided.status.conditions.iter().find(|it| it.type_ == type_).unwrap();
    (it.status.clone(), it.reason.clone())
}

fn connected() -> LocalWorkloadStatus {
    let session = Session {
        id: "s".to_owned(),
        user: "ann".to_owned(),
        last_heartbeat_time: Some(Time(now())),
        ..Session::default()
    };
    let status = LocalWorkloadStatus { session: Some(session), ..LocalWorkloadStatus::default() };
    merge_status(&status, &connection_conditions(&ConnectionState::Connected, &[]), Some(3), now())
}

#[test]
fn a_new_one_waits_for_its_agent_with_every_condition_there() {
    let decided = decide(&object(&json!({}), None), &around(), now());
    assert_eq!(decided.status.phase, Some(LocalPhase::Pending));
    assert_eq!(said(&decided, types::ACCEPTED).0, "True");
    assert_eq!(said(&decided, types::CONNECTED), ("Unknown".to_owned(), "Pending".to_owned()));
    assert_eq!(said(&decided, types::ROUTES_PROGRAMMED).0, "True");
    assert_eq!(decided.status.conditions.len(), types::OF_LOCAL_WORKLOAD.len());
    assert_eq!((decided.status.observed_generation, decided.requeue_after), (Some(3), None));
}

#[test]
fn without_its_sandbox_it_waits() {
    let decided = decide(&object(&json!({}), None), &LocalWorkloadInputs::default(), now());
    assert_eq!(said(&decided, types::ACCEPTED), ("False".to_owned(), "SandboxNotFound".to_owned()));
    assert_eq!(decided.status.phase, Some(LocalPhase::Pending));
}

#[test]
fn a_spec_that_cannot_be_followed_is_refused_in_words() {
    let twice = json!({"mappings": [{"port": 80, "toLocal": "nonsense"}]});
    let decided = decide(&object(&twice, None), &around(), now());
    assert_eq!(said(&decided, types::ACCEPTED).0, "False");
    assert_eq!(decided.status.phase, Some(LocalPhase::Failed));
    assert_eq!(decided.event.unwrap().reason, "Refused");
}

#[test]
fn a_port_of_bytes_is_accepted_with_a_word_about_what_comes_through_it() {
    let bytes = json!({"mappings": [{"port": 5432, "toLocal": "localhost:5432", "appProtocol": "tcp"}]});
    let decided = decide(&object(&bytes, None), &around(), now());
    let accepted = decided.status.conditions.iter().find(|it| it.type_ == types::ACCEPTED).unwrap();
    assert_eq!(accepted.status, "True");
    assert!(accepted.message.contains("5432") && accepted.message.contains("no key"), "{}", accepted.message);
}

#[test]
fn the_younger_of_two_for_one_baseline_is_refused_in_words() {
    let mut older = object(&json!({}), None);
    older.metadata.name = Some("older".to_owned());
    older.metadata.creation_timestamp = Some(Time(now()));
    let around = LocalWorkloadInputs { locals: vec![older], ..around() };
    let decided = decide(&object(&json!({}), None), &around, now());
    assert_eq!(said(&decided, types::ACCEPTED), ("False".to_owned(), "BaselineTaken".to_owned()));
    assert!(decided.event.unwrap().note.contains("the older LocalWorkload older"));
}

#[test]
fn beside_a_fork_it_says_what_the_fork_is_for() {
    let mut around = around();
    let forks = json!([{"forkOf": {"name": "cart"}}]);
    around.sandbox.as_mut().unwrap().spec.forks = serde_json::from_value(forks).unwrap();
    let mut object = object(&json!({}), None);
    let refused = decide(&object, &around, now());
    assert_eq!(said(&refused, types::ACCEPTED), ("False".to_owned(), "InvalidSpec".to_owned()));
    object.spec.disconnect_policy = capt_kinds::sandbox::DisconnectPolicy::Fork;
    assert_eq!(said(&decide(&object, &around, now()), types::ACCEPTED).0, "True");
}

#[test]
fn what_the_router_wrote_stays_and_is_looked_at_again_in_time() {
    let decided = decide(&object(&json!({}), Some(connected())), &around(), now());
    assert_eq!(decided.status.phase, Some(LocalPhase::Connected));
    assert_eq!(decided.status.session, connected().session);
    assert_eq!(decided.requeue_after, Some(HEARTBEAT_TIMEOUT));
    let again = decide(&object(&json!({}), Some(decided.status.clone())), &around(), now());
    assert_eq!(again.status, decided.status, "a second look changes nothing");
}

#[test]
fn a_session_whose_router_is_gone_is_not_shown_as_connected_for_ever() {
    let later = now() + SignedDuration::try_from(HEARTBEAT_TIMEOUT).unwrap();
    let decided = decide(&object(&json!({}), Some(connected())), &around(), later);
    assert_eq!(decided.status.phase, Some(LocalPhase::Disconnected));
    assert_eq!(decided.event.unwrap().reason, "TunnelLost");
    assert_eq!(decided.requeue_after, None);
}

#[test]
fn a_router_that_waits_for_an_agent_has_nothing_to_say_until_the_time_of_grace_is_over() {
    let lost = merge_status(
        &connected(),
        &connection_conditions(&ConnectionState::Reconnecting("it slept".to_owned()), &[]),
        Some(3),
        now(),
    );
    let mut object = object(&json!({}), Some(lost));
    object.spec.disconnect_grace_period = "10m".to_owned();
    let soon = now() + SignedDuration::try_from(HEARTBEAT_TIMEOUT).unwrap();
    let waits = decide(&object, &around(), soon);
    assert_eq!(
        waits.status.phase,
        Some(LocalPhase::Reconnecting),
        "its router would say so again, without end"
    );
    assert_eq!(waits.requeue_after, Some(Duration::from_mins(10)));
    let late = decide(&object, &around(), soon + SignedDuration::from_mins(10));
    assert_eq!(late.status.phase, Some(LocalPhase::Disconnected));
}

#[test]
fn routers_are_told_which_services_lead_to_the_baseline_and_a_lost_baseline_is_waited_for() {
    let decided = decide(&object(&json!({}), None), &around(), now());
    assert_eq!(decided.status.services, leading());
    let seen = object(&json!({}), Some(decided.status));
    let gone = decide(&seen, &LocalWorkloadInputs { baseline: BaselineLookup::NotFound, ..around() }, now());
    assert_eq!(said(&gone, types::ACCEPTED), ("False".to_owned(), "BaselineNotFound".to_owned()));
    assert_eq!(gone.status.phase, Some(LocalPhase::Pending));
    assert_eq!(gone.status.services, leading(), "they lead there again when it is back");
}
