//! One binary, so that the crate is linked once. Each module is a suite; docs/testing.md describes them.

mod bad_input;
mod fidelity;
mod fuzz;
