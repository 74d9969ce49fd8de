//! Object lookups of the webhook through the API server.

use capt_kinds::api::{WorkspaceTemplate, WorkspaceTemplateApply};
use capt_kube::k8s::{K8sError, KubeClient};
use capt_model::model::{ObjectKey, newtypes::Namespace};
use futures::FutureExt as _;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace as NamespaceObject, Secret};

use crate::server::webhook::{Annotations, Lookup, LookupError, LookupFuture};

/// Looks objects up through the API server.
pub(super) struct ApiLookup(pub(super) KubeClient);

impl Lookup for ApiLookup {
    fn template<'a>(&'a self, key: &'a ObjectKey) -> LookupFuture<'a, WorkspaceTemplate> {
        let found = self.0.get(Some(key.namespace.as_str()), key.name.as_str());
        found
            .map(move |it| it.map_err(|error| lookup_error("WorkspaceTemplate", &key.to_string(), error)))
            .boxed()
    }

    fn workspace<'a>(&'a self, key: &'a ObjectKey) -> LookupFuture<'a, Annotations> {
        async move {
            let namespace = Some(key.namespace.as_str());
            let by_name = self.0.get_metadata::<WorkspaceTemplateApply>(namespace, key.name.as_str()).await;
            if let Some(found) = annotations(by_name, "WorkspaceTemplateApply", &key.to_string())? {
                return Ok(Some(found));
            }
            let name = format!("{}-apply", key.name);
            let found = self.0.get_metadata::<WorkspaceTemplateApply>(namespace, &name).await;
            annotations(found, "WorkspaceTemplateApply", &key.to_string())
        }
        .boxed()
    }

    fn namespace<'a>(&'a self, name: &'a Namespace) -> LookupFuture<'a, Annotations> {
        async move {
            let found = self.0.get_metadata::<NamespaceObject>(None, name.as_str()).await;
            annotations(found, "Namespace", name.as_str())
        }
        .boxed()
    }

    fn secret<'a>(&'a self, key: &'a ObjectKey) -> LookupFuture<'a, Annotations> {
        async move {
            let found = self.0.get_metadata::<Secret>(Some(key.namespace.as_str()), key.name.as_str()).await;
            annotations(found, "Secret", &key.to_string())
        }
        .boxed()
    }

    fn config_map<'a>(&'a self, key: &'a ObjectKey) -> LookupFuture<'a, Annotations> {
        async move {
            let found =
                self.0.get_metadata::<ConfigMap>(Some(key.namespace.as_str()), key.name.as_str()).await;
            annotations(found, "ConfigMap", &key.to_string())
        }
        .boxed()
    }
}

fn annotations(
    found: Result<Option<kube::core::ObjectMeta>, K8sError>,
    kind: &str,
    name: &str,
) -> Result<Option<Annotations>, LookupError> {
    let found = found.map_err(|error| lookup_error(kind, name, error))?;
    Ok(found.map(|meta| meta.annotations.unwrap_or_default()))
}

fn lookup_error(kind: &str, name: &str, error: K8sError) -> LookupError {
    LookupError { what: format!("{kind} {name}"), source: error.into() }
}
