//! Reads the objects that a workspace references, checks that they may be referenced, and records the references.

use std::collections::{BTreeMap, BTreeSet};

use capt_kinds::{
    api::{
        WorkspaceTemplate, WorkspaceTemplateApply, conditions::reasons, conditions::types,
        names::ALLOW_REFERENCES_ANNOTATION,
    },
    grant::{self, Granted},
};
use capt_kube::k8s::{KubeClient, conditions};
use capt_model::{
    model::{ObjectKey, names},
    workspaces::WorkspaceKey,
};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Secret};
use kube::Resource;
use serde::de::DeserializeOwned;

use super::{
    input_error::InputError,
    observation::ConditionReason,
    reference_index::{ReferenceIndex, ReferenceKind, ReferenceTarget},
};
use crate::common::granted_reader::readable;

/// Reads the references of one object and records them.
pub struct ReferenceReader<'a> {
    kube: &'a KubeClient,
    namespace: &'a str,
    /// Index in which references are recorded, and the key of the reading object.
    recorder: Option<(&'a ReferenceIndex, &'a WorkspaceKey)>,
    /// All referenced objects, including missing ones.
    pub targets: BTreeSet<ReferenceTarget>,
    namespaces: BTreeMap<String, Option<Namespace>>,
}

impl<'a> ReferenceReader<'a> {
    /// Reader for an object in this namespace.
    pub fn new(kube: &'a KubeClient, namespace: &'a str) -> Self {
        Self { kube, namespace, recorder: None, targets: BTreeSet::new(), namespaces: BTreeMap::new() }
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
    pub async fn get_template(&mut self, key: &ObjectKey) -> Result<Granted<WorkspaceTemplate>, InputError> {
        self.get_granted(ReferenceKind::Template, parts(key)).await?.ok_or_else(|| template_not_found(key))
    }

    /// Gets a Secret that the object may reference, if it exists.
    pub async fn get_secret(&mut self, key: &ObjectKey) -> Result<Option<Granted<Secret>>, InputError> {
        self.get_granted(ReferenceKind::Secret, parts(key)).await
    }

    /// Gets a `ConfigMap` that the object may reference, if it exists.
    pub async fn get_config_map(
        &mut self,
        key: &ObjectKey,
    ) -> Result<Option<Granted<ConfigMap>>, InputError> {
        self.get_granted(ReferenceKind::ConfigMap, parts(key)).await
    }

    /// Name and labels of the object's namespace.
    pub async fn get_own_namespace(&mut self) -> Result<(String, BTreeMap<String, String>), InputError> {
        let found: Option<Namespace> = self.kube.get(None, self.namespace).await?;
        Ok((self.namespace.to_owned(), found.and_then(|it| it.metadata.labels).unwrap_or_default()))
    }

    /// Labels of a namespace; a change of them reconciles the object.
    pub async fn get_namespace_labels(&mut self, name: &str) -> Result<BTreeMap<String, String>, InputError> {
        self.record_target(ReferenceTarget::new(ReferenceKind::Namespace, "", name));
        let found: Option<Namespace> = self.kube.get(None, name).await?;
        Ok(found.and_then(|it| it.metadata.labels).unwrap_or_default())
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
        let mut refusal = None;
        for name in [key.name.to_string(), format!("{}-apply", key.name)] {
            let target = (key.namespace.as_str(), name.as_str());
            let found = self.get_granted::<WorkspaceTemplateApply>(ReferenceKind::Workspace, target).await;
            let found = match found {
                Err(error @ InputError::Waiting(_)) => {
                    refusal.get_or_insert(error);
                    continue;
                }
                found => found?,
            };
            if let Some(found) = found
                && names::workspace_name(&name) == names::workspace_name(key.name.as_str())
            {
                let status = found.status.as_ref();
                return Ok(status.is_some_and(|it| conditions::is_true(&it.conditions, types::READY)));
            }
        }
        refusal.map_or(Ok(false), Err)
    }

    /// Gets an object; none if it does not exist. In another namespace, this is told only to who is granted that namespace: for
    /// everybody else, an object that does not exist and one that is not granted are the same.
    async fn get_granted<K>(
        &mut self,
        kind: ReferenceKind,
        (namespace, name): (&str, &str),
    ) -> Result<Option<Granted<K>>, InputError>
    where
        K: Resource + DeserializeOwned,
        K::DynamicType: Default,
    {
        self.record_target(ReferenceTarget::new(kind, namespace, name));
        let found = self.kube.get::<K>(Some(namespace), name).await;
        if namespace == self.namespace {
            return Ok(found?.and_then(|found| grant::reference(self.namespace, found, None)));
        }
        let found = readable(found)?;
        let home = self.get_namespace(namespace).await?;
        let granted = found.and_then(|found| grant::reference(self.namespace, found, home.as_ref()));
        if granted.is_some() || grant::is_namespace_granted(self.namespace, namespace, home.as_ref()) {
            return Ok(granted);
        }
        Err(self.not_granted(&K::kind(&K::DynamicType::default()), (namespace, name)))
    }

    /// The error of a reference to another namespace. It is retried, because nothing tells of a change of that namespace.
    fn not_granted(&self, kind: &str, (namespace, name): (&str, &str)) -> InputError {
        let message = format!(
            "{kind} {namespace}/{name} does not exist, or may not be used from namespace {home}; create it, and allow it with the \
             annotation {ALLOW_REFERENCES_ANNOTATION}: {home} on it or on its namespace",
            home = self.namespace
        );
        InputError::Waiting(ConditionReason::new(reasons::REFERENCE_NOT_GRANTED, message))
    }

    async fn get_namespace(&mut self, name: &str) -> Result<Option<Namespace>, InputError> {
        if let Some(known) = self.namespaces.get(name) {
            return Ok(known.clone());
        }
        let found: Option<Namespace> = readable(self.kube.get(None, name).await)?;
        self.namespaces.insert(name.to_owned(), found.clone());
        Ok(found)
    }
}

fn parts(key: &ObjectKey) -> (&str, &str) {
    (key.namespace.as_str(), key.name.as_str())
}

/// The error of a reference to a template that does not exist.
pub fn template_not_found(key: &ObjectKey) -> InputError {
    let message = format!("WorkspaceTemplate {key} does not exist; create it, or correct templateRef");
    InputError::Waiting(ConditionReason::new(reasons::WORKSPACE_TEMPLATE_NOT_FOUND, message))
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
}
