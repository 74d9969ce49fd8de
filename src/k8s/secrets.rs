//! Secrets for others to read: connection details, kubeconfigs, certificates.
//!
//! A Secret is read first and written only where it differs. What others put into it stays; what we put there and do not
//! want any more goes. Its type cannot be changed, so the one that it has is kept. A Secret of somebody else is refused.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::{ByteString, api::core::v1::Secret, apimachinery::pkg::apis::meta::v1::OwnerReference};
use kube::{ResourceExt, core::ObjectMeta};

use super::{call::Kube, error::K8sError};
use crate::api::names::FIELD_MANAGER;

/// Type of a Secret with the outputs of a workspace, as Crossplane makes it.
pub const CONNECTION_TYPE: &str = "connection.crossplane.io/v1alpha1";
/// Type of a Secret that belongs to a Cluster, as Cluster API wants it.
pub const CLUSTER_TYPE: &str = "cluster.x-k8s.io/secret";

/// A Secret as it is to be.
#[derive(Clone, Default, PartialEq)]
pub struct Wanted {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// What it holds.
    pub data: BTreeMap<String, Vec<u8>>,
    /// Labels that it carries among others.
    pub labels: BTreeMap<String, String>,
    /// Who it goes away with.
    pub owner: Option<OwnerReference>,
}

/// Values are nobody's business.
impl std::fmt::Debug for Wanted {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Wanted")
            .field("namespace", &self.namespace)
            .field("name", &self.name)
            .field("keys", &self.data.keys())
            .finish_non_exhaustive()
    }
}

/// What became of a Secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Applied {
    /// It was as it should be; nothing was written.
    Unchanged,
    /// It was made, or changed.
    Written,
}

impl Kube {
    /// A Secret with the outputs of a workspace.
    pub async fn apply_connection_secret(&self, wanted: &Wanted) -> Result<Applied, K8sError> {
        self.apply_typed_secret(CONNECTION_TYPE, wanted).await
    }

    /// A Secret of this type, such as [`CLUSTER_TYPE`]. One that exists keeps the type that it has.
    pub async fn apply_typed_secret(&self, type_: &str, wanted: &Wanted) -> Result<Applied, K8sError> {
        let found: Option<Secret> = self.get(Some(&wanted.namespace), &wanted.name).await?;
        let type_ = match &found {
            None => type_.to_owned(),
            Some(found) => {
                refuse_foreign(found, wanted)?;
                if is_as_wanted(found, wanted) {
                    return Ok(Applied::Unchanged);
                }
                found.type_.clone().unwrap_or_else(|| type_.to_owned())
            }
        };
        self.apply(&secret(type_, wanted)).await?;
        Ok(Applied::Written)
    }
}

fn secret(type_: String, wanted: &Wanted) -> Secret {
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

/// A Secret with owners, none of which is ours, is not ours.
fn refuse_foreign(found: &Secret, wanted: &Wanted) -> Result<(), K8sError> {
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

fn is_as_wanted(found: &Secret, wanted: &Wanted) -> bool {
    let has = |key: &String| found.data.as_ref().and_then(|data| data.get(key)).map(|value| &value.0);
    let has_owner = |owner: &OwnerReference| found.owner_references().contains(owner);
    wanted.data.iter().all(|(key, value)| has(key) == Some(value))
        && wanted.labels.iter().all(|(key, value)| found.labels().get(key) == Some(value))
        && wanted.owner.as_ref().is_none_or(has_owner)
        && keys_of_ours(found).iter().all(|key| wanted.data.contains_key(key))
}

/// The keys that we wrote, as the server remembers them.
fn keys_of_ours(secret: &Secret) -> BTreeSet<String> {
    let ours = secret.managed_fields().iter().filter(|one| {
        one.manager.as_deref() == Some(FIELD_MANAGER) && one.operation.as_deref() == Some("Apply")
    });
    let keys = ours.filter_map(|one| one.fields_v1.as_ref()?.0.get("f:data")?.as_object());
    keys.flat_map(|data| data.keys()).filter_map(|key| key.strip_prefix("f:")).map(str::to_owned).collect()
}
