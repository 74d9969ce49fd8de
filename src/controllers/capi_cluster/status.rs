//! What is said of a Cluster: what its network and its control plane say of themselves, in Cluster API's words. Pure.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use serde_json::{Value, json};

use super::{
    decide::latches,
    dereference::Seen,
    kind::{Cluster, ClusterStatus, Endpoint, Initialization},
    part::{Part, Role, Thing},
};
use crate::{
    api::conditions::{reasons, types},
    k8s::conditions::{self, Said, find, is_true},
};

/// Which generation, when.
#[derive(Debug, Clone, Copy)]
pub(super) struct Moment {
    pub(super) generation: Option<i64>,
    pub(super) now: Timestamp,
}

/// The status of a Cluster that is left alone: all else stays as it was.
pub(super) fn paused(old: &ClusterStatus, at: Moment, why: &str) -> ClusterStatus {
    let mut new = old.clone();
    say(&mut new, at, Said::yes(types::PAUSED, reasons::PAUSED, why));
    new
}

/// The status of a Cluster. `removal` is whom it waits for, if it goes.
pub(super) fn observed(
    cluster: &Cluster,
    seen: &Seen,
    removal: Option<(&'static str, &str)>,
    at: Moment,
) -> ClusterStatus {
    let mut new = cluster.status.clone().unwrap_or_default();
    new.observed_generation = at.generation;
    let latches = latches(cluster, seen);
    new.initialization = Some(latches.clone()).filter(|it| *it != Initialization::default());
    let network = seen.infrastructure.thing().filter(|thing| !thing.is_going());
    if let Some(thing) = network.filter(|_| latches.infrastructure_provisioned == Some(true)) {
        new.failure_domains = thing.failure_domains();
    }
    tell_failures(&mut new, seen);
    say(&mut new, at, Said::no(types::PAUSED, reasons::NOT_PAUSED, ""));
    let view = View { cluster, is_going: removal.is_some() };
    let closed = latches.infrastructure_provisioned == Some(true);
    view.reflect(&mut new, at, (Role::Infrastructure, &seen.infrastructure), closed);
    let closed = latches.control_plane_initialized == Some(true);
    view.reflect(&mut new, at, (Role::ControlPlane, &seen.control_plane), closed);
    view.initialized(&mut new, at, &seen.control_plane, closed);
    match removal {
        Some((reason, why)) => say(&mut new, at, Said::yes(types::DELETING, reason, why)),
        None => say(&mut new, at, Said::no(types::DELETING, reasons::NOT_DELETING, "")),
    }
    available(&mut new, at);
    new.phase = Some(phase(cluster, &latches, removal.is_some()).to_owned());
    new
}

/// Where the Cluster is in its life.
fn phase(cluster: &Cluster, latches: &Initialization, is_going: bool) -> &'static str {
    let spec = &cluster.spec;
    let endpoint = spec.control_plane_endpoint.as_ref().is_some_and(Endpoint::is_valid);
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

struct View<'a> {
    cluster: &'a Cluster,
    is_going: bool,
}

impl View<'_> {
    /// The condition of a part, in the Cluster.
    fn reflect(&self, new: &mut ClusterStatus, at: Moment, (role, part): (Role, &Part), closed: bool) {
        let type_ = match role {
            Role::Infrastructure => types::INFRASTRUCTURE_READY,
            Role::ControlPlane => types::CONTROL_PLANE_AVAILABLE,
        };
        let said = match part {
            Part::Found(thing) => match mirrored(thing, closed) {
                Mirrored::Theirs(condition) => {
                    let _ =
                        conditions::reflect(&mut new.conditions, type_, &condition, at.generation, at.now);
                    return;
                }
                Mirrored::Ours { status, reason, why } => Said { type_, status, reason, message: why },
            },
            Part::Unusable { why } => Said::unknown(type_, reasons::INTERNAL_ERROR, why),
            Part::NotNamed => Said::no(type_, reasons::OBJECT_DOES_NOT_EXIST, self.not_named(role)),
            Part::Missing { kind } if closed && self.is_going => {
                Said::no(type_, reasons::OBJECT_DELETED, format!("{kind} has been deleted"))
            }
            Part::Missing { kind } if closed => {
                let why = format!("{kind} has been deleted after being {}", role.word());
                Said::no(type_, reasons::OBJECT_DELETED, why)
            }
            Part::Missing { kind } => {
                Said::no(type_, reasons::OBJECT_DOES_NOT_EXIST, format!("{kind} does not exist"))
            }
        };
        say(new, at, said);
    }

    /// Once true, it stays.
    fn initialized(&self, new: &mut ClusterStatus, at: Moment, part: &Part, closed: bool) {
        let type_ = types::CONTROL_PLANE_INITIALIZED;
        if is_true(&new.conditions, type_) {
            return;
        }
        let said = match part {
            _ if closed => Said::yes(type_, reasons::INITIALIZED, ""),
            Part::Found(thing) => match thing.latch() {
                Ok(_) => Said::no(type_, reasons::NOT_INITIALIZED, "Control plane not yet initialized"),
                Err(why) => Said::unknown(type_, reasons::INTERNAL_ERROR, why),
            },
            Part::Missing { kind } => {
                Said::unknown(type_, reasons::OBJECT_DOES_NOT_EXIST, format!("{kind} does not exist"))
            }
            Part::Unusable { why } => Said::unknown(type_, reasons::INTERNAL_ERROR, why),
            Part::NotNamed => {
                Said::unknown(type_, reasons::OBJECT_DOES_NOT_EXIST, self.not_named(Role::ControlPlane))
            }
        };
        say(new, at, said);
    }

    fn not_named(&self, role: Role) -> String {
        let field = match role {
            Role::Infrastructure => "infrastructureRef",
            Role::ControlPlane => "controlPlaneRef",
        };
        match &self.cluster.spec.topology {
            Some(_) => {
                format!("spec.topology needs Cluster API, which is not here; set spec.{field} instead")
            }
            None => format!("spec.{field} is not set"),
        }
    }
}

/// What is said of a part that is there.
enum Mirrored {
    Theirs(Condition),
    Ours { status: conditions::ConditionStatus, reason: &'static str, why: String },
}

fn mirrored(thing: &Thing, closed: bool) -> Mirrored {
    use conditions::ConditionStatus::{False, True, Unknown};
    let (yes, no) = match thing.role {
        Role::Infrastructure => (reasons::READY, reasons::NOT_READY),
        Role::ControlPlane => (reasons::AVAILABLE, reasons::NOT_AVAILABLE),
    };
    if let Err(why) = thing.latch() {
        return Mirrored::Ours { status: Unknown, reason: reasons::INTERNAL_ERROR, why };
    }
    match thing.condition() {
        Some(Ok(mut condition)) => {
            if condition.reason.is_empty() {
                yes.clone_into(&mut condition.reason);
            }
            Mirrored::Theirs(condition)
        }
        Some(Err(why)) => {
            Mirrored::Ours { status: Unknown, reason: reasons::INVALID_CONDITION_REPORTED, why }
        }
        None if closed => Mirrored::Ours { status: True, reason: yes, why: String::new() },
        None => {
            let why = format!("{} status is not {} yet", thing.kind.kind, thing.role.word());
            Mirrored::Ours { status: False, reason: no, why }
        }
    }
}

/// Whether the cluster can be used: what is missing, line by line.
fn available(new: &mut ClusterStatus, at: Moment) {
    let mut missing = Vec::new();
    if is_true(&new.conditions, types::DELETING) {
        missing.push(line(new, types::DELETING));
    }
    for type_ in [types::INFRASTRUCTURE_READY, types::CONTROL_PLANE_AVAILABLE] {
        if !is_true(&new.conditions, type_) {
            missing.push(line(new, type_));
        }
    }
    let said = if missing.is_empty() {
        Said::yes(types::AVAILABLE, reasons::AVAILABLE, "")
    } else {
        Said::no(types::AVAILABLE, reasons::NOT_AVAILABLE, missing.join("\n"))
    };
    say(new, at, said);
}

fn line(status: &ClusterStatus, type_: &str) -> String {
    let said = find(&status.conditions, type_);
    let text = said.map(|it| if it.message.is_empty() { &it.reason } else { &it.message });
    format!("* {type_}: {}", text.map(String::as_str).unwrap_or_default())
}

/// What the parts tell to people of old; nothing follows from it.
fn tell_failures(new: &mut ClusterStatus, seen: &Seen) {
    let of = |part: &Part| part.thing().and_then(Thing::failure);
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

fn say(status: &mut ClusterStatus, at: Moment, said: Said) {
    let _ = conditions::set(&mut status.conditions, said, at.generation, at.now);
}

#[cfg(test)]
mod tests;
