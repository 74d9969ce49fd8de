//! What is to be done for a Cluster now. Pure.

use super::{
    dereference::Seen,
    kind::{Cluster, Endpoint, Initialization},
    part::{Part, Thing},
};
use crate::api::conditions::reasons;

/// What to do for a Cluster that goes.
#[derive(Debug, PartialEq)]
pub(super) enum Removal<'a> {
    /// Something has to go first.
    Wait { reason: &'static str, why: String },
    /// This one goes now.
    Delete { thing: &'a Thing, reason: &'static str, why: String },
    /// Nothing is left; the Cluster may go.
    Release,
}

/// The endpoint that the Cluster gets: only while it has none that leads anywhere, and only from what is ready.
pub(super) fn endpoint(cluster: &Cluster, seen: &Seen) -> Option<Endpoint> {
    if cluster.spec.control_plane_endpoint.as_ref().is_some_and(Endpoint::is_valid) {
        return None;
    }
    let latches = latches(cluster, seen);
    let of = |part: &Part, closed: Option<bool>| {
        let thing = part.thing().filter(|thing| closed == Some(true) && !thing.is_going())?;
        thing.endpoint()
    };
    of(&seen.infrastructure, latches.infrastructure_provisioned)
        .or_else(|| of(&seen.control_plane, latches.control_plane_initialized))
}

/// The latches after this look: what was closed stays closed.
pub(super) fn latches(cluster: &Cluster, seen: &Seen) -> Initialization {
    let old = cluster.status.as_ref().and_then(|status| status.initialization.clone()).unwrap_or_default();
    let now =
        |part: &Part| part.thing().filter(|thing| !thing.is_going())?.latch().ok().filter(|closed| *closed);
    Initialization {
        infrastructure_provisioned: old.infrastructure_provisioned.or_else(|| now(&seen.infrastructure)),
        control_plane_initialized: old.control_plane_initialized.or_else(|| now(&seen.control_plane)),
    }
}

/// The control plane first, then the network, each until it is gone.
pub(super) fn removal(seen: &Seen) -> Removal<'_> {
    let control_plane = one(&seen.control_plane, reasons::WAITING_FOR_CONTROL_PLANE_DELETION);
    control_plane
        .or_else(|| one(&seen.infrastructure, reasons::WAITING_FOR_INFRASTRUCTURE_DELETION))
        .unwrap_or(Removal::Release)
}

fn one<'a>(part: &'a Part, reason: &'static str) -> Option<Removal<'a>> {
    match part {
        Part::NotNamed | Part::Missing { .. } => None,
        // Whoever cannot be looked at must not be thought gone.
        Part::Unusable { why } => Some(Removal::Wait { reason, why: why.clone() }),
        Part::Found(thing) => {
            let name = thing.object.metadata.name.as_deref().unwrap_or_default();
            let why = format!("waiting for {} {name} to be gone", thing.kind.kind);
            Some(if thing.is_going() {
                Removal::Wait { reason, why }
            } else {
                Removal::Delete { thing: thing.as_ref(), reason, why }
            })
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::controllers::standalone::{
        fixtures::{cluster, thing},
        part::Role,
    };

    fn found(role: Role, rest: Value) -> Part {
        Part::Found(Box::new(thing(role, rest)))
    }

    fn ready(role: Role, host: &str) -> Part {
        let latch = match role {
            Role::Infrastructure => json!({"provisioned": true}),
            Role::ControlPlane => json!({"controlPlaneInitialized": true}),
        };
        found(
            role,
            json!({"spec": {"controlPlaneEndpoint": {"host": host, "port": 443}}, "status": {"initialization": latch}}),
        )
    }

    fn gone() -> Part {
        Part::Missing { kind: "X".to_owned() }
    }

    #[test]
    fn an_endpoint_is_copied_once_and_only_from_what_is_ready() {
        let seen = Seen { infrastructure: gone(), control_plane: ready(Role::ControlPlane, "api") };
        assert_eq!(endpoint(&cluster(json!({})), &seen).unwrap().host, "api");
        let set = json!({"spec": {"controlPlaneEndpoint": {"host": "mine", "port": 6443}}});
        assert_eq!(endpoint(&cluster(set), &seen), None);
        let half = json!({"spec": {"controlPlaneEndpoint": {"host": "mine"}}});
        assert_eq!(endpoint(&cluster(half), &seen).unwrap().host, "api");
        let early = found(
            Role::ControlPlane,
            json!({"spec": {"controlPlaneEndpoint": {"host": "api", "port": 443}}}),
        );
        let seen = Seen { infrastructure: gone(), control_plane: early };
        assert_eq!(endpoint(&cluster(json!({})), &seen), None);
    }

    #[test]
    fn a_latch_that_is_closed_stays_closed() {
        let closed = json!({"status": {"initialization": {"infrastructureProvisioned": true, "controlPlaneInitialized": true}}});
        let open = json!({"status": {"initialization": {"provisioned": false}}});
        let seen = Seen { infrastructure: found(Role::Infrastructure, open), control_plane: gone() };
        let all =
            Initialization { infrastructure_provisioned: Some(true), control_plane_initialized: Some(true) };
        assert_eq!(latches(&cluster(closed), &seen), all);
        assert_eq!(latches(&cluster(json!({})), &seen), Initialization::default());
    }

    #[test]
    fn what_is_being_deleted_closes_no_latch() {
        let going = json!({"metadata": {"deletionTimestamp": "2026-11-01T10:00:00Z"}, "status": {"initialization": {"provisioned": true}}});
        let seen = Seen { infrastructure: found(Role::Infrastructure, going), control_plane: gone() };
        assert_eq!(latches(&cluster(json!({})), &seen), Initialization::default());
    }

    #[test]
    fn the_control_plane_goes_before_the_network() {
        let going = json!({"metadata": {"deletionTimestamp": "2026-11-01T10:00:00Z"}});
        let there = || found(Role::Infrastructure, json!({}));
        let name = |removal: &Removal<'_>| match removal {
            Removal::Delete { thing, .. } => format!("delete {}", thing.kind.kind),
            Removal::Wait { reason, .. } => (*reason).to_owned(),
            Removal::Release => "release".to_owned(),
        };
        let of = |infrastructure, control_plane| name(&removal(&Seen { infrastructure, control_plane }));
        assert_eq!(of(there(), found(Role::ControlPlane, json!({}))), "delete CAPTControlPlane");
        assert_eq!(of(there(), found(Role::ControlPlane, going.clone())), "WaitingForControlPlaneDeletion");
        assert_eq!(of(there(), gone()), "delete CAPTCluster");
        assert_eq!(of(found(Role::Infrastructure, going), gone()), "WaitingForInfrastructureDeletion");
        assert_eq!(of(gone(), Part::NotNamed), "release");
        let unknown = Part::Unusable { why: "no such kind".to_owned() };
        assert_eq!(of(gone(), unknown), "WaitingForControlPlaneDeletion");
    }
}
