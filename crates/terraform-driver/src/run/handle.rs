//! A run as its caller sees it: started or found again, listened to, stopped, waited for.
//!
//! Everything is read from the run's directory. Whether we started the shim ourselves or a caller that
//! died did, makes no difference but for how its end is noticed.

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

use super::record::{Exit, RunDir, RunSpec};
use crate::{
    exec::{self, ShimProgram},
    workspace::{
        FileLock, LockError, Workspace,
        files::{FileError, open_append, private_dir},
        is_held,
    },
};

/// How often a run's directory is looked at. The events are for people and take seconds to happen.
const LOOK: Duration = Duration::from_millis(50);

/// How many finished runs a workspace remembers.
const REMEMBER: usize = 20;

/// What keeps a run from being started or followed.
#[derive(Debug, Error)]
pub enum RunError {
    /// The shim did not start.
    #[error("cannot start the process that supervises terraform ({program})")]
    Shim {
        /// The shim's executable.
        program: String,
        /// The system's answer.
        #[source]
        source: io::Error,
    },
    /// The shim started and failed.
    #[error("{0}")]
    Supervision(String),
    /// Somebody else has the run.
    #[error(transparent)]
    Lock(#[from] LockError),
    /// A file could not be read or written.
    #[error(transparent)]
    File(#[from] FileError),
}

/// How a run ended, as far as anybody knows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ended {
    /// The shim wrote it down.
    Known(Exit),
    /// Shim and engine are gone and nobody wrote anything down: the machine went down, or somebody killed
    /// them. What the engine did is in the state and its copies.
    Lost,
}

/// A run under way.
#[derive(Debug)]
pub struct Run {
    dir: RunDir,
    child: Option<Child>,
}

impl Run {
    /// Starts a run in a new directory below the workspace.
    pub fn start(
        workspace: &Workspace,
        spec: &RunSpec,
        dir: RunDir,
        env: &BTreeMap<String, String>,
        shim: &ShimProgram,
    ) -> Result<Self, RunError> {
        forget_old_runs(workspace)?;
        private_dir(dir.path())?;
        let lock = FileLock::take(&dir.lock(), "a running terraform")?;
        dir.write_spec(spec)?;
        open_append(&dir.events())?;
        let failed = |source| RunError::Shim { program: shim.program.display().to_string(), source };
        let shared = lock.share().map_err(failed)?;
        let child = exec::shim(shim, dir.path(), env, shared).map_err(failed)?;
        Ok(Self { dir, child: Some(child) })
    }

    /// A directory for a run that starts now; its name sorts by time and tells what it was.
    pub fn new_dir(workspace: &Workspace, spec: &RunSpec) -> RunDir {
        let time = spec.created.strftime("%Y%m%dT%H%M%S%3fZ");
        RunDir::at(workspace.runs().join(format!("{time}-{}", spec.command)))
    }

    /// The run of this workspace that is still going on, if a caller died and left one.
    pub fn find_alive(workspace: &Workspace) -> Result<Option<Self>, FileError> {
        for dir in RunDir::all(&workspace.runs())?.into_iter().rev() {
            end_orphans(&dir)?;
            if is_held(&dir.lock())? {
                return Ok(Some(Self { dir, child: None }));
            }
        }
        Ok(None)
    }

    /// Its directory.
    pub fn dir(&self) -> &RunDir {
        &self.dir
    }

    /// Follows the run to its end. `hear` gets what terraform writes, in pieces of any size; when `stop`
    /// is cancelled, the run is asked to stop, once, and is still followed to its end.
    pub async fn follow(
        mut self,
        stop: &CancellationToken,
        mut hear: impl FnMut(&[u8]),
    ) -> Result<Ended, RunError> {
        let mut ear = Ear::new(&self.dir.events())?;
        let mut look = interval(LOOK);
        look.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut asked = false;
        loop {
            tokio::select! {
                () = shim_gone(&mut self.child) => self.child = None,
                () = stop.cancelled(), if !asked => {
                    asked = self.ask_to_stop()?;
                    // Too early means that the shim has not yet written down who it is.
                    tokio::time::sleep(LOOK).await;
                }
                _ = look.tick() => {}
            }
            // The shim's own end is not enough: if it was killed, the engine still works and holds the lock.
            let over = self.child.is_none() && is_over(&self.dir)?;
            ear.listen(&mut hear)?;
            if over {
                return self.outcome();
            }
        }
    }

    /// Asks the shim to stop the engine; whether there was a shim to ask.
    fn ask_to_stop(&self) -> Result<bool, RunError> {
        let Some(processes) = self.dir.processes()? else { return Ok(false) };
        let stop = match (processes.shim, processes.engine) {
            (Some(shim), _) if shim.is_alive() => shim.terminate(),
            // The shim was killed; then terraform gets its one signal from us.
            (_, Some(engine)) if engine.is_alive() => exec::interrupt(engine.pid),
            _ => Ok(()),
        };
        stop.map_err(|source| FileError::new("stop", self.dir.path(), source))?;
        Ok(true)
    }

    fn outcome(&self) -> Result<Ended, RunError> {
        if let Some(exit) = self.dir.exit()? {
            return Ok(Ended::Known(exit));
        }
        match self.dir.shim_error()? {
            Some(text) => Err(RunError::Supervision(text)),
            None => Ok(Ended::Lost),
        }
    }
}

/// Resolves when the shim that we started has ended; never, if somebody else started it.
async fn shim_gone(child: &mut Option<Child>) {
    match child {
        // Its exit code says nothing that the directory does not say better.
        Some(child) => drop(child.wait().await),
        None => std::future::pending().await,
    }
}

fn is_over(dir: &RunDir) -> Result<bool, FileError> {
    end_orphans(dir)?;
    Ok(!is_held(&dir.lock())?)
}

/// A provider whose shim and terraform were both killed waits for calls that never come, and would hold the
/// run's lock for ever. Nobody is left to hear its answers, so it goes.
fn end_orphans(dir: &RunDir) -> Result<(), FileError> {
    let Some(processes) = dir.processes()? else { return Ok(()) };
    let alive = |id: Option<exec::ProcessId>| id.is_some_and(exec::ProcessId::is_alive);
    if let Some(engine) = processes.engine
        && !alive(processes.shim)
        && !engine.is_alive()
        && is_held(&dir.lock())?
    {
        exec::kill_group(engine.pid).map_err(|source| FileError::new("end", dir.path(), source))?;
    }
    Ok(())
}

fn forget_old_runs(workspace: &Workspace) -> Result<(), FileError> {
    let runs = RunDir::all(&workspace.runs())?;
    for dir in runs.iter().rev().skip(REMEMBER - 1) {
        std::fs::remove_dir_all(dir.path()).map_err(|source| FileError::new("remove", dir.path(), source))?;
    }
    Ok(())
}

/// Reads what is new in a file that grows.
struct Ear {
    file: File,
    buffer: Vec<u8>,
}

impl Ear {
    fn new(path: &Path) -> Result<Self, FileError> {
        let file = File::open(path).map_err(|source| FileError::new("read", path, source))?;
        Ok(Self { file, buffer: vec![0; 64 * 1024] })
    }

    fn listen(&mut self, hear: &mut impl FnMut(&[u8])) -> Result<(), FileError> {
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
