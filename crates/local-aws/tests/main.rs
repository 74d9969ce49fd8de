//! One binary, so that the crate is linked once. Each module is a suite; docs/testing.md describes them.

mod common;
mod faults;
mod front_door;
mod hosting;
mod process;
mod sdk;
