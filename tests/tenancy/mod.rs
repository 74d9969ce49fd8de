//! A hostile namespace: what a tenant may create, and must not reach. Tests are named after the findings in docs/security.md.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stderr,
    reason = "a test that cannot go on stops, and says where"
)]

mod permissions;
mod sources;
mod templates;
