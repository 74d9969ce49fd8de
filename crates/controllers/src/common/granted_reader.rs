//! Reads objects of other namespaces that grant it.

use capt_kinds::grant::{self, Granted};
use capt_kube::k8s::{K8sError, KubeClient};
use k8s_openapi::api::core::v1::Namespace;
use kube::Resource;
use serde::de::DeserializeOwned;

/// Gets an object for an object in namespace `from`; none if it does not exist or is not granted. A caller that reports this must
/// not tell the two apart: who has no grant must not learn what exists.
pub async fn get_granted<K>(
    kube: &KubeClient,
    from: &str,
    (namespace, name): (&str, &str),
) -> Result<Option<Granted<K>>, K8sError>
where
    K: Resource + DeserializeOwned,
    K::DynamicType: Default,
{
    if from == namespace {
        let found = kube.get::<K>(Some(namespace), name).await?;
        return Ok(found.and_then(|found| grant::reference(from, found, None)));
    }
    let Some(found) = readable(kube.get::<K>(Some(namespace), name).await)? else { return Ok(None) };
    let home = readable(kube.get::<Namespace>(None, namespace).await)?;
    Ok(grant::reference(from, found, home.as_ref()))
}

/// What an operator that may not read another namespace finds there: nothing.
pub fn readable<K>(found: Result<Option<K>, K8sError>) -> Result<Option<K>, K8sError> {
    match found {
        Err(K8sError::Forbidden { .. }) => Ok(None),
        found => found,
    }
}
