//! The shim: a small process that supervises one terraform command.
//!
//! It starts the engine, takes a snapshot of every valid state, forwards exactly one SIGINT, detects hangs and the loss of the
//! leader election Lease, and records the exit. It knows nothing of plans or clusters: its only input is a run directory, and its standard input is the run's lock.

mod disk_reserve;
pub(crate) mod emergency_state;
mod state_watch;
mod watchdog;

use std::{
    fs::OpenOptions, io, os::unix::process::ExitStatusExt, path::Path, process::ExitStatus, time::Duration,
};

use capt_util::error_chain::format_error_chain;
use disk_reserve::DiskReserve;
use state_watch::StateWatch;
use thiserror::Error;
use tokio::{
    process::Child,
    signal::unix::{Signal, SignalKind, signal},
    time::{Instant, MissedTickBehavior, interval},
};
use watchdog::{StopSequence, Watchdog};

use crate::{
    clock, exec,
    exec::ProcessId,
    run::run_dir::{RunDir, RunExit, RunProcesses, RunSpec, RunStop, StopReason},
    workspace::files::{FileError, open_append},
};

/// Why a shim failed.
#[derive(Debug, Error)]
pub enum ShimError {
    /// The run directory has no specification.
    #[error("{path} is not a prepared run directory")]
    NoSpec {
        /// The directory.
        path: String,
    },
    /// The engine did not start.
    #[error("cannot start {program}")]
    Spawn {
        /// The engine.
        program: String,
        /// The operating system's error.
        #[source]
        source: io::Error,
    },
    /// A system call failed.
    #[error("cannot {what}")]
    System {
        /// The operation that failed.
        what: &'static str,
        /// The operating system's error.
        #[source]
        source: io::Error,
    },
    /// A file could not be read or written.
    #[error(transparent)]
    File(#[from] FileError),
}

/// Executes the run that is prepared in `run_dir`.
pub async fn main(run_dir: &Path) -> Result<(), ShimError> {
    let dir = RunDir::at(run_dir);
    let outcome = supervise(&dir).await;
    if let Err(error) = &outcome {
        // The caller reads the error from the directory: standard error is /dev/null.
        dir.write_shim_error(&format_error_chain(error))?;
    }
    outcome
}

async fn supervise(dir: &RunDir) -> Result<(), ShimError> {
    detach_from_terminal();
    let signals = StopSignals::new()?;
    let spec = dir.spec()?.ok_or_else(|| ShimError::NoSpec { path: dir.path().display().to_string() })?;
    let states = StateWatch::new(&spec)?;
    // Record the process id before the engine starts, so that it can be stopped. This also fails early on a full disk.
    let shim = ProcessId::from_pid(std::process::id());
    dir.write_processes(&RunProcesses { shim, engine: None })?;
    if may_not_lead(&spec) {
        return Ok(dir.write_exit(&never_started())?);
    }
    let reserve = DiskReserve::allocate(dir, spec.disk_reserve)?;
    let mut child = start_engine(dir, &spec)?;
    let engine = child.id().and_then(ProcessId::from_pid);
    let pid = engine.map(|id| id.pid).unwrap_or_default();

    let mut watch = Supervisor {
        dir,
        states,
        reserve,
        signals,
        stop_sequence: StopSequence::new(pid, spec.grace),
        failures: Vec::new(),
    };
    watch.record_failure(dir.write_processes(&RunProcesses { shim, engine }));
    let ended = watch.wait_for_exit(&spec, &mut child).await?;

    // Remaining processes of the group would hold the run's lock for ever.
    watch.record_failure(exec::kill_group(pid));
    watch.reserve.release_all();
    watch.copy_state();
    if !ended.success() {
        watch.record_failure(emergency_state::extract_emergency_state(dir, &spec));
    }
    if let Some(limit) = spec.max_log {
        watch.record_failure(shorten(&dir.events_path(), limit));
        watch.record_failure(shorten(&dir.stderr_path(), limit));
    }
    dir.write_exit(&RunExit {
        code: ended.code(),
        signal: ended.signal(),
        stop: watch.stop_sequence.stop_record(),
        finished: clock::now(),
        trouble: watch.failures,
    })?;
    Ok(())
}

/// Whether the operator that started the run may not be the leader any more. It may have been frozen when it started the run.
fn may_not_lead(spec: &RunSpec) -> bool {
    spec.lease.as_ref().is_some_and(|lease| lease.check().is_err())
}

/// Cuts off what is behind the limit of a log.
fn shorten(path: &Path, limit: u64) -> io::Result<()> {
    if path.metadata().is_ok_and(|data| data.len() > limit) {
        return OpenOptions::new().write(true).open(path)?.set_len(limit);
    }
    Ok(())
}

/// The exit of an engine that may not start.
fn never_started() -> RunExit {
    let (now, reason) = (clock::now(), StopReason::LeaseLost);
    let stop = Some(RunStop { reason, at: now, killed: false });
    RunExit { code: None, signal: None, stop, finished: now, trouble: Vec::new() }
}

/// Detaches from the terminal: Ctrl-C must reach only the caller, which decides whether to stop the run. Fails harmlessly if
/// the process is a session leader already.
fn detach_from_terminal() {
    let _already_a_leader = rustix::process::setsid();
}

fn start_engine(dir: &RunDir, spec: &RunSpec) -> Result<Child, ShimError> {
    let stdout = open_append(&dir.events_path())?;
    let stderr = open_append(&dir.stderr_path())?;
    exec::spawn_engine(&spec.program, &spec.args, &spec.cwd, stdout, stderr)
        .map_err(|source| ShimError::Spawn { program: spec.program.display().to_string(), source })
}

/// Supervises a running engine. No failure ends the shim: an unsupervised engine is worse than a missing snapshot. Failures are
/// recorded instead.
struct Supervisor<'a> {
    dir: &'a RunDir,
    states: StateWatch,
    reserve: DiskReserve,
    signals: StopSignals,
    stop_sequence: StopSequence,
    failures: Vec<String>,
}

impl Supervisor<'_> {
    async fn wait_for_exit(&mut self, spec: &RunSpec, child: &mut Child) -> Result<ExitStatus, ShimError> {
        let mut patience = Watchdog::new(spec.silence, spec.deadline, Instant::now());
        let mut tick = interval(Duration::from_secs(1));
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                status = child.wait() => {
                    return status.map_err(|source| ShimError::System { what: "wait for the engine", source });
                }
                () = self.signals.recv() => self.stop(StopReason::Requested),
                () = self.states.changed() => self.copy_state(),
                _ = tick.tick() => {
                    let said = self.dir.events_path().metadata().map_or(0, |data| data.len());
                    // On a full disk output is lost, which must not count as silence.
                    let heard = !disk_is_full(self.dir.path());
                    if !heard {
                        self.reserve.release();
                    }
                    if let Some(reason) = patience.expired(said, Instant::now()).filter(|_| heard) {
                        self.stop(reason);
                    }
                    let errors = self.dir.stderr_path().metadata().map_or(0, |data| data.len());
                    if spec.max_log.is_some_and(|limit| said + errors > limit) {
                        self.stop(StopReason::LogTooLarge);
                    }
                    if may_not_lead(spec) {
                        self.stop(StopReason::LeaseLost);
                    }
                    let killed = self.stop_sequence.kill_if_overdue();
                    self.record_failure(killed);
                }
            }
        }
    }

    fn stop(&mut self, reason: StopReason) {
        let begun = self.stop_sequence.start(reason);
        self.record_failure(begun);
    }

    fn copy_state(&mut self) {
        let mut copied = self.states.snapshot();
        if matches!(copied, Err(FileError::DiskFull { .. })) && self.reserve.release() {
            copied = self.states.snapshot();
        }
        self.record_failure(copied);
    }

    fn record_failure<E: std::error::Error>(&mut self, result: Result<(), E>) {
        if let Err(error) = result {
            let text = format_error_chain(&error);
            if self.failures.last() != Some(&text) {
                self.failures.push(text);
            }
        }
    }
}

/// SIGINT and SIGTERM; both request a stop.
struct StopSignals {
    interrupt: Signal,
    terminate: Signal,
}

impl StopSignals {
    fn new() -> Result<Self, ShimError> {
        let listen =
            |kind| signal(kind).map_err(|source| ShimError::System { what: "listen for signals", source });
        Ok(Self { interrupt: listen(SignalKind::interrupt())?, terminate: listen(SignalKind::terminate())? })
    }

    async fn recv(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}

/// Whether the filesystem is full; `false` if unknown.
fn disk_is_full(path: &Path) -> bool {
    rustix::fs::statvfs(path).is_ok_and(|space| space.f_bavail == 0)
}
