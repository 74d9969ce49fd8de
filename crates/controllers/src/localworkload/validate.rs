//! Whether a local workload can be followed: the condition `Accepted`. Pure.

use capt_kinds::sandbox::{
    LocalProtocol, LocalWorkload,
    conditions::{reasons, types},
};
use sandbox::{condition::ConditionUpdate, local_slots::check_slot, validate::validate_local};

use super::dereference::{BaselineLookup, LocalWorkloadInputs};

/// Accepts the object, or states what is wrong with it or missing around it.
pub(super) fn accepted_condition(object: &LocalWorkload, around: &LocalWorkloadInputs) -> ConditionUpdate {
    let (kind, spec) = (types::ACCEPTED, &object.spec);
    if let Err(refusal) = validate_local(object) {
        return ConditionUpdate::no(kind, refusal.reason, refusal.message);
    }
    if let Some(cluster) = around.sandbox.as_ref().and_then(|it| it.spec.cluster_ref.as_ref()) {
        let message = format!(
            "Sandbox {} runs in cluster {}; create this object there, or list it in spec.local of the Sandbox",
            spec.sandbox_ref.name, cluster.name
        );
        return ConditionUpdate::no(kind, reasons::OTHER_CLUSTER, message);
    }
    let Some(sandbox) = &around.sandbox else {
        let message = format!("Sandbox {} does not exist in this namespace yet", spec.sandbox_ref.name);
        return ConditionUpdate::no(kind, reasons::SANDBOX_NOT_FOUND, message);
    };
    if let Err(refusal) = check_slot(object, sandbox, &around.locals) {
        return ConditionUpdate::no(kind, refusal.reason, refusal.message);
    }
    if around.baseline == BaselineLookup::NotFound {
        let message = format!("Deployment {} does not exist in this namespace", spec.from.name);
        return ConditionUpdate::no(kind, reasons::BASELINE_NOT_FOUND, message);
    }
    ConditionUpdate::yes(kind, reasons::ACCEPTED, tcp_note(object))
}

/// A note on ports that do not speak HTTP; empty if there are none.
fn tcp_note(object: &LocalWorkload) -> String {
    let bytes = object.spec.mappings.iter().filter(|it| it.app_protocol == LocalProtocol::Tcp);
    let ports: Vec<String> = bytes.map(|it| it.port.to_string()).collect();
    if ports.is_empty() {
        return String::new();
    }
    format!(
        "tcp: {}: raw TCP carries no key, so connections go to the baseline; only HTTP upgrades are routed here",
        ports.join(", ")
    )
}
