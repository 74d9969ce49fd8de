//! Child processes and what they cost.

use std::{
    collections::BTreeMap,
    fs::{self, File},
    iter::Sum,
    ops::{Add, Sub},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use anyhow::{Context, bail};
use nix::sys::{
    resource::{UsageWho, getrusage},
    time::TimeVal,
};

/// A command as it is typed.
pub(crate) struct BenchCommand<'a> {
    pub(crate) program: &'a Path,
    pub(crate) args: &'a [&'a str],
    pub(crate) env: &'a BTreeMap<String, String>,
    pub(crate) cwd: &'a Path,
    /// The exit code that it has to end with.
    pub(crate) expect: i32,
    /// Where its words go.
    pub(crate) log: PathBuf,
}

/// What it took, children of children included.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Cost {
    pub(crate) wall: Duration,
    pub(crate) cpu: Duration,
}

impl Add for Cost {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self { wall: self.wall + other.wall, cpu: self.cpu + other.cpu }
    }
}

impl Sub for Cost {
    type Output = Self;
    fn sub(self, other: Self) -> Self {
        Self { wall: self.wall.saturating_sub(other.wall), cpu: self.cpu.saturating_sub(other.cpu) }
    }
}

impl Sum for Cost {
    fn sum<I: Iterator<Item = Self>>(costs: I) -> Self {
        costs.fold(Self::default(), Add::add)
    }
}

impl BenchCommand<'_> {
    /// Runs it to its end. A process that it leaves in the background has not been waited for, so its CPU is in
    /// nobody's account.
    #[expect(clippy::disallowed_methods, reason = "a bench starts commands as a person would")]
    pub(crate) fn run(&self) -> anyhow::Result<Cost> {
        let log = File::create(&self.log).with_context(|| format!("writing {}", self.log.display()))?;
        let (before, begun) = (cpu_time(UsageWho::RUSAGE_CHILDREN)?, Instant::now());
        let status = Command::new(self.program)
            .args(self.args)
            .current_dir(self.cwd)
            .env_clear()
            .envs(self.env)
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .status()
            .with_context(|| format!("starting {}", self.program.display()))?;
        let wall = begun.elapsed();
        let cpu = cpu_time(UsageWho::RUSAGE_CHILDREN)?.saturating_sub(before);
        if status.code() != Some(self.expect) {
            let (name, args) = (self.program.display(), self.args.join(" "));
            bail!("{name} {args} ended with {status} instead of {}:\n{}", self.expect, self.output()?);
        }
        Ok(Cost { wall, cpu })
    }

    /// What it printed.
    pub(crate) fn output(&self) -> anyhow::Result<String> {
        Ok(fs::read_to_string(&self.log)?)
    }
}

/// User and system time of this process, or of all children that were waited for.
pub(crate) fn cpu_time(who: UsageWho) -> anyhow::Result<Duration> {
    let usage = getrusage(who).context("asking the kernel for CPU times")?;
    Ok(duration(usage.user_time()) + duration(usage.system_time()))
}

fn duration(time: TimeVal) -> Duration {
    let seconds = u64::try_from(time.tv_sec()).unwrap_or_default();
    Duration::from_secs(seconds) + Duration::from_micros(u64::try_from(time.tv_usec()).unwrap_or_default())
}
