//! Memory budget of terraform runs, from the machine's and the container's limits.

/// Memory assumed if the system reports none, in megabytes.
const ASSUMED_MEMORY_MB: u64 = 4096;

/// Half of the available memory in megabytes; the rest is left to other processes, capt included.
pub(super) fn budget() -> u64 {
    let read = |path: &str| std::fs::read_to_string(path).ok();
    let machine = read("/proc/meminfo").and_then(|text| meminfo_total_mb(&text));
    let limit = read("/sys/fs/cgroup/memory.max").and_then(|text| cgroup_limit_mb(&text));
    half_of_smaller(machine, limit)
}

fn half_of_smaller(machine: Option<u64>, limit: Option<u64>) -> u64 {
    machine.into_iter().chain(limit).min().map_or(ASSUMED_MEMORY_MB / 2, |whole| whole / 2).max(256)
}

/// `MemTotal:       16303104 kB`
fn meminfo_total_mb(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    line.split_whitespace().next()?.parse::<u64>().ok().map(|kilobytes| kilobytes / 1024)
}

/// A number of bytes, or `max`.
fn cgroup_limit_mb(memory_max: &str) -> Option<u64> {
    memory_max.trim().parse::<u64>().ok().map(|bytes| bytes / 1024 / 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_of_the_smaller_of_machine_and_container() {
        let meminfo = "MemFree: 12 kB\nMemTotal:       16777216 kB\n";
        assert_eq!(half_of_smaller(meminfo_total_mb(meminfo), cgroup_limit_mb("max\n")), 8192);
        assert_eq!(half_of_smaller(meminfo_total_mb(meminfo), cgroup_limit_mb("2147483648\n")), 1024);
        assert_eq!(half_of_smaller(None, None), 2048);
        assert_eq!(half_of_smaller(Some(64), None), 256, "one terraform needs some");
    }
}
