//! What everybody is doing, for whoever watches.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use jiff::Timestamp;
use terraform_driver::{clock, events::Progress, run::Phase};

use crate::blueprint::Key;

/// Where one workspace is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Stage {
    /// For other workspaces.
    Waiting {
        /// For which.
        on: Vec<Key>,
    },
    /// For its turn on the EKS cluster, or for a free place.
    Queued {
        /// For what.
        on: String,
    },
    /// In one of terraform's phases.
    Running(Phase),
    /// A passing trouble; it will try again.
    Retrying {
        /// What it was.
        reason: String,
    },
    /// It is as it should be.
    Done {
        /// What was done to get there: `12 added`, `no changes`.
        what: String,
    },
    /// It is not.
    Failed {
        /// In one line.
        reason: String,
    },
}

impl Stage {
    /// Whether nothing more will happen.
    pub const fn is_final(&self) -> bool {
        matches!(self, Self::Done { .. } | Self::Failed { .. })
    }
}

/// One workspace's line.
#[derive(Debug, Clone)]
pub struct Line {
    /// Whose.
    pub key: Key,
    /// Where it is.
    pub stage: Stage,
    /// Since when.
    pub since: Timestamp,
    /// Operations that are done.
    pub done: u64,
    /// Operations in all.
    pub total: u64,
    /// What takes the longest, and for how long already.
    pub slowest: Option<(String, Duration)>,
}

/// All lines, in the order in which the work is done.
#[derive(Clone, Default)]
pub struct Board {
    lines: Arc<Mutex<Lines>>,
}

#[derive(Default)]
struct Lines {
    notes: Vec<String>,
    order: Vec<Key>,
    by_key: BTreeMap<Key, Line>,
}

impl Board {
    /// A board with a line for each.
    pub fn new(keys: impl IntoIterator<Item = Key>) -> Self {
        let board = Self::default();
        for key in keys {
            board.set(&key, Stage::Waiting { on: Vec::new() });
        }
        board
    }

    /// Moves a workspace to another stage.
    pub fn set(&self, key: &Key, stage: Stage) {
        self.change(key, |line| {
            if line.stage != stage {
                line.stage = stage;
                line.since = clock::now();
                line.slowest = None;
                line.done = 0;
                line.total = 0;
            }
        });
    }

    /// Takes in how far terraform is.
    pub fn hear(&self, key: &Key, phase: Phase, progress: &Progress) {
        self.set(key, Stage::Running(phase));
        let slowest = progress.slowest(clock::now());
        self.change(key, |line| {
            line.done = progress.done();
            line.total = progress.total();
            line.slowest = slowest.map(|activity| (activity.address, activity.elapsed));
        });
    }

    /// Keeps something that a person should know in the end.
    pub fn note(&self, key: &Key, text: &str) {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner).notes.push(format!("{key}: {text}"));
    }

    /// What a person should know.
    pub fn notes(&self) -> Vec<String> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner).notes.clone()
    }

    /// A copy of every line.
    pub fn lines(&self) -> Vec<Line> {
        let lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        lines.order.iter().filter_map(|key| lines.by_key.get(key).cloned()).collect()
    }

    fn change(&self, key: &Key, change: impl FnOnce(&mut Line)) {
        let mut lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        if !lines.by_key.contains_key(key) {
            lines.order.push(key.clone());
        }
        let line = lines.by_key.entry(key.clone()).or_insert_with(|| Line {
            key: key.clone(),
            stage: Stage::Waiting { on: Vec::new() },
            since: clock::now(),
            done: 0,
            total: 0,
            slowest: None,
        });
        change(line);
    }
}
