//! Decides the next action for a network and its deletion. Pure: no I/O.

use capt_kinds::api::{CaptCluster, SecretRef, WorkspaceTemplateApply, conditions::reasons, names as words};
use capt_model::model::names;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::ResourceExt as _;
use serde_json::Value;

use super::{
    build,
    dereference::{NetworkDeletionInputs, NetworkReferences},
    validate::ValidatedCaptCluster,
};
use crate::common::{apply_diff, workspace_summary};

/// The next action for the network's workspace.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Decision {
    /// Apply this object.
    Apply(Box<WorkspaceTemplateApply>),
    /// The live object matches.
    Unchanged,
    /// The workspace cannot be applied yet.
    Wait {
        /// Why.
        why: String,
    },
    /// The workspace belongs to another owner.
    Reject {
        /// Why.
        why: String,
    },
}

/// The next step of a deletion.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum NetworkDeletionStep {
    /// Other objects have to be deleted first.
    Wait {
        /// Condition reason.
        reason: &'static str,
        /// Condition message, which names the objects.
        why: String,
    },
    /// Retain the workspace: remove its owner reference so that it is not garbage collected.
    Detach(Box<WorkspaceTemplateApply>),
    /// Delete the workspace.
    Delete(Box<WorkspaceTemplateApply>),
    /// Nothing is left; remove the finalizers.
    RemoveFinalizers,
}

/// Decides the action for a network that is not being deleted.
pub(super) fn decide(
    object: &CaptCluster,
    valid: &ValidatedCaptCluster,
    seen: &NetworkReferences,
) -> Decision {
    let wanted = build::build_workspace(object, valid, seen);
    let Some(live) = &seen.apply else { return Decision::Apply(Box::new(wanted)) };
    let name = live.name_any();
    if let Some(other) = foreign_owner(object, live) {
        let why = format!(
            "WorkspaceTemplateApply {name} is owned by {} {}; remove spec.workspaceTemplateApplyName, or delete it",
            other.kind, other.name
        );
        return Decision::Reject { why };
    }
    if live.metadata.deletion_timestamp.is_some() {
        return Decision::Wait {
            why: format!("WorkspaceTemplateApply {name} is being deleted; it is recreated afterwards"),
        };
    }
    if apply_diff::needs_apply(&to_json(live), &to_json(&wanted)) {
        Decision::Apply(Box::new(wanted))
    } else {
        Decision::Unchanged
    }
}

/// Decides the next step for a network that is being deleted.
pub(super) fn next_deletion_step(
    object: &CaptCluster,
    remains: &NetworkDeletionInputs,
) -> NetworkDeletionStep {
    if !remains.control_planes.is_empty() {
        let why = format!("waiting for CAPTControlPlane {} to be deleted", remains.control_planes.join(", "));
        return NetworkDeletionStep::Wait { reason: reasons::WAITING_FOR_CONTROL_PLANE_DELETION, why };
    }
    let Some(apply) = remains.apply.as_ref().filter(|apply| foreign_owner(object, apply).is_none()) else {
        return NetworkDeletionStep::RemoveFinalizers;
    };
    if object.spec.retain_vpc_on_delete == Some(true) {
        return detach_step(object, apply);
    }
    let users: Vec<String> = remains
        .workspaces
        .iter()
        .filter(|it| depends_on_vpc(it, apply))
        .map(kube::ResourceExt::name_any)
        .collect();
    if !users.is_empty() {
        let why = format!(
            "waiting for WorkspaceTemplateApply {}, which needs the VPC, to be deleted",
            users.join(", ")
        );
        return NetworkDeletionStep::Wait { reason: reasons::WAITING_FOR_WORKSPACE_DELETION, why };
    }
    if apply.metadata.deletion_timestamp.is_none() {
        return NetworkDeletionStep::Delete(Box::new(apply.clone()));
    }
    let why = workspace_summary::summarize(apply).message().to_owned();
    NetworkDeletionStep::Wait { reason: reasons::WAITING_FOR_WORKSPACE_DELETION, why }
}

/// A retained workspace has `retainWorkspaceOnDelete` and no owner reference.
fn detach_step(object: &CaptCluster, apply: &WorkspaceTemplateApply) -> NetworkDeletionStep {
    let marked = apply.spec.retain_workspace_on_delete == Some(true);
    let owned = apply.owner_references().iter().any(|it| Some(&it.uid) == object.metadata.uid.as_ref());
    if marked && !owned {
        NetworkDeletionStep::RemoveFinalizers
    } else {
        NetworkDeletionStep::Detach(Box::new(apply.clone()))
    }
}

/// The workspace's controller, if it is another object.
fn foreign_owner<'a>(object: &CaptCluster, apply: &'a WorkspaceTemplateApply) -> Option<&'a OwnerReference> {
    let controller = apply.owner_references().iter().find(|it| it.controller == Some(true));
    controller.filter(|it| Some(&it.uid) != object.metadata.uid.as_ref())
}

/// Whether a workspace needs the VPC: it belongs to a control plane, waits for the VPC's workspace, or reads its Secret.
fn depends_on_vpc(user: &WorkspaceTemplateApply, vpc: &WorkspaceTemplateApply) -> bool {
    if user.name_any() == vpc.name_any() {
        return false;
    }
    let home = vpc.namespace().unwrap_or_default();
    let label = |apply: &WorkspaceTemplateApply| apply.labels().get(words::CLUSTER_NAME_LABEL).cloned();
    let of_control_plane = user.owner_references().iter().any(|it| it.kind == "CAPTControlPlane");
    if of_control_plane && label(user).is_some() && label(user) == label(vpc) {
        return true;
    }
    let vpc_name = vpc.name_any();
    let waits = user.spec.wait_for_workspaces.iter().any(|it| {
        let namespace = it.namespace.clone().or_else(|| user.namespace()).unwrap_or_default();
        it.name == names::workspace_name(&vpc_name) && namespace == home
    });
    let secret = connection_secret(vpc);
    let is_secret = |it: &SecretRef| secret.as_ref() == Some(it);
    waits
        || user.spec.wait_for_secrets.iter().any(is_secret)
        || user.spec.inputs_from.iter().any(|it| is_secret(&it.secret_ref))
}

fn connection_secret(apply: &WorkspaceTemplateApply) -> Option<SecretRef> {
    let written = apply.status.as_ref().and_then(|status| status.connection_secret_ref.clone());
    written.or_else(|| apply.spec.write_connection_secret_to_ref.clone())
}

/// The workspace as JSON. Serialization cannot fail: all map keys are strings.
fn to_json(apply: &WorkspaceTemplateApply) -> Value {
    serde_json::to_value(apply).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::captcluster::{
        fixtures::{captcluster, references, workspace},
        validate::validate,
    };

    fn decision(live: Option<WorkspaceTemplateApply>) -> Decision {
        let object = captcluster(&json!({"region": "eu-central-1"}));
        let mut seen = references();
        let valid = validate(&object, &seen).unwrap();
        seen.apply = live;
        decide(&object, &valid, &seen)
    }

    fn wanted() -> WorkspaceTemplateApply {
        match decision(None) {
            Decision::Apply(wanted) => *wanted,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_workspace_is_made_once_and_then_observed() {
        assert_eq!(decision(Some(wanted())), Decision::Unchanged);
        let mut changed = wanted();
        changed.spec.region = Some("us-east-1".to_owned());
        assert!(matches!(decision(Some(changed)), Decision::Apply(_)));
    }

    #[test]
    fn what_others_add_to_a_workspace_is_left_alone() {
        let mut more = wanted();
        more.annotations_mut().insert(words::APPROVE_PLAN_ANNOTATION.to_owned(), "abc".to_owned());
        more.metadata.finalizers = Some(vec![words::APPLY_FINALIZER.to_owned()]);
        assert_eq!(decision(Some(more)), Decision::Unchanged);
    }

    #[test]
    fn a_workspace_of_somebody_else_is_not_taken() {
        let mut theirs = wanted();
        theirs.metadata.owner_references.as_mut().unwrap()[0].uid = "other".to_owned();
        let Decision::Reject { why } = decision(Some(theirs)) else { panic!() };
        assert!(why.contains("is owned by CAPTCluster net"), "{why}");
    }

    #[test]
    fn a_workspace_that_was_kept_is_taken_up_again() {
        let mut kept = wanted();
        kept.metadata.owner_references = None;
        kept.spec.retain_workspace_on_delete = Some(true);
        assert!(matches!(decision(Some(kept)), Decision::Apply(_)));
    }

    fn deletion_step(retain: bool, remains: &NetworkDeletionInputs) -> NetworkDeletionStep {
        next_deletion_step(
            &captcluster(&json!({"region": "eu-central-1", "retainVpcOnDelete": retain})),
            remains,
        )
    }

    fn own() -> WorkspaceTemplateApply {
        let mut own = wanted();
        own.spec.write_connection_secret_to_ref =
            Some(SecretRef { name: "net-vpc-connection".to_owned(), namespace: "team".to_owned() });
        own
    }

    #[test]
    fn control_planes_go_first_also_where_the_network_stays() {
        for retain in [false, true] {
            let remains = NetworkDeletionInputs {
                control_planes: vec!["cp".to_owned()],
                apply: Some(own()),
                ..NetworkDeletionInputs::default()
            };
            let NetworkDeletionStep::Wait { reason, why } = deletion_step(retain, &remains) else { panic!() };
            assert_eq!(reason, reasons::WAITING_FOR_CONTROL_PLANE_DELETION);
            assert!(why.contains("CAPTControlPlane cp"), "{why}");
        }
    }

    #[test]
    fn the_workspace_goes_and_then_the_object() {
        let mut remains = NetworkDeletionInputs { apply: Some(own()), ..NetworkDeletionInputs::default() };
        assert!(matches!(deletion_step(false, &remains), NetworkDeletionStep::Delete(_)));
        remains.apply.as_mut().unwrap().metadata.deletion_timestamp =
            Some(serde_json::from_value(json!("2026-11-01T10:00:00Z")).unwrap());
        assert!(matches!(deletion_step(false, &remains), NetworkDeletionStep::Wait { .. }));
        assert_eq!(
            deletion_step(false, &NetworkDeletionInputs::default()),
            NetworkDeletionStep::RemoveFinalizers
        );
    }

    #[test]
    fn a_network_that_stays_loses_its_owner_before_the_object_goes() {
        let mut remains = NetworkDeletionInputs { apply: Some(own()), ..NetworkDeletionInputs::default() };
        assert!(matches!(deletion_step(true, &remains), NetworkDeletionStep::Detach(_)));
        let apply = remains.apply.as_mut().unwrap();
        apply.spec.retain_workspace_on_delete = Some(true);
        assert!(
            matches!(deletion_step(true, &remains), NetworkDeletionStep::Detach(_)),
            "it still has an owner reference"
        );
        remains.apply.as_mut().unwrap().metadata.owner_references = None;
        assert_eq!(deletion_step(true, &remains), NetworkDeletionStep::RemoveFinalizers);
    }

    #[test]
    fn nobody_elses_workspace_is_deleted() {
        let mut theirs = own();
        theirs.metadata.owner_references.as_mut().unwrap()[0].uid = "other".to_owned();
        assert_eq!(
            deletion_step(
                false,
                &NetworkDeletionInputs { apply: Some(theirs), ..NetworkDeletionInputs::default() }
            ),
            NetworkDeletionStep::RemoveFinalizers
        );
    }

    #[test]
    fn workspaces_that_need_the_network_go_first() {
        let table = [
            (json!({"waitForWorkspaces": [{"name": "net-vpc"}]}), true),
            (json!({"waitForWorkspaces": [{"name": "net-vpc", "namespace": "elsewhere"}]}), false),
            (json!({"waitForSecrets": [{"name": "net-vpc-connection", "namespace": "team"}]}), true),
            (json!({"waitForSecrets": [{"name": "net-vpc-connection", "namespace": "elsewhere"}]}), false),
            (
                json!({"inputsFrom": [{"input": "vpc_id", "key": "vpc_id",
                "secretRef": {"name": "net-vpc-connection", "namespace": "team"}}]}),
                true,
            ),
            (json!({}), false),
        ];
        for (spec, needs) in table {
            let mut user = workspace(&spec, &json!({}));
            user.metadata.name = Some("nodes".to_owned());
            let remains = NetworkDeletionInputs {
                apply: Some(own()),
                workspaces: vec![own(), user],
                ..NetworkDeletionInputs::default()
            };
            assert_eq!(
                matches!(deletion_step(false, &remains), NetworkDeletionStep::Wait { .. }),
                needs,
                "{spec}"
            );
        }
    }
}
