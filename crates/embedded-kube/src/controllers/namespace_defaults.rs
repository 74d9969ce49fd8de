//! What every namespace has: the `ServiceAccount` `default` and the `ConfigMap` `kube-root-ca.crt`.

use serde_json::{Value, json};

use super::{
    api::{Api, Trouble, collection, object},
    run::{Change, Controller, Next},
    view,
};
use crate::{
    object::{Meta, at, at_mut, text},
    store::Store,
};

const ACCOUNT: &str = "default";
const BUNDLE: &str = "kube-root-ca.crt";
const DESCRIBED_BY: &str = "kubernetes.io/description";
const DESCRIPTION: &str = "Contains a CA bundle that can be used to verify the kube-apiserver when using internal \
    endpoints such as the internal service IP or kubernetes.default.svc. No other usage is guaranteed across \
    distributions of Kubernetes clusters.";

/// See the module.
pub struct Furnish {
    /// Writes service accounts.
    pub accounts: Api,
    /// Writes the bundle.
    pub publisher: Api,
    /// For reading.
    pub store: Store,
    /// Certificates in PEM; without them there is no bundle.
    pub ca: Option<String>,
}

impl Furnish {
    async fn account(&self, namespace: &str) -> Result<(), Trouble> {
        if self.store.get(&format!("/serviceaccounts/{namespace}/{ACCOUNT}")).is_some() {
            return Ok(());
        }
        let account = json!({
            "apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": ACCOUNT, "namespace": namespace},
        });
        created(self.accounts.create(&collection("v1", namespace, "serviceaccounts"), &account).await)
    }

    async fn bundle(&self, namespace: &str) -> Result<(), Trouble> {
        let Some(ca) = &self.ca else { return Ok(()) };
        let data = json!({"ca.crt": ca});
        let Some(mut present) = view::get(&self.store, &format!("/configmaps/{namespace}/{BUNDLE}")) else {
            let bundle = json!({
                "apiVersion": "v1", "kind": "ConfigMap",
                "metadata": {"name": BUNDLE, "namespace": namespace, "annotations": {DESCRIBED_BY: DESCRIPTION}},
                "data": data,
            });
            return created(self.publisher.create(&collection("v1", namespace, "configmaps"), &bundle).await);
        };
        let is_described = !text(&present, &["metadata", "annotations", DESCRIBED_BY]).is_empty();
        if at(&present, &["data"]) == Some(&data) && is_described {
            return Ok(());
        }
        present["data"] = data;
        if let Some(description) = at_mut(&mut present, &["metadata", "annotations", DESCRIBED_BY]) {
            *description = DESCRIPTION.into();
        }
        let path = object("v1", namespace, "configmaps", BUNDLE);
        self.publisher.update(&path, &present).await.map(drop)
    }
}

fn created(outcome: Result<Value, Trouble>) -> Result<(), Trouble> {
    match outcome {
        Err(trouble) if trouble.is_already_exists() || trouble.is_namespace_terminating() => Ok(()),
        other => other.map(drop),
    }
}

impl Controller for Furnish {
    type Key = String;
    const NAME: &'static str = "serviceaccount-controller";
    const PREFIXES: &'static [&'static str] = &["/namespaces/", "/serviceaccounts/", "/configmaps/"];

    fn wake(&self, change: &Change<'_>) -> Vec<String> {
        let is_ours = match change.name() {
            ACCOUNT => change.is_in("/serviceaccounts/"),
            BUNDLE => change.is_in("/configmaps/"),
            _ => false,
        };
        if change.is_in("/namespaces/") {
            vec![change.name().to_owned()]
        } else if is_ours {
            vec![change.namespace().to_owned()]
        } else {
            Vec::new()
        }
    }

    async fn reconcile(&self, key: &String) -> Result<Next<String>, Trouble> {
        let namespace = view::get(&self.store, &format!("/namespaces//{key}"));
        let is_active = namespace.is_some_and(|one| {
            !one.is_terminating() && matches!(text(&one, &["status", "phase"]), "Active" | "")
        });
        if is_active {
            let (account, bundle) = futures::join!(self.account(key), self.bundle(key));
            account.and(bundle)?;
        }
        Ok(Next::default())
    }
}
