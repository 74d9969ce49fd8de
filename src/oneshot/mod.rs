//! One-shot use of the driver: `capt plan`, `apply` and `destroy` on manifests, without Kubernetes.

mod board;
mod doom;
mod graph;
mod runner;
mod worker;

pub use board::{Board, Line, Stage};
pub use doom::{Fates, StillNeeded, fates};
pub use graph::{Circle, Graph};
pub use runner::{Finished, Runner, Task};
pub use worker::{Confirm, Worker};
