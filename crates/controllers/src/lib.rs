//! The Kubernetes controllers, one folder per kind. Each folder has the same files, in the order of a reconcile; a file is
//! absent only where the step does not exist for the kind, which `tests/architecture/controllers.rs` lists with the reason.
//!
//! | file | does |
//! |---|---|
//! | `mod` | `reconcile`, the table of contents: calls the steps by their file names |
//! | `watch` | wires and runs the controller by `common::runner::run`; maps changes of other objects to the ones to reconcile |
//! | `dereference` | reads the referenced and owned objects; makes no decision |
//! | `validate` | derives the desired state, or reports what is invalid; pure |
//! | `decide` | computes the changes to make now; pure |
//! | `act` | carries out the decision through `runs` and `k8s`, and returns the outcome |
//! | `status` | computes the new status and conditions from observation and outcome; pure |
//! | `events` | computes the events of the transitions; pure |
//! | `tests` | tests of the steps, without an API server where possible |
//!
//! What was observed is not changed afterwards. A failed step is a `ReconcileError` that names it. A reconcile never waits for
//! a Terraform run.

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
