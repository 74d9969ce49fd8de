//! The `capt` binary as a black box: its files, its output and its exit codes.
//!
//! Nothing here needs a network, an AWS, a terraform or a python. Engines are scripts of `engines/`, and every
//! command runs in a directory of its own with an environment that holds nothing of the caller's.

#![expect(clippy::unwrap_used, reason = "a test that cannot prepare its ground has failed")]

mod aws;
mod data;
mod engine;
mod fields;
mod files;
mod harness;
mod init;
mod limits;
mod print;
mod render;
mod state;
mod templates;
mod up;
