//! Ports for programs that must be told where to listen and cannot be asked.

use std::{
    net::TcpListener,
    sync::atomic::{AtomicU32, Ordering},
};

/// How many of this process were given out.
static GIVEN: AtomicU32 = AtomicU32::new(0);

/// A port that nobody listens at and that nobody gets by accident: the kernel hands out those from 32768 on to whoever asks
/// for any, and processes of tests begin at different ones.
pub(crate) fn port() -> u16 {
    let first = 10_240 + std::process::id() % 2_750 * 8;
    loop {
        let next = first + GIVEN.fetch_add(1, Ordering::Relaxed);
        let port = u16::try_from(next).expect("no port is free");
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
}
