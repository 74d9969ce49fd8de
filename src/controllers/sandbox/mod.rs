//! `Sandbox`: forks of some services, and the Services that lead to them.
//!
//! Writes Sandboxes and what it makes for them, and never a baseline: a patch of the user's is sent to it as a dry run. What
//! means what is decided in the crate `sandbox`; here it is read, made, and told.

mod act;
mod build;
mod context;
mod decide;
mod elsewhere;
mod far;
mod index;
mod likeness;
mod locals;
mod look;
mod memory;
mod news;
mod outposts;
mod place;
mod refused;
mod rehearse;
mod remove;
mod rivals;
mod routes;
mod status;
mod watch;
mod work;

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use kube::{ResourceExt as _, runtime::controller::Action};
use sandbox::{
    api::{
        ForkStatus, Sandbox, SandboxStatus, TtlOffset,
        conditions::{reasons, types},
        names,
    },
    condition::Finding,
    readiness::Readiness,
    refusal::Refusal,
    ttl::{self, Due, Moments},
    validate::validate,
};

pub use self::watch::run;
use self::{
    context::Context,
    status::{Moment, Observed},
    work::Work,
};
use super::common::{
    drive, gate,
    step::{Step, Stopped},
};
use crate::k8s::{Written, events::News};

/// How often something is looked at that no watch tells of: budgets, policies.
const NET: Duration = Duration::from_mins(10);
/// How often something is tried that only others can allow.
const AGAIN: SignedDuration = SignedDuration::from_secs(60);
/// How often events are looked for while a fork is not ready.
const EVENTS: SignedDuration = SignedDuration::from_secs(15);
/// What we do when we tell.
const ACTION: &str = "Reconcile";

/// Looks after one Sandbox.
async fn reconcile(object: &Sandbox, ctx: &Context) -> Result<Action, Stopped> {
    if !gate::passes(&object.metadata, ctx.common.settings.watch_filter.as_deref()) {
        return Ok(Action::await_change());
    }
    if object.metadata.deletion_timestamp.is_some() {
        return remove::remove(object, ctx).await;
    }
    let (end, due) = life(object, (ctx.common.clock)());
    if due == Some(Due::Over) {
        return expire(object, ctx).await;
    }
    // hold (client required)
    let held = ctx.common.kube.add_finalizer(object, names::FINALIZER).await;
    let object = &held.map_err(Step::Hold.stopped())?;
    let now = (ctx.common.clock)();
    let at = Moment { generation: object.metadata.generation, now, end };
    // Before anything is read: what changes from here on is told.
    ctx.index.set(&place::spot(object), &object.name_any(), look::baselines_of(object));
    let (new, wake) = if object.spec.cluster_ref.is_some() {
        elsewhere::look_after(object, &key(object), at, ctx).await?
    } else {
        let (observed, wake) = Box::pin(look_after(object, at, ctx)).await?;
        (status::observed(object, observed, at), wake)
    };
    write(object, &new, ctx).await?;
    let is_expiring = matches!(due, Some(Due::In { expiring: true, .. }));
    let uid = object.uid().unwrap_or_default();
    if let Some(end) = end.filter(|it| is_expiring && ctx.memory.is_new_end(&uid, *it)) {
        let note = format!("it is deleted at {end}");
        ctx.common.events.tell(object, News::warning("Expire", "Expiring", note)).await;
    }
    Ok(Action::requeue(next(now, due, wake)))
}

/// When to look again if nothing happens.
fn next(now: Timestamp, due: Option<Due>, wake: Option<Timestamp>) -> Duration {
    let due = match due {
        Some(Due::In { after, .. }) => after,
        Some(Due::Over) => Duration::ZERO,
        None => NET,
    };
    let left = |then: Timestamp| Duration::try_from(then.duration_since(now)).unwrap_or_default();
    wake.map_or(NET, left).min(due).min(NET)
}

/// When a Sandbox is deleted, and what that means now.
fn life(object: &Sandbox, now: Timestamp) -> (Option<Timestamp>, Option<Due>) {
    let Some(wanted) = &object.spec.ttl else { return (None, None) };
    let created = object.metadata.creation_timestamp.as_ref().map_or(now, |it| it.0);
    let updated = status::spec_changed(object, now);
    let Some(end) = ttl::of_sandbox(wanted, Moments { created, updated, unmatched: None }) else {
        return (None, None);
    };
    let from = match wanted.offset_from {
        TtlOffset::CreatedAt => created,
        TtlOffset::UpdatedAt => updated,
    };
    (Some(end), Some(ttl::due(from, end, now)))
}

/// A Sandbox whose time is over. Whoever gave it more time meanwhile was faster: only what we saw is deleted.
async fn expire(object: &Sandbox, ctx: &Context) -> Result<Action, Stopped> {
    let kube = &ctx.common.kube;
    write(object, &status::expired(object), ctx).await?;
    let home = object.namespace();
    let fresh: Option<Sandbox> =
        kube.get(home.as_deref(), &object.name_any()).await.map_err(Step::Dereference.stopped())?;
    let now = (ctx.common.clock)();
    let is_over = |it: &Sandbox| it.uid() == object.uid() && life(it, now).1 == Some(Due::Over);
    let Some(fresh) = fresh.filter(is_over).filter(|it| it.metadata.deletion_timestamp.is_none()) else {
        return Ok(Action::await_change());
    };
    kube.delete_as_seen(&fresh).await.map_err(Step::Remove.stopped())?;
    let note = "its time is over; it and its forks are deleted";
    ctx.common.events.tell(&fresh, News::normal("Expire", "Expired", note)).await;
    Ok(Action::await_change())
}

/// What came of a look, and when to look again.
type Looked = Result<(Observed, Option<Timestamp>), Stopped>;

/// Looks after the forks and the local workloads of a Sandbox.
async fn look_after(object: &Sandbox, at: Moment, ctx: &Context) -> Looked {
    let key = key(object);
    // validate (no client required)
    let verdict = validate(object).and_then(|()| rivals::check(object, &key, &ctx.rivals(&key)));
    let mut observed = Observed { key: key.clone(), ..Observed::default() };
    if let Err(refusal) = verdict {
        return Ok((refuse(observed, &refusal), None));
    }
    // dereference (client required, read only)
    let place = place::of(object, ctx);
    let read = tokio::try_join!(
        look::around(object, &place),
        look::made(object, &place),
        look::locals(object, ctx),
    );
    let (around, made, locals) = read.map_err(Step::Dereference.stopped())?;
    let work = Work { object, key: &key, place: &place, around: &around, made: &made, locals: &locals, at };
    // build, decide (no client required), act (client required)
    let done = match Box::pin(work.make(ctx)).await? {
        Ok(done) => done,
        Err(refusal) => return stop(&work, observed, refusal).await,
    };
    // status (no client required, but to write it)
    let accepted = work.targets().unwrap_or_else(|| Finding::yes(types::ACCEPTED, reasons::ACCEPTED, ""));
    observed.findings = vec![accepted, work.baselines(), status::compute(&done.built)];
    let said = work.forks(&done.forks).await.map_err(Step::Dereference.stopped())?;
    if !done.is_held {
        observed.findings.push(status::forks_ready(&said));
    }
    let wake = sooner(done.wake, &said, at);
    let forks: Vec<ForkStatus> = said.into_iter().map(|(fork, _)| fork).collect();
    let routed = routes::said(object, &forks, ctx.board.picture().as_deref());
    observed.forks = Some(forks);
    let (connected, finding) = status::locals(object, &locals);
    observed.locals = connected;
    observed.virtuals = Some(work.virtuals());
    observed.findings.push(finding);
    observed.findings.push(routed.finding.clone());
    observed.routes = Some(routed);
    Ok((observed, wake))
}

/// When to look again. Why a pod finds no place is told by events, and no watch tells of these.
fn sooner(wake: Option<Timestamp>, said: &[(ForkStatus, Readiness)], at: Moment) -> Option<Timestamp> {
    let is_open = |(_, seen): &(ForkStatus, Readiness)| {
        seen.trouble.as_ref().is_some_and(|(reason, _)| *reason != reasons::PROGRESS_DEADLINE_EXCEEDED)
    };
    let look = said.iter().any(is_open).then(|| at.now.saturating_add(EVENTS).unwrap_or(at.now));
    wake.into_iter().chain(look).min()
}

/// A Sandbox that cannot have what it asks for. What was made before stays; but a fork that a Service takes for the baseline has no
/// pods until it is another one, or the Service is gone.
async fn stop(work: &Work<'_>, observed: Observed, refusal: Refusal) -> Looked {
    let stopped = work.stop_caught().await.map_err(Step::Act.stopped())?;
    let wake = later(&refusal, work.at);
    if stopped.is_empty() {
        return Ok((refuse(observed, &refusal), wake));
    }
    let names = stopped.iter().map(String::as_str).collect::<Vec<_>>().join(", ");
    let message = format!("{}; until then Deployment {names} has no pods", refusal.message);
    let before = work.object.status.clone().unwrap_or_default().forks;
    let forks = before.into_iter().map(|fork| match &fork.workload {
        Some(it) if stopped.contains(it) => {
            let message = "it has no pods: a Service would take them for the baseline's".to_owned();
            ForkStatus { replicas: 0, ready_replicas: 0, message, ..fork }
        }
        _ => fork,
    });
    let observed = Observed { forks: Some(forks.collect()), ..observed };
    Ok((refuse(observed, &Refusal { message, ..refusal }), wake))
}

/// The key of a Sandbox: the one that it says, or one of its own.
fn key(object: &Sandbox) -> String {
    let said = object.spec.routing_key.clone().filter(|it| !it.is_empty());
    said.unwrap_or_else(|| sandbox::digest::routing_key(&object.uid().unwrap_or_default()))
}

fn refuse(observed: Observed, refusal: &Refusal) -> Observed {
    Observed { findings: status::refused(refusal), ..observed }
}

/// When to look again after a refusal that goes away without a word to us: somebody makes room in a quota, or allows it.
fn later(refusal: &Refusal, at: Moment) -> Option<Timestamp> {
    (refusal.reason == reasons::FORBIDDEN).then(|| at.now.saturating_add(AGAIN).unwrap_or(at.now))
}

fn waiting(reason: &'static str, why: String) -> Vec<Finding> {
    vec![
        Finding::yes(types::ACCEPTED, reasons::ACCEPTED, ""),
        Finding::no(types::BASELINE_RESOLVED, reason, why),
    ]
}

/// Writes the status if it says something new, and tells what is worth telling.
async fn write(object: &Sandbox, new: &SandboxStatus, ctx: &Context) -> Result<(), Stopped> {
    let old = object.status.as_ref();
    let written = ctx.common.kube.write_status(object, old, new).await.map_err(Step::Status.stopped())?;
    let phase = new.phase.map(news::word);
    ctx.common.meter.sandbox(&drive::path(&object.metadata), phase);
    if written == Written::Changed {
        let before = old.cloned().unwrap_or_default();
        for one in news::news(&before, new) {
            ctx.common.events.tell(object, one).await;
        }
        tracing::debug!(namespace = object.namespace(), name = object.name_any(), phase, "status");
    }
    Ok(())
}
