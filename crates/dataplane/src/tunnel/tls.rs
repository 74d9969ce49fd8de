//! The certificate of the tunnel. The routers of a namespace share a certificate and its CA in a Secret, and publish the CA in a
//! `ConfigMap`. The server name is derived from the namespace, because the external addresses of the routers are unknown.

use std::{
    collections::BTreeMap,
    sync::{Arc, OnceLock},
    time::Duration,
};

use capt_kinds::sandbox::names;
use capt_kube::{
    certificate::{CertificateError, CertificateSecret, Certificates, PublishBundle},
    k8s::{K8sError, KubeClient},
};
use futures::FutureExt as _;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::core::ObjectMeta;
use rustls::{
    ServerConfig,
    server::{ClientHello, ResolvesServerCert},
    sign::CertifiedKey,
};
use tokio_util::sync::CancellationToken;

use super::super::ROUTER_LABEL_VALUE;

/// The `ConfigMap` with the CA, in the namespace of the routers.
pub const AUTHORITY: &str = "capt-tunnel-authority";
/// Its key.
pub const AUTHORITY_KEY: &str = "ca.crt";
/// The Secret that the routers of a namespace share. Also in `deploy/router`.
const SECRET: &str = "capt-tunnel-certificates";
/// Retry delay after a failure.
const CERTIFICATE_RETRY: Duration = Duration::from_secs(10);

/// The name in the certificate of a namespace's routers.
pub fn server_name(namespace: &str) -> String {
    format!("tunnel.{namespace}.{}", names::GROUP)
}

/// Certificate resolver whose certificate arrives later. Until then TLS handshakes fail and port-forwards work.
#[derive(Debug, Default)]
pub(crate) struct LateCertificate(OnceLock<Arc<ServerConfig>>);

impl ResolvesServerCert for LateCertificate {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        self.0.get()?.cert_resolver.resolve(hello)
    }
}

impl LateCertificate {
    /// The TLS server configuration that uses this resolver.
    pub(crate) fn server_config(self: &Arc<Self>) -> Result<ServerConfig, rustls::Error> {
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        Ok(ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_cert_resolver(Arc::clone(self) as Arc<dyn ResolvesServerCert>))
    }

    /// Obtains and rotates the certificate and publishes its CA, until `stop`.
    pub(crate) async fn run(self: Arc<Self>, kube: KubeClient, namespace: String, stop: CancellationToken) {
        let certificates = loop {
            match open_certificates(&kube, &namespace).await {
                Ok((certificates, config)) => {
                    self.0.get_or_init(|| Arc::new(config));
                    break certificates;
                }
                Err(error) => {
                    let source = std::error::Error::source(&error);
                    tracing::warn!(%error, source, "no tunnel certificate yet, serving port-forwards only");
                }
            }
            tokio::select! {
                () = stop.cancelled() => return,
                () = tokio::time::sleep(CERTIFICATE_RETRY) => {}
            }
        };
        certificates.renew_until_stopped(publisher(kube, namespace), stop).await;
    }
}

async fn open_certificates(
    kube: &KubeClient,
    namespace: &str,
) -> Result<(Certificates, ServerConfig), CertificateError> {
    let store =
        CertificateSecret::new(kube.clone(), (namespace, SECRET), (names::ROUTER_LABEL, ROUTER_LABEL_VALUE));
    let certificates = Certificates::open(Arc::new(store), vec![server_name(namespace)]).await?;
    let config = certificates.server_config()?;
    Ok((certificates, config))
}

fn publisher(kube: KubeClient, namespace: String) -> PublishBundle {
    Box::new(move |bundle: String| {
        let (kube, namespace) = (kube.clone(), namespace.clone());
        async move { Ok(publish_authority(&kube, &namespace, bundle).await?) }.boxed()
    })
}

/// Publishes the CA. Skips the write if unchanged, because every router checks once an hour.
async fn publish_authority(kube: &KubeClient, namespace: &str, bundle: String) -> Result<(), K8sError> {
    let found: Option<ConfigMap> = kube.get(Some(namespace), AUTHORITY).await?;
    let data = BTreeMap::from([(AUTHORITY_KEY.to_owned(), bundle)]);
    if found.is_some_and(|it| it.data.as_ref() == Some(&data)) {
        return Ok(());
    }
    let wanted = ConfigMap {
        metadata: ObjectMeta {
            name: Some(AUTHORITY.to_owned()),
            namespace: Some(namespace.to_owned()),
            labels: Some([(names::ROUTER_LABEL.to_owned(), ROUTER_LABEL_VALUE.to_owned())].into()),
            ..ObjectMeta::default()
        },
        data: Some(data),
        ..ConfigMap::default()
    };
    kube.apply(&wanted).await.map(drop)
}
