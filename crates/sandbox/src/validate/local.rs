//! Whether a local workload can be followed.

use kube::ResourceExt as _;

use super::problems::{DNS_LABEL, GRACE, Problems, object_name};
use crate::{
    api::{LocalWorkload, LocalWorkloadSpec, conditions::reasons},
    refusal::Refusal,
};

/// Looks at everything that a local workload says of itself.
pub fn validate_local(local: &LocalWorkload) -> Result<(), Refusal> {
    object_name(&local.name_any(), 63)?;
    let mut problems = Problems::default();
    let LocalWorkloadSpec {
        sandbox_ref,
        from,
        mappings,
        disconnect_policy: _,
        disconnect_grace_period,
        over,
    } = &local.spec;
    problems.text("sandboxRef.name", &sandbox_ref.name, (&DNS_LABEL, 30));
    problems.workload("from", from);
    problems.mappings("mappings", mappings);
    problems.text("disconnectGracePeriod", disconnect_grace_period, (&GRACE, 4));
    if let Some(over) = over {
        problems.over("override", over);
    }
    problems.end()?;
    let home = local.namespace().unwrap_or_default();
    match &from.namespace {
        Some(namespace) if *namespace != home => Err(Refusal::new(
            reasons::CROSS_NAMESPACE_FORK,
            format!(
                "spec.from: {} is in the namespace {namespace}, and the local workload in {home}",
                from.name
            ),
        )),
        _ => Ok(()),
    }
}
