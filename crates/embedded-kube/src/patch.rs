//! The four patch types and managed fields. Pure: objects in, objects or errors out.
//!
//! Error texts are kube-apiserver's. Depth is bounded: input was parsed with `serde_json`'s limit, and a JSON patch
//! cannot build anything deeper.

mod apply;
#[cfg(test)]
mod arbitrary;
mod field_set;
mod go_fmt;
mod go_json;
mod json_patch;
mod managed_fields;
mod managed_fields_update;
mod merge_patch;
mod strategic_merge;
#[cfg(test)]
mod test_shapes;
mod typed;

use jiff::Timestamp;

pub use self::{
    apply::apply,
    go_json::{duplicate_fields, format_patch, json_patch_strict_errors},
    json_patch::json_patch,
    managed_fields_update::update_managed_fields,
    merge_patch::merge_patch,
    strategic_merge::strategic_merge,
};

/// Field manager, endpoint and time of a write.
#[derive(Debug, Clone, Copy)]
pub struct WriteContext<'a> {
    /// Field manager.
    pub manager: &'a str,
    /// API version of the request.
    pub api_version: &'a str,
    /// Kind of the resource; empty to use the object's own.
    pub kind: &'a str,
    /// Subresource of the request; empty for the object itself.
    pub subresource: &'a str,
    /// Dotted paths of fields that this endpoint does not write, such as `status`.
    pub reset_fields: &'a [&'a str],
    /// Dotted path of the replica count, if the request uses `/scale`.
    pub replicas_path: &'a str,
    /// Time of the write.
    pub now: Timestamp,
}
