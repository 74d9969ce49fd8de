//! Providers as processes.

mod exec;
pub mod handshake;
pub mod launch;
pub mod process;
mod start;
mod words;

pub use handshake::{Handshake, HandshakeError};
pub use launch::become_provider;
pub use process::Process;
pub use start::{Launch, StartError};
