//! Time-based transitions. Nothing runs in the background: each access first advances the state to the current instant.

use jiff::Timestamp;

use super::{
    access,
    state::{
        Addon, AddonStatus, Cluster, ClusterApi, ClusterStatus, EksState, FargateProfile, HealthIssue,
        ProfileStatus, UpdateChange,
    },
};
use crate::region::Region;

pub(crate) fn advance(state: &mut EksState, now: Timestamp) {
    for (region, clusters) in &mut state.regions {
        let place = Region::new(region.as_str());
        for cluster in clusters.values_mut() {
            advance_cluster(cluster, &place, now);
        }
        clusters
            .retain(|_, cluster| !(cluster.status == ClusterStatus::Deleting && is_due(cluster.due, now)));
    }
}

pub(crate) fn is_due(due: Option<Timestamp>, now: Timestamp) -> bool {
    due.is_some_and(|due| due <= now)
}

fn advance_cluster(cluster: &mut Cluster, place: &Region, now: Timestamp) {
    let hosted = !matches!(cluster.api, ClusterApi::Awaited { .. });
    if cluster.status == ClusterStatus::Creating && hosted && is_due(cluster.due, now) {
        cluster.status = ClusterStatus::Active;
        cluster.due = None;
    }
    advance_updates(cluster, place, now);
    advance_profiles(cluster, now);
    advance_addons(cluster, now);
}

fn advance_updates(cluster: &mut Cluster, place: &Region, now: Timestamp) {
    let mut changes = Vec::new();
    for update in cluster.updates.iter_mut().filter(|update| is_due(update.due, now)) {
        update.due = None;
        if update.errors.is_empty() {
            changes.push(update.change.clone());
        }
    }
    for change in changes {
        apply_change(cluster, place, change, now);
    }
}

fn apply_change(cluster: &mut Cluster, place: &Region, change: UpdateChange, now: Timestamp) {
    match change {
        UpdateChange::Version(version) => cluster.version = version,
        UpdateChange::Endpoint { public, private, cidrs } => {
            cluster.vpc.public_access = public;
            cluster.vpc.private_access = private;
            cluster.vpc.public_cidrs = cidrs;
        }
        UpdateChange::Subnets { subnets, security_groups } => {
            cluster.vpc.subnet_ids = subnets;
            cluster.vpc.security_group_ids = security_groups;
        }
        UpdateChange::Logging(types) => cluster.logging = types,
        UpdateChange::AuthMode(mode) => {
            cluster.auth_mode = mode;
            access::add_pod_execution_role_entries(cluster, place, now);
        }
        UpdateChange::UpgradePolicy(policy) => cluster.upgrade_policy = policy,
        UpdateChange::ZonalShift(enabled) => cluster.zonal_shift = enabled,
        UpdateChange::AutoMode { compute, storage, network } => {
            cluster.compute = compute.or_else(|| cluster.compute.take());
            cluster.storage = storage.or_else(|| cluster.storage.take());
            if let Some(network) = network {
                cluster.network = network;
            }
        }
        UpdateChange::RemoteNetwork(value) => cluster.remote_network = Some(value),
        UpdateChange::DeletionProtection(on) => cluster.deletion_protection = on,
        UpdateChange::Encryption(config) => cluster.encryption = config,
        UpdateChange::IdentityProviderActive(name) => {
            if let Some(provider) = cluster.identity_providers.get_mut(&name) {
                "ACTIVE".clone_into(&mut provider.status);
            }
        }
        UpdateChange::IdentityProviderGone(name) => {
            cluster.identity_providers.remove(&name);
        }
        // The addon has its own deadline; its update ends with it.
        UpdateChange::Addon(_) => {}
    }
}

fn advance_profiles(cluster: &mut Cluster, now: Timestamp) {
    let mut gone = Vec::new();
    for profile in cluster.profiles.values_mut().filter(|profile| is_due(profile.due, now)) {
        if advance_profile(profile) == ProfileTransition::Deleted {
            gone.push(profile.name.clone());
        }
    }
    for name in gone {
        if let Some(profile) = cluster.profiles.remove(&name) {
            access::remove_pod_execution_role_entry(cluster, &profile.role_arn);
        }
    }
}

#[derive(PartialEq, Eq)]
enum ProfileTransition {
    Remains,
    Deleted,
}

fn advance_profile(profile: &mut FargateProfile) -> ProfileTransition {
    profile.due = None;
    let planned = profile.planned.take();
    if let Some(planned) = planned {
        profile.status = planned.end;
        profile.issues = planned.issues;
        return ProfileTransition::Remains;
    }
    match profile.status {
        ProfileStatus::Deleting => ProfileTransition::Deleted,
        ProfileStatus::Creating
        | ProfileStatus::Active
        | ProfileStatus::CreateFailed
        | ProfileStatus::DeleteFailed => {
            profile.status = ProfileStatus::Active;
            ProfileTransition::Remains
        }
    }
}

fn advance_addons(cluster: &mut Cluster, now: Timestamp) {
    cluster.addons.retain(|_, addon| !(addon.status == AddonStatus::Deleting && is_due(addon.due, now)));
    let addons = &cluster.addons;
    cluster.associations.retain(|_, association| {
        association.owner.as_ref().is_none_or(|owner| addons.values().any(|addon| &addon.arn == owner))
    });
    let coredns_runs = coredns_can_run(cluster);
    for addon in cluster.addons.values_mut() {
        if is_due(addon.due, now) {
            addon.due = None;
        }
        if addon.due.is_none() {
            refresh_addon_health(addon, coredns_runs);
        }
    }
}

/// An addon without a transition in progress is as healthy as its pods.
fn refresh_addon_health(addon: &mut Addon, coredns_runs: bool) {
    if addon.name == "coredns" && !coredns_runs {
        addon.status = AddonStatus::Degraded;
        addon.issues = vec![HealthIssue {
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

/// coredns is a Deployment: it needs Auto Mode nodes, or `computeType: Fargate` and an ACTIVE profile that matches it.
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
                .any(|selector| super::selector::matches_pod(selector, "kube-system", &labels))
    });
    auto_mode || (on_fargate && admitted)
}
