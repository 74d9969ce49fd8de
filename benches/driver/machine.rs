//! Describes the machine of a measurement, without host name or paths.

use std::{fs, thread};

use crate::capt::Capt;

pub(crate) fn describe_machine(capt: &Capt) -> anyhow::Result<String> {
    let cpuinfo = fs::read_to_string("/proc/cpuinfo")?;
    let model = cpuinfo.lines().find_map(|line| line.strip_prefix("model name")?.split_once(':'));
    let model = model.map_or("an unnamed CPU", |(_, name)| name.trim());
    let cores = thread::available_parallelism()?;
    let load = fs::read_to_string("/proc/loadavg")?;
    let load = load.split_whitespace().next().unwrap_or("?");
    let providers = capt.versions.providers.join(", ");
    Ok(format!(
        "{cores} cores of {model}, load {load} at the end; {}; {providers}; optimised build",
        capt.versions.engine
    ))
}
