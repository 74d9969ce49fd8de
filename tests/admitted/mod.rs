//! Manifests that must be taken: by an API server with our CRDs, strictly and whole, and by the command line.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test that cannot go on stops, and says where"
)]

mod examples;
mod server;
mod upstream;
