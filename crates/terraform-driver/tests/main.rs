//! One binary, so that the crate is linked once. Each module is a suite; docs/testing.md describes them.

mod disk_full;
mod engine_values;
mod interruption;
mod real_terraform;
mod recovery;
mod supervision;
mod support;
mod workspace;
