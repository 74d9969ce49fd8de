//! The small process that owns a terraform command.
//!
//! It starts the engine, copies every valid state, passes on exactly one interrupt, notices when the
//! engine hangs, and writes down how it ended. It knows nothing of plans or clusters: all it has is a
//! run directory, and its standard input, which is the run's lock.

pub(crate) mod dump;
mod stop;
mod watch;

use std::{io, os::unix::process::ExitStatusExt, path::Path, process::ExitStatus, time::Duration};

use stop::{Patience, Stopping};
use thiserror::Error;
use tokio::{
    process::Child,
    signal::unix::{Signal, SignalKind, signal},
    time::{Instant, MissedTickBehavior, interval},
};
use watch::StateWatch;

use crate::{
    clock, exec,
    exec::ProcessId,
    run::record::{Exit, Processes, RunDir, RunSpec, StopReason},
    workspace::files::{FileError, open_append},
};

/// What keeps a shim from doing its work.
#[derive(Debug, Error)]
pub enum ShimError {
    /// There is nothing to do.
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
        /// The system's answer.
        #[source]
        source: io::Error,
    },
    /// The operating system refused something.
    #[error("cannot {what}")]
    System {
        /// What was refused.
        what: &'static str,
        /// The system's answer.
        #[source]
        source: io::Error,
    },
    /// A file could not be read or written.
    #[error(transparent)]
    File(#[from] FileError),
}

/// Carries out the run prepared in `run_dir`, from start to end.
pub async fn main(run_dir: &Path) -> Result<(), ShimError> {
    let dir = RunDir::at(run_dir);
    let outcome = supervise(&dir).await;
    if let Err(error) = &outcome {
        // The caller learns of it from the directory: our standard error leads nowhere.
        dir.write_shim_error(&with_causes(error))?;
    }
    outcome
}

async fn supervise(dir: &RunDir) -> Result<(), ShimError> {
    leave_the_terminal();
    let signals = Signals::new()?;
    let spec = dir.spec()?.ok_or_else(|| ShimError::NoSpec { path: dir.path().display().to_string() })?;
    let states = StateWatch::new(&spec)?;
    // Who we are is known before there is anything to stop; a disk that has no room for that has none for a state.
    let shim = ProcessId::of(std::process::id());
    dir.write_processes(&Processes { shim, engine: None })?;
    let mut child = start(dir, &spec)?;
    let engine = child.id().and_then(ProcessId::of);
    let pid = engine.map(|id| id.pid).unwrap_or_default();

    let mut watch =
        Watch { dir, states, signals, stopping: Stopping::new(pid, spec.grace), trouble: Vec::new() };
    watch.carry_on(dir.write_processes(&Processes { shim, engine }));
    let ended = watch.until_the_end(&spec, &mut child).await?;

    // Whatever is left of the group has lost its terraform and would hold the run's lock for ever.
    watch.carry_on(exec::kill_group(pid));
    watch.copy_state();
    if !ended.success() {
        watch.carry_on(dump::take_in(dir, &spec));
    }
    dir.write_exit(&Exit {
        code: ended.code(),
        signal: ended.signal(),
        stop: watch.stopping.stop(),
        finished: clock::now(),
        trouble: watch.trouble,
    })?;
    Ok(())
}

/// A Ctrl-C on the caller's terminal goes to the caller; it decides what we are asked. Being a session
/// leader already is fine too.
fn leave_the_terminal() {
    let _already_a_leader = rustix::process::setsid();
}

fn start(dir: &RunDir, spec: &RunSpec) -> Result<Child, ShimError> {
    let stdout = open_append(&dir.events())?;
    let stderr = open_append(&dir.stderr())?;
    exec::engine(&spec.program, &spec.args, &spec.cwd, stdout, stderr)
        .map_err(|source| ShimError::Spawn { program: spec.program.display().to_string(), source })
}

/// What goes on around a running engine. Nothing in here may end the shim: an engine without its shim is
/// worse than a missing copy, so what fails is written down and life goes on.
struct Watch<'a> {
    dir: &'a RunDir,
    states: StateWatch,
    signals: Signals,
    stopping: Stopping,
    trouble: Vec<String>,
}

impl Watch<'_> {
    async fn until_the_end(&mut self, spec: &RunSpec, child: &mut Child) -> Result<ExitStatus, ShimError> {
        let mut patience = Patience::new(spec.silence, spec.deadline, Instant::now());
        let mut tick = interval(Duration::from_secs(1));
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                status = child.wait() => {
                    return status.map_err(|source| ShimError::System { what: "wait for the engine", source });
                }
                () = self.signals.next() => self.stop(StopReason::Requested),
                () = self.states.changed() => self.copy_state(),
                _ = tick.tick() => {
                    let said = self.dir.events().metadata().map_or(0, |data| data.len());
                    // On a full disk its words do not arrive, and that is not its silence.
                    let heard = !disk_is_full(self.dir.path());
                    if let Some(reason) = patience.spent(said, Instant::now()).filter(|_| heard) {
                        self.stop(reason);
                    }
                    let killed = self.stopping.kill_if_overdue();
                    self.carry_on(killed);
                }
            }
        }
    }

    fn stop(&mut self, reason: StopReason) {
        let begun = self.stopping.begin(reason);
        self.carry_on(begun);
    }

    fn copy_state(&mut self) {
        let copied = self.states.copy();
        self.carry_on(copied);
    }

    fn carry_on<E: std::error::Error>(&mut self, result: Result<(), E>) {
        if let Err(error) = result {
            let text = with_causes(&error);
            if self.trouble.last() != Some(&text) {
                self.trouble.push(text);
            }
        }
    }
}

/// The two ways to be asked to stop; both mean the same.
struct Signals {
    interrupt: Signal,
    terminate: Signal,
}

impl Signals {
    fn new() -> Result<Self, ShimError> {
        let listen =
            |kind| signal(kind).map_err(|source| ShimError::System { what: "listen for signals", source });
        Ok(Self { interrupt: listen(SignalKind::interrupt())?, terminate: listen(SignalKind::terminate())? })
    }

    async fn next(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}

/// Whether nothing more can be written here; a filesystem that does not say is taken to have room.
fn disk_is_full(path: &Path) -> bool {
    rustix::fs::statvfs(path).is_ok_and(|space| space.f_bavail == 0)
}

fn with_causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        text.push_str(": ");
        text.push_str(&inner.to_string());
        cause = inner.source();
    }
    text
}
