//! The Kubernetes controllers, one folder per kind. The folders of the Cluster API kinds use these step names; the others use
//! the steps they need.
//!
//! | step | does |
//! |---|---|
//! | `dereference` | reads the referenced and owned objects; makes no decision |
//! | `validate` | derives the desired state, or reports what is invalid; pure |
//! | `decide` | computes the changes to make now; pure |
//! | `act` | carries out the decision through `runs` and `k8s` |
//! | `status` | computes the new status and conditions; pure |
//!
//! `reconcile` in a kind's `mod.rs` is the table of contents. A reconcile never waits for a Terraform run. `common::runner::run`
//! runs every controller: it records outcomes, applies the error policy and shuts down gracefully.

#![allow(unreachable_pub, reason = "the modules are private; `pub` in them marks what sibling files may use")]

pub mod capi_cluster;
pub mod captcluster;
pub mod common;
pub mod controlplane;
pub mod identity;
pub mod localworkload;
pub mod routegroup;
pub mod sandbox;
pub mod sandbox_common;
pub mod service_takeover;
pub mod template;
#[cfg(test)]
mod testing;
pub mod workspace;
