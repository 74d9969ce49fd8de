//! Derives the status of a Sandbox. Pure.

use capt_kinds::sandbox::{
    BaselineStatus, EndpointStatus, ForkServiceStatus, ForkStatus, LocalStatus, LocalWorkload, Sandbox,
    SandboxStatus, Unroutable, VirtualStatus,
    conditions::{reasons, types},
};
use capt_kube::k8s::conditions::whole_seconds;
use jiff::Timestamp;
use k8s_openapi::{api::apps::v1::Deployment, apimachinery::pkg::apis::meta::v1::Time};
use kube::{ResourceExt as _, core::DynamicObject};
use sandbox::{
    condition::{self, ConditionUpdate},
    fargate::Placement,
    phase::{self, PhaseInputs},
    readiness::{ForkObservation, ForkReadiness, fork_readiness},
    rejection::Rejection,
};

use super::{
    build::{BASELINE_HASH_ANNOTATION, BuiltFork},
    route_status::{EndpointHosts, RouteStatus},
};

/// Generation and times of a status update.
#[derive(Debug, Clone, Copy)]
pub(super) struct StatusContext {
    /// Generation of the object.
    pub generation: Option<i64>,
    /// Current time.
    pub now: Timestamp,
    /// When its TTL expires.
    pub expires_at: Option<Timestamp>,
}

/// The live state of a fork.
#[derive(Debug, Clone)]
pub(super) struct ForkState {
    /// Its name in the spec.
    pub name: String,
    /// Its Deployment.
    pub live: DynamicObject,
    /// Whether it was built from the current baseline.
    pub up_to_date: bool,
    /// Uid and generation of the current baseline; none if it was deleted.
    pub baseline: Option<(String, i64)>,
    /// Which of its Services replaces which Service of the baseline.
    pub services: Vec<ForkServiceStatus>,
    /// Services that cannot be routed.
    pub unroutable: Vec<Unroutable>,
    /// Whether its pods run on Fargate.
    pub on_fargate: bool,
}

/// The inputs of a status.
#[derive(Debug, Clone, Default)]
pub(super) struct SandboxObservation {
    /// The routing key.
    pub key: String,
    /// The determined conditions; missing types become Unknown.
    pub conditions: Vec<ConditionUpdate>,
    /// The forks; those of the last status if `None`.
    pub forks: Option<Vec<ForkStatus>>,
    /// The local workloads.
    pub locals: Vec<LocalStatus>,
    /// The virtual workloads; those of the last status if `None`.
    pub virtuals: Option<Vec<VirtualStatus>>,
    /// The routes; those of the last status if `None`.
    pub routes: Option<RouteStatus>,
}

/// When the spec last changed, as observed by the controller.
pub(super) fn spec_changed_at(object: &Sandbox, now: Timestamp) -> Timestamp {
    let before = object.status.as_ref();
    let is_seen = before.is_some_and(|it| it.observed_generation == object.metadata.generation);
    let noted = before.and_then(|it| it.spec_changed_time.as_ref()).filter(|_| is_seen).map(|it| it.0);
    let created = object.metadata.creation_timestamp.as_ref().map(|it| it.0);
    // The first reconcile may be late; generation 1 is as old as the object.
    let is_first = object.metadata.generation.is_none_or(|it| it <= 1);
    noted.or_else(|| created.filter(|_| is_first)).unwrap_or_else(|| whole_seconds(now))
}

/// The status of a Sandbox that is not being deleted.
pub(super) fn build_status(
    object: &Sandbox,
    observed: SandboxObservation,
    at: StatusContext,
) -> SandboxStatus {
    let before = object.status.clone().unwrap_or_default();
    let SandboxObservation { key, conditions: mut findings, forks, locals, virtuals, routes } = observed;
    findings.push(phase::ready_condition(&findings, &types::OF_SANDBOX));
    let conditions =
        condition::merge_conditions(&before.conditions, &findings, &types::OF_SANDBOX, at.generation, at.now);
    let life = PhaseInputs {
        deleting: object.metadata.deletion_timestamp.is_some(),
        expired: false,
        was_ready: phase::was_ready(before.phase, &before.conditions, at.generation),
    };
    let forks = forks.unwrap_or(before.forks);
    let ready = forks.iter().filter(|it| it.message.is_empty() && it.workload.is_some()).count();
    let connected = locals.iter().filter(|it| it.connected).count();
    SandboxStatus {
        observed_generation: at.generation,
        phase: Some(phase::derive_phase(&conditions, life)),
        routing_key: Some(key),
        scheduled_delete_time: at.expires_at.map(Time),
        spec_changed_time: Some(Time(spec_changed_at(object, at.now))),
        ready_forks: Some(format!("{ready}/{}", object.spec.forks.len())),
        connected_locals: Some(format!("{connected}/{}", locals.len())),
        forks,
        locals,
        virtuals: virtuals.unwrap_or(before.virtuals),
        endpoints: endpoint_statuses(object, routes.as_ref().and_then(|it| it.hosts.as_ref())),
        programmed_routes: routes.map_or(before.programmed_routes, |it| it.digest),
        conditions,
    }
}

/// The status of a Sandbox whose TTL expired: only the phase changes.
pub(super) fn expired_status(object: &Sandbox) -> SandboxStatus {
    let before = object.status.clone().unwrap_or_default();
    let life = PhaseInputs { expired: true, ..PhaseInputs::default() };
    SandboxStatus { phase: Some(phase::derive_phase(&before.conditions, life)), ..before }
}

/// The status of a Sandbox that is being deleted.
pub(super) fn terminating_status(object: &Sandbox, why: &str, at: StatusContext) -> SandboxStatus {
    let before = object.status.clone().unwrap_or_default();
    let findings: Vec<ConditionUpdate> = types::OF_SANDBOX
        .iter()
        .filter(|it| **it != types::ACCEPTED)
        .map(|type_| ConditionUpdate::no(type_, reasons::TERMINATING, why))
        .chain([ConditionUpdate::unknown(types::ACCEPTED, reasons::TERMINATING, why)])
        .collect();
    let conditions =
        condition::merge_conditions(&before.conditions, &findings, &types::OF_SANDBOX, at.generation, at.now);
    let life = PhaseInputs { deleting: true, ..PhaseInputs::default() };
    SandboxStatus {
        observed_generation: at.generation,
        phase: Some(phase::derive_phase(&conditions, life)),
        conditions,
        ..before
    }
}

/// The endpoints with their URLs; those of the last status if `hosts` is `None`.
pub(super) fn endpoint_statuses(object: &Sandbox, hosts: Option<&EndpointHosts>) -> Vec<EndpointStatus> {
    let before = object.status.iter().flat_map(|it| &it.endpoints);
    let one = |it: &capt_kinds::sandbox::Endpoint| EndpointStatus {
        name: it.name.clone(),
        target: it.target.clone(),
        url: match hosts {
            Some(hosts) => hosts.get(&it.name).map(|host| format!("https://{host}")),
            None => before.clone().find(|old| old.name == it.name).and_then(|old| old.url.clone()),
        },
    };
    object.spec.endpoints.iter().map(one).collect()
}

/// The conditions of a rejected spec.
pub(super) fn rejected_conditions(refusal: &Rejection) -> Vec<ConditionUpdate> {
    vec![ConditionUpdate::no(types::ACCEPTED, refusal.reason, refusal.message.clone())]
}

/// The condition `ComputeReady`.
pub(super) fn compute_ready(built: &[BuiltFork]) -> ConditionUpdate {
    let nowhere = built.iter().find_map(|it| match &it.placement {
        Placement::Unschedulable(why) => Some((it, why)),
        Placement::Fargate { .. } | Placement::Nodes => None,
    });
    match (nowhere, built.first()) {
        (Some((it, why)), _) => ConditionUpdate::no(
            types::COMPUTE_READY,
            it.placement.reason(),
            format!("fork {}: {why}", it.name),
        ),
        (None, Some(first)) => ConditionUpdate::yes(types::COMPUTE_READY, first.placement.reason(), ""),
        (None, None) => ConditionUpdate::yes(types::COMPUTE_READY, reasons::NONE, ""),
    }
}

/// The status of a fork, and its readiness.
pub(super) fn fork_status(
    fork: &ForkState,
    before: &SandboxStatus,
    (pods, events): (&[k8s_openapi::api::core::v1::Pod], &[k8s_openapi::api::core::v1::Event]),
) -> (ForkStatus, ForkReadiness) {
    let typed: Deployment =
        serde_json::to_value(&fork.live).and_then(serde_json::from_value).unwrap_or_default();
    let name = fork.live.name_any();
    let is_its = |labels: &std::collections::BTreeMap<String, String>| {
        labels.get(capt_kinds::sandbox::names::FORK_LABEL) == Some(&name)
    };
    let own: Vec<_> = pods.iter().filter(|it| is_its(it.labels())).cloned().collect();
    let seen =
        fork_readiness(ForkObservation { fork: &typed, pods: &own, events, on_fargate: fork.on_fargate });
    let hash = fork.live.annotations().get(BASELINE_HASH_ANNOTATION).cloned().unwrap_or_default();
    let old = before.forks.iter().find(|it| it.name == fork.name).and_then(|it| it.baseline.clone());
    // Kept while the hash is the same: scaling a baseline changes its generation, but not what the fork inherits.
    let kept = old.filter(|it| it.observed_hash == hash);
    let now = fork.baseline.clone().map(|(uid, generation)| BaselineStatus {
        uid,
        generation,
        observed_hash: hash,
    });
    let status = ForkStatus {
        name: fork.name.clone(),
        baseline: kept.or(now),
        workload: Some(name),
        replicas: seen.replicas,
        ready_replicas: seen.ready_replicas,
        up_to_date: fork.up_to_date,
        services: fork.services.clone(),
        unroutable: fork.unroutable.clone(),
        message: seen.problem.as_ref().map(|(_, cause)| cause.clone()).unwrap_or_default(),
    };
    (status, seen)
}

/// The condition `ForksReady`. Reports the most severe problem.
pub(super) fn forks_ready(all: &[(ForkStatus, ForkReadiness)]) -> ConditionUpdate {
    let badness = |reason: &str| match reason {
        reasons::PROGRESS_DEADLINE_EXCEEDED => 3,
        reasons::POD_FAILING => 2,
        _ => 1,
    };
    let troubled = all.iter().filter_map(|(fork, seen)| Some((fork, seen.problem.as_ref()?)));
    let worst = troubled.max_by_key(|(_, (reason, _))| badness(reason));
    match worst {
        Some((fork, (reason, cause))) => {
            ConditionUpdate::no(types::FORKS_READY, reason, format!("fork {}: {cause}", fork.name))
        }
        None if all.is_empty() => ConditionUpdate::yes(types::FORKS_READY, reasons::NONE, ""),
        None => ConditionUpdate::yes(types::FORKS_READY, reasons::READY, ""),
    }
}

/// The local workloads of a Sandbox, and the condition `LocalsConnected`.
pub(super) fn locals_connected(
    object: &Sandbox,
    live: &[DynamicObject],
) -> (Vec<LocalStatus>, ConditionUpdate) {
    let one = |name: &str, found: Option<&DynamicObject>| {
        let typed: Option<LocalWorkload> =
            found.and_then(|it| serde_json::from_value(serde_json::to_value(it).ok()?).ok());
        let conditions = typed.and_then(|it| it.status).map(|it| it.conditions).unwrap_or_default();
        LocalStatus { name: name.to_owned(), connected: condition::is_true(&conditions, types::CONNECTED) }
    };
    let all: Vec<LocalStatus> = object
        .spec
        .local
        .iter()
        .map(|it| {
            let wanted = super::local_workloads::object_name(object, &it.name);
            one(&it.name, live.iter().find(|it| it.name_any() == wanted))
        })
        .collect();
    let missing: Vec<&str> = all.iter().filter(|it| !it.connected).map(|it| it.name.as_str()).collect();
    let type_ = types::LOCALS_CONNECTED;
    let finding = if all.is_empty() {
        ConditionUpdate::yes(type_, reasons::NONE, "")
    } else if missing.is_empty() {
        ConditionUpdate::yes(type_, reasons::CONNECTED, "")
    } else {
        let namespace = object.namespace().unwrap_or_default();
        let command = |local: &&str| {
            format!("`capt connect {} -n {namespace}`", super::local_workloads::object_name(object, local))
        };
        let commands: Vec<String> = missing.iter().map(command).collect();
        let why = format!("no agent is connected for {}; run {}", missing.join(", "), commands.join(" and "));
        ConditionUpdate::no(type_, reasons::NOT_CONNECTED, why)
    };
    (all, finding)
}
