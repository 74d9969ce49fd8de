//! The admission webhook, where somebody wants it: its certificate, its registration, and its view of other objects.

use std::{net::SocketAddr, sync::Arc};

use anyhow::Context as _;
use futures::FutureExt as _;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace as NamespaceObject, Secret};
use tokio::net::TcpListener;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::settings::{Settings, Surroundings};
use crate::{
    api::WorkspaceTemplate,
    k8s::{K8sError, Kube},
    model::{ObjectKey, text::Namespace},
    server::webhook::{
        Annotations, Certificates, Directory, Found, Lookup, LookupError, Target, Webhook, configuration,
    },
};

/// The Service of `deploy/webhook`.
const SERVICE: &str = "capt-webhook";

/// Serves it, if it is asked for.
pub(super) async fn serve(
    kube: &Kube,
    surroundings: &Surroundings,
    settings: &Settings,
    (stop, tasks): (&CancellationToken, &TaskTracker),
) -> anyhow::Result<()> {
    let Some(address) = settings.webhook_listen else { return Ok(()) };
    let listener = TcpListener::bind(address)
        .await
        .with_context(|| format!("cannot listen at {address}; choose --webhook-listen"))?;
    let target = target(settings, listener.local_addr()?);
    let store = Arc::new(Directory::new(surroundings.data.join("webhook")));
    let certificates = Arc::new(Certificates::open(store, target.names()).await?);
    let webhook = Webhook::new(Arc::new(Eyes(kube.clone())), settings.limits);
    let (serving, until) = (Arc::clone(&certificates), stop.clone());
    tasks.spawn(async move {
        if let Err(error) = webhook.serve(listener, &serving, until).await {
            // Objects are admitted without it; the same rules are checked again when they are worked on.
            tracing::error!(%error, "the admission webhook does not serve");
        }
    });
    let (kube, until) = (kube.clone(), stop.clone());
    tasks.spawn(async move {
        let publish = Box::new(move |bundle: String| {
            let (kube, target) = (kube.clone(), target.clone());
            async move {
                kube.apply(&configuration(&target, &bundle, None)).await?;
                Ok(())
            }
            .boxed()
        });
        certificates.keep(publish, until).await;
    });
    Ok(())
}

/// In a cluster it is behind its Service; elsewhere it is where it listens.
fn target(settings: &Settings, address: SocketAddr) -> Target {
    match &settings.leader_election {
        Some(namespace) => {
            Target::Service { namespace: namespace.clone(), name: SERVICE.to_owned(), port: 443 }
        }
        None => Target::Url(format!("https://{address}")),
    }
}

/// Sees other objects through the API server.
struct Eyes(Kube);

impl Lookup for Eyes {
    fn template<'a>(&'a self, key: &'a ObjectKey) -> Found<'a, WorkspaceTemplate> {
        let found = self.0.get(Some(key.namespace.as_str()), key.name.as_str());
        found.map(move |it| it.map_err(|error| lost("WorkspaceTemplate", &key.to_string(), error))).boxed()
    }

    fn namespace<'a>(&'a self, name: &'a Namespace) -> Found<'a, Annotations> {
        async move {
            let found = self.0.get_metadata::<NamespaceObject>(None, name.as_str()).await;
            annotations(found, "Namespace", name.as_str())
        }
        .boxed()
    }

    fn secret<'a>(&'a self, key: &'a ObjectKey) -> Found<'a, Annotations> {
        async move {
            let found = self.0.get_metadata::<Secret>(Some(key.namespace.as_str()), key.name.as_str()).await;
            annotations(found, "Secret", &key.to_string())
        }
        .boxed()
    }

    fn config_map<'a>(&'a self, key: &'a ObjectKey) -> Found<'a, Annotations> {
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
    let found = found.map_err(|error| lost(kind, name, error))?;
    Ok(found.map(|meta| meta.annotations.unwrap_or_default()))
}

fn lost(kind: &str, name: &str, error: K8sError) -> LookupError {
    LookupError { what: format!("{kind} {name}"), source: error.into() }
}
