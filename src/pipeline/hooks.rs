//! What differs between the places that work on workspaces: who waits for whom, who watches, who is asked.

use futures::future::BoxFuture;
use terraform_driver::{events::Progress, plan::Summary, run::Phase, workspace::Workspace};

use super::{error::WorkError, record::Record};
use crate::blueprint::Key;

/// Holds a place or a turn until it is dropped.
pub type Guard = Box<dyn Send>;

/// The surroundings of the work.
pub trait Host: Send + Sync {
    /// Hears how far terraform is.
    fn hear(&self, key: &Key, phase: Phase, progress: &Progress);

    /// Keeps something that a person should know.
    fn note(&self, key: &Key, text: &str);

    /// A command runs without the gateway. Nobody may find that out by its slowness.
    fn plain(&self, key: &Key, why: &str) {
        self.note(key, why);
    }

    /// Waits for a place among those that run at once.
    fn place<'a>(&'a self, key: &'a Key) -> BoxFuture<'a, Guard>;

    /// Waits for the turn on an EKS cluster, which allows one change at a time.
    fn turn<'a>(&'a self, key: &'a Key, cluster: &'a str) -> BoxFuture<'a, Guard>;

    /// Shows a plan before it is applied; whether it may be.
    fn confirm<'a>(&'a self, key: &'a Key, summary: &'a Summary) -> BoxFuture<'a, bool>;

    /// Brings back from elsewhere what the directory has lost. Called before anything is looked at.
    fn restore<'a>(&'a self, key: &'a Key, workspace: &'a Workspace) -> BoxFuture<'a, Result<(), WorkError>>;

    /// Keeps elsewhere what a destroy will need. Called before anything is made, and again when it was.
    fn keep<'a>(
        &'a self,
        key: &'a Key,
        workspace: &'a Workspace,
        record: &'a Record,
    ) -> BoxFuture<'a, Result<(), WorkError>>;
}
