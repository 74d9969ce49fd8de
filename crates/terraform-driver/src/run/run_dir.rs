//! What is on disk of one terraform command. The shim writes it, everybody else reads it: a caller that
//! died finds the run again here.

use std::{
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::{
    exec::ProcessId,
    workspace::files::{FileError, read_json, write_json},
};

/// What was asked for. No secret is in it: credentials are in the environment, variables in their files.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct RunSpec {
    /// `init`, `plan`, `apply`, …; for people and for recovery.
    pub command: String,
    /// The engine.
    pub program: PathBuf,
    /// Its arguments.
    pub args: Vec<String>,
    /// Where it runs.
    pub cwd: PathBuf,
    /// When it was asked for.
    pub created: Timestamp,
    /// How long it may take to stop after the one SIGINT.
    pub grace: Duration,
    /// Hung, if it says nothing for so long. Terraform has a heartbeat in `apply` only.
    pub silence: Option<Duration>,
    /// Hung, if it is not done by then.
    pub deadline: Option<Duration>,
    /// Where copies of the state go.
    pub snapshots: PathBuf,
}

/// Who carries the run.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct Processes {
    /// The shim.
    pub shim: Option<ProcessId>,
    /// Terraform; its id is also the id of the process group.
    pub engine: Option<ProcessId>,
}

/// Why a run was asked to stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum StopReason {
    /// Somebody asked.
    Requested,
    /// No word from it for too long.
    Silent,
    /// It passed its deadline.
    Overdue,
}

/// The stop, if there was one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stop {
    /// Why.
    pub reason: StopReason,
    /// When the SIGINT was sent.
    pub at: Timestamp,
    /// Whether patience ended and the group was killed.
    pub killed: bool,
}

/// How it ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Exit {
    /// The exit code, absent if a signal ended it.
    pub code: Option<i32>,
    /// The signal.
    pub signal: Option<i32>,
    /// The stop that led to it.
    pub stop: Option<Stop>,
    /// When.
    pub finished: Timestamp,
    /// What failed beside it and did not matter enough to stop: a copy of the state, for one.
    #[serde(default)]
    pub trouble: Vec<String>,
}

/// The directory of one run.
#[derive(Debug, Clone)]
pub struct RunDir {
    path: PathBuf,
}

impl RunDir {
    /// The run at `path`.
    pub fn at(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into() }
    }

    /// Every run below `runs`, oldest first: names begin with the time.
    pub fn all(runs: &Path) -> Result<Vec<Self>, FileError> {
        if !runs.exists() {
            return Ok(Vec::new());
        }
        let fail = |source| FileError::new("list", runs, source);
        let mut paths = Vec::new();
        for entry in fs::read_dir(runs).map_err(fail)? {
            paths.push(entry.map_err(fail)?.path());
        }
        paths.sort();
        Ok(paths.into_iter().map(Self::at).collect())
    }

    /// The directory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The lock that shim, engine and providers hold.
    pub fn lock(&self) -> PathBuf {
        self.path.join("lock")
    }

    /// What terraform says, line by line.
    pub fn events(&self) -> PathBuf {
        self.path.join("events.ndjson")
    }

    /// What it says beside that.
    pub fn stderr(&self) -> PathBuf {
        self.path.join("stderr.log")
    }

    /// The saved plan of a `plan`.
    pub fn plan(&self) -> PathBuf {
        self.path.join("plan.tfplan")
    }

    /// What was asked.
    pub fn spec(&self) -> Result<Option<RunSpec>, FileError> {
        read_json(&self.path.join("run.json"))
    }

    /// Records what is asked.
    pub fn write_spec(&self, spec: &RunSpec) -> Result<(), FileError> {
        write_json(&self.path.join("run.json"), spec)
    }

    /// Who carries it.
    pub fn processes(&self) -> Result<Option<Processes>, FileError> {
        read_json(&self.path.join("process.json"))
    }

    /// Records who carries it.
    pub fn write_processes(&self, processes: &Processes) -> Result<(), FileError> {
        write_json(&self.path.join("process.json"), processes)
    }

    /// How it ended; `None` while it runs, or if the shim was killed.
    pub fn exit(&self) -> Result<Option<Exit>, FileError> {
        read_json(&self.path.join("exit.json"))
    }

    /// Records how it ended.
    pub fn write_exit(&self, exit: &Exit) -> Result<(), FileError> {
        write_json(&self.path.join("exit.json"), exit)
    }

    /// Records that the shim itself failed, in words.
    pub fn write_shim_error(&self, text: &str) -> Result<(), FileError> {
        crate::workspace::files::write_atomic(&self.path.join("shim-error.txt"), text.as_bytes(), true)
    }

    /// What the shim itself failed at.
    pub fn shim_error(&self) -> Result<Option<String>, FileError> {
        let bytes = crate::workspace::files::read_optional(&self.path.join("shim-error.txt"))?;
        Ok(bytes.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()))
    }
}
