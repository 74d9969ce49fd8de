//! What is said in which case; and the latch, whatever happens.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Secret;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::{
    api::{CaptControlPlane, Phase, WorkspaceTemplateApply},
    aws::{AddonView, ClusterView, Issue},
    controllers::controlplane::{
        dereference::{Seen, Unknown},
        fixtures::{control_plane, done, seen, workspace},
        look::{Answer, Found, Known, Look, Made},
    },
    model::Limits,
};

const EKS: &str = "cp-eks-controlplane-apply";

fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

fn now() -> Timestamp {
    at("2026-11-01T09:40:00Z")
}

fn view(status: &str) -> ClusterView {
    ClusterView {
        status: status.to_owned(),
        version: Some("1.33".to_owned()),
        endpoint: Some("https://eks.example".to_owned()),
        certificate_authority: Some("UEVN".to_owned()),
        ..ClusterView::default()
    }
}

fn known(cluster: Found<ClusterView>) -> Known {
    let addon = AddonView { name: "coredns".to_owned(), status: "ACTIVE".to_owned(), ..AddonView::default() };
    Known {
        cluster: Some(cluster),
        all_profiles: Some(Vec::new()),
        addons: Some(vec![addon]),
        ..Known::default()
    }
}

fn looked(known: Known) -> Look {
    let mut look = Look::default();
    look.take("s", Answer { known, api: Some(Ok(())), ..Answer::default() }, now());
    look
}

fn made(status: &Value) -> WorkspaceTemplateApply {
    workspace(EKS, &json!({"region": "eu-central-1"}), status)
}

fn applied() -> Value {
    done(&json!({"cluster_version": "1.33"}))
}

/// The Secret for programs, as the picture wants it.
fn secret(object: &CaptControlPlane, seen: &Seen, look: &Look) -> Option<Secret> {
    let picture = Picture::of(object, seen, look, &Limits::default(), now());
    let token = crate::aws::Token { text: "t".to_owned().into(), expires_at: at("2026-11-01T09:54:00Z") };
    picture.with_facts(|facts| {
        crate::controllers::controlplane::kubeconfig::for_programs(facts, &Made { at: now(), token })
    })
}

fn status_at(object: &CaptControlPlane, seen: &Seen, look: &Look, now: Timestamp) -> CaptControlPlaneStatus {
    // EKS was asked after the last run of all workspaces.
    let mut look = look.clone();
    let stamp = Picture::of(object, seen, &look, &Limits::default(), now).stamp;
    look.asked = look.asked.map(|(at, _)| (at, stamp));
    observed_at(object, seen, &look, now)
}

fn observed_at(
    object: &CaptControlPlane,
    seen: &Seen,
    look: &Look,
    now: Timestamp,
) -> CaptControlPlaneStatus {
    let picture = Picture::of(object, seen, look, &Limits::default(), now);
    observed(&picture, Moment { generation: Some(3), now })
}

#[test]
fn what_eks_did_not_know_before_a_run_ended_says_nothing_of_what_the_run_made() {
    let (object, mut seen) = (plain(), seen());
    seen.eks = Some(made(&applied()));
    let before = looked(known(Found::Gone));
    let status = observed_at(&object, &seen, &before, now());
    assert_ne!(said(&status, types::EKS_CLUSTER_READY).1, "EKSNotFound");
    let after = status_at(&object, &seen, &before, now());
    assert_eq!(said(&after, types::EKS_CLUSTER_READY).1, "EKSNotFound");
}

fn plain() -> CaptControlPlane {
    control_plane(&json!({"version": "v1.33.0"}))
}

fn said(status: &CaptControlPlaneStatus, type_: &str) -> (String, String) {
    let found = find(&status.conditions, type_).unwrap();
    (found.status.clone(), found.reason.clone())
}

fn is(status: &CaptControlPlaneStatus, type_: &str, truth: &str, reason: &str) {
    let found = find(&status.conditions, type_).unwrap();
    assert_eq!((found.status.as_str(), found.reason.as_str()), (truth, reason), "{type_}: {}", found.message);
}

#[test]
fn all_conditions_are_there_from_the_first_look_on() {
    let at = Moment { generation: Some(3), now: now() };
    let old = CaptControlPlaneStatus::default();
    for status in [
        waiting_for_owner(&old, at, "no owner"),
        paused(&old, at),
        deleting(&old, at, ("WaitingForEKSClusterDeletion", "x"), Vec::new()),
        status_at(&plain(), &seen(), &Look::default(), now()),
    ] {
        for type_ in ALL {
            assert!(find(&status.conditions, type_).is_some(), "{type_}");
        }
        assert_eq!(status.conditions.len(), ALL.len());
    }
}

#[test]
fn it_waits_for_the_network_and_says_when_that_takes_too_long() {
    let mut seen = seen();
    seen.cluster.infrastructure_provisioned = false;
    let status = status_at(&plain(), &seen, &Look::default(), at("2026-11-01T09:14:59Z"));
    is(&status, types::READY, "False", "WaitingForVPC");
    is(&status, types::CREATING, "True", "WaitingForVPC");
    let late = status_at(&plain(), &seen, &Look::default(), at("2026-11-01T09:15:00Z"));
    is(&late, types::READY, "False", "VPCReadyTimeout");
    is(&late, types::FAILED, "False", "NotFailed");
    assert_eq!((late.phase, late.failure_reason), (Some(Phase::Creating), None));
}

#[test]
fn a_control_plane_that_takes_too_long_is_told_and_heals() {
    let mut seen = seen();
    let working =
        json!({"observedGeneration": 1, "run": {"id": "r", "operation": "Apply", "phase": "Applying"}});
    seen.eks = Some(made(&working));
    let status = status_at(&plain(), &seen, &Look::default(), at("2026-11-01T09:59:00Z"));
    is(&status, types::READY, "False", "Creating");
    let late = status_at(&plain(), &seen, &Look::default(), at("2026-11-01T10:00:00Z"));
    is(&late, types::READY, "False", "ControlPlaneTimeout");
    is(&late, types::EKS_CLUSTER_READY, "False", "ControlPlaneTimeout");
    is(&late, types::FAILED, "False", "NotFailed");
    assert!(find(&late.conditions, types::READY).unwrap().message.contains("applying"));

    let mut object = plain();
    object.status = Some(late);
    seen.eks = Some(made(&applied()));
    let look = looked(known(Found::There(view("ACTIVE"))));
    seen.secrets.programs = secret(&object, &seen, &look);
    let well = status_at(&object, &seen, &look, at("2026-11-01T09:45:00Z"));
    is(&well, types::READY, "True", "Ready");
    assert_eq!(well.phase, Some(Phase::Ready));
}

#[test]
fn a_custom_timeout_counts() {
    let object = control_plane(&json!({"version": "1.33",
        "controlPlaneConfig": {"timeouts": {"controlPlaneTimeout": 5, "vpcReadyTimeout": 1}}}));
    let mut seen = seen();
    seen.eks = Some(made(&json!({"observedGeneration": 1})));
    let late = status_at(&object, &seen, &Look::default(), at("2026-11-01T09:35:00Z"));
    is(&late, types::READY, "False", "ControlPlaneTimeout");
}

#[test]
fn what_eks_says_decides() {
    let sick = ClusterView {
        issues: vec![Issue { code: "KmsKeyDisabled".to_owned(), ..Issue::default() }],
        ..view("ACTIVE")
    };
    let table = [
        (Found::There(view("ACTIVE")), ("True", "Ready"), ("True", "Available"), ("True", "Ready")),
        (Found::There(view("UPDATING")), ("True", "Ready"), ("True", "Available"), ("True", "Ready")),
        (Found::There(sick), ("False", "EKSUnhealthy"), ("True", "Available"), ("False", "EKSUnhealthy")),
        (
            Found::There(view("FAILED")),
            ("False", "EKSUnhealthy"),
            ("False", "EKSUnhealthy"),
            ("False", "EKSUnhealthy"),
        ),
        (
            Found::There(view("DELETING")),
            ("False", "Deleting"),
            ("False", "EKSUnhealthy"),
            ("False", "Deleting"),
        ),
        (Found::Gone, ("False", "EKSNotFound"), ("False", "EKSNotFound"), ("False", "EKSNotFound")),
    ];
    for (cluster, eks, available, ready) in table {
        let mut object = plain();
        let mut seen = seen();
        seen.eks = Some(made(&applied()));
        let good = looked(known(Found::There(view("ACTIVE"))));
        seen.secrets.programs = secret(&object, &seen, &good);
        object.status = Some(status_at(&object, &seen, &good, now()));
        let status = status_at(&object, &seen, &looked(known(cluster.clone())), now());
        for (type_, (truth, reason)) in
            [(types::EKS_CLUSTER_READY, eks), (types::AVAILABLE, available), (types::READY, ready)]
        {
            let found = said(&status, type_);
            assert_eq!((found.0.as_str(), found.1.as_str()), (truth, reason), "{type_} of {cluster:?}");
        }
    }
}

#[test]
fn an_operator_that_just_started_repeats_what_was_said_before() {
    let mut object = plain();
    let mut seen = seen();
    seen.eks = Some(made(&applied()));
    let look = looked(known(Found::There(view("ACTIVE"))));
    seen.secrets.programs = secret(&object, &seen, &look);
    seen.connection = Some(crate::controllers::controlplane::look::Access {
        endpoint: "https://eks.example".to_owned(),
        authority: "UEVN".to_owned(),
    });
    let before = status_at(&object, &seen, &look, now());
    object.status = Some(before.clone());
    let after = status_at(&object, &seen, &Look::default(), now());
    assert_eq!(after, before);
    let mut silent = Look::default();
    silent.take("s", Answer { trouble: Some("500".to_owned()), ..Answer::default() }, now());
    let told = status_at(&object, &seen, &silent, now());
    is(&told, types::READY, "True", "Ready");
    assert!(find(&told.conditions, types::EKS_CLUSTER_READY).unwrap().message.contains("Unknown"));
    object.status = Some(told.clone());
    assert_eq!(status_at(&object, &seen, &silent, now()), told, "and does not say it twice");
}

#[test]
fn an_identity_that_may_not_be_used_is_told() {
    let mut seen = seen();
    for (is_failure, failed) in [(true, "True"), (false, "False")] {
        seen.principal =
            Err(Unknown { is_failure, message: "CAPTIdentity prod does not allow it".to_owned() });
        let status = status_at(&plain(), &seen, &Look::default(), now());
        is(&status, types::READY, "False", "IdentityNotAllowed");
        assert_eq!(said(&status, types::FAILED).0, failed);
    }
}

#[test]
fn a_failure_while_the_cluster_runs_leaves_it_available() {
    let mut object = plain();
    let mut seen = seen();
    seen.eks = Some(made(&applied()));
    let look = looked(known(Found::There(view("ACTIVE"))));
    seen.secrets.programs = secret(&object, &seen, &look);
    object.status = Some(status_at(&object, &seen, &look, now()));
    let mut broken = applied();
    broken["lastError"] = json!({"class": "UserFix", "message": "no"});
    seen.eks = Some(made(&broken));
    let status = status_at(&object, &seen, &look, now());
    is(&status, types::FAILED, "True", "WorkspaceError");
    is(&status, types::AVAILABLE, "True", "Available");
    assert_eq!((status.phase, status.ready), (Some(Phase::Failed), Some(true)));
    let well = {
        object.status = Some(status);
        seen.eks = Some(made(&applied()));
        status_at(&object, &seen, &look, now())
    };
    assert_eq!((well.failure_reason, well.failure_message, well.phase), (None, None, Some(Phase::Ready)));
}

#[test]
fn a_pause_changes_its_condition_alone() {
    let mut seen = seen();
    seen.eks = Some(made(&applied()));
    let before = status_at(&plain(), &seen, &looked(known(Found::There(view("ACTIVE")))), now());
    let mut after = paused(&before, Moment { generation: Some(4), now: now() });
    is(&after, types::PAUSED, "True", "Paused");
    let _ = conditions::remove(&mut after.conditions, types::PAUSED);
    let mut rest = before;
    let _ = conditions::remove(&mut rest.conditions, types::PAUSED);
    assert_eq!(after, rest);
}

/// One thing that can happen.
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

struct Life {
    object: CaptControlPlane,
    seen: Seen,
    look: Look,
}

impl Life {
    fn happen(&mut self, event: &Event) -> CaptControlPlaneStatus {
        let moment = Moment { generation: Some(3), now: now() };
        let old = self.object.status.clone().unwrap_or_default();
        let failing = json!({"observedGeneration": 1, "lastError": {"class": "UserFix", "message": "no"}});
        match event {
            Event::Workspace(state) => {
                let all = [applied(), failing, json!({}), json!({"observedGeneration": 9})];
                self.seen.eks = state.map(|state| made(&all[state]));
            }
            Event::Cluster(state) => {
                let words = ["ACTIVE", "UPDATING", "CREATING", "FAILED", "DELETING"];
                let found = words.get(*state).map_or(Found::Gone, |word| Found::There(view(word)));
                self.look.take("s", Answer { known: known(found), ..Answer::default() }, now());
            }
            Event::Silence => {
                self.look.take("s", Answer { trouble: Some("500".to_owned()), ..Answer::default() }, now());
            }
            Event::Api(answers) => {
                self.look.api = Some(if *answers { Ok(()) } else { Err("refused".to_owned()) });
            }
            Event::Secret(exists) => {
                let secret = secret(&self.object, &self.seen, &self.look);
                self.seen.secrets.programs = secret.filter(|_| *exists);
            }
            Event::Network(complete) => self.seen.cluster.infrastructure_provisioned = *complete,
            Event::Version(minor) => self.object.spec.version = format!("1.{minor}"),
            Event::Identity(known) => {
                let unknown = Unknown { is_failure: true, message: "no".to_owned() };
                self.seen.principal = if *known { Ok(crate::aws::Principal::own()) } else { Err(unknown) };
            }
            Event::Restart => self.look = Look::default(),
            Event::Delete => return deleting(&old, moment, (reasons::DELETING, "x"), Vec::new()),
            Event::Pause => return paused(&old, moment),
        }
        status_at(&self.object, &self.seen, &self.look, now())
    }
}

proptest! {
    #[test]
    fn p2_the_latch_never_opens_again_whatever_happens(events in proptest::collection::vec(event(), 1..60)) {
        let mut life = Life { object: plain(), seen: seen(), look: Look::default() };
        let mut closed = false;
        for event in &events {
            let status = life.happen(event);
            let latch = status.initialization.as_ref().and_then(|it| it.control_plane_initialized);
            prop_assert!(latch != Some(false), "{event:?}");
            prop_assert!(!closed || latch == Some(true), "{event:?} opened it");
            prop_assert_eq!(status.initialized == Some(true), latch == Some(true));
            prop_assert_eq!(status.conditions.len(), ALL.len());
            prop_assert_eq!(status.failure_reason.is_some(), is_true(&status.conditions, types::FAILED));
            closed = latch == Some(true);
            life.object.status = Some(status);
        }
    }
}
