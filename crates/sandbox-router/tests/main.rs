//! One binary, so that the crate is linked once. Each module is a suite; docs/testing.md describes them.

mod fuzz;
mod proxy;
mod tunnel;
