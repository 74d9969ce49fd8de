//! Connection Secrets: the outputs of workspaces, which others read.
//!
//! A Secret is read first and written only if it differs. Keys of other field managers are kept; obsolete keys of capt are
//! removed. The type is immutable, so an existing one is kept. A Secret that the writer neither made nor may write is rejected.

use std::collections::{BTreeMap, BTreeSet};

use capt_kinds::{
    api::{SecretRef, names::FIELD_MANAGER},
    grant::{self, Granted, SecretClaim},
};
use k8s_openapi::{ByteString, api::core::v1::Secret, apimachinery::pkg::apis::meta::v1::OwnerReference};
use kube::{ResourceExt, core::ObjectMeta};

use super::{error::K8sError, kube_client::KubeClient};

/// Type of connection Secrets, as in Crossplane.
pub const CONNECTION_SECRET_TYPE: &str = "connection.crossplane.io/v1alpha1";

/// The desired state of a connection Secret.
#[derive(Clone, PartialEq)]
pub struct ConnectionSecret {
    /// Its namespace and name, which the writer was granted.
    pub target: Granted<SecretRef>,
    /// Its data.
    pub data: BTreeMap<String, Vec<u8>>,
    /// Labels to set.
    pub labels: BTreeMap<String, String>,
    /// The writer, in the same namespace. It becomes the owner of a Secret that it makes.
    pub owner: OwnerReference,
}

/// Redacts the values.
impl std::fmt::Debug for ConnectionSecret {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("ConnectionSecret")
            .field("namespace", &self.target.namespace)
            .field("name", &self.target.name)
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
    pub async fn apply_connection_secret(
        &self,
        wanted: &ConnectionSecret,
    ) -> Result<SecretApplyOutcome, K8sError> {
        let SecretRef { name, namespace } = &*wanted.target;
        let found: Option<Secret> = self.get(Some(namespace), name).await?;
        let (claim, type_) = match &found {
            None => (SecretClaim::Owned, None),
            Some(found) => {
                let claim = claim_existing(found, &wanted.owner)?;
                if is_up_to_date(found, wanted, claim) {
                    return Ok(SecretApplyOutcome::Unchanged);
                }
                (claim, found.type_.clone())
            }
        };
        self.apply(&build_secret(type_, wanted, claim)).await?;
        Ok(SecretApplyOutcome::Written)
    }
}

fn build_secret(type_: Option<String>, wanted: &ConnectionSecret, claim: SecretClaim) -> Secret {
    let data = wanted.data.iter().map(|(key, value)| (key.clone(), ByteString(value.clone())));
    let is_owned = claim == SecretClaim::Owned;
    Secret {
        metadata: ObjectMeta {
            name: Some(wanted.target.name.clone()),
            namespace: Some(wanted.target.namespace.clone()),
            labels: (is_owned && !wanted.labels.is_empty()).then(|| wanted.labels.clone()),
            owner_references: is_owned.then(|| vec![wanted.owner.clone()]),
            ..ObjectMeta::default()
        },
        type_: Some(type_.unwrap_or_else(|| CONNECTION_SECRET_TYPE.to_owned())),
        data: Some(data.collect()),
        ..Secret::default()
    }
}

/// What an existing Secret allows its writer; an error if it allows nothing.
pub fn claim_existing(found: &Secret, writer: &OwnerReference) -> Result<SecretClaim, K8sError> {
    if let Some(claim) = grant::claim_secret(found, (&writer.name, &writer.uid)) {
        return Ok(claim);
    }
    let what = format!("Secret {}/{}", found.namespace().unwrap_or_default(), found.name_any());
    let writer_name = writer.name.clone();
    let Some(other) = found.owner_references().first() else {
        return Err(K8sError::Unclaimed { what, writer: writer_name });
    };
    let owner = format!("{} {}", other.kind, other.name);
    let is_namesake =
        (&writer.kind, &writer.name, &writer.api_version) == (&other.kind, &other.name, &other.api_version);
    if is_namesake {
        return Err(K8sError::Stale { what, owner });
    }
    Err(K8sError::Foreign { what, owner })
}

fn is_up_to_date(found: &Secret, wanted: &ConnectionSecret, claim: SecretClaim) -> bool {
    let has = |key: &String| found.data.as_ref().and_then(|data| data.get(key)).map(|value| &value.0);
    let has_metadata = || {
        wanted.labels.iter().all(|(key, value)| found.labels().get(key) == Some(value))
            && found.owner_references().contains(&wanted.owner)
    };
    wanted.data.iter().all(|(key, value)| has(key) == Some(value))
        && (claim == SecretClaim::Allowed || has_metadata())
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
