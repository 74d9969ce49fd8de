//! The controllers of an in-memory cluster, seen from outside: what follows from a write.
#![allow(unreachable_pub, reason = "`pub` in a test is what its other files may use")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests may fail loudly")]

mod fault_tolerance;
mod garbage_collector;
mod harness;
mod namespaces;
mod workloads;
