//! The status of a Cluster, case by case.

use super::*;
use crate::capi_cluster::fixtures::{cluster, referenced_object};

fn at() -> StatusContext {
    StatusContext { generation: Some(2), now: "2026-11-01T10:00:00Z".parse().unwrap() }
}

fn infrastructure(rest: Value) -> ResolvedReference {
    ResolvedReference::Found(Box::new(referenced_object(ReferenceRole::Infrastructure, rest)))
}

fn control_plane(rest: Value) -> ResolvedReference {
    ResolvedReference::Found(Box::new(referenced_object(ReferenceRole::ControlPlane, rest)))
}

fn condition(type_: &str, status: &str, reason: &str, message: &str) -> Value {
    json!({"type": type_, "status": status, "reason": reason, "message": message, "lastTransitionTime": "2026-11-01T09:00:00Z"})
}

fn missing_reference(kind: &str) -> ResolvedReference {
    ResolvedReference::Missing { kind: kind.to_owned() }
}

fn condition_of(status: &ClusterStatus, type_: &str) -> (String, String, String) {
    find(&status.conditions, type_)
        .map(|it| (it.status.clone(), it.reason.clone(), it.message.clone()))
        .unwrap_or_default()
}

fn triple(status: &str, reason: &str, message: &str) -> (String, String, String) {
    (status.to_owned(), reason.to_owned(), message.to_owned())
}

fn ready_references() -> ClusterReferences {
    ClusterReferences {
        infrastructure: infrastructure(json!({"status": {
            "initialization": {"provisioned": true}, "failureDomains": [{"name": "a", "controlPlane": true}],
            "conditions": [condition("Ready", "True", "Ready", "")],
        }})),
        control_plane: control_plane(json!({"status": {
            "initialization": {"controlPlaneInitialized": true},
            "conditions": [condition("Available", "True", "Available", "")],
        }})),
    }
}

#[test]
fn a_cluster_whose_parts_are_ready_is_available() {
    let with_endpoint = cluster(json!({"spec": {"controlPlaneEndpoint": {"host": "api", "port": 443}}}));
    let new = observed(&with_endpoint, &ready_references(), None, at());
    assert_eq!(new.phase.as_deref(), Some("Provisioned"));
    for (type_, reason) in [
        ("InfrastructureReady", "Ready"),
        ("ControlPlaneAvailable", "Available"),
        ("ControlPlaneInitialized", "Initialized"),
        ("Available", "Available"),
    ] {
        assert_eq!(condition_of(&new, type_), triple("True", reason, ""), "{type_}");
    }
    assert_eq!(condition_of(&new, "Deleting"), triple("False", "NotDeleting", ""));
    assert_eq!(condition_of(&new, "Paused"), triple("False", "NotPaused", ""));
    assert_eq!(new.failure_domains.len(), 1);
    let latches = new.initialization.clone().unwrap();
    assert_eq!(
        (latches.infrastructure_provisioned, latches.control_plane_initialized),
        (Some(true), Some(true))
    );
    let mut again = with_endpoint;
    again.status = Some(new.clone());
    assert_eq!(observed(&again, &ready_references(), None, at()), new);
}

#[test]
fn phases_follow_references_latch_and_endpoint() {
    let nothing = ClusterReferences {
        infrastructure: ResolvedReference::NotSet,
        control_plane: ResolvedReference::NotSet,
    };
    let bare = cluster(json!({"spec": {"infrastructureRef": null, "controlPlaneRef": null}}));
    assert_eq!(observed(&bare, &nothing, None, at()).phase.as_deref(), Some("Pending"));
    let young = ClusterReferences {
        infrastructure: missing_reference("CAPTCluster"),
        control_plane: missing_reference("CAPTControlPlane"),
    };
    assert_eq!(observed(&cluster(json!({})), &young, None, at()).phase.as_deref(), Some("Provisioning"));
    assert_eq!(
        observed(&cluster(json!({})), &ready_references(), None, at()).phase.as_deref(),
        Some("Provisioning"),
        "no endpoint yet"
    );
    let reason = reasons::WAITING_FOR_CONTROL_PLANE_DELETION;
    let going = observed(&cluster(json!({})), &ready_references(), Some((reason, "waits")), at());
    assert_eq!(
        (going.phase.as_deref(), condition_of(&going, "Deleting")),
        (Some("Deleting"), triple("True", reason, "waits"))
    );
}

#[test]
fn a_part_that_says_nothing_is_judged_by_its_latch() {
    let quiet = ClusterReferences {
        infrastructure: infrastructure(json!({})),
        control_plane: control_plane(json!({})),
    };
    let new = observed(&cluster(json!({})), &quiet, None, at());
    assert_eq!(
        condition_of(&new, "InfrastructureReady"),
        triple("False", "NotReady", "CAPTCluster status is not provisioned yet")
    );
    assert_eq!(condition_of(&new, "ControlPlaneAvailable").1, "NotAvailable");
    assert_eq!(condition_of(&new, "ControlPlaneInitialized").1, "NotInitialized");
    assert_eq!(
        condition_of(&new, "Available").2,
        "* InfrastructureReady: CAPTCluster status is not provisioned yet\n* ControlPlaneAvailable: CAPTControlPlane \
         status is not initialized yet"
    );
    let latched = ClusterReferences {
        infrastructure: infrastructure(json!({"status": {"initialization": {"provisioned": true}}})),
        ..quiet
    };
    assert_eq!(
        condition_of(&observed(&cluster(json!({})), &latched, None, at()), "InfrastructureReady"),
        triple("True", "Ready", "")
    );
}

#[test]
fn a_failure_of_a_part_is_the_clusters_too() {
    let failing = json!({"status": {"conditions": [condition("Ready", "False", "VPCCreationFailed", "no VPC left")],
        "failureReason": "VPCCreationFailed", "failureMessage": "no VPC left"}});
    let seen = ClusterReferences {
        infrastructure: infrastructure(failing),
        control_plane: missing_reference("CAPTControlPlane"),
    };
    let new = observed(&cluster(json!({})), &seen, None, at());
    assert_eq!(
        condition_of(&new, "InfrastructureReady"),
        triple("False", "VPCCreationFailed", "no VPC left")
    );
    assert_eq!(new.rest["deprecated"]["v1beta1"]["failureReason"], "VPCCreationFailed");
    assert_eq!(new.phase.as_deref(), Some("Provisioning"), "a failure of a part is not the end of a Cluster");
    let mut later = cluster(json!({}));
    later.status = Some(new);
    assert!(!observed(&later, &ready_references(), None, at()).rest.contains_key("deprecated"));
}

#[test]
fn a_part_that_vanished_after_it_was_ready_is_an_error() {
    let latched = cluster(
        json!({"status": {"initialization": {"infrastructureProvisioned": true, "controlPlaneInitialized": true}}}),
    );
    let seen = ClusterReferences {
        infrastructure: missing_reference("CAPTCluster"),
        control_plane: missing_reference("CAPTControlPlane"),
    };
    let new = observed(&latched, &seen, None, at());
    let gone = "CAPTCluster has been deleted after being provisioned";
    assert_eq!(condition_of(&new, "InfrastructureReady"), triple("False", "ObjectDeleted", gone));
    assert_eq!(
        condition_of(&new, "ControlPlaneAvailable").2,
        "CAPTControlPlane has been deleted after being initialized"
    );
    let going = observed(&latched, &seen, Some((reasons::DELETION_COMPLETED, "")), at());
    assert_eq!(condition_of(&going, "InfrastructureReady").2, "CAPTCluster has been deleted");
    let young = observed(&cluster(json!({})), &seen, None, at());
    assert_eq!(
        condition_of(&young, "InfrastructureReady"),
        triple("False", "ObjectDoesNotExist", "CAPTCluster does not exist")
    );
}

#[test]
fn what_makes_no_sense_is_unknown() {
    let table = [
        (json!({"status": {"initialization": {"provisioned": "yes"}}}), "InternalError"),
        (json!({"status": {"conditions": [{"type": "Ready"}]}}), "InvalidConditionReported"),
    ];
    for (rest, reason) in table {
        let seen = ClusterReferences {
            infrastructure: infrastructure(rest),
            control_plane: ResolvedReference::NotSet,
        };
        let new = observed(&cluster(json!({})), &seen, None, at());
        let (status, why, _) = condition_of(&new, "InfrastructureReady");
        assert_eq!((status.as_str(), why.as_str()), ("Unknown", reason));
    }
}

#[test]
fn a_class_is_refused_with_words() {
    let from_class = cluster(
        json!({"spec": {"infrastructureRef": null, "controlPlaneRef": null, "topology": {"version": "v1.33.0"}}}),
    );
    let nothing = ClusterReferences {
        infrastructure: ResolvedReference::NotSet,
        control_plane: ResolvedReference::NotSet,
    };
    let new = observed(&from_class, &nothing, None, at());
    assert!(condition_of(&new, "InfrastructureReady").2.contains("needs Cluster API"), "{new:?}");
}

#[test]
fn what_others_wrote_into_the_status_stays() {
    let noted = cluster(json!({"status": {"note": {"by": "somebody"}}}));
    assert_eq!(observed(&noted, &ready_references(), None, at()).rest["note"]["by"], "somebody");
    let new = paused(&noted.status.unwrap(), at(), "paused");
    assert_eq!((condition_of(&new, "Paused").1.as_str(), new.phase), ("Paused", None));
}
