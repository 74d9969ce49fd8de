//! What is to be done about a network now. Pure.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::ResourceExt as _;
use serde_json::Value;

use super::{
    build,
    dereference::{Remains, Seen},
    validate::Validated,
};
use crate::{
    api::{CaptCluster, SecretRef, WorkspaceTemplateApply, conditions::reasons, names as words},
    controllers::common::{applied, workspace},
    model::names,
};

/// What to do about the workspace of a network.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Decision {
    /// Make it so.
    Apply(Box<WorkspaceTemplateApply>),
    /// It is as it should be.
    Observe,
    /// It cannot be touched just now.
    Wait {
        /// Why.
        why: String,
    },
    /// It cannot be had.
    Refuse {
        /// Why.
        why: String,
    },
}

/// What to do about a network that goes.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Removal {
    /// Others have to go first.
    Wait {
        /// In one word.
        reason: &'static str,
        /// Whom it waits for.
        why: String,
    },
    /// The workspace stays, and must survive its owner.
    Detach(Box<WorkspaceTemplateApply>),
    /// The workspace goes.
    Delete(Box<WorkspaceTemplateApply>),
    /// Nothing is left; the object may go.
    Release,
}

/// Decides for a network that shall be there.
pub(super) fn decide(object: &CaptCluster, valid: &Validated, seen: &Seen) -> Decision {
    let wanted = build::workspace(object, valid, seen);
    let Some(live) = &seen.apply else { return Decision::Apply(Box::new(wanted)) };
    let name = live.name_any();
    if let Some(other) = foreign_owner(object, live) {
        let why = format!(
            "WorkspaceTemplateApply {name} belongs to {} {}; remove spec.workspaceTemplateApplyName, or delete it",
            other.kind, other.name
        );
        return Decision::Refuse { why };
    }
    if live.metadata.deletion_timestamp.is_some() {
        return Decision::Wait {
            why: format!("WorkspaceTemplateApply {name} is being deleted; it is made anew when it is gone"),
        };
    }
    if applied::differs(&value(live), &value(&wanted)) {
        Decision::Apply(Box::new(wanted))
    } else {
        Decision::Observe
    }
}

/// Decides for a network that goes.
pub(super) fn removal(object: &CaptCluster, remains: &Remains) -> Removal {
    if !remains.control_planes.is_empty() {
        let why = format!("waiting for CAPTControlPlane {} to be gone", remains.control_planes.join(", "));
        return Removal::Wait { reason: reasons::WAITING_FOR_CONTROL_PLANE_DELETION, why };
    }
    let Some(apply) = remains.apply.as_ref().filter(|apply| foreign_owner(object, apply).is_none()) else {
        return Removal::Release;
    };
    if object.spec.retain_vpc_on_delete == Some(true) {
        return detach(object, apply);
    }
    let users: Vec<String> =
        remains.neighbours.iter().filter(|it| uses(it, apply)).map(kube::ResourceExt::name_any).collect();
    if !users.is_empty() {
        let why = format!(
            "waiting for WorkspaceTemplateApply {}, which needs the VPC, to be gone",
            users.join(", ")
        );
        return Removal::Wait { reason: reasons::WAITING_FOR_WORKSPACE_DELETION, why };
    }
    if apply.metadata.deletion_timestamp.is_none() {
        return Removal::Delete(Box::new(apply.clone()));
    }
    let why = workspace::look(apply).text().to_owned();
    Removal::Wait { reason: reasons::WAITING_FOR_WORKSPACE_DELETION, why }
}

/// A workspace that stays has the mark and no owner. One that somebody deletes by hand goes anyway.
fn detach(object: &CaptCluster, apply: &WorkspaceTemplateApply) -> Removal {
    let marked = apply.spec.retain_workspace_on_delete == Some(true);
    let owned = apply.owner_references().iter().any(|it| Some(&it.uid) == object.metadata.uid.as_ref());
    if marked && !owned { Removal::Release } else { Removal::Detach(Box::new(apply.clone())) }
}

/// Somebody else who made the workspace.
fn foreign_owner<'a>(object: &CaptCluster, apply: &'a WorkspaceTemplateApply) -> Option<&'a OwnerReference> {
    let controller = apply.owner_references().iter().find(|it| it.controller == Some(true));
    controller.filter(|it| Some(&it.uid) != object.metadata.uid.as_ref())
}

/// Whether a workspace needs what another one made: a control plane's does, and one that waits for it or reads its Secret.
fn uses(user: &WorkspaceTemplateApply, vpc: &WorkspaceTemplateApply) -> bool {
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
        it.name == names::workspace(&vpc_name) && namespace == home
    });
    let secret = secret_of(vpc);
    let is_secret = |it: &SecretRef| secret.as_ref() == Some(it);
    waits
        || user.spec.wait_for_secrets.iter().any(is_secret)
        || user.spec.inputs_from.iter().any(|it| is_secret(&it.secret_ref))
}

fn secret_of(apply: &WorkspaceTemplateApply) -> Option<SecretRef> {
    let written = apply.status.as_ref().and_then(|status| status.connection_secret_ref.clone());
    written.or_else(|| apply.spec.write_connection_secret_to_ref.clone())
}

/// A workspace as JSON. It always can be: its maps have text for keys.
fn value(apply: &WorkspaceTemplateApply) -> Value {
    serde_json::to_value(apply).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::controllers::captcluster::{
        fixtures::{captcluster, seen, workspace},
        validate::validate,
    };

    fn decision(live: Option<WorkspaceTemplateApply>) -> Decision {
        let object = captcluster(&json!({"region": "eu-central-1"}));
        let mut seen = seen();
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
        assert_eq!(decision(Some(wanted())), Decision::Observe);
        let mut changed = wanted();
        changed.spec.region = Some("us-east-1".to_owned());
        assert!(matches!(decision(Some(changed)), Decision::Apply(_)));
    }

    #[test]
    fn what_others_add_to_a_workspace_is_left_alone() {
        let mut more = wanted();
        more.annotations_mut().insert(words::APPROVE_PLAN_ANNOTATION.to_owned(), "abc".to_owned());
        more.metadata.finalizers = Some(vec![words::APPLY_FINALIZER.to_owned()]);
        assert_eq!(decision(Some(more)), Decision::Observe);
    }

    #[test]
    fn a_workspace_of_somebody_else_is_not_taken() {
        let mut theirs = wanted();
        theirs.metadata.owner_references.as_mut().unwrap()[0].uid = "other".to_owned();
        let Decision::Refuse { why } = decision(Some(theirs)) else { panic!() };
        assert!(why.contains("belongs to CAPTCluster net"), "{why}");
    }

    #[test]
    fn a_workspace_that_was_kept_is_taken_up_again() {
        let mut kept = wanted();
        kept.metadata.owner_references = None;
        kept.spec.retain_workspace_on_delete = Some(true);
        assert!(matches!(decision(Some(kept)), Decision::Apply(_)));
    }

    fn going(retain: bool, remains: &Remains) -> Removal {
        removal(&captcluster(&json!({"region": "eu-central-1", "retainVpcOnDelete": retain})), remains)
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
            let remains =
                Remains { control_planes: vec!["cp".to_owned()], apply: Some(own()), ..Remains::default() };
            let Removal::Wait { reason, why } = going(retain, &remains) else { panic!() };
            assert_eq!(reason, reasons::WAITING_FOR_CONTROL_PLANE_DELETION);
            assert!(why.contains("CAPTControlPlane cp"), "{why}");
        }
    }

    #[test]
    fn the_workspace_goes_and_then_the_object() {
        let mut remains = Remains { apply: Some(own()), ..Remains::default() };
        assert!(matches!(going(false, &remains), Removal::Delete(_)));
        remains.apply.as_mut().unwrap().metadata.deletion_timestamp =
            Some(serde_json::from_value(json!("2026-11-01T10:00:00Z")).unwrap());
        assert!(matches!(going(false, &remains), Removal::Wait { .. }));
        assert_eq!(going(false, &Remains::default()), Removal::Release);
    }

    #[test]
    fn a_network_that_stays_loses_its_owner_before_the_object_goes() {
        let mut remains = Remains { apply: Some(own()), ..Remains::default() };
        assert!(matches!(going(true, &remains), Removal::Detach(_)));
        let apply = remains.apply.as_mut().unwrap();
        apply.spec.retain_workspace_on_delete = Some(true);
        assert!(matches!(going(true, &remains), Removal::Detach(_)), "it still has an owner");
        remains.apply.as_mut().unwrap().metadata.owner_references = None;
        assert_eq!(going(true, &remains), Removal::Release);
    }

    #[test]
    fn nobody_elses_workspace_is_deleted() {
        let mut theirs = own();
        theirs.metadata.owner_references.as_mut().unwrap()[0].uid = "other".to_owned();
        assert_eq!(going(false, &Remains { apply: Some(theirs), ..Remains::default() }), Removal::Release);
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
            let remains = Remains { apply: Some(own()), neighbours: vec![own(), user], ..Remains::default() };
            assert_eq!(matches!(going(false, &remains), Removal::Wait { .. }), needs, "{spec}");
        }
    }
}
