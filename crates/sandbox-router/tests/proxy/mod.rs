//! The proxy between real clients and pods that are servers on the loopback interface.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::disallowed_methods,
    reason = "a test that cannot go on stops, and says where; the clients that it starts are real ones"
)]

mod admin;
pub(crate) mod calls;
mod changes;
mod early;
mod grpc;
mod http1;
mod http2;
mod isolation;
mod limits;
mod local;
mod passthrough;
mod plain;
mod pool;
mod previews;
pub(crate) mod support;
mod virtuals;
mod websocket;
