//! The conformance suite: cases that are run against two servers, and whose answers must be equal.
//!
//! A [`Case`] is a function over a [`Context`]; what it sees goes into a [`Transcript`]. Uids, times, versions and
//! generated names are made comparable by [`normalise`]; everything else must be equal to the byte. The answers of the
//! real server are also kept in `recorded/`, so that the suite means something where there is no real server.

pub mod config;
mod context;
mod crd;
mod diff;
mod http;
mod kubelet;
mod normalise;
mod pki;
mod process;
mod real_kube;
mod recording;
mod report;
mod server_under_test;
mod suite;
mod watch;

pub use context::{Context, Transcript, wait_for};
pub use crd::{WIDGETS, Widgets};
pub use http::{ApiResponse, PatchType, Req};
pub use kubelet::Kubelet;
pub use normalise::normalise;
pub use process::KubectlOutput;
pub use real_kube::RealKube;
pub use server_under_test::ServerUnderTest;
pub use suite::{Case, Outcome, SuitePlan, case, run};
pub use watch::{Watch, summarise_event, summarise_events};
