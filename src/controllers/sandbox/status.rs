//! What is to be said of a Sandbox. Pure.

use jiff::Timestamp;
use k8s_openapi::{api::apps::v1::Deployment, apimachinery::pkg::apis::meta::v1::Time};
use kube::{ResourceExt as _, core::DynamicObject};
use sandbox::{
    api::{
        BaselineStatus, EndpointStatus, ForkServiceStatus, ForkStatus, LocalStatus, LocalWorkload, Sandbox,
        SandboxStatus, Unroutable, VirtualStatus,
        conditions::{reasons, types},
    },
    condition::{self, Finding},
    fargate::Place,
    phase::{self, Life},
    readiness::{Readiness, Sight, readiness},
    refusal::Refusal,
};

use super::{
    build::{BASELINE_ANNOTATION, Built},
    routes::{Hosts, Said},
};
use crate::k8s::conditions::whole_seconds;

/// When and of what something is said.
#[derive(Debug, Clone, Copy)]
pub(super) struct Moment {
    /// Of the object.
    pub generation: Option<i64>,
    /// Now.
    pub now: Timestamp,
    /// When the Sandbox is deleted.
    pub end: Option<Timestamp>,
}

/// A fork as it is.
#[derive(Debug, Clone)]
pub(super) struct Fork {
    /// Its name in the spec.
    pub name: String,
    /// Its Deployment.
    pub live: DynamicObject,
    /// Whether it is made from the baseline as it is now.
    pub up_to_date: bool,
    /// The baseline as it is now, unless it is gone.
    pub baseline: Option<(String, i64)>,
    /// Which of its Services stands for which.
    pub services: Vec<ForkServiceStatus>,
    /// What nobody can stand before.
    pub unroutable: Vec<Unroutable>,
    /// Whether its pods run on Fargate.
    pub fargate: bool,
}

/// Everything that a status is made from.
#[derive(Debug, Clone, Default)]
pub(super) struct Observed {
    /// The key.
    pub key: String,
    /// What was found out; what is missing here is unknown.
    pub findings: Vec<Finding>,
    /// The forks; those of the last status if none are given.
    pub forks: Option<Vec<ForkStatus>>,
    /// The local workloads.
    pub locals: Vec<LocalStatus>,
    /// The virtual workloads; those of the last status if nobody looked.
    pub virtuals: Option<Vec<VirtualStatus>>,
    /// What was said of the routes; what the last status says if nobody looked.
    pub routes: Option<Said>,
}

/// When the spec changed last, as far as it was seen.
pub(super) fn spec_changed(object: &Sandbox, now: Timestamp) -> Timestamp {
    let before = object.status.as_ref();
    let is_seen = before.is_some_and(|it| it.observed_generation == object.metadata.generation);
    let noted = before.and_then(|it| it.spec_changed_time.as_ref()).filter(|_| is_seen).map(|it| it.0);
    let created = object.metadata.creation_timestamp.as_ref().map(|it| it.0);
    // A first look may come late; the spec is as old as the object then.
    let is_first = object.metadata.generation.is_none_or(|it| it <= 1);
    noted.or_else(|| created.filter(|_| is_first)).unwrap_or_else(|| whole_seconds(now))
}

/// The status of a Sandbox that shall be there.
pub(super) fn observed(object: &Sandbox, observed: Observed, at: Moment) -> SandboxStatus {
    let before = object.status.clone().unwrap_or_default();
    let Observed { key, mut findings, forks, locals, virtuals, routes } = observed;
    findings.push(phase::ready(&findings, &types::OF_SANDBOX));
    let conditions =
        condition::written(&before.conditions, &findings, &types::OF_SANDBOX, at.generation, at.now);
    let life = Life {
        deleting: object.metadata.deletion_timestamp.is_some(),
        expired: false,
        was_ready: phase::was_ready(before.phase, &before.conditions, at.generation),
    };
    let forks = forks.unwrap_or(before.forks);
    let ready = forks.iter().filter(|it| it.message.is_empty() && it.workload.is_some()).count();
    let connected = locals.iter().filter(|it| it.connected).count();
    SandboxStatus {
        observed_generation: at.generation,
        phase: Some(phase::phase(&conditions, life)),
        routing_key: Some(key),
        scheduled_delete_time: at.end.map(Time),
        spec_changed_time: Some(Time(spec_changed(object, at.now))),
        ready_forks: Some(format!("{ready}/{}", object.spec.forks.len())),
        connected_locals: Some(format!("{connected}/{}", locals.len())),
        forks,
        locals,
        virtuals: virtuals.unwrap_or(before.virtuals),
        endpoints: endpoints(object, routes.as_ref().and_then(|it| it.hosts.as_ref())),
        programmed_routes: routes.map_or(before.programmed_routes, |it| it.digest),
        conditions,
    }
}

/// The status of a Sandbox whose time is over. Nothing else of it changes before it goes.
pub(super) fn expired(object: &Sandbox) -> SandboxStatus {
    let before = object.status.clone().unwrap_or_default();
    let life = Life { expired: true, ..Life::default() };
    SandboxStatus { phase: Some(phase::phase(&before.conditions, life)), ..before }
}

/// The status of a Sandbox that goes.
pub(super) fn terminating(object: &Sandbox, why: &str, at: Moment) -> SandboxStatus {
    let before = object.status.clone().unwrap_or_default();
    let findings: Vec<Finding> = types::OF_SANDBOX
        .iter()
        .filter(|it| **it != types::ACCEPTED)
        .map(|type_| Finding::no(type_, reasons::TERMINATING, why))
        .chain([Finding::unknown(types::ACCEPTED, reasons::TERMINATING, why)])
        .collect();
    let conditions =
        condition::written(&before.conditions, &findings, &types::OF_SANDBOX, at.generation, at.now);
    let life = Life { deleting: true, ..Life::default() };
    SandboxStatus {
        observed_generation: at.generation,
        phase: Some(phase::phase(&conditions, life)),
        conditions,
        ..before
    }
}

/// The endpoints with their addresses for people. They are as they were before if nobody looked.
pub(super) fn endpoints(object: &Sandbox, hosts: Option<&Hosts>) -> Vec<EndpointStatus> {
    let before = object.status.iter().flat_map(|it| &it.endpoints);
    let one = |it: &sandbox::api::Endpoint| EndpointStatus {
        name: it.name.clone(),
        target: it.target.clone(),
        url: match hosts {
            Some(hosts) => hosts.get(&it.name).map(|host| format!("https://{host}")),
            None => before.clone().find(|old| old.name == it.name).and_then(|old| old.url.clone()),
        },
    };
    object.spec.endpoints.iter().map(one).collect()
}

/// A spec that cannot be followed.
pub(super) fn refused(refusal: &Refusal) -> Vec<Finding> {
    vec![Finding::no(types::ACCEPTED, refusal.reason, refusal.message.clone())]
}

/// Whether there is a place for the pods of all forks.
pub(super) fn compute(built: &[Built]) -> Finding {
    let nowhere = built.iter().find_map(|it| match &it.place {
        Place::Nowhere(why) => Some((it, why)),
        Place::Fargate { .. } | Place::Nodes => None,
    });
    match (nowhere, built.first()) {
        (Some((it, why)), _) => {
            Finding::no(types::COMPUTE_READY, it.place.reason(), format!("fork {}: {why}", it.name))
        }
        (None, Some(first)) => Finding::yes(types::COMPUTE_READY, first.place.reason(), ""),
        (None, None) => Finding::yes(types::COMPUTE_READY, reasons::NONE, ""),
    }
}

/// What is said of a fork, and whether it is ready.
pub(super) fn fork(
    fork: &Fork,
    before: &SandboxStatus,
    (pods, events): (&[k8s_openapi::api::core::v1::Pod], &[k8s_openapi::api::core::v1::Event]),
) -> (ForkStatus, Readiness) {
    let typed: Deployment =
        serde_json::to_value(&fork.live).and_then(serde_json::from_value).unwrap_or_default();
    let name = fork.live.name_any();
    let is_its = |labels: &std::collections::BTreeMap<String, String>| {
        labels.get(sandbox::api::names::FORK_LABEL) == Some(&name)
    };
    let own: Vec<_> = pods.iter().filter(|it| is_its(it.labels())).cloned().collect();
    let seen = readiness(Sight { fork: &typed, pods: &own, events, fargate: fork.fargate });
    let hash = fork.live.annotations().get(BASELINE_ANNOTATION).cloned().unwrap_or_default();
    let old = before.forks.iter().find(|it| it.name == fork.name).and_then(|it| it.baseline.clone());
    // What it was made from is said once: the number of pods that a baseline has makes no other baseline of it.
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
        message: seen.trouble.as_ref().map(|(_, cause)| cause.clone()).unwrap_or_default(),
    };
    (status, seen)
}

/// Whether all forks are ready. Of several that are not, the one that is worst off speaks.
pub(super) fn forks_ready(all: &[(ForkStatus, Readiness)]) -> Finding {
    let badness = |reason: &str| match reason {
        reasons::PROGRESS_DEADLINE_EXCEEDED => 3,
        reasons::POD_FAILING => 2,
        _ => 1,
    };
    let troubled = all.iter().filter_map(|(fork, seen)| Some((fork, seen.trouble.as_ref()?)));
    let worst = troubled.max_by_key(|(_, (reason, _))| badness(reason));
    match worst {
        Some((fork, (reason, cause))) => {
            Finding::no(types::FORKS_READY, reason, format!("fork {}: {cause}", fork.name))
        }
        None if all.is_empty() => Finding::yes(types::FORKS_READY, reasons::NONE, ""),
        None => Finding::yes(types::FORKS_READY, reasons::READY, ""),
    }
}

/// The local workloads of a Sandbox, and whether somebody is connected for each.
pub(super) fn locals(object: &Sandbox, live: &[DynamicObject]) -> (Vec<LocalStatus>, Finding) {
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
            let wanted = super::locals::name(object, &it.name);
            one(&it.name, live.iter().find(|it| it.name_any() == wanted))
        })
        .collect();
    let missing: Vec<&str> = all.iter().filter(|it| !it.connected).map(|it| it.name.as_str()).collect();
    let type_ = types::LOCALS_CONNECTED;
    let finding = if all.is_empty() {
        Finding::yes(type_, reasons::NONE, "")
    } else if missing.is_empty() {
        Finding::yes(type_, reasons::CONNECTED, "")
    } else {
        let namespace = object.namespace().unwrap_or_default();
        let command =
            |local: &&str| format!("`capt connect {} -n {namespace}`", super::locals::name(object, local));
        let commands: Vec<String> = missing.iter().map(command).collect();
        let why = format!("nobody is connected for {}; run {}", missing.join(", "), commands.join(" and "));
        Finding::no(type_, reasons::NOT_CONNECTED, why)
    };
    (all, finding)
}
