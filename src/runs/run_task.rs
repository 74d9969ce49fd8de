//! One run from its start to its end.

use std::{
    sync::{Arc, atomic::AtomicBool},
    time::Instant,
};

use terraform_driver::{classify::Class, clock, run::Driver, workspace::Workspace};
use tokio_util::sync::CancellationToken;

use super::{
    Entry, Inner, Seen,
    host::RunHost,
    keep,
    order::{Order, What},
    view::{End, View},
};
use crate::{
    blueprint::Key,
    work::{Destruction, Doom, Outcome, Record, WorkError, Worker, bundle},
};

/// Starts it, unless one is under way.
pub(super) fn start(inner: &Arc<Inner>, order: Order) -> bool {
    let stop = CancellationToken::new();
    let Some(seen) = enter(inner, &order, &stop) else { return false };
    inner.tell(&order.key);
    let inner = Arc::clone(inner);
    let tasks = inner.tasks.clone();
    tasks.spawn(async move {
        let (key, begun, operation) = (order.key.clone(), Instant::now(), order.what.operation());
        // A bug in the work must not leave the workspace busy for ever.
        let work = tokio::spawn(carry_out(Arc::clone(&inner), order, seen, stop));
        let end = match work.await {
            Ok(end) => end,
            Err(broken) => End::of(Err(WorkError::Keeping {
                doing: "finish the run; this is a bug in capt",
                source: broken.into(),
            })),
        };
        inner.meter.ended(operation, end.result(), begun.elapsed());
        finish(&inner, &key, end);
    });
    true
}

/// Takes the workspace for this run.
fn enter(inner: &Inner, order: &Order, stop: &CancellationToken) -> Option<Arc<Seen>> {
    let mut runs = inner.lock();
    let before = runs.get(&order.key);
    if before.is_some_and(|entry| !entry.view.is_over()) {
        return None;
    }
    let seen = before.map(|entry| Arc::clone(&entry.seen)).unwrap_or_default();
    let now = clock::now();
    let id = now.strftime("%Y%m%dT%H%M%S%3fZ").to_string();
    let view = View::new(id, order.what.operation(), now, order.inputs_hash.clone());
    let mut entry = Entry {
        view,
        object: order.object.clone(),
        stop: stop.clone(),
        seen: Arc::clone(&seen),
        told: Instant::now(),
        timer: None,
    };
    entry.measure(inner.meter.as_ref());
    runs.insert(order.key.clone(), entry);
    Some(seen)
}

fn finish(inner: &Inner, key: &Key, end: End) {
    inner.change(key, true, |view| {
        view.phase = end.phase();
        view.finished = Some(clock::now());
        view.waiting_for = None;
        view.progress = None;
        view.end = Some(end);
    });
}

async fn carry_out(inner: Arc<Inner>, order: Order, seen: Arc<Seen>, stop: CancellationToken) -> End {
    let (env, region) = surroundings(&inner, &order);
    let host = RunHost {
        inner: Arc::clone(&inner),
        lane: order.lane,
        keeper: Arc::clone(&order.keeper),
        seen: Arc::clone(&seen),
        env,
        region,
        withdrawn: stop.clone(),
        sealed: AtomicBool::new(false),
    };
    let worker = Worker { site: &inner.site, host: &host, stop: &stop };
    let outcome = match &order.what {
        What::Bring { assignment, goal } => worker.bring(assignment, goal).await,
        What::Destroy { .. } => destroy(&worker, &host, &order).await,
    };
    seen.end_follower();
    let workspace = inner.site.workspace(&order.key);
    if let Err(WorkError::Failed(failure)) = &outcome
        && failure.class == Class::Provider
        && let Err(error) = Driver::forget_init(&workspace)
    {
        tracing::warn!(key = %order.key, %error, "the next init cannot be made a real one");
    }
    let kept = keep_all(&order, &workspace, &inner, &seen).await;
    End::of(outcome.and_then(|outcome| kept.map(|()| outcome)))
}

/// Whatever became of the run, its last state is kept.
async fn keep_all(order: &Order, workspace: &Workspace, inner: &Inner, seen: &Seen) -> Result<(), WorkError> {
    let Some(record) = Record::read(workspace)? else { return Ok(()) };
    let place = record.place(&inner.site.data, &order.key);
    keep::keep_surely(order.keeper.as_ref(), &place, seen, None).await
}

/// Destroys with nothing but what was sealed, wherever that was kept.
async fn destroy(worker: &Worker<'_>, host: &RunHost, order: &Order) -> Result<Outcome, WorkError> {
    let workspace = worker.site.workspace(&order.key);
    crate::work::Host::restore(host, &order.key, &workspace).await?;
    let Some(record) = Record::read(&workspace)? else {
        return match &order.what {
            What::Destroy { expected: true, .. } => Err(WorkError::StateLost),
            _ => Ok(Outcome::Destroyed { objects: 0 }),
        };
    };
    let env = bundle::sealed_env(&workspace)?;
    if let Some(name) = record.env.iter().find(|name| !env.iter().any(|(known, _)| known == *name)) {
        return Err(WorkError::NoEnvironment { name: name.clone() });
    }
    let principal = match &order.what {
        What::Destroy { principal, .. } => principal.as_ref(),
        What::Bring { .. } => None,
    };
    let how = Destruction { intent: &Doom::Asked, env: &env, principal };
    worker.destroy(&order.key, &record, &how).await
}

/// The environment to seal, and the region of the cluster's turn.
fn surroundings(inner: &Inner, order: &Order) -> (Vec<(String, String)>, Option<String>) {
    match &order.what {
        What::Bring { assignment, .. } => (assignment.resolved.env.clone(), assignment.region.clone()),
        What::Destroy { .. } => {
            let workspace = inner.site.workspace(&order.key);
            let record = Record::read(&workspace).ok().flatten();
            let env = bundle::sealed_env(&workspace).unwrap_or_default();
            (env, record.and_then(|record| record.region))
        }
    }
}
