//! The whole operator: real terraform, the embedded Kubernetes API, and the local AWS where AWS is needed.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stderr,
    reason = "a test that cannot go on stops, and says where"
)]

mod bad_input;
mod capi_core;
mod cluster_lock;
pub(crate) mod clusters;
mod crash_recovery;
mod examples;
mod gateway;
pub(crate) mod harness;
pub(crate) mod in_process_operator;
mod leaks;
pub(crate) mod local_aws;
pub(crate) mod log_capture;
mod pauses;
pub(crate) mod ports;
mod profile_coverage;
mod profiles;
pub(crate) mod recording_terraform;
mod retries;
pub(crate) mod service_account;
mod start_latency;
mod states;
pub(crate) mod workspaces;

use crate::rbac;
