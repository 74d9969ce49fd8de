//! Progress of all workspaces of a command, for display.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use capt_model::workspaces::WorkspaceKey;
use jiff::Timestamp;
use terraform_driver::{clock, events::TerraformProgress, run::StepPhase};

/// Stage of one workspace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WorkspaceStage {
    /// Waiting for dependencies.
    Waiting {
        /// The unfinished dependencies.
        on: Vec<WorkspaceKey>,
    },
    /// Waiting for the lock of its EKS cluster, or for a free slot.
    Queued {
        /// The lock or the slot.
        on: String,
    },
    /// Running a terraform command.
    Running(StepPhase),
    /// Failed with a transient error and will be retried.
    Retrying {
        /// The error.
        reason: String,
    },
    /// Succeeded.
    Done {
        /// Summary of the outcome: `12 added`, `no changes`.
        what: String,
    },
    /// Failed.
    Failed {
        /// The error in one line.
        reason: String,
    },
}

impl WorkspaceStage {
    /// Whether the stage is final.
    pub const fn is_final(&self) -> bool {
        matches!(self, Self::Done { .. } | Self::Failed { .. })
    }
}

/// Progress of one workspace.
#[derive(Debug, Clone)]
pub struct ProgressLine {
    /// The workspace.
    pub key: WorkspaceKey,
    /// Its stage.
    pub stage: WorkspaceStage,
    /// Start of the stage.
    pub since: Timestamp,
    /// Completed operations.
    pub done: u64,
    /// Total number of operations.
    pub total: u64,
    /// The resource that is in progress for the longest time, and its duration.
    pub slowest: Option<(String, Duration)>,
}

/// Progress of all workspaces, in execution order. Clones share the same state.
#[derive(Clone, Default)]
pub struct ProgressBoard {
    state: Arc<Mutex<BoardState>>,
}

#[derive(Default)]
struct BoardState {
    notes: Vec<String>,
    order: Vec<WorkspaceKey>,
    by_key: BTreeMap<WorkspaceKey, ProgressLine>,
}

impl ProgressBoard {
    /// Creates a board with one line per workspace.
    pub fn new(keys: impl IntoIterator<Item = WorkspaceKey>) -> Self {
        let board = Self::default();
        for key in keys {
            board.set_stage(&key, WorkspaceStage::Waiting { on: Vec::new() });
        }
        board
    }

    /// Sets the stage of a workspace.
    pub fn set_stage(&self, key: &WorkspaceKey, stage: WorkspaceStage) {
        self.update_line(key, |line| {
            if line.stage != stage {
                line.stage = stage;
                line.since = clock::now();
                line.slowest = None;
                line.done = 0;
                line.total = 0;
            }
        });
    }

    /// Updates the progress of the running terraform command.
    pub fn update_progress(&self, key: &WorkspaceKey, phase: StepPhase, progress: &TerraformProgress) {
        self.set_stage(key, WorkspaceStage::Running(phase));
        let slowest = progress.slowest(clock::now());
        self.update_line(key, |line| {
            line.done = progress.done();
            line.total = progress.total();
            line.slowest = slowest.map(|activity| (activity.address, activity.elapsed));
        });
    }

    /// Adds a note that is printed at the end.
    pub fn add_note(&self, key: &WorkspaceKey, text: &str) {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).notes.push(format!("{key}: {text}"));
    }

    /// All notes.
    pub fn notes(&self) -> Vec<String> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).notes.clone()
    }

    /// Snapshot of all lines.
    pub fn lines(&self) -> Vec<ProgressLine> {
        let lines = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        lines.order.iter().filter_map(|key| lines.by_key.get(key).cloned()).collect()
    }

    fn update_line(&self, key: &WorkspaceKey, change: impl FnOnce(&mut ProgressLine)) {
        let mut lines = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if !lines.by_key.contains_key(key) {
            lines.order.push(key.clone());
        }
        let line = lines.by_key.entry(key.clone()).or_insert_with(|| ProgressLine {
            key: key.clone(),
            stage: WorkspaceStage::Waiting { on: Vec::new() },
            since: clock::now(),
            done: 0,
            total: 0,
            slowest: None,
        });
        change(line);
    }
}
