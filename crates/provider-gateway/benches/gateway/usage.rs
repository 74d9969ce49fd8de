//! CPU time and memory of processes.

use std::{fs, time::Duration};

/// Time on the wall, and time of all processors.
#[derive(Clone, Copy)]
pub(crate) struct Cost {
    pub(crate) wall: Duration,
    pub(crate) cpu: Duration,
}

impl Cost {
    pub(crate) fn median(mut all: Vec<Self>) -> Self {
        all.sort_by_key(|cost| cost.wall);
        let wall = all[all.len() / 2].wall;
        all.sort_by_key(|cost| cost.cpu);
        Self { wall, cpu: all[all.len() / 2].cpu }
    }
}

/// Of everything that was started here and has ended.
pub(crate) fn cpu_of_children() -> Duration {
    // Fields 16 and 17 of our own entry.
    ticks("/proc/self/stat", 13)
}

/// Of one process that runs, without its children.
pub(crate) fn cpu_of(pid: u32) -> Duration {
    ticks(&format!("/proc/{pid}/stat"), 11)
}

/// Of the local AWS: its front door, which is in this process and does hardly anything else while it is measured, and
/// moto behind it.
pub(crate) fn cpu_of_the_local_aws() -> Duration {
    let mut all = Vec::new();
    descend_all(std::process::id(), &mut all);
    let moto = all.into_iter().filter(|pid| name(*pid).starts_with("python")).map(cpu_of);
    cpu_of(std::process::id()) + moto.sum::<Duration>()
}

fn descend_all(pid: u32, all: &mut Vec<u32>) {
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Ok(other) = entry.file_name().to_string_lossy().parse::<u32>() else { continue };
        if parent(other) == pid {
            all.push(other);
            descend_all(other, all);
        }
    }
}

/// Two fields side by side, counted behind the name. A tick is ten milliseconds on every Linux there is.
fn ticks(path: &str, at: usize) -> Duration {
    let stat = fs::read_to_string(path).unwrap_or_default();
    let fields = stat.rsplit_once(')').map_or("", |(_, rest)| rest).split_whitespace();
    let sum: u64 = fields.skip(at).take(2).filter_map(|field| field.parse::<u64>().ok()).sum();
    Duration::from_millis(10 * sum)
}

/// The most memory at once.
pub(crate) struct Peak;

impl Peak {
    /// Of all children of ours, and theirs, while something is done; `others` are counted with them.
    pub(crate) async fn during(others: &[u32], work: impl Future<Output = ()>) -> u64 {
        let mut work = std::pin::pin!(work);
        let mut peak = 0;
        loop {
            tokio::select! {
                () = &mut work => return peak,
                () = tokio::time::sleep(Duration::from_millis(30)) => {
                    let mut all = Vec::new();
                    descend(std::process::id(), &mut all);
                    // A gateway that is measured elsewhere is a child of ours, too.
                    all.retain(|pid| others.contains(pid) || !others.is_empty() || !is_gateway(*pid));
                    peak = peak.max(all.iter().map(|pid| pss(*pid)).sum());
                }
            }
        }
    }
}

fn name(pid: u32) -> String {
    fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default()
}

fn is_gateway(pid: u32) -> bool {
    name(pid).starts_with("provider-gatew") || name(parent(pid)).starts_with("provider-gatew")
}

fn parent(pid: u32) -> u32 {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let rest = stat.rsplit_once(')').map_or("", |(_, rest)| rest).to_owned();
    rest.split_whitespace().nth(1).and_then(|it| it.parse().ok()).unwrap_or_default()
}

/// Terraforms and providers below a process; the local AWS is not one of them.
fn descend(pid: u32, all: &mut Vec<u32>) {
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Ok(other) = entry.file_name().to_string_lossy().parse::<u32>() else { continue };
        if parent(other) == pid {
            if name(other).starts_with("terraform") || name(other).starts_with("provider-gatew") {
                all.push(other);
            }
            descend(other, all);
        }
    }
}

/// Memory, with what is shared divided by those who share it.
fn pss(pid: u32) -> u64 {
    let text = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("Pss:"));
    line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok()).unwrap_or_default() * 1024
}
