//! Providers as processes.

mod exec;
pub mod handshake;
pub mod launch;
pub mod process;

pub use handshake::{Handshake, HandshakeError};
pub use launch::become_provider;
pub use process::{Launch, Process, StartError};
