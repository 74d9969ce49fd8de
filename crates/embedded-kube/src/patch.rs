//! The four kinds of patches, and who manages which field. Pure: objects in, objects or refusals out.
//!
//! Refusals carry the texts of the real server. Depth is bounded: what comes in was parsed with `serde_json`'s limit, and
//! a JSON patch may not build anything deeper.

#[cfg(test)]
mod arbitrary;
mod json;
mod merge;
#[cfg(test)]
mod shapes;
mod strategic;
mod syntax;
mod words;

pub use self::{
    json::json_patch,
    merge::merge_patch,
    strategic::strategic_merge,
    syntax::{duplicate_fields, json_patch_faults},
};

mod pending;
pub use self::pending::{Writer, apply, track};
