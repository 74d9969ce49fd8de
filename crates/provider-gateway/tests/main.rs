//! One binary, so that the crate is linked once. Each module is a suite; docs/testing.md describes them.

mod authentication;
mod corpus;
mod faults;
mod fuzz;
mod lease;
mod plans;
mod probe;
mod sharing;
mod support;
