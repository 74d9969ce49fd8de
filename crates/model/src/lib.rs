//! Validated values of the kinds, and the Terraform workspaces that they require. Pure: no files, clock or processes.
//!
//! | module | responsibility |
//! |---|---|
//! | [`model`] | validation: specs in, `Validated…` values or field errors with a remedy out |
//! | [`manifest`] | manifests from files: strict parsing and cross-object checks |
//! | [`workspaces`] | the Terraform workspaces that the objects require, their inputs and dependencies |
//! | [`modules`] | the Terraform modules embedded in the binary |

pub mod manifest;
pub mod model;
pub mod modules;
pub mod workspaces;
