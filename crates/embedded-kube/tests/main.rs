//! One binary, so that the crate is linked once. Each module is a suite; docs/testing.md describes them.

#![recursion_limit = "256"]

mod controllers;
mod front;
mod fuzz;
mod soak;
mod writers;
