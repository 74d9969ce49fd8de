//! The controllers: one folder a kind, and in each the same steps.
//!
//! | step | is |
//! |---|---|
//! | `dereference` | reads what the object refers to; decides nothing |
//! | `validate` | what it all means, or what is wrong with it; pure |
//! | `decide` | what is to be done now; pure |
//! | `act` | does it, through `runs` and `k8s` |
//! | `status` | what is to be said of it; pure |
//!
//! `reconcile` in a kind's `mod.rs` is the table of contents. Nothing in it waits for terraform.

#![allow(
    unreachable_pub,
    reason = "the rooms are private; `pub` in them is what other files of the room may use"
)]

pub mod captcluster;
pub mod common;
pub mod controlplane;
pub mod identity;
pub mod localworkload;
#[cfg(test)]
mod rig;
pub mod routegroup;
pub mod sandbox;
pub mod service;
pub mod standalone;
pub mod template;
pub mod workspace;
