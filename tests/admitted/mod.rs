//! Manifests that must be accepted: by an API server with our CRDs and strict field validation, and by the command line.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test that cannot go on stops, and says where"
)]

mod examples;
mod server;
mod upstream;
