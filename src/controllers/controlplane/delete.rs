//! What is to be done about a control plane that goes. Pure.
//!
//! Profiles first, then the cluster, then the Secrets; each step waits until the one before it is proven done. Nothing is
//! made here, because nothing can be made in a namespace that goes too.

use k8s_openapi::api::core::v1::Secret;
use kube::ResourceExt as _;

use super::dereference::Remains;
use crate::{
    api::{CaptControlPlane, FargateProfileStatus, WorkspaceTemplateApply, conditions::reasons},
    controllers::common::workspace,
};

/// The next step of a deletion.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Teardown {
    /// Workspaces go, and are waited for.
    Workspaces {
        /// Those that were not told yet.
        delete: Vec<WorkspaceTemplateApply>,
        /// In one word.
        reason: &'static str,
        /// What is waited for.
        why: String,
    },
    /// Secrets go.
    Secrets(Vec<Secret>),
    /// Nothing is left; the object may go.
    Release,
}

/// The next step.
pub(crate) fn next(remains: &Remains) -> Teardown {
    let Remains { eks, profiles, secrets } = remains;
    if !profiles.is_empty() {
        let reason = reasons::WAITING_FOR_FARGATE_PROFILES_DELETION;
        return workspaces(profiles.iter(), reason, "Fargate profiles");
    }
    if let Some(eks) = eks {
        return workspaces([eks].into_iter(), reasons::WAITING_FOR_EKS_CLUSTER_DELETION, "the EKS cluster");
    }
    if secrets.is_empty() { Teardown::Release } else { Teardown::Secrets(secrets.clone()) }
}

fn workspaces<'a>(
    all: impl Iterator<Item = &'a WorkspaceTemplateApply> + Clone,
    reason: &'static str,
    what: &str,
) -> Teardown {
    let told = all.clone().map(|apply| {
        // What it said before it was told to go is no news.
        let is_going = apply.metadata.deletion_timestamp.is_some();
        let finding = workspace::look(apply);
        if is_going {
            finding.text().to_owned()
        } else {
            format!("WorkspaceTemplateApply {}", apply.name_any())
        }
    });
    let why = format!("destroying {what}: {}", told.collect::<Vec<_>>().join("; "));
    let here = all.filter(|apply| apply.metadata.deletion_timestamp.is_none()).cloned();
    Teardown::Workspaces { delete: here.collect(), reason, why }
}

/// What is said of the profiles that are left.
pub(crate) fn profiles(object: &CaptControlPlane, remains: &Remains) -> Vec<FargateProfileStatus> {
    let before = object.status.iter().flat_map(|status| status.fargate_profile_statuses.clone());
    let left = |status: &FargateProfileStatus| {
        remains.profiles.iter().find(|it| status.workspace_template_apply_name == Some(it.name_any()))
    };
    before
        .filter_map(|status| {
            let apply = left(&status)?;
            let trouble =
                apply.metadata.deletion_timestamp.as_ref().and_then(|_| workspace::look(apply).trouble);
            let error = apply.status.as_ref().and_then(|status| status.last_error.as_ref());
            let word = error.map(|error| error.code.clone().unwrap_or_else(|| error.class.clone()));
            Some(FargateProfileStatus {
                ready: false,
                status: Some(
                    status.status.filter(|it| it == "DELETE_FAILED").unwrap_or_else(|| "DELETING".to_owned()),
                ),
                failure_reason: trouble.as_ref().and(word),
                failure_message: trouble.map(|it| it.text),
                ..status
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::controllers::controlplane::fixtures::{control_plane, workspace};

    fn going(mut apply: WorkspaceTemplateApply) -> WorkspaceTemplateApply {
        apply.metadata.deletion_timestamp =
            Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(jiff::Timestamp::UNIX_EPOCH));
        apply
    }

    fn apply(name: &str) -> WorkspaceTemplateApply {
        workspace(name, &json!({}), &json!({}))
    }

    fn names(step: &Teardown) -> (Vec<String>, &'static str) {
        match step {
            Teardown::Workspaces { delete, reason, .. } => {
                (delete.iter().map(kube::ResourceExt::name_any).collect(), *reason)
            }
            _ => panic!("{step:?}"),
        }
    }

    #[test]
    fn the_cluster_waits_for_all_profiles_and_the_secrets_for_the_cluster() {
        let mut remains = Remains {
            eks: Some(apply("eks")),
            profiles: vec![apply("one"), going(apply("two"))],
            secrets: vec![Secret::default()],
        };
        assert_eq!(names(&next(&remains)), (vec!["one".to_owned()], "WaitingForFargateProfilesDeletion"));
        remains.profiles = vec![going(apply("two"))];
        assert_eq!(names(&next(&remains)), (vec![], "WaitingForFargateProfilesDeletion"));
        remains.profiles.clear();
        assert_eq!(names(&next(&remains)), (vec!["eks".to_owned()], "WaitingForEKSClusterDeletion"));
        remains.eks = remains.eks.map(going);
        assert_eq!(names(&next(&remains)), (vec![], "WaitingForEKSClusterDeletion"));
        remains.eks = None;
        assert_eq!(next(&remains), Teardown::Secrets(vec![Secret::default()]));
        remains.secrets.clear();
        assert_eq!(next(&remains), Teardown::Release);
    }

    #[test]
    fn a_destroy_that_fails_is_told_and_waited_for() {
        let error = json!({"observedGeneration": 1, "lastError": {"class": "Unknown", "code": "InternalFailure",
            "message": "DELETE_FAILED: the role is gone", "retryAt": "2026-11-01T10:00:00Z"}});
        let stuck = going(workspace("cp-apps-fargate-apply", &json!({}), &error));
        let remains = Remains { profiles: vec![stuck], eks: Some(apply("eks")), secrets: Vec::new() };
        let Teardown::Workspaces { why, .. } = next(&remains) else { panic!("it waits") };
        assert!(why.contains("the role is gone") && why.contains("tried again at"), "{why}");

        let mut object = control_plane(&json!({"version": "1.33"}));
        let entry = |name: &str, apply: &str| FargateProfileStatus {
            name: name.to_owned(),
            ready: true,
            workspace_template_apply_name: Some(apply.to_owned()),
            ..FargateProfileStatus::default()
        };
        object.status.get_or_insert_default().fargate_profile_statuses =
            vec![entry("apps", "cp-apps-fargate-apply"), entry("gone", "cp-gone-fargate-apply")];
        let left = profiles(&object, &remains);
        assert_eq!(left.len(), 1, "what is gone is not told of");
        assert_eq!((left[0].ready, left[0].status.as_deref()), (false, Some("DELETING")));
        assert_eq!(left[0].failure_reason.as_deref(), Some("InternalFailure"));
    }
}
