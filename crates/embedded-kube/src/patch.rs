//! The four kinds of patches, and who manages which field. Pure: objects in, objects or refusals out.
//!
//! Refusals carry the texts of the real server. Depth is bounded: what comes in was parsed with `serde_json`'s limit, and
//! a JSON patch may not build anything deeper.

mod apply;
#[cfg(test)]
mod arbitrary;
mod fields;
mod json;
mod merge;
mod owners;
#[cfg(test)]
mod shapes;
mod strategic;
mod syntax;
mod track;
mod typed;
mod words;

use jiff::Timestamp;

pub use self::{
    apply::apply,
    json::json_patch,
    merge::merge_patch,
    strategic::strategic_merge,
    syntax::{duplicate_fields, json_patch_faults, shown_patch},
    track::track,
};

/// Who writes, through what, and when.
#[derive(Debug, Clone, Copy)]
pub struct Writer<'a> {
    /// Field manager.
    pub manager: &'a str,
    /// Version that the request speaks.
    pub api_version: &'a str,
    /// Kind of the resource; empty to take the object's word for it.
    pub kind: &'a str,
    /// Subresource of the request; empty for the object itself.
    pub subresource: &'a str,
    /// Dotted paths of fields that this endpoint does not change, such as `status`.
    pub reset: &'a [&'a str],
    /// Dotted path of the number of replicas, if the request goes through `scale`.
    pub replicas: &'a str,
    /// The moment of the write.
    pub now: Timestamp,
}
