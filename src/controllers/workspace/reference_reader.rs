//! Reads what a workspace refers to. Nothing is decided here but whether it is there, and may be read.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Secret};
use kube::{Resource, ResourceExt};
use serde::de::DeserializeOwned;

use super::{
    facts::Reason,
    halt::Halt,
    index::{Index, Target, TargetKind},
};
use crate::{
    api::{WorkspaceTemplate, WorkspaceTemplateApply, conditions::reasons, conditions::types},
    blueprint::Key,
    controllers::common::unreadable::readable,
    k8s::{K8sError, Kube, conditions, references},
    model::{ObjectKey, names},
};

/// Reads for one object, and remembers what it read.
pub struct Reader<'a> {
    kube: &'a Kube,
    home: &'a str,
    /// Where it is noted who reads what.
    notes: Option<(&'a Index, &'a Key)>,
    /// What was read, or would have been.
    pub read: BTreeSet<Target>,
    namespaces: BTreeMap<String, BTreeMap<String, String>>,
}

impl<'a> Reader<'a> {
    /// For an object of this namespace.
    pub fn new(kube: &'a Kube, home: &'a str) -> Self {
        Self { kube, home, notes: None, read: BTreeSet::new(), namespaces: BTreeMap::new() }
    }

    /// For an object that is to be woken up when something changes that it read.
    pub const fn noting(mut self, index: &'a Index, reader: &'a Key) -> Self {
        self.notes = Some((index, reader));
        self
    }

    /// Before the read and not after it: what is made in between would wake up nobody.
    pub fn note(&mut self, target: Target) {
        if let Some((index, reader)) = self.notes {
            index.add(reader, &target);
        }
        self.read.insert(target);
    }

    /// A template that may be used.
    pub async fn template(&mut self, key: &ObjectKey) -> Result<WorkspaceTemplate, Halt> {
        self.one(TargetKind::Template, key).await?.ok_or_else(|| {
            let message =
                format!("WorkspaceTemplate {key} does not exist; create it, or correct templateRef");
            Halt::Waiting(Reason::new(reasons::WORKSPACE_TEMPLATE_NOT_FOUND, message))
        })
    }

    /// A Secret that may be read, if it is there.
    pub async fn secret(&mut self, key: &ObjectKey) -> Result<Option<Secret>, Halt> {
        self.one(TargetKind::Secret, key).await
    }

    /// A `ConfigMap` that may be read, if it is there.
    pub async fn config_map(&mut self, key: &ObjectKey) -> Result<Option<ConfigMap>, Halt> {
        self.one(TargetKind::ConfigMap, key).await
    }

    /// The namespace of the object, and its labels.
    pub async fn home(&mut self) -> Result<(String, BTreeMap<String, String>), Halt> {
        let found: Option<Namespace> = self.kube.get(None, self.home).await?;
        Ok((self.home.to_owned(), found.and_then(|it| it.metadata.labels).unwrap_or_default()))
    }

    /// A Secret with credentials of an identity. Whoever may use the identity may use it, wherever it is.
    pub async fn credentials(&mut self, key: &ObjectKey) -> Result<Secret, Halt> {
        self.note(Target::new(TargetKind::Secret, key.namespace.as_str(), key.name.as_str()));
        self.kube.get(Some(key.namespace.as_str()), key.name.as_str()).await?.ok_or_else(|| {
            let message = format!(
                "Secret {key}, which holds the credentials of an identity, does not exist; create it"
            );
            Halt::Waiting(Reason::new(reasons::IDENTITY_NOT_ALLOWED, message))
        })
    }

    /// Whether the workspace of this name is there and ready. Both the name of a workspace and that of its object are
    /// understood.
    pub async fn is_ready(&mut self, key: &ObjectKey) -> Result<bool, Halt> {
        for name in [key.name.to_string(), format!("{}-apply", key.name)] {
            self.note(Target::new(TargetKind::Workspace, key.namespace.as_str(), &name));
            let found = self.kube.get::<WorkspaceTemplateApply>(Some(key.namespace.as_str()), &name).await?;
            if let Some(found) = found
                && names::workspace(&name) == names::workspace(key.name.as_str())
            {
                let status = found.status.unwrap_or_default();
                return Ok(conditions::is_true(&status.conditions, types::READY));
            }
        }
        Ok(false)
    }

    async fn one<K>(&mut self, kind: TargetKind, key: &ObjectKey) -> Result<Option<K>, Halt>
    where
        K: Resource + DeserializeOwned,
        K::DynamicType: Default,
    {
        let namespace = key.namespace.as_str();
        self.note(Target::new(kind, namespace, key.name.as_str()));
        let found: Option<K> = self.kube.get(Some(namespace), key.name.as_str()).await?;
        if let Some(found) = &found {
            self.granted(namespace, found).await?;
        }
        Ok(found)
    }

    /// What is in another namespace is read only if it, or its namespace, allows that: the operator can read every
    /// Secret, and whoever writes a workspace must not.
    async fn granted<K: Resource>(&mut self, namespace: &str, found: &K) -> Result<(), Halt>
    where
        K::DynamicType: Default,
    {
        if namespace == self.home {
            return Ok(());
        }
        let of_namespace = self.annotations(namespace).await?;
        let target = references::Target {
            namespace,
            annotations: Some(found.annotations()),
            namespace_annotations: Some(&of_namespace),
        };
        if references::may_refer(self.home, &target) {
            return Ok(());
        }
        let kind = K::kind(&K::DynamicType::default()).into_owned();
        let message = format!(
            "{kind} {namespace}/{} may not be used from namespace {}; allow it there with the annotation \
             capt.x-k8s.io/allow-references-from: {}, or move it",
            found.name_any(),
            self.home,
            self.home
        );
        Err(Halt::Invalid(Reason::new(reasons::REFERENCE_NOT_GRANTED, message)))
    }

    async fn annotations(&mut self, namespace: &str) -> Result<BTreeMap<String, String>, Halt> {
        if let Some(known) = self.namespaces.get(namespace) {
            return Ok(known.clone());
        }
        let found: Option<Namespace> = self.kube.get(None, namespace).await?;
        let annotations = found.and_then(|it| it.metadata.annotations).unwrap_or_default();
        self.namespaces.insert(namespace.to_owned(), annotations.clone());
        Ok(annotations)
    }
}

/// Names of the workspaces that stand on this one, and are not gone.
pub async fn dependents(
    kube: &Kube,
    scope: Option<&str>,
    object: &WorkspaceTemplateApply,
) -> Result<Vec<String>, K8sError> {
    let all = readable::<WorkspaceTemplateApply>(kube.list(scope, "").await?);
    let others = all.iter().filter(|other| other.uid() != object.uid());
    let mut names: Vec<String> = others
        .filter(|other| !other.finalizers().is_empty() && stands_on(other, object))
        .map(ResourceExt::name_any)
        .collect();
    names.sort();
    Ok(names)
}

/// Whether one workspace reads the outputs of another, or waits for it.
fn stands_on(other: &WorkspaceTemplateApply, object: &WorkspaceTemplateApply) -> bool {
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
        there.as_deref() == Some(&home) && names::workspace(&it.name) == names::workspace(&name)
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

    /// An API server that has nothing, and is asked nothing that was not noted before.
    fn empty(index: &Index, reader: &Key) -> Kube {
        let (index, reader) = (index.clone(), reader.clone());
        let service = tower::service_fn(move |asked: Request<Body>| {
            let name = asked.uri().path().rsplit('/').next().unwrap().to_owned();
            let noted = index.readers(&Target::new(TargetKind::Secret, "team", &name));
            assert_eq!(noted, std::slice::from_ref(&reader), "{name} is made now, and wakes up nobody");
            let body = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "NotFound", "code": 404,
                "message": format!("secrets {name:?} not found"), "details": {"name": name, "kind": "secrets"}});
            let mut answer = Response::new(Body::from(serde_json::to_vec(&body).unwrap()));
            *answer.status_mut() = StatusCode::NOT_FOUND;
            std::future::ready(Ok::<_, Infallible>(answer))
        });
        Kube::new(kube::Client::new(service, "team"))
    }

    #[tokio::test]
    async fn what_is_made_right_after_it_was_missed_wakes_up_who_missed_it() {
        let (index, reader) = (Index::default(), Key::new("team", "demo-eks-apply"));
        let kube = empty(&index, &reader);
        let mut reads = Reader::new(&kube, "team").noting(&index, &reader);
        let key = ObjectKey::parse("team", "vpc-connection").unwrap();
        assert!(reads.secret(&key).await.is_ok_and(|found| found.is_none()));
        let key = ObjectKey::parse("team", "credentials").unwrap();
        assert!(matches!(reads.credentials(&key).await, Err(Halt::Waiting(_))));
        assert_eq!(reads.read.len(), 2);
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
            assert!(stands_on(&object("other", &spec), &vpc), "{spec}");
        }
        let elsewhere = json!({"waitForSecrets": [{"name": "vpc-out", "namespace": "other"}],
            "waitForWorkspaces": [{"name": "demo-vpc", "namespace": "other"}]});
        assert!(!stands_on(&object("other", &elsewhere), &vpc));
    }
}
