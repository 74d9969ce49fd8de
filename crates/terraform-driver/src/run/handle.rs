//! Handle to a run: starts a shim or finds a live one, follows its output, requests a stop, waits for the end.
//!
//! Everything is read from the run directory, so a run that a crashed caller started is followed like any other; only the
//! detection of its end differs.

use std::{
    collections::BTreeMap,
    fs::File,
    io::{self, Read},
    path::Path,
    time::Duration,
};

use thiserror::Error;
use tokio::{
    process::Child,
    time::{MissedTickBehavior, interval},
};
use tokio_util::sync::CancellationToken;

use super::run_dir::{RunDir, RunExit, RunSpec};
use crate::{
    exec::{self, ShimProgram},
    workspace::{
        FileLock, LockError, WorkspaceDir,
        files::{FileError, create_private_dir, open_append},
        is_lock_held,
    },
};

/// Poll interval of the run directory. Events are for display and seconds apart.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// Number of finished runs that are kept per workspace.
const MAX_FINISHED_RUNS: usize = 20;

/// Why a run cannot be started or followed.
#[derive(Debug, Error)]
pub enum RunError {
    /// The shim did not start.
    #[error("cannot start the process that supervises terraform ({program})")]
    Shim {
        /// The shim's executable.
        program: String,
        /// The operating system's error.
        #[source]
        source: io::Error,
    },
    /// The shim started and failed.
    #[error("{0}")]
    Supervision(String),
    /// Another process holds the run's lock.
    #[error(transparent)]
    Lock(#[from] LockError),
    /// A file could not be read or written.
    #[error(transparent)]
    File(#[from] FileError),
}

/// How a run ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RunCompletion {
    /// The shim recorded the exit.
    Exited(RunExit),
    /// Shim and engine are gone without a record: the machine crashed, or both were killed. The work of the engine is in the
    /// state and its snapshots.
    Lost,
}

/// A run in progress.
#[derive(Debug)]
pub struct RunHandle {
    dir: RunDir,
    child: Option<Child>,
}

impl RunHandle {
    /// Starts a run in a new directory below the workspace.
    pub fn start(
        workspace: &WorkspaceDir,
        spec: &RunSpec,
        dir: RunDir,
        env: &BTreeMap<String, String>,
        shim: &ShimProgram,
    ) -> Result<Self, RunError> {
        prune_old_runs(workspace)?;
        create_private_dir(dir.path())?;
        let lock = FileLock::acquire(&dir.lock_path(), "a running terraform")?;
        dir.write_spec(spec)?;
        open_append(&dir.events_path())?;
        let failed = |source| RunError::Shim { program: shim.program.display().to_string(), source };
        let shared = lock.try_clone_file().map_err(failed)?;
        let child = exec::spawn_shim(shim, dir.path(), env, shared).map_err(failed)?;
        Ok(Self { dir, child: Some(child) })
    }

    /// Directory of a run that starts now; its name sorts by time and contains the command.
    pub fn new_dir(workspace: &WorkspaceDir, spec: &RunSpec) -> RunDir {
        let time = spec.created.strftime("%Y%m%dT%H%M%S%3fZ");
        RunDir::at(workspace.runs_dir().join(format!("{time}-{}", spec.command)))
    }

    /// The run of a workspace that is still alive after its caller died.
    pub fn find_alive(workspace: &WorkspaceDir) -> Result<Option<Self>, FileError> {
        for dir in RunDir::list(&workspace.runs_dir())?.into_iter().rev() {
            kill_orphaned_providers(&dir)?;
            if is_lock_held(&dir.lock_path())? {
                return Ok(Some(Self { dir, child: None }));
            }
        }
        Ok(None)
    }

    /// The run directory.
    pub fn dir(&self) -> &RunDir {
        &self.dir
    }

    /// Follows the run to its end. `hear` receives the output of terraform in chunks of any size. When `stop` is cancelled, a stop
    /// is requested once, and the run is still followed to its end.
    pub async fn follow(
        mut self,
        stop: &CancellationToken,
        mut hear: impl FnMut(&[u8]),
    ) -> Result<RunCompletion, RunError> {
        let mut ear = FileTail::new(&self.dir.events_path())?;
        let mut look = interval(POLL_INTERVAL);
        look.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut asked = false;
        loop {
            tokio::select! {
                () = shim_exited(&mut self.child) => self.child = None,
                () = stop.cancelled(), if !asked => {
                    asked = self.request_stop()?;
                    // Retry while the shim has not recorded its process id yet.
                    tokio::time::sleep(POLL_INTERVAL).await;
                }
                _ = look.tick() => {}
            }
            // The exit of the shim is not sufficient: if it was killed, the engine still runs and holds the lock.
            let over = self.child.is_none() && has_ended(&self.dir)?;
            ear.read_new(&mut hear)?;
            if over {
                return self.outcome();
            }
        }
    }

    /// Asks the shim to stop the engine; returns whether its process id was known.
    fn request_stop(&self) -> Result<bool, RunError> {
        let Some(processes) = self.dir.processes()? else { return Ok(false) };
        let stop = match (processes.shim, processes.engine) {
            (Some(shim), _) if shim.is_alive() => shim.terminate(),
            // The shim was killed, so terraform gets its single SIGINT from here.
            (_, Some(engine)) if engine.is_alive() => exec::send_interrupt(engine.pid),
            _ => Ok(()),
        };
        stop.map_err(|source| FileError::new("stop", self.dir.path(), source))?;
        Ok(true)
    }

    fn outcome(&self) -> Result<RunCompletion, RunError> {
        if let Some(exit) = self.dir.exit()? {
            return Ok(RunCompletion::Exited(exit));
        }
        match self.dir.shim_error()? {
            Some(text) => Err(RunError::Supervision(text)),
            None => Ok(RunCompletion::Lost),
        }
    }
}

/// Resolves when a shim that this process started has exited; pending for a shim of another process.
async fn shim_exited(child: &mut Option<Child>) {
    match child {
        // The exit code is redundant: the directory has the details.
        Some(child) => drop(child.wait().await),
        None => std::future::pending().await,
    }
}

fn has_ended(dir: &RunDir) -> Result<bool, FileError> {
    kill_orphaned_providers(dir)?;
    Ok(!is_lock_held(&dir.lock_path())?)
}

/// Kills providers whose shim and terraform were both killed: they would wait for calls and hold the run's lock for ever.
fn kill_orphaned_providers(dir: &RunDir) -> Result<(), FileError> {
    let Some(processes) = dir.processes()? else { return Ok(()) };
    let alive = |id: Option<exec::ProcessId>| id.is_some_and(exec::ProcessId::is_alive);
    if let Some(engine) = processes.engine
        && !alive(processes.shim)
        && !engine.is_alive()
        && is_lock_held(&dir.lock_path())?
    {
        exec::kill_group(engine.pid).map_err(|source| FileError::new("end", dir.path(), source))?;
    }
    Ok(())
}

fn prune_old_runs(workspace: &WorkspaceDir) -> Result<(), FileError> {
    let runs = RunDir::list(&workspace.runs_dir())?;
    for dir in runs.iter().rev().skip(MAX_FINISHED_RUNS - 1) {
        std::fs::remove_dir_all(dir.path()).map_err(|source| FileError::new("remove", dir.path(), source))?;
    }
    Ok(())
}

/// Reads the new contents of a growing file.
struct FileTail {
    file: File,
    buffer: Vec<u8>,
}

impl FileTail {
    fn new(path: &Path) -> Result<Self, FileError> {
        let file = File::open(path).map_err(|source| FileError::new("read", path, source))?;
        Ok(Self { file, buffer: vec![0; 64 * 1024] })
    }

    fn read_new(&mut self, hear: &mut impl FnMut(&[u8])) -> Result<(), FileError> {
        loop {
            let heard = self
                .file
                .read(&mut self.buffer)
                .map_err(|source| FileError::new("read", Path::new("events.ndjson"), source))?;
            if heard == 0 {
                return Ok(());
            }
            hear(&self.buffer[..heard]);
        }
    }
}
