//! The whole system: `capt`, terraform, the AWS provider and the local AWS.
//!
//! Needs what `make deps` installs. Each scenario has a data directory and a local AWS of its own.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stderr,
    reason = "a test that cannot go on stops, and says where"
)]

mod console_changes;
mod drift_matrix;
mod examples;
mod gateway;
mod gateway_equivalence;
mod harness;
mod identities;
mod interruption;
mod kills;
mod kube;
mod kubernetes;
mod local_aws;
mod older_data;
mod profiles;
mod templates;
