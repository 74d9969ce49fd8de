//! The certificate of the tunnel. The routers of a namespace share one, in a Secret, and the authority that signed it; the
//! authority is published in a `ConfigMap`. Agents ask for a name that is the namespace's and not the address's, because
//! nobody here knows by which addresses the routers are reached from outside.

use std::{
    collections::BTreeMap,
    sync::{Arc, OnceLock},
    time::Duration,
};

use futures::FutureExt as _;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::core::ObjectMeta;
use rustls::{
    ServerConfig,
    server::{ClientHello, ResolvesServerCert},
    sign::CertifiedKey,
};
use sandbox::api::names;
use tokio_util::sync::CancellationToken;

use super::super::ROUTER;
use crate::{
    certificate::{CertificateError, Certificates, Publish, SharedSecret},
    k8s::{K8sError, Kube},
};

/// The `ConfigMap` with the authority, in the namespace of the routers.
pub const AUTHORITY: &str = "capt-tunnel-authority";
/// Its key.
pub const AUTHORITY_KEY: &str = "ca.crt";
/// The Secret that the routers of a namespace share. Also in `deploy/router`.
const SECRET: &str = "capt-tunnel-certificates";
/// How soon after a failure certificates are asked for again.
const AGAIN: Duration = Duration::from_secs(10);

/// The name in the certificate of a namespace's routers.
pub fn server_name(namespace: &str) -> String {
    format!("tunnel.{namespace}.{}", names::GROUP)
}

/// What the gateway is served with. Until there is a certificate nobody gets in by TLS; port-forwards do.
#[derive(Debug, Default)]
pub(in crate::sandbox) struct Late(OnceLock<Arc<ServerConfig>>);

impl ResolvesServerCert for Late {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        self.0.get()?.cert_resolver.resolve(hello)
    }
}

impl Late {
    /// The configuration of a server whose certificate comes later.
    pub(in crate::sandbox) fn config(self: &Arc<Self>) -> Result<ServerConfig, rustls::Error> {
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        Ok(ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_cert_resolver(Arc::clone(self) as Arc<dyn ResolvesServerCert>))
    }

    /// Gets a certificate and keeps it current, and its authority published, until `stop`.
    pub(in crate::sandbox) async fn keep(
        self: Arc<Self>,
        kube: Kube,
        namespace: String,
        stop: CancellationToken,
    ) {
        let certificates = loop {
            match open(&kube, &namespace).await {
                Ok((certificates, config)) => {
                    self.0.get_or_init(|| Arc::new(config));
                    break certificates;
                }
                Err(error) => {
                    let source = std::error::Error::source(&error);
                    tracing::warn!(%error, source, "the tunnel has no certificate yet; port-forwards are served");
                }
            }
            tokio::select! {
                () = stop.cancelled() => return,
                () = tokio::time::sleep(AGAIN) => {}
            }
        };
        certificates.keep(publisher(kube, namespace), stop).await;
    }
}

async fn open(kube: &Kube, namespace: &str) -> Result<(Certificates, ServerConfig), CertificateError> {
    let store = SharedSecret::new(kube.clone(), (namespace, SECRET), (names::ROUTER_LABEL, ROUTER));
    let certificates = Certificates::open(Arc::new(store), vec![server_name(namespace)]).await?;
    let config = certificates.server_config()?;
    Ok((certificates, config))
}

fn publisher(kube: Kube, namespace: String) -> Publish {
    Box::new(move |bundle: String| {
        let (kube, namespace) = (kube.clone(), namespace.clone());
        async move { Ok(publish(&kube, &namespace, bundle).await?) }.boxed()
    })
}

/// Writes nothing where it stands already: every router looks once an hour.
async fn publish(kube: &Kube, namespace: &str, bundle: String) -> Result<(), K8sError> {
    let found: Option<ConfigMap> = kube.get(Some(namespace), AUTHORITY).await?;
    let data = BTreeMap::from([(AUTHORITY_KEY.to_owned(), bundle)]);
    if found.is_some_and(|it| it.data.as_ref() == Some(&data)) {
        return Ok(());
    }
    let wanted = ConfigMap {
        metadata: ObjectMeta {
            name: Some(AUTHORITY.to_owned()),
            namespace: Some(namespace.to_owned()),
            labels: Some([(names::ROUTER_LABEL.to_owned(), ROUTER.to_owned())].into()),
            ..ObjectMeta::default()
        },
        data: Some(data),
        ..ConfigMap::default()
    };
    kube.apply(&wanted).await.map(drop)
}
