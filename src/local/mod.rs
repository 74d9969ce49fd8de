//! What lives on this machine in place of the real thing.

pub mod admin;
pub mod aws;
mod clusters;
pub mod kube;
pub mod place;
pub mod serve;
pub mod up;
pub mod venv;
