//! The deletion sequence of a control plane. Pure.
//!
//! Order: Sandboxes, router load balancers, Fargate profiles, EKS cluster, Secrets, finalizer. Each step waits until the previous
//! one is complete. No step creates objects, because the namespace may be terminating. Waiting for objects inside the cluster is
//! bounded: they are destroyed with the cluster, or the cluster is unreachable.

use std::time::Duration;

use capt_kinds::api::{CaptControlPlane, FargateProfileStatus, WorkspaceTemplateApply, conditions::reasons};
use k8s_openapi::api::core::v1::{Secret, Service};
use kube::{ResourceExt as _, core::ObjectMeta};

use super::dereference::RemainingObjects;
use crate::common::workspace_summary;

/// Time limit for the deletion of Sandboxes, and again for router load balancers.
pub(crate) const DRAIN_TIMEOUT: Duration = Duration::from_mins(2);
/// Time limit for reaching a cluster with Sandboxes enabled.
const UNREACHABLE_TIMEOUT: Duration = Duration::from_secs(30);

/// A step of the deletion.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum DeletionStep {
    /// Delete the Sandboxes in the cluster, and wait.
    Sandboxes {
        /// Those without a deletion timestamp.
        delete: Vec<ObjectMeta>,
        /// Condition message.
        why: String,
    },
    /// Delete the router load balancers, and wait.
    LoadBalancers {
        /// Those without a deletion timestamp.
        delete: Vec<Service>,
        /// Condition message.
        why: String,
    },
    /// Delete workspaces, and wait for their destroy runs.
    Workspaces {
        /// Those without a deletion timestamp.
        delete: Vec<WorkspaceTemplateApply>,
        /// Condition reason.
        reason: &'static str,
        /// Condition message.
        why: String,
    },
    /// Delete the Secrets.
    Secrets(Vec<Secret>),
    /// Nothing is left: remove the finalizer.
    RemoveFinalizer,
}

/// The next step of a deletion that started `age` ago.
pub(crate) fn next_step(remains: &RemainingObjects, age: Duration) -> DeletionStep {
    let RemainingObjects {
        sandboxes,
        load_balancers: balancers,
        eks_workspace: eks,
        profile_workspaces: profiles,
        secrets,
    } = remains;
    if !sandboxes.is_empty() && age < DRAIN_TIMEOUT {
        let names: Vec<&str> = sandboxes.iter().filter_map(|it| it.name.as_deref()).collect();
        let why = format!("waiting for Sandboxes to be deleted: {}", names.join(", "));
        let delete = sandboxes.iter().filter(|it| it.deletion_timestamp.is_none()).cloned().collect();
        return DeletionStep::Sandboxes { delete, why };
    }
    if let Some(step) = self::load_balancer_step(balancers, age) {
        return step;
    }
    if !profiles.is_empty() {
        let reason = reasons::WAITING_FOR_FARGATE_PROFILES_DELETION;
        return workspace_step(profiles.iter(), reason, "Fargate profiles");
    }
    if let Some(eks) = eks {
        return workspace_step(
            [eks].into_iter(),
            reasons::WAITING_FOR_EKS_CLUSTER_DELETION,
            "the EKS cluster",
        );
    }
    if secrets.is_empty() { DeletionStep::RemoveFinalizer } else { DeletionStep::Secrets(secrets.clone()) }
}

/// Whether to wait for router load balancers. An unreachable cluster may have none, so that the wait for it is shorter.
fn load_balancer_step(left: &Result<Vec<Service>, String>, age: Duration) -> Option<DeletionStep> {
    match left {
        Ok(all) if !all.is_empty() && age < DRAIN_TIMEOUT * 2 => {
            let name = |it: &Service| format!("{}/{}", it.namespace().unwrap_or_default(), it.name_any());
            let names: Vec<String> = all.iter().map(name).collect();
            let why =
                format!("waiting for router load balancers to be deleted: Service {}", names.join(", "));
            let here = all.iter().filter(|it| it.metadata.deletion_timestamp.is_none());
            Some(DeletionStep::LoadBalancers { delete: here.cloned().collect(), why })
        }
        Err(silent) if age < UNREACHABLE_TIMEOUT => {
            let why = format!("cannot list router load balancers in the cluster: {silent}");
            Some(DeletionStep::LoadBalancers { delete: Vec::new(), why })
        }
        Ok(_) | Err(_) => None,
    }
}

fn workspace_step<'a>(
    all: impl Iterator<Item = &'a WorkspaceTemplateApply> + Clone,
    reason: &'static str,
    what: &str,
) -> DeletionStep {
    let told = all.clone().map(|apply| {
        // A problem from before the deletion is not reported.
        let is_going = apply.metadata.deletion_timestamp.is_some();
        let finding = workspace_summary::summarize(apply);
        if is_going {
            finding.message().to_owned()
        } else {
            format!("WorkspaceTemplateApply {}", apply.name_any())
        }
    });
    let why = format!("destroying {what}: {}", told.collect::<Vec<_>>().join("; "));
    let here = all.filter(|apply| apply.metadata.deletion_timestamp.is_none()).cloned();
    DeletionStep::Workspaces { delete: here.collect(), reason, why }
}

/// Status entries of the profiles that are not deleted yet.
pub(crate) fn remaining_profile_statuses(
    object: &CaptControlPlane,
    remains: &RemainingObjects,
) -> Vec<FargateProfileStatus> {
    let before = object.status.iter().flat_map(|status| status.fargate_profile_statuses.clone());
    let left = |status: &FargateProfileStatus| {
        remains
            .profile_workspaces
            .iter()
            .find(|it| status.workspace_template_apply_name == Some(it.name_any()))
    };
    before
        .filter_map(|status| {
            let apply = left(&status)?;
            let trouble = apply
                .metadata
                .deletion_timestamp
                .as_ref()
                .and_then(|_| workspace_summary::summarize(apply).problem);
            let error = apply.status.as_ref().and_then(|status| status.last_error.as_ref());
            let word = error.map(|error| error.code.clone().unwrap_or_else(|| error.class.to_string()));
            Some(FargateProfileStatus {
                ready: false,
                status: Some(
                    status.status.filter(|it| it == "DELETE_FAILED").unwrap_or_else(|| "DELETING".to_owned()),
                ),
                failure_reason: trouble.as_ref().and(word),
                failure_message: trouble.map(|it| it.message),
                ..status
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::controlplane::fixtures::{control_plane, workspace};

    fn going(mut apply: WorkspaceTemplateApply) -> WorkspaceTemplateApply {
        apply.metadata.deletion_timestamp =
            Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(jiff::Timestamp::UNIX_EPOCH));
        apply
    }

    fn apply(name: &str) -> WorkspaceTemplateApply {
        workspace(name, &json!({}), &json!({}))
    }

    fn names(step: &DeletionStep) -> (Vec<String>, &'static str) {
        match step {
            DeletionStep::Workspaces { delete, reason, .. } => {
                (delete.iter().map(kube::ResourceExt::name_any).collect(), *reason)
            }
            _ => panic!("{step:?}"),
        }
    }

    #[test]
    fn the_cluster_waits_for_all_profiles_and_the_secrets_for_the_cluster() {
        let mut remains = RemainingObjects {
            eks_workspace: Some(apply("eks")),
            profile_workspaces: vec![apply("one"), going(apply("two"))],
            secrets: vec![Secret::default()],
            ..RemainingObjects::default()
        };
        assert_eq!(
            names(&next_step(&remains, Duration::ZERO)),
            (vec!["one".to_owned()], "WaitingForFargateProfilesDeletion")
        );
        remains.profile_workspaces = vec![going(apply("two"))];
        assert_eq!(
            names(&next_step(&remains, Duration::ZERO)),
            (vec![], "WaitingForFargateProfilesDeletion")
        );
        remains.profile_workspaces.clear();
        assert_eq!(
            names(&next_step(&remains, Duration::ZERO)),
            (vec!["eks".to_owned()], "WaitingForEKSClusterDeletion")
        );
        remains.eks_workspace = remains.eks_workspace.map(going);
        assert_eq!(names(&next_step(&remains, Duration::ZERO)), (vec![], "WaitingForEKSClusterDeletion"));
        remains.eks_workspace = None;
        assert_eq!(next_step(&remains, Duration::ZERO), DeletionStep::Secrets(vec![Secret::default()]));
        remains.secrets.clear();
        assert_eq!(next_step(&remains, Duration::ZERO), DeletionStep::RemoveFinalizer);
    }

    #[test]
    fn sandboxes_leave_before_everything_else_and_hold_nothing_up() {
        let sandbox = |name: &str| ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() };
        let mut last = sandbox("two");
        last.deletion_timestamp =
            Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(jiff::Timestamp::UNIX_EPOCH));
        let remains = RemainingObjects {
            sandboxes: vec![sandbox("one"), last],
            eks_workspace: Some(apply("eks")),
            ..RemainingObjects::default()
        };
        let DeletionStep::Sandboxes { delete, why } = next_step(&remains, DRAIN_TIMEOUT / 2) else {
            panic!("it waits")
        };
        assert_eq!(delete, [sandbox("one")]);
        assert!(why.contains("one, two"), "{why}");
        assert_eq!(names(&next_step(&remains, DRAIN_TIMEOUT)).1, "WaitingForEKSClusterDeletion");
    }

    #[test]
    fn balancers_leave_before_the_cluster_and_hold_nothing_up_for_ever() {
        let service = Service {
            metadata: ObjectMeta { name: Some("router".to_owned()), ..ObjectMeta::default() },
            ..Service::default()
        };
        let left = |balancers| RemainingObjects {
            load_balancers: balancers,
            eks_workspace: Some(apply("eks")),
            ..RemainingObjects::default()
        };
        let remains = left(Ok(vec![service.clone()]));
        let DeletionStep::LoadBalancers { delete, why } = next_step(&remains, DRAIN_TIMEOUT) else {
            panic!("it waits")
        };
        assert_eq!(delete, std::slice::from_ref(&service));
        assert!(why.contains("router"), "{why}");
        let mut told = service;
        told.metadata.deletion_timestamp =
            Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(jiff::Timestamp::UNIX_EPOCH));
        let DeletionStep::LoadBalancers { delete, .. } = next_step(&left(Ok(vec![told])), DRAIN_TIMEOUT)
        else {
            panic!("it waits")
        };
        assert!(delete.is_empty(), "it is being deleted already");
        assert_eq!(names(&next_step(&remains, DRAIN_TIMEOUT * 2)).1, "WaitingForEKSClusterDeletion");

        let silent = left(Err("it is not there".to_owned()));
        let DeletionStep::LoadBalancers { why, .. } = next_step(&silent, UNREACHABLE_TIMEOUT / 2) else {
            panic!("it waits")
        };
        assert!(why.contains("it is not there"), "{why}");
        assert_eq!(names(&next_step(&silent, UNREACHABLE_TIMEOUT)).1, "WaitingForEKSClusterDeletion");
    }

    #[test]
    fn a_destroy_that_fails_is_told_and_waited_for() {
        let error = json!({"observedGeneration": 1, "lastError": {"class": "Unknown", "code": "InternalFailure",
            "message": "DELETE_FAILED: the role is gone", "retryAt": "2026-11-01T10:00:00Z"}});
        let stuck = going(workspace("cp-apps-fargate-apply", &json!({}), &error));
        let remains = RemainingObjects {
            profile_workspaces: vec![stuck],
            eks_workspace: Some(apply("eks")),
            ..RemainingObjects::default()
        };
        let DeletionStep::Workspaces { why, .. } = next_step(&remains, Duration::ZERO) else {
            panic!("it waits")
        };
        assert!(why.contains("the role is gone") && why.contains("next attempt at"), "{why}");

        let mut object = control_plane(&json!({"version": "1.33"}));
        let entry = |name: &str, apply: &str| FargateProfileStatus {
            name: name.to_owned(),
            ready: true,
            workspace_template_apply_name: Some(apply.to_owned()),
            ..FargateProfileStatus::default()
        };
        object.status.get_or_insert_default().fargate_profile_statuses =
            vec![entry("apps", "cp-apps-fargate-apply"), entry("gone", "cp-gone-fargate-apply")];
        let left = remaining_profile_statuses(&object, &remains);
        assert_eq!(left.len(), 1, "deleted profiles are not reported");
        assert_eq!((left[0].ready, left[0].status.as_deref()), (false, Some("DELETING")));
        assert_eq!(left[0].failure_reason.as_deref(), Some("InternalFailure"));
    }
}
