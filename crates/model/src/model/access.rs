//! EKS access entries.

use capt_kinds::api::{self, AccessEntryType, AccessScopeType};

use super::{
    control_plane::{ValidatedAccessEntry, ValidatedAccessPolicy},
    problem::{FieldPath, Problems},
};

/// Group name prefixes that EKS rejects.
const RESERVED_GROUPS: [&str; 5] = ["system:", "eks:", "aws:", "amazon:", "iam:"];

pub(super) fn check_access_entries(
    path: &FieldPath<'_>,
    entries: &[api::AccessEntry],
    problems: &mut Problems,
) -> Vec<ValidatedAccessEntry> {
    check_count(path, entries.len(), 100, problems);
    let mut valid = Vec::with_capacity(entries.len());
    for (index, entry) in entries.iter().enumerate() {
        let path = path.index(index);
        if entries[..index].iter().any(|earlier| earlier.principal_arn == entry.principal_arn) {
            problems.add(&path.field("principalArn"), "is listed twice", "merge the two entries");
        }
        valid.extend(check_entry(&path, entry, problems));
    }
    valid
}

fn check_entry(
    path: &FieldPath<'_>,
    entry: &api::AccessEntry,
    problems: &mut Problems,
) -> Option<ValidatedAccessEntry> {
    let api::AccessEntry { principal_arn, entry_type, kubernetes_groups, policies } = entry;
    let principal = problems.parse(&path.field("principalArn"), principal_arn);
    if *entry_type != AccessEntryType::Standard && !(kubernetes_groups.is_empty() && policies.is_empty()) {
        problems.add(
            path,
            "kubernetesGroups and policies are only valid for entries of type STANDARD",
            "remove them or the type",
        );
    }
    check_groups(&path.field("kubernetesGroups"), kubernetes_groups, problems);
    let policies_path = path.field("policies");
    check_count(&policies_path, policies.len(), 20, problems);
    let mut valid = Vec::with_capacity(policies.len());
    for (index, policy) in policies.iter().enumerate() {
        let path = policies_path.index(index);
        if policies[..index].iter().any(|earlier| earlier.policy_arn == policy.policy_arn) {
            problems.add(&path.field("policyArn"), "is listed twice", "merge the two policies");
        }
        valid.extend(check_policy(&path, policy, problems));
    }
    let groups = kubernetes_groups.clone();
    Some(ValidatedAccessEntry { principal: principal?, kind: *entry_type, groups, policies: valid })
}

fn check_groups(path: &FieldPath<'_>, groups: &[String], problems: &mut Problems) {
    check_count(path, groups.len(), 50, problems);
    for (index, group) in groups.iter().enumerate() {
        let path = path.index(index);
        if !(1..=253).contains(&group.chars().count()) {
            problems.add(&path, "a group must have 1 to 253 characters", "use the name of a group");
        }
        if RESERVED_GROUPS.iter().any(|reserved| group.starts_with(reserved)) {
            problems.add(
                &path,
                format!("{group:?} has a prefix that is reserved for Kubernetes or AWS, which EKS rejects"),
                "choose another group; for administrators use AmazonEKSClusterAdminPolicy",
            );
        }
    }
}

fn check_policy(
    path: &FieldPath<'_>,
    policy: &api::AccessPolicy,
    problems: &mut Problems,
) -> Option<ValidatedAccessPolicy> {
    let api::AccessPolicy { policy_arn, scope } = policy;
    let arn = problems.parse(&path.field("policyArn"), policy_arn);
    let scope = scope.clone().unwrap_or_default();
    let scope_path = path.field("scope");
    let namespaces_path = scope_path.field("namespaces");
    check_count(&namespaces_path, scope.namespaces.len(), 100, problems);
    match (scope.scope_type, scope.namespaces.is_empty()) {
        (AccessScopeType::Namespace, true) => {
            problems.add(
                &scope_path,
                "has type namespace but lists no namespaces",
                "add namespaces, or use type cluster",
            );
        }
        (AccessScopeType::Cluster, false) => {
            problems.add(
                &scope_path,
                "has type cluster but lists namespaces",
                "remove them, or use type namespace",
            );
        }
        (AccessScopeType::Namespace, false) | (AccessScopeType::Cluster, true) => {}
    }
    for (index, namespace) in scope.namespaces.iter().enumerate() {
        if !(1..=63).contains(&namespace.chars().count()) {
            problems.add(
                &namespaces_path.index(index),
                "a namespace must have 1 to 63 characters",
                "use the name of a namespace",
            );
        }
    }
    Some(ValidatedAccessPolicy { policy: arn?, scope: scope.scope_type, namespaces: scope.namespaces })
}

fn check_count(path: &FieldPath<'_>, count: usize, most: usize, problems: &mut Problems) {
    if count > most {
        problems.add(path, format!("has {count} items, but at most {most} are allowed"), "remove some");
    }
}
