//! Default objects of every namespace: the `ServiceAccount` `default` and the `ConfigMap` `kube-root-ca.crt`.

use serde_json::{Value, json};

use super::{
    api_client::{ApiClient, ControllerError, collection_path, object_path},
    control_loop::{Controller, ObjectChange, ReconcileResult},
    store_query,
};
use crate::{
    object::{MetaAccessor, get_path, get_path_mut, str_at},
    store::Store,
};

const DEFAULT_ACCOUNT: &str = "default";
const ROOT_CA_CONFIG_MAP: &str = "kube-root-ca.crt";
const DESCRIPTION_ANNOTATION: &str = "kubernetes.io/description";
const DESCRIPTION: &str = "Contains a CA bundle that can be used to verify the kube-apiserver when using internal \
    endpoints such as the internal service IP or kubernetes.default.svc. No other usage is guaranteed across \
    distributions of Kubernetes clusters.";

/// Creates the default objects of every namespace.
pub struct NamespaceDefaults {
    /// Client that writes service accounts.
    pub accounts_api: ApiClient,
    /// Client that writes the CA bundle.
    pub ca_publisher_api: ApiClient,
    /// Store to read from.
    pub store: Store,
    /// PEM certificates; without them no bundle is published.
    pub ca: Option<String>,
}

impl NamespaceDefaults {
    async fn ensure_account(&self, namespace: &str) -> Result<(), ControllerError> {
        if self.store.get(&format!("/serviceaccounts/{namespace}/{DEFAULT_ACCOUNT}")).is_some() {
            return Ok(());
        }
        let account = json!({
            "apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": DEFAULT_ACCOUNT, "namespace": namespace},
        });
        ignore_already_exists(
            self.accounts_api.create(&collection_path("v1", namespace, "serviceaccounts"), &account).await,
        )
    }

    async fn ensure_root_ca(&self, namespace: &str) -> Result<(), ControllerError> {
        let Some(ca) = &self.ca else { return Ok(()) };
        let data = json!({"ca.crt": ca});
        let Some(mut present) =
            store_query::get_object(&self.store, &format!("/configmaps/{namespace}/{ROOT_CA_CONFIG_MAP}"))
        else {
            let bundle = json!({
                "apiVersion": "v1", "kind": "ConfigMap",
                "metadata": {"name": ROOT_CA_CONFIG_MAP, "namespace": namespace, "annotations": {DESCRIPTION_ANNOTATION: DESCRIPTION}},
                "data": data,
            });
            return ignore_already_exists(
                self.ca_publisher_api.create(&collection_path("v1", namespace, "configmaps"), &bundle).await,
            );
        };
        let is_described = !str_at(&present, &["metadata", "annotations", DESCRIPTION_ANNOTATION]).is_empty();
        if get_path(&present, &["data"]) == Some(&data) && is_described {
            return Ok(());
        }
        present["data"] = data;
        if let Some(description) =
            get_path_mut(&mut present, &["metadata", "annotations", DESCRIPTION_ANNOTATION])
        {
            *description = DESCRIPTION.into();
        }
        let path = object_path("v1", namespace, "configmaps", ROOT_CA_CONFIG_MAP);
        self.ca_publisher_api.update(&path, &present).await.map(drop)
    }
}

fn ignore_already_exists(outcome: Result<Value, ControllerError>) -> Result<(), ControllerError> {
    match outcome {
        Err(trouble) if trouble.is_already_exists() || trouble.is_namespace_terminating() => Ok(()),
        other => other.map(drop),
    }
}

impl Controller for NamespaceDefaults {
    type Key = String;
    const NAME: &'static str = "serviceaccount-controller";
    const PREFIXES: &'static [&'static str] = &["/namespaces/", "/serviceaccounts/", "/configmaps/"];

    fn keys_for_change(&self, change: &ObjectChange<'_>) -> Vec<String> {
        let is_ours = match change.name() {
            DEFAULT_ACCOUNT => change.has_prefix("/serviceaccounts/"),
            ROOT_CA_CONFIG_MAP => change.has_prefix("/configmaps/"),
            _ => false,
        };
        if change.has_prefix("/namespaces/") {
            vec![change.name().to_owned()]
        } else if is_ours {
            vec![change.namespace().to_owned()]
        } else {
            Vec::new()
        }
    }

    async fn reconcile(&self, key: &String) -> Result<ReconcileResult<String>, ControllerError> {
        let namespace = store_query::get_object(&self.store, &format!("/namespaces//{key}"));
        let is_active = namespace.is_some_and(|one| {
            !one.is_terminating() && matches!(str_at(&one, &["status", "phase"]), "Active" | "")
        });
        if is_active {
            let (account, bundle) = futures::join!(self.ensure_account(key), self.ensure_root_ca(key));
            account.and(bundle)?;
        }
        Ok(ReconcileResult::default())
    }
}
