//! The state beside its directory: every valid version goes to a keeper, and comes back from there when the directory
//! is gone.

use std::{
    error::Error,
    sync::Arc,
    time::{Duration, Instant},
};

use futures::future::BoxFuture;
use terraform_driver::{
    state::{Offer, Version},
    workspace::Workspace,
};
use thiserror::Error;
use tokio_util::sync::CancellationToken;

use super::Seen;
use crate::{
    blueprint::Key,
    work::{WorkError, bundle},
};

/// How often a running apply is looked at for a new version of its state.
const LOOK: Duration = Duration::from_millis(200);

/// How often keeping is tried again at the end of a run, before the run counts as failed.
const ATTEMPTS: u32 = 5;

/// What is kept of a workspace.
#[derive(Clone, Default)]
pub struct Deposit {
    /// The state, as terraform wrote it.
    pub state: Option<Vec<u8>>,
    /// What a destroy needs beside it.
    pub bundle: Option<Vec<u8>>,
}

/// Why something could not be kept or found.
pub type KeepError = Box<dyn Error + Send + Sync>;

/// Keeps the state of one workspace outside of its directory.
pub trait Keeper: Send + Sync {
    /// Keeps what is newer than what it has.
    fn save(&self, deposit: Deposit) -> BoxFuture<'_, Result<(), KeepError>>;

    /// What it has.
    fn load(&self) -> BoxFuture<'_, Result<Option<Deposit>, KeepError>>;
}

/// A state of another history than the one that is kept.
#[derive(Debug, Error)]
#[error(
    "the kept state belongs to another history than the one in the directory; look at both with \
     `capt state pull`, and remove the wrong one"
)]
struct TwoHistories;

/// Brings back what the directory has lost, once for each process: whoever worked on it elsewhere meanwhile is ahead.
pub(super) async fn restore(keeper: &dyn Keeper, workspace: &Workspace) -> Result<(), WorkError> {
    let fail = |source: KeepError| WorkError::Keeping { doing: "find the kept state", source };
    let Some(deposit) = keeper.load().await.map_err(fail)? else { return Ok(()) };
    if let Some(bundle) = &deposit.bundle {
        bundle::unpack(workspace, bundle)?;
    }
    if let Some(state) = &deposit.state {
        match workspace.snapshots().offer(state)? {
            Offer::Kept(_) | Offer::Known => {}
            Offer::Torn | Offer::Foreign => return Err(fail(TwoHistories.into())),
        }
    }
    Ok(())
}

/// Keeps the newest version, if it is not kept yet.
pub(super) async fn keep(
    keeper: &dyn Keeper,
    workspace: &Workspace,
    seen: &Seen,
    bundle: Option<Vec<u8>>,
) -> Result<(), KeepError> {
    let newest = newest(workspace)?;
    let version = newest.as_ref().map(|(version, _)| version.serial);
    if bundle.is_none() && (version.is_none() || seen.kept() == version) {
        return Ok(());
    }
    keeper.save(Deposit { state: newest.map(|(_, bytes)| bytes), bundle }).await?;
    seen.set_kept(version);
    Ok(())
}

/// The furthest of the copies and the file.
fn newest(workspace: &Workspace) -> Result<Option<(Version, Vec<u8>)>, KeepError> {
    if let Some(bytes) = workspace.state_bytes()? {
        // A file that is being written does not parse; its copy does.
        workspace.snapshots().offer(&bytes)?;
    }
    match workspace.snapshots().newest()? {
        Some((version, path)) => Ok(Some((version, std::fs::read(path)?))),
        None => Ok(None),
    }
}

/// Tries a few times: an API server that is away for a moment must not fail a run that went well.
pub(super) async fn keep_surely(
    keeper: &dyn Keeper,
    workspace: &Workspace,
    seen: &Seen,
    bundle: Option<Vec<u8>>,
) -> Result<(), WorkError> {
    let mut pause = Duration::from_millis(250);
    for attempt in 1.. {
        match keep(keeper, workspace, seen, bundle.clone()).await {
            Ok(()) => return Ok(()),
            Err(source) if attempt >= ATTEMPTS => {
                return Err(WorkError::Keeping { doing: "keep the state", source });
            }
            Err(error) => tracing::warn!(%error, attempt, "the state could not be kept; trying again"),
        }
        tokio::time::sleep(pause).await;
        pause *= 2;
    }
    Ok(())
}

/// Keeps every version that appears, until `over`.
pub(super) async fn follow(
    key: Key,
    keeper: Arc<dyn Keeper>,
    workspace: Workspace,
    seen: Arc<Seen>,
    over: CancellationToken,
) {
    loop {
        tokio::select! {
            () = over.cancelled() => return,
            () = tokio::time::sleep(LOOK) => {}
        }
        let begun = Instant::now();
        match keep(keeper.as_ref(), &workspace, &seen, None).await {
            Ok(()) => {}
            // The next look tries again, and so does the end of the run.
            Err(error) => {
                tracing::warn!(%key, %error, took = ?begun.elapsed(), "a state could not be kept yet");
            }
        }
    }
}
