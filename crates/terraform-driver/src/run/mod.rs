//! Runs: one terraform command each, started through a shim, followed through its directory.

mod handle;
pub mod record;

pub use handle::{Ended, Run, RunError};
