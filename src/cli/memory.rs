//! How much memory this machine, or this container, has.

/// What is assumed of a machine that does not tell, in megabytes.
const UNKNOWN: u64 = 4096;

/// Half of it, in megabytes: the other half is for everybody else, us included.
pub(super) fn budget() -> u64 {
    let read = |path: &str| std::fs::read_to_string(path).ok();
    let machine = read("/proc/meminfo").and_then(|text| machine(&text));
    let limit = read("/sys/fs/cgroup/memory.max").and_then(|text| limit(&text));
    half(machine, limit)
}

fn half(machine: Option<u64>, limit: Option<u64>) -> u64 {
    machine.into_iter().chain(limit).min().map_or(UNKNOWN / 2, |whole| whole / 2).max(256)
}

/// `MemTotal:       16303104 kB`
fn machine(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    line.split_whitespace().next()?.parse::<u64>().ok().map(|kilobytes| kilobytes / 1024)
}

/// A number of bytes, or `max`.
fn limit(memory_max: &str) -> Option<u64> {
    memory_max.trim().parse::<u64>().ok().map(|bytes| bytes / 1024 / 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_of_the_smaller_of_machine_and_container() {
        let meminfo = "MemFree: 12 kB\nMemTotal:       16777216 kB\n";
        assert_eq!(half(machine(meminfo), limit("max\n")), 8192);
        assert_eq!(half(machine(meminfo), limit("2147483648\n")), 1024);
        assert_eq!(half(None, None), 2048);
        assert_eq!(half(Some(64), None), 256, "one terraform needs some");
    }
}
