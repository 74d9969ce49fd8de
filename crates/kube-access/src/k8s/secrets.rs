//! Secrets that others read: connection details, kubeconfigs, certificates.
//!
//! A Secret is read first and written only if it differs. Keys of other field managers are kept; obsolete keys of capt are
//! removed. The type is immutable, so an existing one is kept. A Secret with another owner is rejected.

use std::collections::{BTreeMap, BTreeSet};

use capt_kinds::api::names::FIELD_MANAGER;
use k8s_openapi::{ByteString, api::core::v1::Secret, apimachinery::pkg::apis::meta::v1::OwnerReference};
use kube::{ResourceExt, core::ObjectMeta};

use super::{error::K8sError, kube_client::KubeClient};

/// Type of connection Secrets, as in Crossplane.
pub const CONNECTION_SECRET_TYPE: &str = "connection.crossplane.io/v1alpha1";
/// Type of a Cluster's Secrets, as required by Cluster API.
pub const CLUSTER_SECRET_TYPE: &str = "cluster.x-k8s.io/secret";

/// The desired state of a Secret.
#[derive(Clone, Default, PartialEq)]
pub struct SecretSpec {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its data.
    pub data: BTreeMap<String, Vec<u8>>,
    /// Labels to set.
    pub labels: BTreeMap<String, String>,
    /// Its owner.
    pub owner: Option<OwnerReference>,
}

/// Redacts the values.
impl std::fmt::Debug for SecretSpec {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("SecretSpec")
            .field("namespace", &self.namespace)
            .field("name", &self.name)
            .field("keys", &self.data.keys())
            .finish_non_exhaustive()
    }
}

/// Result of applying a Secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SecretApplyOutcome {
    /// It was up to date; nothing was written.
    Unchanged,
    /// It was created or changed.
    Written,
}

impl KubeClient {
    /// Applies a connection Secret with the outputs of a workspace.
    pub async fn apply_connection_secret(&self, wanted: &SecretSpec) -> Result<SecretApplyOutcome, K8sError> {
        self.apply_typed_secret(CONNECTION_SECRET_TYPE, wanted).await
    }

    /// Applies a Secret of this type, such as [`CLUSTER_SECRET_TYPE`]. An existing Secret keeps its type.
    pub async fn apply_typed_secret(
        &self,
        type_: &str,
        wanted: &SecretSpec,
    ) -> Result<SecretApplyOutcome, K8sError> {
        let found: Option<Secret> = self.get(Some(&wanted.namespace), &wanted.name).await?;
        let type_ = match &found {
            None => type_.to_owned(),
            Some(found) => {
                refuse_foreign(found, wanted)?;
                if is_up_to_date(found, wanted) {
                    return Ok(SecretApplyOutcome::Unchanged);
                }
                found.type_.clone().unwrap_or_else(|| type_.to_owned())
            }
        };
        self.apply(&build_secret(type_, wanted)).await?;
        Ok(SecretApplyOutcome::Written)
    }
}

fn build_secret(type_: String, wanted: &SecretSpec) -> Secret {
    let data = wanted.data.iter().map(|(key, value)| (key.clone(), ByteString(value.clone())));
    Secret {
        metadata: ObjectMeta {
            name: Some(wanted.name.clone()),
            namespace: Some(wanted.namespace.clone()),
            labels: (!wanted.labels.is_empty()).then(|| wanted.labels.clone()),
            owner_references: wanted.owner.clone().map(|owner| vec![owner]),
            ..ObjectMeta::default()
        },
        type_: Some(type_),
        data: Some(data.collect()),
        ..Secret::default()
    }
}

/// Rejects a Secret whose owners do not include the desired one.
fn refuse_foreign(found: &Secret, wanted: &SecretSpec) -> Result<(), K8sError> {
    let owners = found.owner_references();
    let is_ours = |one: &OwnerReference| wanted.owner.as_ref().is_some_and(|ours| ours.uid == one.uid);
    let Some(other) = owners.first().filter(|_| !owners.iter().any(is_ours)) else { return Ok(()) };
    let what = format!("Secret {}/{}", wanted.namespace, wanted.name);
    let owner = format!("{} {}", other.kind, other.name);
    let is_namesake = |ours: &OwnerReference| {
        (&ours.kind, &ours.name, &ours.api_version) == (&other.kind, &other.name, &other.api_version)
    };
    if wanted.owner.as_ref().is_some_and(is_namesake) {
        return Err(K8sError::Stale { what, owner });
    }
    Err(K8sError::Foreign { what, owner })
}

fn is_up_to_date(found: &Secret, wanted: &SecretSpec) -> bool {
    let has = |key: &String| found.data.as_ref().and_then(|data| data.get(key)).map(|value| &value.0);
    let has_owner = |owner: &OwnerReference| found.owner_references().contains(owner);
    wanted.data.iter().all(|(key, value)| has(key) == Some(value))
        && wanted.labels.iter().all(|(key, value)| found.labels().get(key) == Some(value))
        && wanted.owner.as_ref().is_none_or(has_owner)
        && managed_keys(found).iter().all(|key| wanted.data.contains_key(key))
}

/// The data keys owned by capt's field manager.
fn managed_keys(secret: &Secret) -> BTreeSet<String> {
    let ours = secret.managed_fields().iter().filter(|one| {
        one.manager.as_deref() == Some(FIELD_MANAGER) && one.operation.as_deref() == Some("Apply")
    });
    let keys = ours.filter_map(|one| one.fields_v1.as_ref()?.0.get("f:data")?.as_object());
    keys.flat_map(|data| data.keys()).filter_map(|key| key.strip_prefix("f:")).map(str::to_owned).collect()
}
