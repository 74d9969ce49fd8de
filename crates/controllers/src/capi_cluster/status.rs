//! Computes the status of a Cluster from its referenced objects, with Cluster API's reasons and messages. Pure: no I/O.

use capt_kinds::api::conditions::{reasons, types};
use capt_kube::k8s::conditions::{self, ConditionUpdate, find, is_true};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use serde_json::{Value, json};

use super::{
    cluster_types::{Cluster, ClusterEndpoint, ClusterInitializationStatus, ClusterStatus},
    decide::latches,
    dereference::ClusterReferences,
    referenced_object::{ReferenceRole, ReferencedObject, ResolvedReference},
};

/// Generation and time for conditions.
#[derive(Debug, Clone, Copy)]
pub(super) struct StatusContext {
    pub(super) generation: Option<i64>,
    pub(super) now: Timestamp,
}

/// Status of a paused Cluster; everything but the condition `Paused` stays.
pub(super) fn paused(old: &ClusterStatus, at: StatusContext, why: &str) -> ClusterStatus {
    let mut new = old.clone();
    set_condition(&mut new, at, ConditionUpdate::status_true(types::PAUSED, reasons::PAUSED, why));
    new
}

/// Status of a Cluster. `removal` is reason and message of a deletion in progress.
pub(super) fn observed(
    cluster: &Cluster,
    seen: &ClusterReferences,
    removal: Option<(&'static str, &str)>,
    at: StatusContext,
) -> ClusterStatus {
    let mut new = cluster.status.clone().unwrap_or_default();
    new.observed_generation = at.generation;
    let latches = latches(cluster, seen);
    new.initialization = Some(latches.clone()).filter(|it| *it != ClusterInitializationStatus::default());
    let network = seen.infrastructure.found().filter(|thing| !thing.is_deleting());
    if let Some(thing) = network.filter(|_| latches.infrastructure_provisioned == Some(true)) {
        new.failure_domains = thing.failure_domains();
    }
    copy_legacy_failure(&mut new, seen);
    set_condition(&mut new, at, ConditionUpdate::status_false(types::PAUSED, reasons::NOT_PAUSED, ""));
    let view = ConditionReflector { cluster, is_deleting: removal.is_some() };
    let closed = latches.infrastructure_provisioned == Some(true);
    view.reflect_condition(&mut new, at, (ReferenceRole::Infrastructure, &seen.infrastructure), closed);
    let closed = latches.control_plane_initialized == Some(true);
    view.reflect_condition(&mut new, at, (ReferenceRole::ControlPlane, &seen.control_plane), closed);
    view.set_initialized(&mut new, at, &seen.control_plane, closed);
    match removal {
        Some((reason, why)) => {
            set_condition(&mut new, at, ConditionUpdate::status_true(types::DELETING, reason, why));
        }
        None => set_condition(
            &mut new,
            at,
            ConditionUpdate::status_false(types::DELETING, reasons::NOT_DELETING, ""),
        ),
    }
    set_available(&mut new, at);
    new.phase = Some(phase(cluster, &latches, removal.is_some()).to_owned());
    new
}

/// Phase of the Cluster.
fn phase(cluster: &Cluster, latches: &ClusterInitializationStatus, is_going: bool) -> &'static str {
    let spec = &cluster.spec;
    let endpoint = spec.control_plane_endpoint.as_ref().is_some_and(ClusterEndpoint::is_valid);
    if is_going {
        "Deleting"
    } else if latches.infrastructure_provisioned == Some(true) && endpoint {
        "Provisioned"
    } else if spec.infrastructure_ref.is_some() || spec.control_plane_ref.is_some() {
        "Provisioning"
    } else {
        "Pending"
    }
}

struct ConditionReflector<'a> {
    cluster: &'a Cluster,
    is_deleting: bool,
}

impl ConditionReflector<'_> {
    /// Reflects the condition of a referenced object in the Cluster.
    fn reflect_condition(
        &self,
        new: &mut ClusterStatus,
        at: StatusContext,
        (role, part): (ReferenceRole, &ResolvedReference),
        closed: bool,
    ) {
        let type_ = match role {
            ReferenceRole::Infrastructure => types::INFRASTRUCTURE_READY,
            ReferenceRole::ControlPlane => types::CONTROL_PLANE_AVAILABLE,
        };
        let said = match part {
            ResolvedReference::Found(thing) => match mirror_condition(thing, closed) {
                MirroredCondition::Copied(condition) => {
                    let _ =
                        conditions::reflect(&mut new.conditions, type_, &condition, at.generation, at.now);
                    return;
                }
                MirroredCondition::Derived { status, reason, why } => {
                    ConditionUpdate { type_, status, reason, message: why }
                }
            },
            ResolvedReference::UnsupportedKind { why } => {
                ConditionUpdate::status_unknown(type_, reasons::INTERNAL_ERROR, why)
            }
            ResolvedReference::NotSet => ConditionUpdate::status_false(
                type_,
                reasons::OBJECT_DOES_NOT_EXIST,
                self.not_set_message(role),
            ),
            ResolvedReference::Missing { kind } if closed && self.is_deleting => {
                ConditionUpdate::status_false(
                    type_,
                    reasons::OBJECT_DELETED,
                    format!("{kind} has been deleted"),
                )
            }
            ResolvedReference::Missing { kind } if closed => {
                let why = format!("{kind} has been deleted after being {}", role.latch_word());
                ConditionUpdate::status_false(type_, reasons::OBJECT_DELETED, why)
            }
            ResolvedReference::Missing { kind } => ConditionUpdate::status_false(
                type_,
                reasons::OBJECT_DOES_NOT_EXIST,
                format!("{kind} does not exist"),
            ),
        };
        set_condition(new, at, said);
    }

    /// Sets the condition `ControlPlaneInitialized`, which is never reset once true.
    fn set_initialized(
        &self,
        new: &mut ClusterStatus,
        at: StatusContext,
        part: &ResolvedReference,
        closed: bool,
    ) {
        let type_ = types::CONTROL_PLANE_INITIALIZED;
        if is_true(&new.conditions, type_) {
            return;
        }
        let said = match part {
            _ if closed => ConditionUpdate::status_true(type_, reasons::INITIALIZED, ""),
            ResolvedReference::Found(thing) => match thing.read_latch() {
                Ok(_) => ConditionUpdate::status_false(
                    type_,
                    reasons::NOT_INITIALIZED,
                    "Control plane not yet initialized",
                ),
                Err(why) => ConditionUpdate::status_unknown(type_, reasons::INTERNAL_ERROR, why),
            },
            ResolvedReference::Missing { kind } => ConditionUpdate::status_unknown(
                type_,
                reasons::OBJECT_DOES_NOT_EXIST,
                format!("{kind} does not exist"),
            ),
            ResolvedReference::UnsupportedKind { why } => {
                ConditionUpdate::status_unknown(type_, reasons::INTERNAL_ERROR, why)
            }
            ResolvedReference::NotSet => ConditionUpdate::status_unknown(
                type_,
                reasons::OBJECT_DOES_NOT_EXIST,
                self.not_set_message(ReferenceRole::ControlPlane),
            ),
        };
        set_condition(new, at, said);
    }

    fn not_set_message(&self, role: ReferenceRole) -> String {
        let field = match role {
            ReferenceRole::Infrastructure => "infrastructureRef",
            ReferenceRole::ControlPlane => "controlPlaneRef",
        };
        match &self.cluster.spec.topology {
            Some(_) => {
                format!("spec.topology needs Cluster API, which is not installed; set spec.{field} instead")
            }
            None => format!("spec.{field} is not set"),
        }
    }
}

/// Condition for a referenced object that exists: copied from it, or derived from its latch.
enum MirroredCondition {
    Copied(Condition),
    Derived { status: conditions::ConditionStatus, reason: &'static str, why: String },
}

fn mirror_condition(thing: &ReferencedObject, closed: bool) -> MirroredCondition {
    use conditions::ConditionStatus::{False, True, Unknown};
    let (yes, no) = match thing.role {
        ReferenceRole::Infrastructure => (reasons::READY, reasons::NOT_READY),
        ReferenceRole::ControlPlane => (reasons::AVAILABLE, reasons::NOT_AVAILABLE),
    };
    if let Err(why) = thing.read_latch() {
        return MirroredCondition::Derived { status: Unknown, reason: reasons::INTERNAL_ERROR, why };
    }
    match thing.condition() {
        Some(Ok(mut condition)) => {
            if condition.reason.is_empty() {
                yes.clone_into(&mut condition.reason);
            }
            MirroredCondition::Copied(condition)
        }
        Some(Err(why)) => {
            MirroredCondition::Derived { status: Unknown, reason: reasons::INVALID_CONDITION_REPORTED, why }
        }
        None if closed => MirroredCondition::Derived { status: True, reason: yes, why: String::new() },
        None => {
            let why = format!("{} status is not {} yet", thing.resource.kind, thing.role.latch_word());
            MirroredCondition::Derived { status: False, reason: no, why }
        }
    }
}

/// Sets the condition `Available`; its message lists one line per missing condition.
fn set_available(new: &mut ClusterStatus, at: StatusContext) {
    let mut missing = Vec::new();
    if is_true(&new.conditions, types::DELETING) {
        missing.push(summary_line(new, types::DELETING));
    }
    for type_ in [types::INFRASTRUCTURE_READY, types::CONTROL_PLANE_AVAILABLE] {
        if !is_true(&new.conditions, type_) {
            missing.push(summary_line(new, type_));
        }
    }
    let said = if missing.is_empty() {
        ConditionUpdate::status_true(types::AVAILABLE, reasons::AVAILABLE, "")
    } else {
        ConditionUpdate::status_false(types::AVAILABLE, reasons::NOT_AVAILABLE, missing.join("\n"))
    };
    set_condition(new, at, said);
}

fn summary_line(status: &ClusterStatus, type_: &str) -> String {
    let said = find(&status.conditions, type_);
    let text = said.map(|it| if it.message.is_empty() { &it.reason } else { &it.message });
    format!("* {type_}: {}", text.map(String::as_str).unwrap_or_default())
}

/// Copies the failure fields of contract v1beta1. For users only; no controller reads them.
fn copy_legacy_failure(new: &mut ClusterStatus, seen: &ClusterReferences) {
    let of = |part: &ResolvedReference| part.found().and_then(ReferencedObject::legacy_failure);
    match of(&seen.infrastructure).or_else(|| of(&seen.control_plane)) {
        Some(Value::Object(mut failure)) => {
            failure.retain(|_, value| !value.is_null());
            new.rest.insert("deprecated".to_owned(), json!({ "v1beta1": failure }));
        }
        _ => {
            new.rest.remove("deprecated");
        }
    }
}

fn set_condition(status: &mut ClusterStatus, at: StatusContext, said: ConditionUpdate) {
    let _ = conditions::set(&mut status.conditions, said, at.generation, at.now);
}

#[cfg(test)]
mod tests;
