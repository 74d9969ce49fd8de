//! One binary, so that the crate is linked once. Each module is a suite; docs/testing.md describes them.

#![recursion_limit = "256"]

mod concurrent_writers;
mod controllers;
mod fuzz;
mod http_server;
mod soak;
