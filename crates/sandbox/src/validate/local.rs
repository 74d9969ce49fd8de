//! Validates a `LocalWorkload`.

use capt_kinds::sandbox::{LocalWorkload, LocalWorkloadSpec, conditions::reasons};
use kube::ResourceExt as _;

use super::problems::{DNS_LABEL, GRACE, Problems, check_object_name};
use crate::rejection::Rejection;

/// Validates the name and the spec.
pub fn validate_local(local: &LocalWorkload) -> Result<(), Rejection> {
    check_object_name(&local.name_any(), 63)?;
    let mut problems = Problems::default();
    let LocalWorkloadSpec {
        sandbox_ref,
        from,
        mappings,
        disconnect_policy: _,
        disconnect_grace_period,
        over,
    } = &local.spec;
    problems.check_text("sandboxRef.name", &sandbox_ref.name, (&DNS_LABEL, 30));
    problems.check_workload("from", from);
    problems.check_mappings("mappings", mappings);
    problems.check_text("disconnectGracePeriod", disconnect_grace_period, (&GRACE, 4));
    if let Some(over) = over {
        problems.check_override("override", over);
    }
    problems.into_result()?;
    let home = local.namespace().unwrap_or_default();
    match &from.namespace {
        Some(namespace) if *namespace != home => Err(Rejection::new(
            reasons::CROSS_NAMESPACE_FORK,
            format!(
                "spec.from: {} is in the namespace {namespace}, and the local workload in {home}",
                from.name
            ),
        )),
        _ => Ok(()),
    }
}
