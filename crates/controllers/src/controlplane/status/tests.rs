//! Conditions case by case; and a property test of the initialization latch.

use capt_engine::aws::{EksAddon, EksCluster, EksIssue};
use capt_kinds::api::{CaptControlPlane, Phase, WorkspaceTemplateApply};
use capt_model::model::Limits;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Secret;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::controlplane::{
    dereference::{ControlPlaneReferences, IdentityUnavailable},
    eks_poll::{EksFacts, EksLookup, EksObservation, EksResponse, IssuedToken},
    fixtures::{completed_status, control_plane, references, workspace},
    validate::validate,
};

const ARN: &str = "arn:aws:eks:eu-central-1:123456789012:cluster/demo";
const EKS: &str = "cp-eks-controlplane-apply";

fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

fn now() -> Timestamp {
    at("2026-11-01T09:40:00Z")
}

fn view(status: &str) -> EksCluster {
    EksCluster {
        arn: ARN.to_owned(),
        tags: [("capt.x-k8s.io/owner".to_owned(), "c1".to_owned())].into(),
        status: status.to_owned(),
        version: Some("1.33".to_owned()),
        endpoint: Some("https://eks.example".to_owned()),
        certificate_authority: Some("UEVN".to_owned()),
        ..EksCluster::default()
    }
}

fn facts(cluster: EksLookup<EksCluster>) -> EksFacts {
    let addon = EksAddon { name: "coredns".to_owned(), status: "ACTIVE".to_owned(), ..EksAddon::default() };
    EksFacts {
        cluster: Some(cluster),
        profile_names: Some(Vec::new()),
        addons: Some(vec![addon]),
        ..EksFacts::default()
    }
}

fn observation(known: EksFacts) -> EksObservation {
    let mut look = EksObservation::default();
    look.merge_response(
        "s",
        EksResponse { facts: known, api_probe: Some(Ok(())), ..EksResponse::default() },
        now(),
    );
    look
}

fn eks_workspace(status: &Value) -> WorkspaceTemplateApply {
    workspace(EKS, &json!({"region": "eu-central-1"}), status)
}

fn applied() -> Value {
    let mut status = completed_status(&json!({"cluster_version": "1.33"}));
    status["eksClusterArns"] = json!([ARN]);
    status
}

/// The kubeconfig Secret for this snapshot.
fn secret(object: &CaptControlPlane, seen: &ControlPlaneReferences, look: &EksObservation) -> Option<Secret> {
    let snapshot =
        ControlPlaneSnapshot::new(object, seen, look, validate(object, seen, &Limits::default()), now());
    let token =
        capt_engine::aws::EksToken { bearer: "t".to_owned().into(), expires_at: at("2026-11-01T09:54:00Z") };
    snapshot.with_kubeconfig_inputs(|facts| {
        crate::controlplane::kubeconfig::build_kubeconfig_secret(
            facts,
            &IssuedToken { issued_at: now(), token },
        )
    })
}

fn status_at(
    object: &CaptControlPlane,
    seen: &ControlPlaneReferences,
    look: &EksObservation,
    now: Timestamp,
) -> CaptControlPlaneStatus {
    // EKS was queried after the last run of all workspaces.
    let mut look = look.clone();
    let stamp =
        ControlPlaneSnapshot::new(object, seen, &look, validate(object, seen, &Limits::default()), now)
            .run_fingerprint;
    look.last_query = look.last_query.map(|(at, _)| (at, stamp));
    observed_at(object, seen, &look, now)
}

fn observed_at(
    object: &CaptControlPlane,
    seen: &ControlPlaneReferences,
    look: &EksObservation,
    now: Timestamp,
) -> CaptControlPlaneStatus {
    let snapshot =
        ControlPlaneSnapshot::new(object, seen, look, validate(object, seen, &Limits::default()), now);
    observed(&snapshot, StatusContext { generation: Some(3), now })
}

#[test]
fn what_eks_did_not_know_before_a_run_ended_says_nothing_of_what_the_run_made() {
    let (object, mut seen) = (plain(), references());
    seen.eks_workspace = Some(eks_workspace(&applied()));
    let before = observation(facts(EksLookup::NotFound));
    let status = observed_at(&object, &seen, &before, now());
    assert_ne!(condition_status(&status, types::EKS_CLUSTER_READY).1, "EKSNotFound");
    let after = status_at(&object, &seen, &before, now());
    assert_eq!(condition_status(&after, types::EKS_CLUSTER_READY).1, "EKSNotFound");
}

fn plain() -> CaptControlPlane {
    control_plane(&json!({"version": "v1.33.0"}))
}

fn condition_status(status: &CaptControlPlaneStatus, type_: &str) -> (String, String) {
    let found = find(&status.conditions, type_).unwrap();
    (found.status.clone(), found.reason.clone())
}

fn assert_condition(status: &CaptControlPlaneStatus, type_: &str, truth: &str, reason: &str) {
    let found = find(&status.conditions, type_).unwrap();
    assert_eq!((found.status.as_str(), found.reason.as_str()), (truth, reason), "{type_}: {}", found.message);
}

#[test]
fn all_conditions_are_there_from_the_first_look_on() {
    let at = StatusContext { generation: Some(3), now: now() };
    let old = CaptControlPlaneStatus::default();
    for status in [
        waiting_for_owner(&old, at, "no owner"),
        paused(&old, at),
        deleting(&old, at, ("WaitingForEKSClusterDeletion", "x"), Vec::new()),
        status_at(&plain(), &references(), &EksObservation::default(), now()),
    ] {
        for type_ in CONDITION_TYPES {
            assert!(find(&status.conditions, type_).is_some(), "{type_}");
        }
        assert_eq!(status.conditions.len(), CONDITION_TYPES.len());
    }
}

#[test]
fn it_waits_for_the_network_and_says_when_that_takes_too_long() {
    let mut seen = references();
    seen.cluster.infrastructure_provisioned = false;
    let status = status_at(&plain(), &seen, &EksObservation::default(), at("2026-11-01T09:14:59Z"));
    assert_condition(&status, types::READY, "False", "WaitingForVPC");
    assert_condition(&status, types::CREATING, "True", "WaitingForVPC");
    let late = status_at(&plain(), &seen, &EksObservation::default(), at("2026-11-01T09:15:00Z"));
    assert_condition(&late, types::READY, "False", "VPCReadyTimeout");
    assert_condition(&late, types::FAILED, "False", "NotFailed");
    assert_eq!((late.phase, late.failure_reason), (Some(Phase::Creating), None));
}

#[test]
fn a_control_plane_that_takes_too_long_is_told_and_heals() {
    let mut seen = references();
    let working =
        json!({"observedGeneration": 1, "run": {"id": "r", "operation": "Apply", "phase": "Applying"}});
    seen.eks_workspace = Some(eks_workspace(&working));
    let status = status_at(&plain(), &seen, &EksObservation::default(), at("2026-11-01T09:59:00Z"));
    assert_condition(&status, types::READY, "False", "Creating");
    let late = status_at(&plain(), &seen, &EksObservation::default(), at("2026-11-01T10:00:00Z"));
    assert_condition(&late, types::READY, "False", "ControlPlaneTimeout");
    assert_condition(&late, types::EKS_CLUSTER_READY, "False", "ControlPlaneTimeout");
    assert_condition(&late, types::FAILED, "False", "NotFailed");
    assert!(find(&late.conditions, types::READY).unwrap().message.contains("applying"));

    let mut object = plain();
    object.status = Some(late);
    seen.eks_workspace = Some(eks_workspace(&applied()));
    let look = observation(facts(EksLookup::Present(view("ACTIVE"))));
    seen.secrets.kubeconfig = secret(&object, &seen, &look);
    let well = status_at(&object, &seen, &look, at("2026-11-01T09:45:00Z"));
    assert_condition(&well, types::READY, "True", "Ready");
    assert_eq!(well.phase, Some(Phase::Ready));
}

#[test]
fn a_custom_timeout_counts() {
    let object = control_plane(&json!({"version": "1.33",
        "controlPlaneConfig": {"timeouts": {"controlPlaneTimeout": 5, "vpcReadyTimeout": 1}}}));
    let mut seen = references();
    seen.eks_workspace = Some(eks_workspace(&json!({"observedGeneration": 1})));
    let late = status_at(&object, &seen, &EksObservation::default(), at("2026-11-01T09:35:00Z"));
    assert_condition(&late, types::READY, "False", "ControlPlaneTimeout");
}

#[test]
fn what_eks_says_decides() {
    let sick = EksCluster {
        issues: vec![EksIssue { code: "KmsKeyDisabled".to_owned(), ..EksIssue::default() }],
        ..view("ACTIVE")
    };
    let table = [
        (EksLookup::Present(view("ACTIVE")), ("True", "Ready"), ("True", "Available"), ("True", "Ready")),
        (EksLookup::Present(view("UPDATING")), ("True", "Ready"), ("True", "Available"), ("True", "Ready")),
        (
            EksLookup::Present(sick),
            ("False", "EKSUnhealthy"),
            ("True", "Available"),
            ("False", "EKSUnhealthy"),
        ),
        (
            EksLookup::Present(view("FAILED")),
            ("False", "EKSUnhealthy"),
            ("False", "EKSUnhealthy"),
            ("False", "EKSUnhealthy"),
        ),
        (
            EksLookup::Present(view("DELETING")),
            ("False", "Deleting"),
            ("False", "EKSUnhealthy"),
            ("False", "Deleting"),
        ),
        (EksLookup::NotFound, ("False", "EKSNotFound"), ("False", "EKSNotFound"), ("False", "EKSNotFound")),
    ];
    for (cluster, eks, available, ready) in table {
        let mut object = plain();
        let mut seen = references();
        seen.eks_workspace = Some(eks_workspace(&applied()));
        let good = observation(facts(EksLookup::Present(view("ACTIVE"))));
        seen.secrets.kubeconfig = secret(&object, &seen, &good);
        object.status = Some(status_at(&object, &seen, &good, now()));
        let status = status_at(&object, &seen, &observation(facts(cluster.clone())), now());
        for (type_, (truth, reason)) in
            [(types::EKS_CLUSTER_READY, eks), (types::AVAILABLE, available), (types::READY, ready)]
        {
            let found = condition_status(&status, type_);
            assert_eq!((found.0.as_str(), found.1.as_str()), (truth, reason), "{type_} of {cluster:?}");
        }
    }
}

#[test]
fn an_operator_that_just_started_repeats_what_was_said_before() {
    let mut object = plain();
    let mut seen = references();
    seen.eks_workspace = Some(eks_workspace(&applied()));
    let look = observation(facts(EksLookup::Present(view("ACTIVE"))));
    seen.secrets.kubeconfig = secret(&object, &seen, &look);
    let before = status_at(&object, &seen, &look, now());
    object.status = Some(before.clone());
    let after = status_at(&object, &seen, &EksObservation::default(), now());
    assert_eq!(after, before);
    let mut silent = EksObservation::default();
    silent.merge_response(
        "s",
        EksResponse { error: Some("500".to_owned()), ..EksResponse::default() },
        now(),
    );
    let told = status_at(&object, &seen, &silent, now());
    assert_condition(&told, types::READY, "True", "Ready");
    assert!(find(&told.conditions, types::EKS_CLUSTER_READY).unwrap().message.contains("Unknown"));
    object.status = Some(told.clone());
    assert_eq!(status_at(&object, &seen, &silent, now()), told, "the marker is not repeated");
}

#[test]
fn an_identity_that_may_not_be_used_is_told() {
    let mut seen = references();
    for (is_failure, failed) in [(true, "True"), (false, "False")] {
        seen.principal = Err(IdentityUnavailable {
            is_failure,
            message: "CAPTIdentity prod does not allow it".to_owned(),
        });
        let status = status_at(&plain(), &seen, &EksObservation::default(), now());
        assert_condition(&status, types::READY, "False", "IdentityNotAllowed");
        assert_eq!(condition_status(&status, types::FAILED).0, failed);
    }
}

#[test]
fn a_failure_while_the_cluster_runs_leaves_it_available() {
    let mut object = plain();
    let mut seen = references();
    seen.eks_workspace = Some(eks_workspace(&applied()));
    let look = observation(facts(EksLookup::Present(view("ACTIVE"))));
    seen.secrets.kubeconfig = secret(&object, &seen, &look);
    object.status = Some(status_at(&object, &seen, &look, now()));
    let mut broken = applied();
    broken["lastError"] = json!({"class": "UserFix", "message": "no"});
    seen.eks_workspace = Some(eks_workspace(&broken));
    let status = status_at(&object, &seen, &look, now());
    assert_condition(&status, types::FAILED, "True", "WorkspaceError");
    assert_condition(&status, types::AVAILABLE, "True", "Available");
    assert_eq!((status.phase, status.ready), (Some(Phase::Failed), Some(true)));
    let well = {
        object.status = Some(status);
        seen.eks_workspace = Some(eks_workspace(&applied()));
        status_at(&object, &seen, &look, now())
    };
    assert_eq!((well.failure_reason, well.failure_message, well.phase), (None, None, Some(Phase::Ready)));
}

#[test]
fn a_pause_changes_its_condition_alone() {
    let mut seen = references();
    seen.eks_workspace = Some(eks_workspace(&applied()));
    let before = status_at(&plain(), &seen, &observation(facts(EksLookup::Present(view("ACTIVE")))), now());
    let mut after = paused(&before, StatusContext { generation: Some(4), now: now() });
    assert_condition(&after, types::PAUSED, "True", "Paused");
    let _ = conditions::remove(&mut after.conditions, types::PAUSED);
    let mut rest = before;
    let _ = conditions::remove(&mut rest.conditions, types::PAUSED);
    assert_eq!(after, rest);
}

/// An event of the simulation.
#[derive(Debug, Clone)]
enum Event {
    Workspace(Option<usize>),
    Cluster(usize),
    Silence,
    Api(bool),
    Secret(bool),
    Network(bool),
    Version(u8),
    Identity(bool),
    Restart,
    Delete,
    Pause,
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        proptest::option::of(0..4_usize).prop_map(Event::Workspace),
        (0..6_usize).prop_map(Event::Cluster),
        Just(Event::Silence),
        any::<bool>().prop_map(Event::Api),
        any::<bool>().prop_map(Event::Secret),
        any::<bool>().prop_map(Event::Network),
        (30..36_u8).prop_map(Event::Version),
        any::<bool>().prop_map(Event::Identity),
        Just(Event::Restart),
        Just(Event::Delete),
        Just(Event::Pause),
    ]
}

struct Simulation {
    object: CaptControlPlane,
    references: ControlPlaneReferences,
    observation: EksObservation,
}

impl Simulation {
    fn apply_event(&mut self, event: &Event) -> CaptControlPlaneStatus {
        let moment = StatusContext { generation: Some(3), now: now() };
        let old = self.object.status.clone().unwrap_or_default();
        let failing = json!({"observedGeneration": 1, "lastError": {"class": "UserFix", "message": "no"}});
        match event {
            Event::Workspace(state) => {
                let all = [applied(), failing, json!({}), json!({"observedGeneration": 9})];
                self.references.eks_workspace = state.map(|state| eks_workspace(&all[state]));
            }
            Event::Cluster(state) => {
                let words = ["ACTIVE", "UPDATING", "CREATING", "FAILED", "DELETING"];
                let found =
                    words.get(*state).map_or(EksLookup::NotFound, |word| EksLookup::Present(view(word)));
                self.observation.merge_response(
                    "s",
                    EksResponse { facts: facts(found), ..EksResponse::default() },
                    now(),
                );
            }
            Event::Silence => {
                self.observation.merge_response(
                    "s",
                    EksResponse { error: Some("500".to_owned()), ..EksResponse::default() },
                    now(),
                );
            }
            Event::Api(answers) => {
                self.observation.api_probe = Some(if *answers { Ok(()) } else { Err("refused".to_owned()) });
            }
            Event::Secret(exists) => {
                let secret = secret(&self.object, &self.references, &self.observation);
                self.references.secrets.kubeconfig = secret.filter(|_| *exists);
            }
            Event::Network(complete) => self.references.cluster.infrastructure_provisioned = *complete,
            Event::Version(minor) => self.object.spec.version = format!("1.{minor}"),
            Event::Identity(known) => {
                let unknown = IdentityUnavailable { is_failure: true, message: "no".to_owned() };
                self.references.principal =
                    if *known { Ok(capt_engine::aws::Principal::from_default_chain()) } else { Err(unknown) };
            }
            Event::Restart => self.observation = EksObservation::default(),
            Event::Delete => return deleting(&old, moment, (reasons::DELETING, "x"), Vec::new()),
            Event::Pause => return paused(&old, moment),
        }
        status_at(&self.object, &self.references, &self.observation, now())
    }
}

proptest! {
    #[test]
    fn p2_the_latch_never_opens_again_whatever_happens(events in proptest::collection::vec(event(), 1..60)) {
        let mut life = Simulation { object: plain(), references: references(), observation: EksObservation::default() };
        let mut closed = false;
        for event in &events {
            let status = life.apply_event(event);
            let latch = status.initialization.as_ref().and_then(|it| it.control_plane_initialized);
            prop_assert!(latch != Some(false), "{event:?}");
            prop_assert!(!closed || latch == Some(true), "{event:?} opened it");
            prop_assert_eq!(status.initialized == Some(true), latch == Some(true));
            prop_assert_eq!(status.conditions.len(), CONDITION_TYPES.len());
            prop_assert_eq!(status.failure_reason.is_some(), is_true(&status.conditions, types::FAILED));
            closed = latch == Some(true);
            life.object.status = Some(status);
        }
    }
}
