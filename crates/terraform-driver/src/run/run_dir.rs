//! The run directory of one terraform command. The shim writes it; callers read it, and find a run of a crashed caller there.

use std::{
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use jiff::Timestamp;
use lease_deadline::RunLease;
use serde::{Deserialize, Serialize};

use crate::{
    exec::ProcessId,
    workspace::files::{FileError, read_json, write_json},
};

/// Specification of a run. Contains no secrets: credentials are in the environment, variables in files.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct RunSpec {
    /// `init`, `plan`, `apply`, …; for display and recovery.
    pub command: String,
    /// The engine.
    pub program: PathBuf,
    /// Its arguments.
    pub args: Vec<String>,
    /// Working directory.
    pub cwd: PathBuf,
    /// Creation time.
    pub created: Timestamp,
    /// Grace period after SIGINT.
    pub grace: Duration,
    /// Maximum time without output. Only `apply` has a heartbeat.
    pub silence: Option<Duration>,
    /// Maximum duration.
    pub deadline: Option<Duration>,
    /// Directory of the state snapshots.
    pub snapshots: PathBuf,
    /// Bytes that are reserved for the state in case the disk is full.
    #[serde(default)]
    pub disk_reserve: u64,
    /// The leadership without which nothing may be changed; `None` without leader election, and for commands that change nothing.
    #[serde(default)]
    pub lease: Option<RunLease>,
    /// Bytes of output after which the run is stopped.
    #[serde(default)]
    pub max_log: Option<u64>,
}

/// Processes of a run.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct RunProcesses {
    /// The shim.
    pub shim: Option<ProcessId>,
    /// Terraform; its id is also the process group id.
    pub engine: Option<ProcessId>,
}

/// Why a run was stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum StopReason {
    /// Requested by the caller.
    Requested,
    /// No output for too long.
    Silent,
    /// Deadline exceeded.
    Overdue,
    /// The operator may not be the leader any more.
    LeaseLost,
    /// Too much output.
    LogTooLarge,
}

/// A stop of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunStop {
    /// Reason.
    pub reason: StopReason,
    /// Time of the SIGINT.
    pub at: Timestamp,
    /// Whether the grace period ended and the process group was killed.
    pub killed: bool,
}

/// Exit of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunExit {
    /// Exit code; absent if a signal ended the engine.
    pub code: Option<i32>,
    /// The signal.
    pub signal: Option<i32>,
    /// The stop that caused it.
    pub stop: Option<RunStop>,
    /// End time.
    pub finished: Timestamp,
    /// Non-fatal failures of the shim, such as a failed state snapshot.
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

    /// All runs below `runs`, oldest first: names start with the time.
    pub fn list(runs: &Path) -> Result<Vec<Self>, FileError> {
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

    /// Lock file that shim, engine and providers hold.
    pub fn lock_path(&self) -> PathBuf {
        self.path.join("lock")
    }

    /// Event stream of terraform.
    pub fn events_path(&self) -> PathBuf {
        self.path.join("events.ndjson")
    }

    /// Standard error of terraform.
    pub fn stderr_path(&self) -> PathBuf {
        self.path.join("stderr.log")
    }

    /// Saved plan of a `plan`.
    pub fn plan_path(&self) -> PathBuf {
        self.path.join("plan.tfplan")
    }

    /// Reads the specification.
    pub fn spec(&self) -> Result<Option<RunSpec>, FileError> {
        read_json(&self.path.join("run.json"))
    }

    /// Writes the specification.
    pub fn write_spec(&self, spec: &RunSpec) -> Result<(), FileError> {
        write_json(&self.path.join("run.json"), spec)
    }

    /// File with the processes.
    pub fn processes_path(&self) -> PathBuf {
        self.path.join("process.json")
    }

    /// Reads the processes.
    pub fn processes(&self) -> Result<Option<RunProcesses>, FileError> {
        read_json(&self.processes_path())
    }

    /// Writes the processes.
    pub fn write_processes(&self, processes: &RunProcesses) -> Result<(), FileError> {
        write_json(&self.processes_path(), processes)
    }

    /// Reads the exit; `None` while the run is alive, or if the shim was killed.
    pub fn exit(&self) -> Result<Option<RunExit>, FileError> {
        read_json(&self.path.join("exit.json"))
    }

    /// Writes the exit.
    pub fn write_exit(&self, exit: &RunExit) -> Result<(), FileError> {
        write_json(&self.path.join("exit.json"), exit)
    }

    /// Writes an error of the shim itself.
    pub fn write_shim_error(&self, text: &str) -> Result<(), FileError> {
        crate::workspace::files::write_atomic(&self.path.join("shim-error.txt"), text.as_bytes(), true)
    }

    /// Reads the error of the shim itself.
    pub fn shim_error(&self) -> Result<Option<String>, FileError> {
        let bytes = crate::workspace::files::read_optional(&self.path.join("shim-error.txt"))?;
        Ok(bytes.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()))
    }
}
