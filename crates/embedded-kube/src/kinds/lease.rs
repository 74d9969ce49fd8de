//! Leases.

use serde_json::Value;

use super::{
    columns::{age, name},
    common::{int, not_negative, subdomain_name},
};
use crate::{
    failure::FieldError,
    object::text,
    registry::{Part, Rules},
};

pub struct Lease;

impl Rules for Lease {
    fn default(&self, _lease: &mut Value) {}

    fn prepare_create(&self, lease: &mut Value) {
        drop_candidates(lease);
    }

    fn prepare_update(&self, _part: Part, lease: &mut Value, _old: &Value) {
        drop_candidates(lease);
    }

    fn check(&self, lease: &Value) -> Vec<FieldError> {
        let mut out = Vec::new();
        if let Some(seconds) = int(lease, &["spec", "leaseDurationSeconds"]).filter(|seconds| *seconds <= 0) {
            out.push(FieldError::invalid("spec.leaseDurationSeconds", seconds, "must be greater than 0"));
        }
        not_negative(&mut out, "spec.leaseTransitions", int(lease, &["spec", "leaseTransitions"]));
        out
    }

    fn check_update(&self, _part: Part, lease: &Value, _old: &Value) -> Vec<FieldError> {
        self.check(lease)
    }

    fn check_name(&self, name: &str, prefix: bool) -> Vec<String> {
        subdomain_name(name, prefix)
    }

    fn is_new_generation(&self, _lease: &Value, _old: &Value) -> bool {
        false
    }

    fn cells(&self, lease: &Value, now: jiff::Timestamp) -> Option<Vec<Value>> {
        Some(vec![name(lease), text(lease, &["spec", "holderIdentity"]).into(), age(lease, now)])
    }
}

/// Fields of coordinated leader election, which is off unless a feature gate says otherwise.
fn drop_candidates(lease: &mut Value) {
    if let Some(spec) = lease.get_mut("spec").and_then(Value::as_object_mut) {
        spec.shift_remove("strategy");
        spec.shift_remove("preferredHolder");
    }
}
