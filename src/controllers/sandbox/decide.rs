//! Which forks are made anew now, which later, and which stay as they are. Pure.

use std::{collections::BTreeSet, time::Duration};

use jiff::{SignedDuration, Timestamp};
use kube::{ResourceExt as _, core::DynamicObject};
use sandbox::{
    api::{BaselineUpdatePolicy, ForkSpec, names},
    service::fork_services,
};

use super::{
    build::{BASELINE_ANNOTATION, Built, CUSTOMIZATIONS_ANNOTATION, Source, dynamic, remembered},
    context::Context,
    status,
    work::Work,
};

/// Changes of a baseline within this time are followed at once.
pub(super) const COALESCE: Duration = Duration::from_secs(5);

/// What is to be done about a fork.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Step {
    /// It is brought to what it shall be.
    Make {
        /// The baseline it was made from and the one it is made from, if that is why.
        moved: Option<(String, String)>,
    },
    /// It stays as it is until then.
    Later(Timestamp),
    /// It stays as it is.
    Pinned,
}

/// What is to be done about a fork. `restless_since` is asked only if the baseline has changed.
pub(super) fn step(
    fork: &ForkSpec,
    built: &Built,
    live: Option<&DynamicObject>,
    now: Timestamp,
    restless_since: impl FnOnce() -> Timestamp,
) -> Step {
    let Some(live) = live else { return Step::Make { moved: None } };
    let of = |it: &DynamicObject, key: &str| it.annotations().get(key).cloned().unwrap_or_default();
    let before = of(live, BASELINE_ANNOTATION);
    let is_same = before == built.baseline_hash;
    // One that is customized otherwise is made anew, and from the baseline as it is: there is no other any more.
    let is_customized =
        of(live, CUSTOMIZATIONS_ANNOTATION) != of(&built.deployment, CUSTOMIZATIONS_ANNOTATION);
    if is_same || is_customized {
        return Step::Make { moved: None };
    }
    if fork.baseline_update_policy == BaselineUpdatePolicy::Pin {
        return Step::Pinned;
    }
    let pause = SignedDuration::try_from(COALESCE).unwrap_or_default();
    let then = restless_since().saturating_add(pause).unwrap_or(now);
    if now < then {
        return Step::Later(then);
    }
    Step::Make { moved: Some((before, built.baseline_hash.clone())) }
}

/// What a Sandbox shall have now.
#[derive(Debug, Default)]
pub(super) struct Plan {
    /// Its forks; those that are not to be touched now as they are.
    pub forks: Vec<status::Fork>,
    /// Its Services.
    pub services: Vec<DynamicObject>,
    /// Forks that are made anew because their baselines changed, with the digests before and after.
    pub moved: Vec<(String, String, String)>,
    /// When to look again.
    pub wake: Option<Timestamp>,
}

/// Decides for all forks of a Sandbox.
pub(super) fn plan(work: &Work<'_>, sources: &[Source<'_>], built: &[Built], ctx: &Context) -> Plan {
    let uid = work.object.uid().unwrap_or_default();
    let caught: BTreeSet<String> = work.caught().iter().map(|(it, _)| it.name_any()).collect();
    let mut plan = Plan::default();
    for (source, built) in sources.iter().zip(built) {
        let name = source.fork.name();
        let live = work.live(&source.fork.fork_of.name);
        // Nobody waits for a second change while a fork has the baseline's traffic.
        let is_urgent = live.is_some_and(|it| caught.contains(&it.name_any()));
        let since = || ctx.memory.restless_since(&uid, name, work.at.now);
        let restless = || if is_urgent { Timestamp::MIN } else { since() };
        let step = step(source.fork, built, live, work.at.now, restless);
        let fork = fork(work, source, built);
        match (step, live) {
            (Step::Make { moved }, _) => {
                ctx.memory.calm(&uid, name);
                plan.moved.extend(moved.map(|(from, to)| (name.to_owned(), from, to)));
                plan.services.extend(built.services.iter().cloned());
                plan.forks.push(fork);
            }
            (later, Some(live)) => {
                let noted = match later {
                    Step::Later(then) => {
                        plan.wake = Some(plan.wake.map_or(then, |it| it.min(then)));
                        None
                    }
                    // What somebody else made of it is undone; the baseline stays the one it was.
                    Step::Pinned | Step::Make { .. } => remembered(live),
                };
                stay(work, source, (fork, noted.as_ref().unwrap_or(live)), &mut plan);
            }
            // What is not there is made.
            (Step::Later(_) | Step::Pinned, None) => plan.forks.push(fork),
        }
    }
    orphans(work, &mut plan);
    plan
}

fn fork(work: &Work<'_>, source: &Source<'_>, built: &Built) -> status::Fork {
    let meta = work.around.baselines.get(&source.fork.fork_of.name).map(|it| &it.metadata);
    status::Fork {
        name: built.name.clone(),
        live: built.deployment.clone(),
        up_to_date: true,
        baseline: meta.map(|it| (it.uid.clone().unwrap_or_default(), it.generation.unwrap_or_default())),
        services: built.statuses.clone(),
        unroutable: built.unroutable.clone(),
        fargate: matches!(built.place, sandbox::fargate::Place::Fargate { .. }),
    }
}

/// A fork that stays as it is, with the Services that fit it.
fn stay(work: &Work<'_>, source: &Source<'_>, (fork, live): (status::Fork, &DynamicObject), plan: &mut Plan) {
    let value = serde_json::to_value(live).unwrap_or_default();
    let services = fork_services(work.object, &source.baseline, &value, &work.around.services);
    plan.services.extend(services.services.iter().filter_map(|it| dynamic(it).ok()));
    plan.forks.push(status::Fork {
        live: live.clone(),
        up_to_date: false,
        services: services.statuses,
        unroutable: services.unroutable,
        ..fork
    });
}

/// Forks whose baselines are gone stay, and so do their Services.
fn orphans(work: &Work<'_>, plan: &mut Plan) {
    for fork in work.kept() {
        if plan.forks.iter().any(|it| it.name == fork.name) {
            continue;
        }
        let id = fork.live.name_any();
        let own = work.made.services.iter().filter(|it| it.labels().get(names::FORK_LABEL) == Some(&id));
        plan.services.extend(own.cloned());
        plan.forks.push(status::Fork { up_to_date: false, ..fork });
    }
}
