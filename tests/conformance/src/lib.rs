//! The conformance suite: cases that are run against two servers, and whose answers must be equal.
//!
//! A [`Case`] is a function over a [`Context`]; what it sees goes into a [`Transcript`]. Uids, times, versions and
//! generated names are made comparable by [`normalise`]; everything else must be equal to the byte. The answers of the
//! real server are also kept in `recorded/`, so that the suite means something where there is no real server.

pub mod config;
mod context;
mod crd;
mod diff;
mod exec;
mod http;
mod kubelet;
mod normalise;
mod pki;
mod real;
mod recording;
mod report;
mod subject;
mod suite;
mod watch;

pub use context::{Context, Transcript, eventually};
pub use crd::{WIDGETS, Widgets};
pub use exec::Shell;
pub use http::{Answer, Patch, Req};
pub use kubelet::Kubelet;
pub use normalise::normalise;
pub use real::RealKube;
pub use subject::Subject;
pub use suite::{Case, Outcome, Plan, case, run};
pub use watch::{Watch, brief, briefly};
