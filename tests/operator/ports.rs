//! Ports for programs that cannot bind port 0 and report the result.

use std::{
    net::TcpListener,
    sync::atomic::{AtomicU32, Ordering},
};

/// Number of ports that this process has allocated.
static ALLOCATED: AtomicU32 = AtomicU32::new(0);

/// A free port below the ephemeral range (32768 and above), so that the kernel does not assign it to another process. Test
/// processes start at different ports.
pub(crate) fn free_port() -> u16 {
    let first = 10_240 + std::process::id() % 2_750 * 8;
    loop {
        let next = first + ALLOCATED.fetch_add(1, Ordering::Relaxed);
        let port = u16::try_from(next).expect("no port is free");
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
}
