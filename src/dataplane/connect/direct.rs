//! The way to a router by an address of its own. Whom to trust is read from the API server, which the developer trusts.

use std::{future::Future, io, pin::Pin, sync::Arc};

use k8s_openapi::api::core::v1::ConfigMap;
use kube::{Api, Client};
use rustls::{
    ClientConfig, RootCertStore,
    pki_types::{CertificateDer, ServerName, pem::PemObject as _},
};
use sandbox_router::tunnel::{
    BoxIo,
    agent::{Dial, Tls},
};
use tokio::sync::Mutex;

use super::super::tunnel::{AUTHORITY, AUTHORITY_KEY, server_name};

/// Why nobody can be trusted.
#[derive(Debug, thiserror::Error)]
pub enum TrustError {
    /// The API server does not tell.
    #[error("cannot read the ConfigMap {0}/{AUTHORITY}, which says whose certificate to trust")]
    Read(String, #[source] kube::Error),
    /// There is none.
    #[error(
        "the routers of {0} have published no authority (ConfigMap {0}/{AUTHORITY}); if the certificate at --address is \
         somebody else's, name its authority with --ca"
    )]
    Absent(String),
    /// It makes no sense.
    #[error("cannot use the certificates in {0}")]
    Unusable(String, #[source] Box<dyn std::error::Error + Send + Sync>),
    /// It cannot be a name in a certificate.
    #[error("{0} is no name of a host")]
    Name(String),
}

/// Whoever is signed by these authorities is trusted; `place` says where they are from.
fn trust(pem: &[u8], place: &str) -> Result<ClientConfig, TrustError> {
    let read = || -> Result<ClientConfig, Box<dyn std::error::Error + Send + Sync>> {
        let mut roots = RootCertStore::empty();
        for certificate in CertificateDer::pem_slice_iter(pem) {
            roots.add(certificate?)?;
        }
        if roots.is_empty() {
            return Err("there is no certificate in it".into());
        }
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let versions = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
        Ok(versions.with_root_certificates(roots).with_no_client_auth())
    };
    read().map_err(|error| TrustError::Unusable(place.to_owned(), error))
}

/// A way with TLS, to this address, where the certificate has this name.
pub fn tls(address: &str, name: &str, pem: &[u8], place: &str) -> Result<Tls, TrustError> {
    Ok(Tls {
        address: address.to_owned(),
        server: ServerName::try_from(name.to_owned()).map_err(|_| TrustError::Name(name.to_owned()))?,
        config: Arc::new(trust(pem, place)?),
        authority: place.to_owned(),
    })
}

/// Dials an address, and trusts whom the routers of the namespace say.
pub struct Published {
    client: Client,
    namespace: String,
    address: String,
    /// As it was read last: the tunnel goes on while the API server is away.
    last: Mutex<Tls>,
}

impl Published {
    /// Reads whom to trust.
    pub async fn open(client: Client, namespace: &str, address: &str) -> Result<Self, TrustError> {
        let last = Mutex::new(read(&client, namespace, address).await?);
        Ok(Self { client, namespace: namespace.to_owned(), address: address.to_owned(), last })
    }

    /// The authority may be another one since.
    async fn newest(&self) -> Tls {
        let mut last = self.last.lock().await;
        if let Ok(newer) = read(&self.client, &self.namespace, &self.address).await {
            *last = newer;
        }
        last.clone()
    }
}

impl Dial for Published {
    fn dial(&self) -> Pin<Box<dyn Future<Output = io::Result<BoxIo>> + Send + '_>> {
        Box::pin(async move {
            let known = self.last.lock().await.clone();
            match known.dial().await {
                Err(error) if sandbox_router::tunnel::agent::is_distrust(&error) => {
                    self.newest().await.dial().await
                }
                opened => opened,
            }
        })
    }

    fn name(&self) -> String {
        self.address.clone()
    }
}

async fn read(client: &Client, namespace: &str, address: &str) -> Result<Tls, TrustError> {
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), namespace);
    let found =
        maps.get_opt(AUTHORITY).await.map_err(|error| TrustError::Read(namespace.to_owned(), error))?;
    let pem = found.and_then(|it| it.data).and_then(|mut it| it.remove(AUTHORITY_KEY));
    let pem = pem.ok_or_else(|| TrustError::Absent(namespace.to_owned()))?;
    let place = format!("the ConfigMap {namespace}/{AUTHORITY}");
    tls(address, &server_name(namespace), pem.as_bytes(), &place)
}
