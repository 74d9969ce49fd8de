//! Decides endpoint, latches and deletion order of a Cluster. Pure: no I/O.

use capt_kinds::api::conditions::reasons;

use super::{
    cluster_types::{Cluster, ClusterEndpoint, ClusterInitializationStatus},
    dereference::ClusterReferences,
    referenced_object::{ReferencedObject, ResolvedReference},
};

/// The next step of a deletion.
#[derive(Debug, PartialEq)]
pub(super) enum ClusterDeletionStep<'a> {
    /// An object has to be deleted first.
    Wait { reason: &'static str, why: String },
    /// Delete this object.
    Delete { object: &'a ReferencedObject, reason: &'static str, why: String },
    /// Nothing is left; remove the finalizer.
    RemoveFinalizer,
}

/// The endpoint to set: only if the Cluster has no valid one, and only from a referenced object whose latch is set.
pub(super) fn endpoint_to_set(cluster: &Cluster, seen: &ClusterReferences) -> Option<ClusterEndpoint> {
    if cluster.spec.control_plane_endpoint.as_ref().is_some_and(ClusterEndpoint::is_valid) {
        return None;
    }
    let latches = latches(cluster, seen);
    let of = |part: &ResolvedReference, closed: Option<bool>| {
        let thing = part.found().filter(|thing| closed == Some(true) && !thing.is_deleting())?;
        thing.endpoint()
    };
    of(&seen.infrastructure, latches.infrastructure_provisioned)
        .or_else(|| of(&seen.control_plane, latches.control_plane_initialized))
}

/// The latches after this reconcile; a latch that is set is never reset.
pub(super) fn latches(cluster: &Cluster, seen: &ClusterReferences) -> ClusterInitializationStatus {
    let old = cluster.status.as_ref().and_then(|status| status.initialization.clone()).unwrap_or_default();
    let now = |part: &ResolvedReference| {
        part.found().filter(|thing| !thing.is_deleting())?.read_latch().ok().filter(|closed| *closed)
    };
    ClusterInitializationStatus {
        infrastructure_provisioned: old.infrastructure_provisioned.or_else(|| now(&seen.infrastructure)),
        control_plane_initialized: old.control_plane_initialized.or_else(|| now(&seen.control_plane)),
    }
}

/// Deletes the control plane, then the infrastructure, each until it is gone.
pub(super) fn next_deletion_step(seen: &ClusterReferences) -> ClusterDeletionStep<'_> {
    let control_plane = deletion_step_for(&seen.control_plane, reasons::WAITING_FOR_CONTROL_PLANE_DELETION);
    control_plane
        .or_else(|| deletion_step_for(&seen.infrastructure, reasons::WAITING_FOR_INFRASTRUCTURE_DELETION))
        .unwrap_or(ClusterDeletionStep::RemoveFinalizer)
}

fn deletion_step_for<'a>(
    part: &'a ResolvedReference,
    reason: &'static str,
) -> Option<ClusterDeletionStep<'a>> {
    match part {
        ResolvedReference::NotSet | ResolvedReference::Missing { .. } => None,
        // An object that cannot be read must not count as deleted.
        ResolvedReference::UnsupportedKind { why } => {
            Some(ClusterDeletionStep::Wait { reason, why: why.clone() })
        }
        ResolvedReference::Found(thing) => {
            let name = thing.object.metadata.name.as_deref().unwrap_or_default();
            let why = format!("waiting for {} {name} to be deleted", thing.resource.kind);
            Some(if thing.is_deleting() {
                ClusterDeletionStep::Wait { reason, why }
            } else {
                ClusterDeletionStep::Delete { object: thing.as_ref(), reason, why }
            })
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::capi_cluster::{
        fixtures::{cluster, referenced_object},
        referenced_object::ReferenceRole,
    };

    fn found_reference(role: ReferenceRole, rest: Value) -> ResolvedReference {
        ResolvedReference::Found(Box::new(referenced_object(role, rest)))
    }

    fn ready_reference(role: ReferenceRole, host: &str) -> ResolvedReference {
        let latch = match role {
            ReferenceRole::Infrastructure => json!({"provisioned": true}),
            ReferenceRole::ControlPlane => json!({"controlPlaneInitialized": true}),
        };
        found_reference(
            role,
            json!({"spec": {"controlPlaneEndpoint": {"host": host, "port": 443}}, "status": {"initialization": latch}}),
        )
    }

    fn missing_reference() -> ResolvedReference {
        ResolvedReference::Missing { kind: "X".to_owned() }
    }

    #[test]
    fn an_endpoint_is_copied_once_and_only_from_what_is_ready() {
        let seen = ClusterReferences {
            infrastructure: missing_reference(),
            control_plane: ready_reference(ReferenceRole::ControlPlane, "api"),
        };
        assert_eq!(endpoint_to_set(&cluster(json!({})), &seen).unwrap().host, "api");
        let set = json!({"spec": {"controlPlaneEndpoint": {"host": "mine", "port": 6443}}});
        assert_eq!(endpoint_to_set(&cluster(set), &seen), None);
        let half = json!({"spec": {"controlPlaneEndpoint": {"host": "mine"}}});
        assert_eq!(endpoint_to_set(&cluster(half), &seen).unwrap().host, "api");
        let early = found_reference(
            ReferenceRole::ControlPlane,
            json!({"spec": {"controlPlaneEndpoint": {"host": "api", "port": 443}}}),
        );
        let seen = ClusterReferences { infrastructure: missing_reference(), control_plane: early };
        assert_eq!(endpoint_to_set(&cluster(json!({})), &seen), None);
    }

    #[test]
    fn a_latch_that_is_closed_stays_closed() {
        let closed = json!({"status": {"initialization": {"infrastructureProvisioned": true, "controlPlaneInitialized": true}}});
        let open = json!({"status": {"initialization": {"provisioned": false}}});
        let seen = ClusterReferences {
            infrastructure: found_reference(ReferenceRole::Infrastructure, open),
            control_plane: missing_reference(),
        };
        let all = ClusterInitializationStatus {
            infrastructure_provisioned: Some(true),
            control_plane_initialized: Some(true),
        };
        assert_eq!(latches(&cluster(closed), &seen), all);
        assert_eq!(latches(&cluster(json!({})), &seen), ClusterInitializationStatus::default());
    }

    #[test]
    fn what_is_being_deleted_closes_no_latch() {
        let going = json!({"metadata": {"deletionTimestamp": "2026-11-01T10:00:00Z"}, "status": {"initialization": {"provisioned": true}}});
        let seen = ClusterReferences {
            infrastructure: found_reference(ReferenceRole::Infrastructure, going),
            control_plane: missing_reference(),
        };
        assert_eq!(latches(&cluster(json!({})), &seen), ClusterInitializationStatus::default());
    }

    #[test]
    fn the_control_plane_goes_before_the_network() {
        let going = json!({"metadata": {"deletionTimestamp": "2026-11-01T10:00:00Z"}});
        let there = || found_reference(ReferenceRole::Infrastructure, json!({}));
        let name = |removal: &ClusterDeletionStep<'_>| match removal {
            ClusterDeletionStep::Delete { object: thing, .. } => format!("delete {}", thing.resource.kind),
            ClusterDeletionStep::Wait { reason, .. } => (*reason).to_owned(),
            ClusterDeletionStep::RemoveFinalizer => "release".to_owned(),
        };
        let of = |infrastructure, control_plane| {
            name(&next_deletion_step(&ClusterReferences { infrastructure, control_plane }))
        };
        assert_eq!(
            of(there(), found_reference(ReferenceRole::ControlPlane, json!({}))),
            "delete CAPTControlPlane"
        );
        assert_eq!(
            of(there(), found_reference(ReferenceRole::ControlPlane, going.clone())),
            "WaitingForControlPlaneDeletion"
        );
        assert_eq!(of(there(), missing_reference()), "delete CAPTCluster");
        assert_eq!(
            of(found_reference(ReferenceRole::Infrastructure, going), missing_reference()),
            "WaitingForInfrastructureDeletion"
        );
        assert_eq!(of(missing_reference(), ResolvedReference::NotSet), "release");
        let unknown = ResolvedReference::UnsupportedKind { why: "no such kind".to_owned() };
        assert_eq!(of(missing_reference(), unknown), "WaitingForControlPlaneDeletion");
    }
}
