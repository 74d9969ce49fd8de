//! Reads the objects that a workspace references, checks that they may be referenced, and records the references.

use std::collections::{BTreeMap, BTreeSet};

use capt_kinds::api::{WorkspaceTemplate, WorkspaceTemplateApply, conditions::reasons, conditions::types};
use capt_kube::k8s::{K8sError, KubeClient, conditions, references};
use capt_model::{
    model::{ObjectKey, names},
    workspaces::WorkspaceKey,
};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Secret};
use kube::{Resource, ResourceExt};
use serde::de::DeserializeOwned;

use super::{
    input_error::InputError,
    observation::ConditionReason,
    reference_index::{ReferenceIndex, ReferenceKind, ReferenceTarget},
};
use crate::common::invalid_object::filter_valid;

/// Reads the references of one object and records them.
pub struct ReferenceReader<'a> {
    kube: &'a KubeClient,
    namespace: &'a str,
    /// Index in which references are recorded, and the key of the reading object.
    recorder: Option<(&'a ReferenceIndex, &'a WorkspaceKey)>,
    /// All referenced objects, including missing ones.
    pub targets: BTreeSet<ReferenceTarget>,
    namespace_annotations: BTreeMap<String, BTreeMap<String, String>>,
}

impl<'a> ReferenceReader<'a> {
    /// Reader for an object in this namespace.
    pub fn new(kube: &'a KubeClient, namespace: &'a str) -> Self {
        Self {
            kube,
            namespace,
            recorder: None,
            targets: BTreeSet::new(),
            namespace_annotations: BTreeMap::new(),
        }
    }

    /// Records references in the index, so that changes of them reconcile the object.
    pub const fn recording_in(mut self, index: &'a ReferenceIndex, reader: &'a WorkspaceKey) -> Self {
        self.recorder = Some((index, reader));
        self
    }

    /// Records a reference. Must precede the read: an object created in between would otherwise trigger no reconcile.
    pub fn record_target(&mut self, target: ReferenceTarget) {
        if let Some((index, reader)) = self.recorder {
            index.add(reader, &target);
        }
        self.targets.insert(target);
    }

    /// Gets a template that the object may reference.
    pub async fn get_template(&mut self, key: &ObjectKey) -> Result<WorkspaceTemplate, InputError> {
        self.get_granted(ReferenceKind::Template, key).await?.ok_or_else(|| template_not_found(key))
    }

    /// Gets a Secret that the object may reference, if it exists.
    pub async fn get_secret(&mut self, key: &ObjectKey) -> Result<Option<Secret>, InputError> {
        self.get_granted(ReferenceKind::Secret, key).await
    }

    /// Gets a `ConfigMap` that the object may reference, if it exists.
    pub async fn get_config_map(&mut self, key: &ObjectKey) -> Result<Option<ConfigMap>, InputError> {
        self.get_granted(ReferenceKind::ConfigMap, key).await
    }

    /// Name and labels of the object's namespace.
    pub async fn get_own_namespace(&mut self) -> Result<(String, BTreeMap<String, String>), InputError> {
        let found: Option<Namespace> = self.kube.get(None, self.namespace).await?;
        Ok((self.namespace.to_owned(), found.and_then(|it| it.metadata.labels).unwrap_or_default()))
    }

    /// Gets the Secret with an identity's credentials. Permission to use the identity covers its Secret in any namespace.
    pub async fn get_credentials_secret(&mut self, key: &ObjectKey) -> Result<Secret, InputError> {
        self.record_target(ReferenceTarget::new(
            ReferenceKind::Secret,
            key.namespace.as_str(),
            key.name.as_str(),
        ));
        self.kube.get(Some(key.namespace.as_str()), key.name.as_str()).await?.ok_or_else(|| {
            let message = format!(
                "Secret {key}, which holds the credentials of an identity, does not exist; create it"
            );
            InputError::Waiting(ConditionReason::new(reasons::IDENTITY_NOT_ALLOWED, message))
        })
    }

    /// Whether a workspace exists and is ready. Accepts the name of the workspace and that of its object.
    pub async fn is_workspace_ready(&mut self, key: &ObjectKey) -> Result<bool, InputError> {
        for name in [key.name.to_string(), format!("{}-apply", key.name)] {
            self.record_target(ReferenceTarget::new(ReferenceKind::Workspace, key.namespace.as_str(), &name));
            let found = self.kube.get::<WorkspaceTemplateApply>(Some(key.namespace.as_str()), &name).await?;
            if let Some(found) = found
                && names::workspace_name(&name) == names::workspace_name(key.name.as_str())
            {
                let status = found.status.unwrap_or_default();
                return Ok(conditions::is_true(&status.conditions, types::READY));
            }
        }
        Ok(false)
    }

    async fn get_granted<K>(&mut self, kind: ReferenceKind, key: &ObjectKey) -> Result<Option<K>, InputError>
    where
        K: Resource + DeserializeOwned,
        K::DynamicType: Default,
    {
        let namespace = key.namespace.as_str();
        self.record_target(ReferenceTarget::new(kind, namespace, key.name.as_str()));
        let found: Option<K> = self.kube.get(Some(namespace), key.name.as_str()).await?;
        if let Some(found) = &found {
            self.check_grant(namespace, found).await?;
        }
        Ok(found)
    }

    /// Checks that an object in another namespace, or that namespace, allows the reference. The operator can read every
    /// Secret; the author of a workspace must not gain that access through it.
    async fn check_grant<K: Resource>(&mut self, namespace: &str, found: &K) -> Result<(), InputError>
    where
        K::DynamicType: Default,
    {
        if namespace == self.namespace {
            return Ok(());
        }
        let of_namespace = self.get_namespace_annotations(namespace).await?;
        let target = references::CrossNamespaceTarget {
            namespace,
            annotations: Some(found.annotations()),
            namespace_annotations: Some(&of_namespace),
        };
        if references::may_refer(self.namespace, &target) {
            return Ok(());
        }
        let kind = K::kind(&K::DynamicType::default()).into_owned();
        let message = format!(
            "{kind} {namespace}/{} may not be used from namespace {}; allow it there with the annotation \
             capt.x-k8s.io/allow-references-from: {}, or move it",
            found.name_any(),
            self.namespace,
            self.namespace
        );
        Err(InputError::Invalid(ConditionReason::new(reasons::REFERENCE_NOT_GRANTED, message)))
    }

    async fn get_namespace_annotations(
        &mut self,
        namespace: &str,
    ) -> Result<BTreeMap<String, String>, InputError> {
        if let Some(known) = self.namespace_annotations.get(namespace) {
            return Ok(known.clone());
        }
        let found: Option<Namespace> = self.kube.get(None, namespace).await?;
        let annotations = found.and_then(|it| it.metadata.annotations).unwrap_or_default();
        self.namespace_annotations.insert(namespace.to_owned(), annotations.clone());
        Ok(annotations)
    }
}

/// The error of a reference to a template that does not exist.
pub fn template_not_found(key: &ObjectKey) -> InputError {
    let message = format!("WorkspaceTemplate {key} does not exist; create it, or correct templateRef");
    InputError::Waiting(ConditionReason::new(reasons::WORKSPACE_TEMPLATE_NOT_FOUND, message))
}

/// Names of the workspaces that depend on this one and still hold resources.
pub async fn list_dependents(
    kube: &KubeClient,
    scope: Option<&str>,
    object: &WorkspaceTemplateApply,
) -> Result<Vec<String>, K8sError> {
    let all = filter_valid::<WorkspaceTemplateApply>(kube.list(scope, "").await?);
    let others = all.iter().filter(|other| other.uid() != object.uid());
    let mut names: Vec<String> = others
        .filter(|other| !other.finalizers().is_empty() && depends_on(other, object))
        .map(ResourceExt::name_any)
        .collect();
    names.sort();
    Ok(names)
}

/// Whether `other` reads the outputs of `object` or waits for it.
fn depends_on(other: &WorkspaceTemplateApply, object: &WorkspaceTemplateApply) -> bool {
    let home = object.namespace().unwrap_or_default();
    let status = object.status.as_ref();
    let secret = status
        .and_then(|status| status.connection_secret_ref.as_ref())
        .or(object.spec.write_connection_secret_to_ref.as_ref());
    let secrets =
        other.spec.wait_for_secrets.iter().chain(other.spec.inputs_from.iter().map(|it| &it.secret_ref));
    let by_secret = secret.is_some_and(|ours| secrets.into_iter().any(|it| it == ours));
    let name = object.name_any();
    let by_name = other.spec.wait_for_workspaces.iter().any(|it| {
        let there = it.namespace.clone().filter(|it| !it.is_empty()).or_else(|| other.namespace());
        there.as_deref() == Some(&home) && names::workspace_name(&it.name) == names::workspace_name(&name)
    });
    by_secret || by_name
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use http::{Request, Response, StatusCode};
    use kube::client::Body;
    use serde_json::json;

    use super::*;

    /// Fake API server without objects; asserts that each reference is recorded before it is read.
    fn empty_api_server(index: &ReferenceIndex, reader: &WorkspaceKey) -> KubeClient {
        let (index, reader) = (index.clone(), reader.clone());
        let service = tower::service_fn(move |asked: Request<Body>| {
            let name = asked.uri().path().rsplit('/').next().unwrap().to_owned();
            let noted = index.readers(&ReferenceTarget::new(ReferenceKind::Secret, "team", &name));
            assert_eq!(
                noted,
                std::slice::from_ref(&reader),
                "{name}: created now, it would trigger no reconcile"
            );
            let body = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "NotFound", "code": 404,
                "message": format!("secrets {name:?} not found"), "details": {"name": name, "kind": "secrets"}});
            let mut answer = Response::new(Body::from(serde_json::to_vec(&body).unwrap()));
            *answer.status_mut() = StatusCode::NOT_FOUND;
            std::future::ready(Ok::<_, Infallible>(answer))
        });
        KubeClient::new(kube::Client::new(service, "team"))
    }

    #[tokio::test]
    async fn what_is_made_right_after_it_was_missed_wakes_up_who_missed_it() {
        let (index, reader) = (ReferenceIndex::default(), WorkspaceKey::new("team", "demo-eks-apply"));
        let kube = empty_api_server(&index, &reader);
        let mut reads = ReferenceReader::new(&kube, "team").recording_in(&index, &reader);
        let key = ObjectKey::parse("team", "vpc-connection").unwrap();
        assert!(reads.get_secret(&key).await.is_ok_and(|found| found.is_none()));
        let key = ObjectKey::parse("team", "credentials").unwrap();
        assert!(matches!(reads.get_credentials_secret(&key).await, Err(InputError::Waiting(_))));
        assert_eq!(reads.targets.len(), 2);
    }

    fn object(name: &str, spec: &serde_json::Value) -> WorkspaceTemplateApply {
        serde_json::from_value(json!({
            "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta1", "kind": "WorkspaceTemplateApply",
            "metadata": {"name": name, "namespace": "team"}, "spec": spec,
        }))
        .unwrap()
    }

    #[test]
    fn who_reads_the_outputs_or_waits_stands_on_a_workspace() {
        let vpc = object(
            "demo-vpc",
            &json!({"module": "vpc", "writeConnectionSecretToRef": {"name": "vpc-out", "namespace": "team"}}),
        );
        let waits = json!({"waitForSecrets": [{"name": "vpc-out", "namespace": "team"}]});
        let reads = json!({"module": "eks", "inputsFrom": [
            {"input": "vpc_id", "secretRef": {"name": "vpc-out", "namespace": "team"}, "key": "vpc_id"}]});
        let follows = json!({"waitForWorkspaces": [{"name": "demo-vpc"}]});
        for spec in [waits, reads, follows] {
            assert!(depends_on(&object("other", &spec), &vpc), "{spec}");
        }
        let elsewhere = json!({"waitForSecrets": [{"name": "vpc-out", "namespace": "other"}],
            "waitForWorkspaces": [{"name": "demo-vpc", "namespace": "other"}]});
        assert!(!depends_on(&object("other", &elsewhere), &vpc));
    }
}
