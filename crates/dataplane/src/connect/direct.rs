//! Dials a router with TLS, at its own address or behind a port-forward. The CA is read from the API server, which the
//! developer already trusts.

use std::{future::Future, io, pin::Pin, sync::Arc};

use k8s_openapi::api::core::v1::ConfigMap;
use kube::{Api, Client};
use rustls::{
    ClientConfig, RootCertStore,
    pki_types::{CertificateDer, ServerName, pem::PemObject as _},
};
use sandbox_router::tunnel::{
    BoxIo,
    agent::{GatewayDialer, PermanentDialError, TlsDialer, is_untrusted_certificate},
};
use tokio::sync::Mutex;

use super::super::tunnel::{AUTHORITY, AUTHORITY_KEY, server_name};

/// Why no CA can be used.
#[derive(Debug, thiserror::Error)]
pub enum TrustError {
    /// The `ConfigMap` cannot be read.
    #[error("cannot read the routers' CA from ConfigMap {0}/{AUTHORITY}")]
    Read(String, #[source] kube::Error),
    /// The routers have not published one.
    #[error(
        "the routers of {0} have not published a CA (ConfigMap {0}/{AUTHORITY}); if the certificate at --address is \
         signed by another CA, pass it with --ca"
    )]
    Absent(String),
    /// It contains no usable certificate.
    #[error("cannot use the certificates in {0}")]
    Unusable(String, #[source] Box<dyn std::error::Error + Send + Sync>),
    /// The server name is not valid.
    #[error("{0} is not a valid host name")]
    Name(String),
}

/// TLS configuration that trusts these CAs; `place` names their source for errors.
fn client_config(pem: &[u8], place: &str) -> Result<ClientConfig, TrustError> {
    let read = || -> Result<ClientConfig, Box<dyn std::error::Error + Send + Sync>> {
        let mut roots = RootCertStore::empty();
        for certificate in CertificateDer::pem_slice_iter(pem) {
            roots.add(certificate?)?;
        }
        if roots.is_empty() {
            return Err("it contains no certificate".into());
        }
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let versions = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
        Ok(versions.with_root_certificates(roots).with_no_client_auth())
    };
    read().map_err(|error| TrustError::Unusable(place.to_owned(), error))
}

/// A TLS dialer for an address whose certificate has this name.
pub fn direct_tls(address: &str, name: &str, pem: &[u8], place: &str) -> Result<TlsDialer, TrustError> {
    Ok(TlsDialer {
        address: address.to_owned(),
        server_name: ServerName::try_from(name.to_owned()).map_err(|_| TrustError::Name(name.to_owned()))?,
        config: Arc::new(client_config(pem, place)?),
        authority: place.to_owned(),
    })
}

/// Dials an address and trusts the CA that the routers of the namespace publish.
pub struct DirectDialer {
    client: Client,
    namespace: String,
    address: String,
    /// The CA read last: dialing works while the API server is unavailable.
    trusted: Mutex<TlsDialer>,
}

impl DirectDialer {
    /// Reads the published CA.
    pub async fn open(client: Client, namespace: &str, address: &str) -> Result<Self, TrustError> {
        let last = Mutex::new(read_trust(&client, namespace, address).await?);
        Ok(Self { client, namespace: namespace.to_owned(), address: address.to_owned(), trusted: last })
    }

    /// Reads the CA again, because it may have been rotated.
    async fn refresh_trust(&self) -> TlsDialer {
        let mut last = self.trusted.lock().await;
        if let Ok(newer) = read_trust(&self.client, &self.namespace, &self.address).await {
            *last = newer;
        }
        last.clone()
    }
}

impl GatewayDialer for DirectDialer {
    fn dial(&self) -> Pin<Box<dyn Future<Output = io::Result<BoxIo>> + Send + '_>> {
        Box::pin(async move {
            let known = self.trusted.lock().await.clone();
            match known.dial().await {
                Err(error) if is_untrusted_certificate(&error) => self.refresh_trust().await.dial().await,
                opened => opened,
            }
        })
    }

    fn name(&self) -> String {
        self.address.clone()
    }
}

/// Authenticates the routers behind another transport by the CA that they publish. A pod that is no router, but is taken
/// for one by the transport, learns nothing: the hello with its token is sent after the handshake.
pub struct PinnedDialer<D> {
    transport: D,
    client: Client,
    namespace: String,
    /// The CA read last.
    trusted: Mutex<Option<TlsDialer>>,
}

impl<D: GatewayDialer> PinnedDialer<D> {
    /// Authenticates what this transport reaches.
    pub fn new(transport: D, client: Client, namespace: &str) -> Self {
        Self { transport, client, namespace: namespace.to_owned(), trusted: Mutex::default() }
    }

    async fn open(&self) -> io::Result<BoxIo> {
        let stream = self.transport.dial().await?;
        let known = self.trusted.lock().await.clone();
        let Some(known) = known else { return self.read_trust().await?.connect_over(stream).await };
        match known.connect_over(stream).await {
            // The CA may have been rotated.
            Err(error) if is_untrusted_certificate(&error) => {
                let stream = self.transport.dial().await?;
                self.read_trust().await?.connect_over(stream).await
            }
            opened => opened,
        }
    }

    async fn read_trust(&self) -> io::Result<TlsDialer> {
        let read = read_trust(&self.client, &self.namespace, &self.transport.name()).await;
        let trust = read.map_err(explain_trust_error)?;
        *self.trusted.lock().await = Some(trust.clone());
        Ok(trust)
    }
}

impl<D: GatewayDialer> GatewayDialer for PinnedDialer<D> {
    fn dial(&self) -> Pin<Box<dyn Future<Output = io::Result<BoxIo>> + Send + '_>> {
        Box::pin(self.open())
    }

    fn name(&self) -> String {
        self.transport.name()
    }
}

/// Without permission to read the CA a retry does not help. Routers that have just started publish it soon.
fn explain_trust_error(error: TrustError) -> io::Error {
    match &error {
        TrustError::Read(namespace, kube::Error::Api(status)) if status.code == 403 => {
            PermanentDialError(format!(
                "the API server denied the CA of the routers of {namespace}, without which they cannot be told from other \
                 pods. It requires `get` on the ConfigMap {AUTHORITY} in namespace {namespace}: request this permission \
                 (server message: {})",
                status.message
            ))
            .into()
        }
        _ => io::Error::other(error),
    }
}

async fn read_trust(client: &Client, namespace: &str, address: &str) -> Result<TlsDialer, TrustError> {
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), namespace);
    let found =
        maps.get_opt(AUTHORITY).await.map_err(|error| TrustError::Read(namespace.to_owned(), error))?;
    let pem = found.and_then(|it| it.data).and_then(|mut it| it.remove(AUTHORITY_KEY));
    let pem = pem.ok_or_else(|| TrustError::Absent(namespace.to_owned()))?;
    let place = format!("the ConfigMap {namespace}/{AUTHORITY}");
    direct_tls(address, &server_name(namespace), pem.as_bytes(), &place)
}

#[cfg(test)]
mod tests;
