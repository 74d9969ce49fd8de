//! The workspaces that a deletion waits for: those that stand on the deleted one, may do so, and may hold resources.

use capt_kinds::{
    api::{
        SecretRef, WorkspaceTemplateApply,
        conditions::{reasons, types},
    },
    grant::{self, Granted},
};
use capt_kube::k8s::{K8sError, KubeClient};
use capt_model::model::names;
use k8s_openapi::api::core::v1::{Namespace, Secret};
use kube::{Resource, ResourceExt};

use crate::common::{granted_reader::readable, invalid_object::filter_valid};

/// Reasons of a workspace that cannot start before its own namespace corrects something. What never ran holds nothing, and would
/// block the deletion forever.
const REJECTED: [&str; 6] = [
    reasons::INVALID_SPEC,
    reasons::INVALID_INPUT,
    reasons::TEMPLATE_INVALID,
    reasons::WORKSPACE_TEMPLATE_NOT_FOUND,
    reasons::REFERENCE_NOT_GRANTED,
    reasons::IDENTITY_NOT_ALLOWED,
];

/// The dependents of a workspace, in words: names, and the number of those in other namespaces.
pub async fn list_dependents(
    kube: &KubeClient,
    scope: Option<&str>,
    object: &WorkspaceTemplateApply,
) -> Result<Vec<String>, K8sError> {
    let all = filter_valid::<WorkspaceTemplateApply>(kube.list(scope, "").await?);
    let standing = |other: &&WorkspaceTemplateApply| {
        other.uid() != object.uid()
            && !other.finalizers().is_empty()
            && Dependency::between(other, object).is_some()
    };
    let others: Vec<&WorkspaceTemplateApply> = all.iter().filter(standing).collect();
    let is_foreign = |other: &&WorkspaceTemplateApply| other.namespace() != object.namespace();
    let grants =
        if others.iter().any(is_foreign) { Grants::read(kube, object).await? } else { Grants::default() };
    Ok(describe(object, &grants.dependents(&others, object)))
}

/// How a workspace stands on another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Dependency {
    /// It reads the outputs.
    by_secret: bool,
    /// It waits for the workspace.
    by_name: bool,
}

impl Dependency {
    /// How `other` reads the outputs of `object` or waits for it, if it does.
    fn between(other: &WorkspaceTemplateApply, object: &WorkspaceTemplateApply) -> Option<Self> {
        let home = object.namespace().unwrap_or_default();
        let secret = connection_secret(object);
        let secrets =
            other.spec.wait_for_secrets.iter().chain(other.spec.inputs_from.iter().map(|it| &it.secret_ref));
        let by_secret = secret.is_some_and(|ours| secrets.into_iter().any(|it| it == ours));
        let name = object.name_any();
        let by_name = other.spec.wait_for_workspaces.iter().any(|it| {
            let there = it.namespace.clone().filter(|it| !it.is_empty()).or_else(|| other.namespace());
            there.as_deref() == Some(&home) && names::workspace_name(&it.name) == names::workspace_name(&name)
        });
        (by_secret || by_name).then_some(Self { by_secret, by_name })
    }
}

fn connection_secret(object: &WorkspaceTemplateApply) -> Option<&SecretRef> {
    let written = object.status.as_ref().and_then(|status| status.connection_secret_ref.as_ref());
    written.or(object.spec.write_connection_secret_to_ref.as_ref())
}

/// A workspace that stands on another one, and may.
struct Dependent<'a> {
    object: &'a WorkspaceTemplateApply,
}

impl<'a> Dependent<'a> {
    /// A dependent that was granted the workspace or its Secret.
    fn of<K: Resource>(object: &'a WorkspaceTemplateApply, _target: &Granted<&K>) -> Self {
        Self { object }
    }
}

/// What grants dependencies from other namespaces.
#[derive(Default)]
struct Grants {
    home: Option<Namespace>,
    secret: Option<Secret>,
}

impl Grants {
    async fn read(kube: &KubeClient, object: &WorkspaceTemplateApply) -> Result<Self, K8sError> {
        let home = object.namespace().unwrap_or_default();
        let secret = match connection_secret(object) {
            Some(at) => readable(kube.get(Some(&at.namespace), &at.name).await)?,
            None => None,
        };
        Ok(Self { home: readable(kube.get(None, &home).await)?, secret })
    }

    /// The workspaces that were granted what they stand on, and may hold resources.
    fn dependents<'a>(
        &self,
        others: &[&'a WorkspaceTemplateApply],
        object: &WorkspaceTemplateApply,
    ) -> Vec<Dependent<'a>> {
        others.iter().filter_map(|other| self.dependent(other, object)).collect()
    }

    fn dependent<'a>(
        &self,
        other: &'a WorkspaceTemplateApply,
        object: &WorkspaceTemplateApply,
    ) -> Option<Dependent<'a>> {
        let from = other.namespace().unwrap_or_default();
        let is_foreign = other.namespace() != object.namespace();
        let how = Dependency::between(other, object).filter(|_| may_hold_resources(other, is_foreign))?;
        let whole = grant::borrowed_reference(&from, object, self.home.as_ref());
        if let Some(whole) = whole.filter(|_| how.by_name || !is_foreign) {
            return Some(Dependent::of(other, &whole));
        }
        let secret = self.secret.as_ref().filter(|_| how.by_secret)?;
        let secret = grant::borrowed_reference(&from, secret, self.home.as_ref())?;
        Some(Dependent::of(other, &secret))
    }
}

/// Whether a dependent may have made something. In the own namespace also if it is about to; in another one only if it ran, so that
/// only what really used its grant blocks a deletion.
fn may_hold_resources(other: &WorkspaceTemplateApply, is_foreign: bool) -> bool {
    let Some(status) = &other.status else { return !is_foreign };
    let ran = status.applied == Some(true) || status.run.is_some();
    let synced = status.conditions.iter().find(|it| it.type_ == types::SYNCED);
    let is_rejected = synced.is_some_and(|it| it.status == "False" && REJECTED.contains(&it.reason.as_str()));
    ran || !(is_foreign || is_rejected)
}

/// Names in the own namespace; names of others are none of its business.
fn describe(object: &WorkspaceTemplateApply, dependents: &[Dependent<'_>]) -> Vec<String> {
    let own = |it: &&Dependent<'_>| it.object.namespace() == object.namespace();
    let mut said: Vec<String> = dependents.iter().filter(own).map(|it| it.object.name_any()).collect();
    said.sort();
    match dependents.len().saturating_sub(said.len()) {
        0 => {}
        foreign => said.push(format!("{foreign} in other namespaces")),
    }
    said
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn object((namespace, name): (&str, &str), spec: &Value, status: &Value) -> WorkspaceTemplateApply {
        serde_json::from_value(json!({
            "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta1", "kind": "WorkspaceTemplateApply",
            "metadata": {"name": name, "namespace": namespace}, "spec": spec, "status": status,
        }))
        .unwrap()
    }

    fn vpc() -> WorkspaceTemplateApply {
        let spec =
            json!({"module": "vpc", "writeConnectionSecretToRef": {"name": "vpc-out", "namespace": "team"}});
        object(("team", "demo-vpc"), &spec, &Value::Null)
    }

    fn waits_for_secret() -> Value {
        json!({"waitForSecrets": [{"name": "vpc-out", "namespace": "team"}]})
    }

    fn waits_for_workspace() -> Value {
        json!({"waitForWorkspaces": [{"name": "demo-vpc", "namespace": "team"}]})
    }

    fn said(vpc: &WorkspaceTemplateApply, other: &WorkspaceTemplateApply, grants: &Grants) -> String {
        describe(vpc, &grants.dependents(&[other], vpc)).join(", ")
    }

    #[test]
    fn who_reads_the_outputs_or_waits_stands_on_a_workspace() {
        let reads = json!({"module": "eks", "inputsFrom": [
            {"input": "vpc_id", "secretRef": {"name": "vpc-out", "namespace": "team"}, "key": "vpc_id"}]});
        let follows = json!({"waitForWorkspaces": [{"name": "demo-vpc"}]});
        for spec in [waits_for_secret(), reads, follows] {
            let other = object(("team", "other"), &spec, &Value::Null);
            assert_eq!(said(&vpc(), &other, &Grants::default()), "other", "{spec}");
        }
        let elsewhere = json!({"waitForSecrets": [{"name": "vpc-out", "namespace": "other"}],
            "waitForWorkspaces": [{"name": "demo-vpc", "namespace": "other"}]});
        let other = object(("team", "other"), &elsewhere, &Value::Null);
        assert_eq!(Dependency::between(&other, &vpc()), None);
    }

    #[test]
    fn h4_a_workspace_of_another_namespace_blocks_only_with_a_grant_and_without_its_name() {
        let allows = json!({"annotations": {"capt.x-k8s.io/allow-references-from": "team-a"}});
        let with = |meta: &Value, more: &Value| {
            let mut meta = meta.clone();
            meta.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            json!({ "metadata": meta })
        };
        let team = json!({"name": "team"});
        let none = || Grants {
            home: Some(serde_json::from_value(with(&team, &json!({}))).unwrap()),
            secret: Some(
                serde_json::from_value(json!({"metadata": {"name": "vpc-out", "namespace": "team"}}))
                    .unwrap(),
            ),
        };
        let by_namespace =
            || Grants { home: Some(serde_json::from_value(with(&team, &allows)).unwrap()), ..none() };
        let secret = json!({"name": "vpc-out", "namespace": "team"});
        let by_secret =
            || Grants { secret: Some(serde_json::from_value(with(&secret, &allows)).unwrap()), ..none() };
        let mut open = vpc();
        open.annotations_mut().insert("capt.x-k8s.io/allow-references-from".into(), "*".into());
        let used = json!({"applied": true});
        let foreign = |spec: &Value, status: &Value| object(("team-a", "blocker"), spec, status);
        let closed = vpc();
        for (waits, own, grants, expected) in [
            (waits_for_workspace(), &closed, &none(), ""),
            (waits_for_secret(), &closed, &none(), ""),
            (waits_for_workspace(), &closed, &by_namespace(), "1 in other namespaces"),
            (waits_for_secret(), &closed, &by_namespace(), "1 in other namespaces"),
            (waits_for_workspace(), &closed, &by_secret(), ""),
            (waits_for_secret(), &closed, &by_secret(), "1 in other namespaces"),
            (waits_for_workspace(), &open, &none(), "1 in other namespaces"),
            (waits_for_secret(), &open, &none(), ""),
        ] {
            assert_eq!(said(own, &foreign(&waits, &used), grants), expected, "{waits}");
        }
        let unused = foreign(&waits_for_workspace(), &Value::Null);
        assert_eq!(said(&vpc(), &unused, &by_namespace()), "", "it never ran");
    }

    #[test]
    fn h4_a_workspace_that_cannot_start_blocks_nobody() {
        let synced = |reason: &str| {
            json!({"conditions": [{"type": "Synced", "status": "False", "reason": reason, "message": "",
                "lastTransitionTime": "2026-11-01T10:00:00Z"}]})
        };
        let mut failed = synced("TemplateInvalid");
        failed["applied"] = json!(true);
        for (status, expected) in [
            (synced("WorkspaceTemplateNotFound"), ""),
            (synced("InvalidSpec"), ""),
            (synced("WaitingForSecrets"), "other"),
            (failed, "other"),
        ] {
            let other = object(("team", "other"), &waits_for_secret(), &status);
            assert_eq!(said(&vpc(), &other, &Grants::default()), expected, "{status}");
        }
    }
}
