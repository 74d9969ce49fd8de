//! Provider processes.

mod exec;
pub mod exec_wrapper;
pub mod handshake;
pub mod process;
mod start;
mod stderr_tail;

pub use exec_wrapper::{become_named_provider, become_provider};
pub use handshake::{Handshake, HandshakeError};
pub use process::ProviderProcess;
pub use start::{LaunchSpec, StartError};
