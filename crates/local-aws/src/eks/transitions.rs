//! Time. Nothing runs in the background: whoever looks first moves the state to what it is at that instant.

use jiff::Timestamp;

use super::{
    access,
    state::{Addon, AddonStatus, Api, Change, Cluster, ClusterStatus, Issue, Profile, ProfileStatus, State},
};
use crate::place::Place;

pub(crate) fn settle(state: &mut State, now: Timestamp) {
    for (region, clusters) in &mut state.regions {
        let place = Place::new(region.as_str());
        for cluster in clusters.values_mut() {
            settle_cluster(cluster, &place, now);
        }
        clusters
            .retain(|_, cluster| !(cluster.status == ClusterStatus::Deleting && is_over(cluster.due, now)));
    }
}

pub(crate) fn is_over(due: Option<Timestamp>, now: Timestamp) -> bool {
    due.is_some_and(|due| due <= now)
}

fn settle_cluster(cluster: &mut Cluster, place: &Place, now: Timestamp) {
    let hosted = !matches!(cluster.api, Api::Awaited { .. });
    if cluster.status == ClusterStatus::Creating && hosted && is_over(cluster.due, now) {
        cluster.status = ClusterStatus::Active;
        cluster.due = None;
    }
    settle_updates(cluster, place, now);
    settle_profiles(cluster, now);
    settle_addons(cluster, now);
}

fn settle_updates(cluster: &mut Cluster, place: &Place, now: Timestamp) {
    let mut changes = Vec::new();
    for update in cluster.updates.iter_mut().filter(|update| is_over(update.due, now)) {
        update.due = None;
        if update.errors.is_empty() {
            changes.push(update.change.clone());
        }
    }
    for change in changes {
        apply(cluster, place, change, now);
    }
}

fn apply(cluster: &mut Cluster, place: &Place, change: Change, now: Timestamp) {
    match change {
        Change::Version(version) => cluster.version = version,
        Change::Endpoint { public, private, cidrs } => {
            cluster.vpc.public_access = public;
            cluster.vpc.private_access = private;
            cluster.vpc.public_cidrs = cidrs;
        }
        Change::Subnets { subnets, security_groups } => {
            cluster.vpc.subnet_ids = subnets;
            cluster.vpc.security_group_ids = security_groups;
        }
        Change::Logging(types) => cluster.logging = types,
        Change::AuthMode(mode) => {
            cluster.auth_mode = mode;
            access::admit_pod_execution_roles(cluster, place, now);
        }
        Change::UpgradePolicy(policy) => cluster.upgrade_policy = policy,
        Change::ZonalShift(enabled) => cluster.zonal_shift = enabled,
        Change::AutoMode { compute, storage, network } => {
            cluster.compute = compute.or_else(|| cluster.compute.take());
            cluster.storage = storage.or_else(|| cluster.storage.take());
            if let Some(network) = network {
                cluster.network = network;
            }
        }
        Change::RemoteNetwork(value) => cluster.remote_network = Some(value),
        Change::DeletionProtection(on) => cluster.deletion_protection = on,
        Change::Encryption(config) => cluster.encryption = config,
        Change::IdentityProviderActive(name) => {
            if let Some(provider) = cluster.identity_providers.get_mut(&name) {
                "ACTIVE".clone_into(&mut provider.status);
            }
        }
        Change::IdentityProviderGone(name) => {
            cluster.identity_providers.remove(&name);
        }
        // The addon keeps its own time; its update ends with it.
        Change::Addon(_) => {}
    }
}

fn settle_profiles(cluster: &mut Cluster, now: Timestamp) {
    let mut gone = Vec::new();
    for profile in cluster.profiles.values_mut().filter(|profile| is_over(profile.due, now)) {
        if settle_profile(profile) == ProfileEnd::Gone {
            gone.push(profile.name.clone());
        }
    }
    for name in gone {
        if let Some(profile) = cluster.profiles.remove(&name) {
            access::dismiss_pod_execution_role(cluster, &profile.role_arn);
        }
    }
}

#[derive(PartialEq, Eq)]
enum ProfileEnd {
    Stays,
    Gone,
}

fn settle_profile(profile: &mut Profile) -> ProfileEnd {
    profile.due = None;
    let planned = profile.planned.take();
    if let Some(planned) = planned {
        profile.status = planned.end;
        profile.issues = planned.issues;
        return ProfileEnd::Stays;
    }
    match profile.status {
        ProfileStatus::Deleting => ProfileEnd::Gone,
        ProfileStatus::Creating
        | ProfileStatus::Active
        | ProfileStatus::CreateFailed
        | ProfileStatus::DeleteFailed => {
            profile.status = ProfileStatus::Active;
            ProfileEnd::Stays
        }
    }
}

fn settle_addons(cluster: &mut Cluster, now: Timestamp) {
    cluster.addons.retain(|_, addon| !(addon.status == AddonStatus::Deleting && is_over(addon.due, now)));
    let addons = &cluster.addons;
    cluster.associations.retain(|_, association| {
        association.owner.as_ref().is_none_or(|owner| addons.values().any(|addon| &addon.arn == owner))
    });
    let coredns_runs = coredns_can_run(cluster);
    for addon in cluster.addons.values_mut() {
        if is_over(addon.due, now) {
            addon.due = None;
        }
        if addon.due.is_none() {
            settle_addon(addon, coredns_runs);
        }
    }
}

/// An addon that is not on its way anywhere is as well as its pods are.
fn settle_addon(addon: &mut Addon, coredns_runs: bool) {
    if addon.name == "coredns" && !coredns_runs {
        addon.status = AddonStatus::Degraded;
        addon.issues = vec![Issue {
            code: "InsufficientNumberOfReplicas".to_owned(),
            message: "The add-on is unhealthy because it doesn't have the desired number of replicas."
                .to_owned(),
            resource_ids: Vec::new(),
        }];
    } else {
        addon.status = AddonStatus::Active;
        addon.issues.clear();
    }
}

/// coredns is a Deployment: it needs Auto Mode nodes, or `computeType: Fargate` and an ACTIVE profile that takes it.
fn coredns_can_run(cluster: &Cluster) -> bool {
    let auto_mode = cluster.compute.as_ref().is_some_and(|compute| compute["enabled"] == true);
    let on_fargate = cluster.addons.get("coredns").is_some_and(|addon| {
        let configuration = addon.configuration.as_deref().unwrap_or("{}");
        let values: serde_json::Value = serde_json::from_str(configuration).unwrap_or_default();
        values["computeType"].as_str().is_some_and(|kind| kind.eq_ignore_ascii_case("fargate"))
    });
    let labels = [("k8s-app", "kube-dns"), ("eks.amazonaws.com/component", "coredns")];
    let admitted = cluster.profiles.values().any(|profile| {
        profile.status == ProfileStatus::Active
            && profile
                .selectors
                .iter()
                .any(|selector| super::selector::takes(selector, "kube-system", &labels))
    });
    auto_mode || (on_fargate && admitted)
}
