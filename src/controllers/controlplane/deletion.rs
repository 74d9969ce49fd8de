//! What is to be done about a control plane that goes. Pure.
//!
//! Sandboxes leave first and then the load balancers of routers, then the profiles go, then the cluster, then the Secrets; each step
//! waits until the one before it is proven done. Nothing is made here, because nothing can be made in a namespace that goes too.
//! What is in the cluster itself is not waited for without end: it goes with the cluster, or nobody reaches it any more.

use std::time::Duration;

use k8s_openapi::api::core::v1::{Secret, Service};
use kube::{ResourceExt as _, core::ObjectMeta};

use super::dereference::Remains;
use crate::{
    api::{CaptControlPlane, FargateProfileStatus, WorkspaceTemplateApply, conditions::reasons},
    controllers::common::workspace,
};

/// How long Sandboxes may take to leave, and then the load balancers of routers.
pub(crate) const DRAIN: Duration = Duration::from_mins(2);
/// How long a cluster may be silent where Sandboxes could have lived.
const SILENCE: Duration = Duration::from_secs(30);

/// The next step of a deletion.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Teardown {
    /// Sandboxes leave the cluster, and are waited for.
    Sandboxes {
        /// Those that were not told yet.
        delete: Vec<ObjectMeta>,
        /// What is waited for.
        why: String,
    },
    /// The load balancers of routers go, and are waited for.
    Balancers {
        /// Those that were not told yet.
        delete: Vec<Service>,
        /// What is waited for.
        why: String,
    },
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

/// The next step of a deletion that has gone on for so long.
pub(crate) fn next(remains: &Remains, age: Duration) -> Teardown {
    let Remains { sandboxes, balancers, eks, profiles, secrets } = remains;
    if !sandboxes.is_empty() && age < DRAIN {
        let names: Vec<&str> = sandboxes.iter().filter_map(|it| it.name.as_deref()).collect();
        let why = format!("waiting for Sandboxes to leave the cluster: {}", names.join(", "));
        let delete = sandboxes.iter().filter(|it| it.deletion_timestamp.is_none()).cloned().collect();
        return Teardown::Sandboxes { delete, why };
    }
    if let Some(step) = self::balancers(balancers, age) {
        return step;
    }
    if !profiles.is_empty() {
        let reason = reasons::WAITING_FOR_FARGATE_PROFILES_DELETION;
        return workspaces(profiles.iter(), reason, "Fargate profiles");
    }
    if let Some(eks) = eks {
        return workspaces([eks].into_iter(), reasons::WAITING_FOR_EKS_CLUSTER_DELETION, "the EKS cluster");
    }
    if secrets.is_empty() { Teardown::Release } else { Teardown::Secrets(secrets.clone()) }
}

/// Whether the load balancers that are left are waited for. Those of a cluster that says nothing may be none.
fn balancers(left: &Result<Vec<Service>, String>, age: Duration) -> Option<Teardown> {
    match left {
        Ok(all) if !all.is_empty() && age < DRAIN * 2 => {
            let name = |it: &Service| format!("{}/{}", it.namespace().unwrap_or_default(), it.name_any());
            let names: Vec<String> = all.iter().map(name).collect();
            let why =
                format!("waiting for the load balancers of routers to go: Service {}", names.join(", "));
            let here = all.iter().filter(|it| it.metadata.deletion_timestamp.is_none());
            Some(Teardown::Balancers { delete: here.cloned().collect(), why })
        }
        Err(silent) if age < SILENCE => {
            let why = format!("asking the cluster for load balancers of routers: {silent}");
            Some(Teardown::Balancers { delete: Vec::new(), why })
        }
        Ok(_) | Err(_) => None,
    }
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
            ..Remains::default()
        };
        assert_eq!(
            names(&next(&remains, Duration::ZERO)),
            (vec!["one".to_owned()], "WaitingForFargateProfilesDeletion")
        );
        remains.profiles = vec![going(apply("two"))];
        assert_eq!(names(&next(&remains, Duration::ZERO)), (vec![], "WaitingForFargateProfilesDeletion"));
        remains.profiles.clear();
        assert_eq!(
            names(&next(&remains, Duration::ZERO)),
            (vec!["eks".to_owned()], "WaitingForEKSClusterDeletion")
        );
        remains.eks = remains.eks.map(going);
        assert_eq!(names(&next(&remains, Duration::ZERO)), (vec![], "WaitingForEKSClusterDeletion"));
        remains.eks = None;
        assert_eq!(next(&remains, Duration::ZERO), Teardown::Secrets(vec![Secret::default()]));
        remains.secrets.clear();
        assert_eq!(next(&remains, Duration::ZERO), Teardown::Release);
    }

    #[test]
    fn sandboxes_leave_before_everything_else_and_hold_nothing_up() {
        let sandbox = |name: &str| ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() };
        let mut last = sandbox("two");
        last.deletion_timestamp =
            Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(jiff::Timestamp::UNIX_EPOCH));
        let remains =
            Remains { sandboxes: vec![sandbox("one"), last], eks: Some(apply("eks")), ..Remains::default() };
        let Teardown::Sandboxes { delete, why } = next(&remains, DRAIN / 2) else { panic!("it waits") };
        assert_eq!(delete, [sandbox("one")]);
        assert!(why.contains("one, two"), "{why}");
        assert_eq!(names(&next(&remains, DRAIN)).1, "WaitingForEKSClusterDeletion");
    }

    #[test]
    fn balancers_leave_before_the_cluster_and_hold_nothing_up_for_ever() {
        let service = Service {
            metadata: ObjectMeta { name: Some("router".to_owned()), ..ObjectMeta::default() },
            ..Service::default()
        };
        let left = |balancers| Remains { balancers, eks: Some(apply("eks")), ..Remains::default() };
        let remains = left(Ok(vec![service.clone()]));
        let Teardown::Balancers { delete, why } = next(&remains, DRAIN) else { panic!("it waits") };
        assert_eq!(delete, std::slice::from_ref(&service));
        assert!(why.contains("router"), "{why}");
        let mut told = service;
        told.metadata.deletion_timestamp =
            Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(jiff::Timestamp::UNIX_EPOCH));
        let Teardown::Balancers { delete, .. } = next(&left(Ok(vec![told])), DRAIN) else {
            panic!("it waits")
        };
        assert!(delete.is_empty(), "it goes already");
        assert_eq!(names(&next(&remains, DRAIN * 2)).1, "WaitingForEKSClusterDeletion");

        let silent = left(Err("it is not there".to_owned()));
        let Teardown::Balancers { why, .. } = next(&silent, SILENCE / 2) else { panic!("it waits") };
        assert!(why.contains("it is not there"), "{why}");
        assert_eq!(names(&next(&silent, SILENCE)).1, "WaitingForEKSClusterDeletion");
    }

    #[test]
    fn a_destroy_that_fails_is_told_and_waited_for() {
        let error = json!({"observedGeneration": 1, "lastError": {"class": "Unknown", "code": "InternalFailure",
            "message": "DELETE_FAILED: the role is gone", "retryAt": "2026-11-01T10:00:00Z"}});
        let stuck = going(workspace("cp-apps-fargate-apply", &json!({}), &error));
        let remains = Remains { profiles: vec![stuck], eks: Some(apply("eks")), ..Remains::default() };
        let Teardown::Workspaces { why, .. } = next(&remains, Duration::ZERO) else { panic!("it waits") };
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
