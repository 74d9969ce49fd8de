//! Whether a spec can be followed, as far as the object itself tells.
//!
//! Every rule of the schema and of CEL is here too, with the same verdict: an object may be older than a rule, and a file
//! on somebody's disk has no API server.

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
    patch::{check_patched, read_patch},
    sandbox::validate,
};
