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
mod place;
mod rehearse;
mod remove;
mod rivals;
mod routes;
mod status;
mod watch;

use std::{collections::BTreeSet, time::Duration};

use jiff::Timestamp;
use kube::{ResourceExt as _, core::DynamicObject, runtime::controller::Action};
use sandbox::{
    api::{
        ForkStatus, Sandbox, SandboxStatus, TtlOffset, VirtualSpec, VirtualStatus,
        conditions::{reasons, types},
        names,
    },
    condition::Finding,
    fargate::Compute,
    refusal::Refusal,
    service::baseline_services,
    ttl::{self, Due, Moments},
    validate::validate,
};

pub use self::watch::run;
use self::{
    build::{Built, Shared, Source},
    context::Context,
    look::{Around, Made},
    place::Place,
    status::{Moment, Observed},
};
use super::common::{
    drive, gate,
    step::{Step, Stopped},
};
use crate::k8s::{K8sError, Written, events::News};

/// How often something is looked at that no watch tells of: budgets, policies.
const NET: Duration = Duration::from_mins(10);
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
        (elsewhere::look_after(object, &key(object), at, ctx).await?, None)
    } else {
        let (observed, wake) = Box::pin(look_after(object, at, ctx)).await?;
        (status::observed(object, observed, at), wake)
    };
    write(object, &new, ctx).await?;
    if matches!(due, Some(Due::In { expiring: true, .. })) {
        let note = format!("it is deleted at {}", end.unwrap_or(now));
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
    let verdict = validate(object).and_then(|()| rivals::check(object, &key, &ctx.with_key(&key)));
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
    let sources = match work.sources(ctx).await.map_err(Step::Dereference.stopped())? {
        Ok(sources) => sources,
        Err(refusal) => return Ok((refuse(observed, &refusal), None)),
    };
    // build, decide (no client required), act (client required)
    let done = match Box::pin(work.carry_out(&sources, ctx)).await? {
        Ok(done) => done,
        Err(refusal) => return Ok((refuse(observed, &refusal), None)),
    };
    // status (no client required, but to write it)
    let accepted = work.targets().unwrap_or_else(|| Finding::yes(types::ACCEPTED, reasons::ACCEPTED, ""));
    observed.findings = vec![accepted, work.baselines(), status::compute(&done.built)];
    let said = work.forks(&done.forks).await.map_err(Step::Dereference.stopped())?;
    if !done.is_held {
        observed.findings.push(status::forks_ready(&said));
    }
    let forks: Vec<ForkStatus> = said.into_iter().map(|(fork, _)| fork).collect();
    let routed = routes::said(object, &forks, ctx.board.picture().as_deref());
    observed.forks = Some(forks);
    let (connected, finding) = status::locals(object, &locals);
    observed.locals = connected;
    observed.virtuals = Some(work.virtuals());
    observed.findings.push(finding);
    observed.findings.push(routed.finding.clone());
    observed.routes = Some(routed);
    Ok((observed, done.wake))
}

/// The key of a Sandbox: the one that it says, or one of its own.
fn key(object: &Sandbox) -> String {
    let said = object.spec.routing_key.clone().filter(|it| !it.is_empty());
    said.unwrap_or_else(|| sandbox::digest::routing_key(&object.uid().unwrap_or_default()))
}

fn refuse(observed: Observed, refusal: &Refusal) -> Observed {
    Observed { findings: status::refused(refusal), ..observed }
}

fn waiting(reason: &'static str, why: String) -> Vec<Finding> {
    vec![
        Finding::yes(types::ACCEPTED, reasons::ACCEPTED, ""),
        Finding::no(types::BASELINE_RESOLVED, reason, why),
    ]
}

/// Everything that was read for one look.
struct Work<'a> {
    object: &'a Sandbox,
    key: &'a str,
    place: &'a Place,
    around: &'a Around,
    made: &'a Made,
    locals: &'a [DynamicObject],
    at: Moment,
}

/// What came of the forks.
struct Done {
    built: Vec<Built>,
    forks: Vec<status::Fork>,
    wake: Option<Timestamp>,
    /// Nothing was made, because there is no place for it or a baseline is missing.
    is_held: bool,
}

impl Work<'_> {
    /// The baselines of the forks that exist, with the patches of the forks.
    async fn sources(&self, ctx: &Context) -> Result<Result<Vec<Source<'_>>, Refusal>, K8sError> {
        let mut sources = Vec::new();
        for fork in &self.object.spec.forks {
            let Some(baseline) = self.around.baselines.get(&fork.fork_of.name) else { continue };
            let patched = rehearse::patched(self.object, fork, baseline, (self.place, ctx)).await?;
            let patched = match patched {
                Ok(patched) => patched,
                Err(refusal) => return Ok(Err(refusal)),
            };
            let value = |it: &DynamicObject| serde_json::to_value(it).unwrap_or_default();
            sources.push(Source { fork, baseline: value(baseline), patched: value(&patched) });
        }
        Ok(Ok(sources))
    }

    /// Makes forks, Services and local workloads.
    async fn carry_out(
        &self,
        sources: &[Source<'_>],
        ctx: &Context,
    ) -> Result<Result<Done, Refusal>, Stopped> {
        let profiles = self.place.profiles.as_deref().unwrap_or_default();
        let around = self.around.view();
        let shared = Shared {
            sandbox: self.object,
            key: self.key,
            around: &around,
            compute: Compute { profiles, nodes: self.around.has_nodes },
        };
        let built = match build::build(sources, &shared) {
            Ok(built) => built,
            Err(refusal) => return Ok(Err(refusal)),
        };
        let is_nowhere = built.iter().any(|it| matches!(it.place, sandbox::fargate::Place::Nowhere(_)));
        if is_nowhere || !self.missing(false).is_empty() {
            return Ok(Ok(Done { built, forks: self.kept(), wake: None, is_held: true }));
        }
        let plan = decide::plan(self, sources, &built, ctx);
        let wanted_locals = match locals::wanted(self.object) {
            Ok(wanted) => wanted,
            Err(refusal) => return Ok(Err(refusal)),
        };
        let wanted = act::Wanted {
            forks: plan.forks.iter().map(|it| (it.name.clone(), it.live.clone())).collect(),
            services: plan.services,
            locals: wanted_locals,
        };
        let live = act::Live { made: self.made, locals: self.locals };
        let acted = act::carry_out(self.object, wanted, live, (self.place, ctx)).await;
        let now = match acted.map_err(Step::Act.stopped())? {
            Ok(now) => now,
            Err(refusal) => return Ok(Err(refusal)),
        };
        news::tell_of_forks(self.object, &built, &plan.moved, ctx).await;
        let mut forks = plan.forks;
        for (fork, (_, live)) in forks.iter_mut().zip(now) {
            fork.live = live;
        }
        Ok(Ok(Done { built, forks, wake: plan.wake, is_held: false }))
    }

    /// Baselines of forks that do not exist: those whose forks do, or those whose forks do not either.
    fn missing(&self, has_fork: bool) -> Vec<&str> {
        let forks = self.object.spec.forks.iter().map(|it| it.fork_of.name.as_str());
        let absent = forks.filter(|it| !self.around.baselines.contains_key(*it));
        absent.filter(|it| self.live(it).is_some() == has_fork).collect()
    }

    /// The fork of a baseline, as it is.
    fn live(&self, baseline: &str) -> Option<&DynamicObject> {
        let name = sandbox::fork::fork_name(&self.place.spot.namespace, baseline, &self.object.name_any());
        self.made.forks.iter().find(|it| it.name_any() == name)
    }

    /// The forks that there are, where nothing is changed.
    fn kept(&self) -> Vec<status::Fork> {
        let before = self.object.status.clone().unwrap_or_default().forks;
        let one = |fork: &sandbox::api::ForkSpec| {
            let live = self.live(&fork.fork_of.name)?.clone();
            let old = before.iter().find(|it| it.name == fork.name()).cloned().unwrap_or_default();
            Some(status::Fork {
                name: fork.name().to_owned(),
                live,
                up_to_date: old.up_to_date,
                baseline: None,
                services: old.services,
                unroutable: old.unroutable,
                fargate: false,
            })
        };
        self.object.spec.forks.iter().filter_map(one).collect()
    }

    /// Whether all baselines are there.
    fn baselines(&self) -> Finding {
        let type_ = types::BASELINE_RESOLVED;
        let gone = self.missing(true);
        if !gone.is_empty() {
            let why = format!("Deployment {} is gone; its fork stays", gone.join(", "));
            return Finding::no(type_, reasons::BASELINE_DELETED, why);
        }
        let all = look::baselines_of(self.object);
        let absent: BTreeSet<&String> =
            all.iter().filter(|it| !self.around.baselines.contains_key(*it)).collect();
        if absent.is_empty() {
            return Finding::yes(type_, reasons::BASELINE_FOUND, "");
        }
        let names = absent.into_iter().map(String::as_str).collect::<Vec<_>>().join(", ");
        let namespace = &self.place.spot.namespace;
        let why = format!("Deployment {names} does not exist in namespace {namespace}");
        Finding::no(type_, reasons::BASELINE_NOT_FOUND, why)
    }

    /// Endpoints whose Services are not there, if there are any.
    fn targets(&self) -> Option<Finding> {
        let parsed = sandbox::target::parse_all(&self.object.spec.endpoints).ok()?;
        // Services of other namespaces are not read; the router says if they are missing.
        let here = parsed.into_iter().filter(|(_, it)| it.namespace == self.place.spot.namespace);
        let absent = |service: &str| !self.around.services.iter().any(|it| it.name_any() == service);
        let (endpoint, target) = here.into_iter().find(|(_, it)| absent(&it.service))?;
        let why = format!("endpoint {}: Service {} does not exist", endpoint.name, target.service);
        Some(Finding::no(types::ACCEPTED, reasons::TARGET_NOT_FOUND, why))
    }

    /// The Services of the virtual workloads: their requests are counted under the key, and go where they always do.
    fn virtuals(&self) -> Vec<VirtualStatus> {
        let one = |it: &VirtualSpec| {
            let baseline = self.around.baselines.get(&it.workload.name).map(serde_json::to_value);
            let baseline = baseline.and_then(Result::ok).unwrap_or_default();
            let services = baseline_services(&baseline, &self.around.services);
            VirtualStatus { name: it.name.clone(), services }
        };
        self.object.spec.virtuals.iter().map(one).collect()
    }

    /// What is said of the forks. Pods are looked at only if one of them is not ready.
    async fn forks(
        &self,
        forks: &[status::Fork],
    ) -> Result<Vec<(sandbox::api::ForkStatus, sandbox::readiness::Readiness)>, K8sError> {
        let before = self.object.status.clone().unwrap_or_default();
        let say = |pods: &[_], events: &[_]| {
            forks.iter().map(|it| status::fork(it, &before, (pods, events))).collect::<Vec<_>>()
        };
        let said = say(&[], &[]);
        if said.iter().all(|(_, seen)| seen.trouble.is_none()) {
            return Ok(said);
        }
        let (pods, events) = look::pods(self.object, self.place).await?;
        Ok(say(&pods, &events))
    }
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
