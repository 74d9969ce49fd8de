//! The clock of the deadline: it counts the time of a suspended machine, and nobody can set it.

use std::{fs, io, time::Duration};

use rustix::time::{ClockId, clock_gettime};

/// Time since the boot of this machine (`CLOCK_BOOTTIME`); the same for all of its processes.
pub fn since_boot() -> Duration {
    let now = clock_gettime(ClockId::Boottime);
    Duration::new(
        u64::try_from(now.tv_sec).unwrap_or_default(),
        u32::try_from(now.tv_nsec).unwrap_or_default(),
    )
}

/// Identifies this boot of this machine: a time since boot has no meaning in another one.
pub fn boot_id() -> io::Result<String> {
    Ok(fs::read_to_string("/proc/sys/kernel/random/boot_id")?.trim().to_owned())
}
