//! Validates a spec by itself, without other objects.
//!
//! Repeats every schema and CEL rule with the same result: an object may be older than a rule, and a file on disk has no API
//! server.

mod group;
mod local;
mod patch;
mod problems;
mod sandbox;
#[cfg(test)]
mod tests;

pub use self::{
    group::validate_group,
    local::validate_local,
    patch::{check_patch_shape, check_patched_baseline},
    sandbox::validate_sandbox,
};
