//! Runs: terraform commands started through a shim and followed through their directories.

mod driver;
mod handle;
mod interrupted;
mod lend;
mod listen;
pub mod record;
mod steps;

pub use driver::{Driver, Job, Limits, Phase, Planned, StepError};
pub use handle::{Ended, Run, RunError};
pub use interrupted::interrupted_taints;
pub use lend::{Lender, Lending, Loan, Refused};
pub use steps::Digests;
