//! The tunnel as a whole: real sockets, real applications, agents as tasks and as processes that are stopped and killed.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "what goes wrong here fails a test"
)]

mod admission;
mod app;
mod clients;
mod confinement;
mod cuttable_link;
mod fairness;
mod handover;
mod leaving;
mod narrow;
mod process;
mod protocols;
mod proxied;
mod recovery;
mod rig;

use crate::proxy::{grpc_calls, harness};
