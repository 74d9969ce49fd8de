//! The operator as a whole: real terraform, the embedded Kubernetes API, and where AWS is needed the local one.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stderr,
    reason = "a test that cannot go on stops, and says where"
)]

pub(crate) mod account;
mod bad_input;
mod cloud;
mod clusters;
mod core;
mod coverage;
mod disasters;
mod engine;
mod examples;
mod gateway;
pub(crate) mod journal;
mod leftovers;
mod pauses;
pub(crate) mod ports;
mod profiles;
mod promptness;
mod running;
mod stage;
mod trouble;
mod turns;
mod workspaces;

use crate::rbac;
