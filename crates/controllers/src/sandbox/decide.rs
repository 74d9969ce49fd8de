//! Decides which forks are applied now, which are debounced, and which stay unchanged. Pure.

use std::{collections::BTreeSet, time::Duration};

use capt_kinds::sandbox::{BaselineUpdatePolicy, ForkSpec, names};
use jiff::{SignedDuration, Timestamp};
use kube::{ResourceExt as _, core::DynamicObject};
use sandbox::service::fork_services;

use super::{
    build::{
        BASELINE_HASH_ANNOTATION, BuiltFork, CUSTOMIZATIONS_HASH_ANNOTATION, ForkSource, pinned_deployment,
        to_dynamic,
    },
    context::Context,
    fork_pass::ForkPass,
    status,
};

/// Changes of a baseline within this window lead to a single rollout of the fork.
pub(super) const BASELINE_DEBOUNCE: Duration = Duration::from_secs(5);

/// The next step for a fork.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ForkStep {
    /// Apply the desired Deployment.
    Apply {
        /// The old and the new baseline hash, if a changed baseline is the cause.
        baseline_change: Option<(String, String)>,
    },
    /// Keep it until this time.
    Debounce(Timestamp),
    /// Keep it: its policy is `Pin`.
    Pinned,
}

/// Decides the step for a fork. Calls `restless_since` only if the baseline has changed.
pub(super) fn decide_fork(
    fork: &ForkSpec,
    built: &BuiltFork,
    live: Option<&DynamicObject>,
    now: Timestamp,
    restless_since: impl FnOnce() -> Timestamp,
) -> ForkStep {
    let Some(live) = live else { return ForkStep::Apply { baseline_change: None } };
    let of = |it: &DynamicObject, key: &str| it.annotations().get(key).cloned().unwrap_or_default();
    let before = of(live, BASELINE_HASH_ANNOTATION);
    let is_same = before == built.baseline_hash;
    // Changed customizations are applied to the current baseline, even for a pinned fork: the old baseline no longer exists.
    let is_customized =
        of(live, CUSTOMIZATIONS_HASH_ANNOTATION) != of(&built.deployment, CUSTOMIZATIONS_HASH_ANNOTATION);
    if is_same || is_customized {
        return ForkStep::Apply { baseline_change: None };
    }
    if fork.baseline_update_policy == BaselineUpdatePolicy::Pin {
        return ForkStep::Pinned;
    }
    let pause = SignedDuration::try_from(BASELINE_DEBOUNCE).unwrap_or_default();
    let then = restless_since().saturating_add(pause).unwrap_or(now);
    if now < then {
        return ForkStep::Debounce(then);
    }
    ForkStep::Apply { baseline_change: Some((before, built.baseline_hash.clone())) }
}

/// The desired forks and Services of a Sandbox.
#[derive(Debug, Default)]
pub(super) struct ForkPlan {
    /// Its forks; those that must not change in their live state.
    pub forks: Vec<status::ForkState>,
    /// Its Services.
    pub services: Vec<DynamicObject>,
    /// Forks that follow a changed baseline, with the hashes before and after.
    pub baseline_changes: Vec<(String, String, String)>,
    /// When to requeue.
    pub requeue_at: Option<Timestamp>,
}

/// Plans all forks of a Sandbox.
pub(super) fn plan_forks(
    work: &ForkPass<'_>,
    sources: &[ForkSource<'_>],
    built: &[BuiltFork],
    ctx: &Context,
) -> ForkPlan {
    let uid = work.object.uid().unwrap_or_default();
    let caught: BTreeSet<String> = work.misselected_forks().iter().map(|(it, _)| it.name_any()).collect();
    let mut plan = ForkPlan::default();
    for (source, built) in sources.iter().zip(built) {
        let name = source.fork.name();
        let live = work.live_fork(&source.fork.fork_of.name);
        // No debounce while the fork receives the baseline's traffic.
        let is_urgent = live.is_some_and(|it| caught.contains(&it.name_any()));
        let since = || ctx.fork_cache.changed_since(&uid, name, work.status_ctx.now);
        let restless = || if is_urgent { Timestamp::MIN } else { since() };
        let step = decide_fork(source.fork, built, live, work.status_ctx.now, restless);
        let fork = desired_fork(work, source, built);
        match (step, live) {
            (ForkStep::Apply { baseline_change: moved }, _) => {
                ctx.fork_cache.clear_changed(&uid, name);
                plan.baseline_changes.extend(moved.map(|(from, to)| (name.to_owned(), from, to)));
                plan.services.extend(built.services.iter().cloned());
                plan.forks.push(fork);
            }
            (later, Some(live)) => {
                let noted = match later {
                    ForkStep::Debounce(then) => {
                        plan.requeue_at = Some(plan.requeue_at.map_or(then, |it| it.min(then)));
                        None
                    }
                    // Foreign edits are reverted to the recorded manifest; the baseline stays the pinned one.
                    ForkStep::Pinned | ForkStep::Apply { .. } => pinned_deployment(live),
                };
                keep_fork(work, source, (fork, noted.as_ref().unwrap_or(live)), &mut plan);
            }
            // A missing fork is created.
            (ForkStep::Debounce(_) | ForkStep::Pinned, None) => plan.forks.push(fork),
        }
    }
    keep_orphans(work, &mut plan);
    plan
}

fn desired_fork(work: &ForkPass<'_>, source: &ForkSource<'_>, built: &BuiltFork) -> status::ForkState {
    let meta = work.namespace.baselines.get(&source.fork.fork_of.name).map(|it| &it.metadata);
    status::ForkState {
        name: built.name.clone(),
        live: built.deployment.clone(),
        up_to_date: true,
        baseline: meta.map(|it| (it.uid.clone().unwrap_or_default(), it.generation.unwrap_or_default())),
        services: built.service_statuses.clone(),
        unroutable: built.unroutable.clone(),
        on_fargate: matches!(built.placement, sandbox::fargate::Placement::Fargate { .. }),
    }
}

/// Keeps a fork unchanged, with Services that match its live ports.
fn keep_fork(
    work: &ForkPass<'_>,
    source: &ForkSource<'_>,
    (fork, live): (status::ForkState, &DynamicObject),
    plan: &mut ForkPlan,
) {
    let value = serde_json::to_value(live).unwrap_or_default();
    let services = fork_services(work.object, &source.baseline, &value, &work.namespace.services);
    plan.services.extend(services.services.iter().filter_map(|it| to_dynamic(it).ok()));
    plan.forks.push(status::ForkState {
        live: live.clone(),
        up_to_date: false,
        services: services.statuses,
        unroutable: services.unroutable,
        ..fork
    });
}

/// Keeps forks whose baselines were deleted, and their Services.
fn keep_orphans(work: &ForkPass<'_>, plan: &mut ForkPlan) {
    for fork in work.retained_forks() {
        if plan.forks.iter().any(|it| it.name == fork.name) {
            continue;
        }
        let id = fork.live.name_any();
        let own = work.owned.services.iter().filter(|it| it.labels().get(names::FORK_LABEL) == Some(&id));
        plan.services.extend(own.cloned());
        plan.forks.push(status::ForkState { up_to_date: false, ..fork });
    }
}
