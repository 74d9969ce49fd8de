//! Leases.

use serde_json::Value;

use super::{
    columns::{age_cell, name_cell},
    common::{int_at, validate_non_negative, validate_subdomain_name},
};
use crate::{
    object::str_at,
    registry::{ObjectPart, ResourceStrategy},
    status_error::FieldError,
};

pub struct LeaseStrategy;

impl ResourceStrategy for LeaseStrategy {
    fn set_defaults(&self, _lease: &mut Value) {}

    fn prepare_create(&self, lease: &mut Value) {
        drop_candidates(lease);
    }

    fn prepare_update(&self, _part: ObjectPart, lease: &mut Value, _old: &Value) {
        drop_candidates(lease);
    }

    fn validate(&self, lease: &Value) -> Vec<FieldError> {
        let mut out = Vec::new();
        if let Some(seconds) =
            int_at(lease, &["spec", "leaseDurationSeconds"]).filter(|seconds| *seconds <= 0)
        {
            out.push(FieldError::invalid("spec.leaseDurationSeconds", seconds, "must be greater than 0"));
        }
        validate_non_negative(
            &mut out,
            "spec.leaseTransitions",
            int_at(lease, &["spec", "leaseTransitions"]),
        );
        out
    }

    fn validate_update(&self, _part: ObjectPart, lease: &Value, _old: &Value) -> Vec<FieldError> {
        self.validate(lease)
    }

    fn validate_name(&self, name: &str, prefix: bool) -> Vec<String> {
        validate_subdomain_name(name, prefix)
    }

    fn bumps_generation(&self, _lease: &Value, _old: &Value) -> bool {
        false
    }

    fn cells(&self, lease: &Value, now: jiff::Timestamp) -> Option<Vec<Value>> {
        Some(vec![name_cell(lease), str_at(lease, &["spec", "holderIdentity"]).into(), age_cell(lease, now)])
    }
}

/// Drops fields of coordinated leader election, whose feature gate is off by default.
fn drop_candidates(lease: &mut Value) {
    if let Some(spec) = lease.get_mut("spec").and_then(Value::as_object_mut) {
        spec.shift_remove("strategy");
        spec.shift_remove("preferredHolder");
    }
}
