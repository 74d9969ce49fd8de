//! The whole system: the real `capt`, the real terraform, the real AWS provider, the local AWS.
//!
//! Needs what `make deps` installs. Each scenario has a data directory and a local AWS of its own.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stderr,
    reason = "a test that cannot go on stops, and says where"
)]

mod alike;
mod behind;
mod capt;
mod examples;
mod gateway;
mod identities;
mod interruption;
mod kube;
mod kubernetes;
mod local_aws;
mod meddling;
mod profiles;
mod templates;
