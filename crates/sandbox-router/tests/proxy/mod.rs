//! The proxy between real clients and pods that are servers on the loopback interface.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::disallowed_methods,
    reason = "a test that cannot go on stops, and says where; the clients that it starts are real ones"
)]

mod admin;
mod budgets;
mod changes;
mod early;
mod fast_path;
mod fast_path_fuzz;
mod grpc;
pub(crate) mod grpc_calls;
pub(crate) mod harness;
mod http1;
mod http2;
mod isolation;
mod limits;
mod local;
mod passthrough;
mod pool;
mod previews;
mod strictness;
mod virtuals;
mod websocket;
