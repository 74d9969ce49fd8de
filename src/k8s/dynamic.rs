//! Kinds that are not ours, and whose version only the server knows.

use kube::{
    Resource,
    api::{ApiResource, DynamicObject, GetParams},
    core::Request,
};

use super::{call::Kube, error::Deed, error::K8sError};

impl Kube {
    /// One object of such a kind; none if it is not there, or if its kind is not.
    pub async fn get_dynamic(
        &self,
        kind: &ApiResource,
        namespace: &str,
        name: &str,
    ) -> Result<Option<DynamicObject>, K8sError> {
        let deed = Deed { verb: "get", what: format!("{} {namespace}/{name}", kind.kind) };
        let request =
            Request::new(DynamicObject::url_path(kind, Some(namespace))).get(name, &GetParams::default());
        match self.send(deed, request).await {
            Err(K8sError::NotFound { .. } | K8sError::NoKind { .. }) => Ok(None),
            other => other.map(Some),
        }
    }
}
