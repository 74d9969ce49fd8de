//! What plan, apply and destroy have in common: set up, run everything, show it, be stoppable.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use futures::future::BoxFuture;
use indicatif::{MultiProgress, ProgressDrawTarget};
use terraform_driver::{output::Outputs, plan::Summary};
use tokio::{
    signal::unix::{SignalKind, signal},
    sync::{Mutex, Semaphore},
};
use tokio_util::sync::CancellationToken;

use super::{
    Format,
    output::{self, ExitStatus},
    progress, report,
    setup::{Ready, Setup},
};
use crate::{
    blueprint::{Blueprint, Key, Known},
    manifest::ValidatedManifests,
    oneshot::{Board, Confirm, Finished, Graph, Runner, Task, Worker},
    work::{Record, all, holding},
};

/// A piece of work.
pub(super) struct Work<'a> {
    pub(super) ready: &'a Ready,
    pub(super) manifests: &'a ValidatedManifests,
    pub(super) blueprints: &'a [Blueprint],
    pub(super) tasks: BTreeMap<Key, Task>,
    pub(super) graph: Graph,
    pub(super) asks: bool,
    pub(super) format: Format,
}

/// How it ended.
pub(super) enum End {
    /// Everything was tried.
    Finished(BTreeMap<Key, Finished>),
    /// The person left; terraform goes on in the background.
    Detached,
}

impl Work<'_> {
    /// Does it, and prints what became of it.
    pub(super) async fn run(self, setup: &Setup) -> anyhow::Result<ExitStatus> {
        let order = self.graph.order();
        let bars = (self.format == Format::Text && output::is_watched()).then(MultiProgress::new);
        let board = Board::new(order.iter().cloned());
        let confirm: Box<dyn Confirm> = if self.asks {
            Box::new(Ask { bars: bars.clone(), one_at_a_time: Mutex::default() })
        } else {
            Box::new(Yes)
        };
        let stop = CancellationToken::new();
        let worker = Worker {
            site: &self.ready.site,
            manifests: self.manifests,
            secrets: secrets(self.blueprints),
            known: Mutex::new(known(&self.ready.site.data)?),
            board: board.clone(),
            stop: stop.clone(),
            place: self.ready.place.clone(),
            permits: Arc::new(Semaphore::new(setup.parallel.max(1))),
            clusters: Mutex::default(),
            confirm,
        };
        let runner = Runner { worker: &worker, graph: self.graph.clone(), tasks: self.tasks };
        let end = tokio::select! {
            finished = runner.run() => End::Finished(finished),
            () = progress::show(&board, bars.as_ref()) => End::Detached,
            left = leave(&stop, bars.as_ref()) => { left?; End::Detached }
        };
        if let Some(bars) = &bars {
            bars.clear()?;
        }
        for note in board.notes() {
            output::warn(&note);
        }
        match end {
            End::Finished(finished) => report::report(&finished, &order, &self.ready.site.data, self.format),
            End::Detached => {
                output::say("terraform goes on in the background; the same command follows it again");
                Ok(ExitStatus::Interrupted)
            }
        }
    }
}

/// The first signal asks terraform to stop, the second leaves it to itself.
async fn leave(stop: &CancellationToken, bars: Option<&MultiProgress>) -> std::io::Result<()> {
    let (mut interrupt, mut terminate) = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
    tokio::select! { _ = interrupt.recv() => {}, _ = terminate.recv() => {} }
    let tell = || {
        output::say(
            "stopping: terraform finishes what cannot be broken off (press Ctrl-C again to leave it to itself)",
        );
    };
    match bars {
        Some(bars) => bars.suspend(tell),
        None => tell(),
    }
    stop.cancel();
    tokio::select! { _ = interrupt.recv() => {}, _ = terminate.recv() => {} }
    Ok(())
}

/// The outputs of everything that was applied before.
pub(super) fn known(data: &std::path::Path) -> anyhow::Result<Known> {
    let mut known = Known::default();
    for (key, record) in all(data)? {
        let place = record.place(data, &key);
        // One that cannot be read is brought back before it is planned, and read again then.
        let outputs = place.state_bytes()?.and_then(|bytes| Outputs::from_state(&bytes).ok());
        // What was destroyed has a state and no outputs: it is not there.
        if let Some(outputs) = outputs.filter(|outputs| !outputs.is_empty()) {
            known.outputs.insert(key, outputs);
        }
    }
    Ok(known)
}

/// Which workspace makes which Secret.
pub(super) fn secrets(blueprints: &[Blueprint]) -> BTreeMap<String, Key> {
    blueprints
        .iter()
        .filter_map(|it| Some((it.connection_secret.as_ref()?.to_string(), it.key.clone())))
        .collect()
}

/// Workspaces of the same objects that the files do not ask for any more.
pub(super) fn dropped(ready: &Ready, blueprints: &[Blueprint]) -> anyhow::Result<Vec<(Key, Record)>> {
    let asked: BTreeSet<&Key> = blueprints.iter().map(|blueprint| &blueprint.key).collect();
    let owners: BTreeSet<&str> = blueprints.iter().map(|blueprint| blueprint.owner.as_str()).collect();
    let mut all = holding(&ready.site.data)?;
    all.retain(|(key, record)| !asked.contains(key) && owners.contains(record.owner.as_str()));
    Ok(all)
}

struct Yes;

impl Confirm for Yes {
    fn confirm<'a>(&'a self, _: &'a Key, _: &'a Summary) -> BoxFuture<'a, bool> {
        Box::pin(std::future::ready(true))
    }
}

struct Ask {
    bars: Option<MultiProgress>,
    one_at_a_time: Mutex<()>,
}

impl Confirm for Ask {
    fn confirm<'a>(&'a self, key: &'a Key, summary: &'a Summary) -> BoxFuture<'a, bool> {
        Box::pin(async move {
            let mut text = format!("{key}: {}\n", summary.counts);
            if report::plan(summary, &mut text).is_err() {
                return false;
            }
            // Two questions at once would get one answer.
            let _alone = self.one_at_a_time.lock().await;
            if let Some(bars) = &self.bars {
                bars.set_draw_target(ProgressDrawTarget::hidden());
            }
            let yes = ask(&format!("{text}Do this to {key}?")).await;
            if let Some(bars) = &self.bars {
                bars.set_draw_target(ProgressDrawTarget::stderr());
            }
            yes
        })
    }
}

/// Asks at the terminal; anything but `yes` is a no. The answer is awaited on a thread of its own, so that
/// Ctrl-C is heard meanwhile.
pub(super) async fn ask(question: &str) -> bool {
    output::say(&format!("{question} Only `yes` is taken for one:"));
    let answer = tokio::task::spawn_blocking(|| {
        let mut answer = String::new();
        std::io::stdin().read_line(&mut answer).map(|_| answer)
    });
    matches!(answer.await, Ok(Ok(answer)) if answer.trim() == "yes")
}
