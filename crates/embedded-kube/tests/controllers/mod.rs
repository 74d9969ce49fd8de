//! The controllers of a cluster in memory, seen from outside: what happens after a write, without anybody else doing it.
#![allow(unreachable_pub, reason = "`pub` in a test is what its other files may use")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests may fail loudly")]

mod collector;
mod namespaces;
mod support;
mod trouble;
mod workloads;
