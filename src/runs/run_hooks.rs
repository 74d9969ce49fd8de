//! The surroundings of the work in the operator: a view for the status, lanes, turns, and a keeper of states.

use std::{
    sync::{Arc, atomic::AtomicBool, atomic::Ordering},
    time::Instant,
};

use futures::future::BoxFuture;
use terraform_driver::{clock, events::Progress, plan::Summary, run::Phase, workspace::Workspace};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::{Inner, Seen, keep, keep::Keeper, lanes::Lane, view::plan_status};
use crate::{
    api::{self, RunPhase},
    blueprint::Key,
    work::{Guard, Host, Record, WorkError, bundle},
};

/// The host of one run.
pub(super) struct RunHost {
    pub(super) inner: Arc<Inner>,
    pub(super) lane: Lane,
    pub(super) keeper: Arc<dyn Keeper>,
    pub(super) seen: Arc<Seen>,
    pub(super) env: Vec<(String, String)>,
    pub(super) region: Option<String>,
    pub(super) withdrawn: CancellationToken,
    /// Whether what a destroy needs was kept in this run.
    pub(super) sealed: AtomicBool,
}

impl RunHost {
    fn waits(&self, key: &Key, on: Option<String>) {
        self.inner.change(key, true, |view| {
            if on.is_some() {
                view.phase = RunPhase::Pending;
            }
            view.waiting_for = on;
        });
    }

    /// EKS knows a cluster by name and region.
    fn cluster(&self, cluster: &str) -> String {
        format!("{}/{cluster}", self.region.as_deref().unwrap_or_default())
    }
}

impl Host for RunHost {
    fn hear(&self, key: &Key, phase: Phase, progress: &Progress) {
        let phase = match phase {
            Phase::Initialising => RunPhase::Initializing,
            Phase::Planning => RunPhase::Planning,
            Phase::Applying => RunPhase::Applying,
            Phase::Destroying => RunPhase::Destroying,
            Phase::Resuming | Phase::Settling => RunPhase::Pending,
        };
        let resumes = phase == RunPhase::Pending;
        let slowest = progress.slowest(clock::now());
        let small = |count: u64| i32::try_from(count).unwrap_or(i32::MAX);
        let done = api::Progress {
            done: small(progress.done()),
            total: small(progress.total()),
            slowest_seconds: slowest
                .as_ref()
                .map(|it| i64::try_from(it.elapsed.as_secs()).unwrap_or(i64::MAX)),
            slowest: slowest.map(|it| it.address),
        };
        self.inner.hear(key, phase, |view| {
            view.progress = (phase == RunPhase::Applying || phase == RunPhase::Destroying).then_some(done);
            view.waiting_for = resumes.then(|| "a run that an earlier process left".to_owned());
        });
    }

    fn note(&self, key: &Key, text: &str) {
        self.inner.change(key, true, |view| view.notes.push(text.to_owned()));
    }

    fn plain(&self, key: &Key, why: &str) {
        tracing::warn!(%key, why, "terraform runs without the gateway");
        self.inner.meter.plain();
        self.inner.change(key, true, |view| view.plain = Some(why.to_owned()));
    }

    fn place<'a>(&'a self, key: &'a Key) -> BoxFuture<'a, Guard> {
        Box::pin(async move {
            let begun = Instant::now();
            if self.inner.lanes.is_full(self.lane) {
                self.waits(key, Some("a free place".to_owned()));
            }
            let place = self.inner.lanes.place(self.lane).await;
            self.inner.meter.waited_for_place(self.lane, begun.elapsed());
            self.waits(key, None);
            Box::new(place) as Guard
        })
    }

    fn turn<'a>(&'a self, key: &'a Key, cluster: &'a str) -> BoxFuture<'a, Guard> {
        Box::pin(async move {
            let (begun, name) = (Instant::now(), self.cluster(cluster));
            let turn = match self.inner.turns.take_now(&name) {
                Some(turn) => turn,
                None => {
                    self.waits(key, Some(format!("its turn on the EKS cluster {cluster}")));
                    self.inner.turns.take(&name).await
                }
            };
            self.inner.meter.waited_for_turn(begun.elapsed());
            self.waits(key, None);
            Box::new(turn) as Guard
        })
    }

    /// Nobody is asked: the guard refused what needs a person. But who withdrew the run does not want it any more.
    fn confirm<'a>(&'a self, key: &'a Key, summary: &'a Summary) -> BoxFuture<'a, bool> {
        self.inner.change(key, true, |view| view.plan = Some(plan_status(summary)));
        Box::pin(std::future::ready(!self.withdrawn.is_cancelled()))
    }

    fn restore<'a>(&'a self, _: &'a Key, workspace: &'a Workspace) -> BoxFuture<'a, Result<(), WorkError>> {
        Box::pin(async move {
            if self.seen.is_restored() {
                return Ok(());
            }
            keep::restore(self.keeper.as_ref(), workspace).await?;
            self.seen.set_restored();
            Ok(())
        })
    }

    fn keep<'a>(
        &'a self,
        key: &'a Key,
        workspace: &'a Workspace,
        _: &'a Record,
    ) -> BoxFuture<'a, Result<(), WorkError>> {
        Box::pin(async move {
            let bundle = if self.sealed.swap(true, Ordering::Relaxed) {
                None
            } else {
                bundle::seal_env(workspace, &self.env)?;
                Some(bundle::pack(workspace)?)
            };
            let first = bundle.is_some();
            keep::keep_surely(self.keeper.as_ref(), workspace, &self.seen, bundle).await?;
            if first {
                self.follow(key, workspace);
            }
            Ok(())
        })
    }
}

impl RunHost {
    /// From here on every version of the state is kept, until the run is over.
    fn follow(&self, key: &Key, workspace: &Workspace) {
        let over = self.withdrawn_or_over();
        let (keeper, seen) = (Arc::clone(&self.keeper), Arc::clone(&self.seen));
        self.inner.tasks.spawn(keep::follow(key.clone(), keeper, workspace.clone(), seen, over));
    }

    fn withdrawn_or_over(&self) -> CancellationToken {
        let over = CancellationToken::new();
        self.seen.set_follower(over.clone().drop_guard());
        over
    }
}

/// Ends a follower when the next one begins or the run is over.
pub(super) type Follower = DropGuard;
