//! A hostile namespace: what a tenant may create, and must not reach. Tests are named after the findings in docs/security.md.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stderr,
    reason = "a test that cannot go on stops, and says where"
)]

mod admission_policies;
mod grants;
mod identity;
mod isolation;
mod permissions;
mod routers;
mod scheduling;
mod sources;
mod templates;

use std::fmt::Debug;

/// The API server refused it for lack of permission.
#[track_caller]
fn assert_forbidden<T: Debug>(answer: Result<T, kube::Error>) {
    match answer {
        Err(kube::Error::Api(status)) => assert_eq!(status.code, 403, "{status:?}"),
        other => panic!("not refused: {other:?}"),
    }
}
