//! The provider gateway of a data directory: a process of its own, started when it is needed, and what it lends to
//! the runs.

mod handle;
mod lender;
mod scan;
pub mod serve;

pub use handle::{Ended, Gateway, GatewayError};
pub use lender::{ADDRESS, Lent, RunLender};
